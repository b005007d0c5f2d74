"""Gaps in recorded data: absent clients and sleeping experts, in files, arrays and learners; what
is certified; what is refused.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.dartboard.tuning import Plan
from hedgerow.contracts.recording import Ledger, RecordingNoise
from hedgerow.contracts.suite import examine
from hedgerow.core.block import ABSENT
from hedgerow.core.certificate import PUBLIC_PRESENCE, PUBLIC_SLEEP
from hedgerow.core.environment import Feature
from hedgerow.core.noise import SeededNoise
from hedgerow.records.schema import read_record
from hedgerow.studies.config import study_from_table, study_table
from hedgerow.studies.rebuild import check_certificates
from hedgerow.studies.run import run_study
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
from support.played import plays_of

NAN = np.nan
BLOCKS: dict[str, Any] = {
    "phased": hr.PhasedSelection(epsilon=2.0),
    "local": hr.PhasedSelection(epsilon=2.0, trust="local"),
    "shared": hr.PhasedSelection(epsilon=2.0, trust="distributed", delta=1e-6),
    "prefix": hr.RandomPrefix(epsilon=2.0),
    "dartboard": hr.ShrinkingDartboard(epsilon=20.0, every=2, plan=Plan(0.4, 0.3, draws=9)),
}
by_algorithm = pytest.mark.parametrize("spec", BLOCKS.values(), ids=BLOCKS)


def _gapped(rounds: int = 40, sleeping: bool = True, seed: int = 0) -> np.ndarray:
    """Random losses with absent clients, and with single missing losses."""
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 2, (rounds, 3, 4)).astype(float)
    if sleeping:
        losses[rng.random(losses.shape) < 0.2] = NAN
    losses[rng.random((rounds, 3)) < 0.3] = NAN
    losses[5, 1] = 0.0
    return losses


# Files and arrays


def _write(path: Path, losses: np.ndarray, drop: bool) -> None:
    """A CSV in a random order of rows; an absent client has no row, or an empty one."""
    lines = []
    for t, i in np.ndindex(losses.shape[:2]):
        if drop and np.isnan(losses[t, i]).all():
            continue
        cells = ("" if np.isnan(x) else repr(float(x)) for x in losses[t, i])
        lines.append(f"{t},site{i},{','.join(cells)}")
    np.random.default_rng(1).shuffle(lines)
    path.write_text("\n".join(["round,client,a,b,c,d", *lines]) + "\n")


@pytest.mark.parametrize("drop", [True, False], ids=["no row", "empty row"])
def test_missing_rows_and_empty_cells_are_absent_clients_and_sleeping_experts(
    tmp_path: Path, drop: bool
) -> None:
    losses = _gapped()
    losses[0] = 0.0  # every client has a row
    _write(tmp_path / "a.csv", losses, drop)
    recorded = hr.Recorded(str(tmp_path / "a.csv"), missing="absent")
    array = hr.RecordedArray(losses, missing="absent")
    masked = hr.RecordedArray(np.ma.masked_invalid(losses), missing="absent")
    for game in (recorded, array, masked, pickle.loads(pickle.dumps(recorded))):
        assert game.setting == hr.Setting(3, 4, 40)
        assert game.traits.features == {Feature.ABSENT_CLIENTS, Feature.SLEEPING_EXPERTS}
        block, _ = game.block(game.start(0), 40, None)
        here = ~np.isnan(losses).all(axis=-1)
        assert block.present is not None
        assert block.awake is not None
        assert np.array_equal(block.present, here)
        assert np.array_equal(block.awake[here], ~np.isnan(losses[here]))
        assert np.array_equal(block.losses, np.nan_to_num(losses))
    assert recorded.fingerprint() == array.fingerprint()
    assert array.fingerprint() != hr.RecordedArray(np.nan_to_num(losses)).fingerprint()


def test_only_gaps_that_are_there_are_features() -> None:
    full, absent = np.zeros((4, 2, 3)), np.zeros((4, 2, 3))
    absent[2, 1] = NAN
    asleep = np.zeros((4, 2, 3))
    asleep[2, 1, 0] = NAN
    for losses, features in (
        (full, set()),
        (absent, {Feature.ABSENT_CLIENTS}),
        (asleep, {Feature.SLEEPING_EXPERTS}),
    ):
        assert hr.RecordedArray(losses, missing="absent").traits.features == features


def test_gaps_that_are_not_declared_are_refused_with_the_way_out(tmp_path: Path) -> None:
    losses = _gapped()
    way_out = r'For gaps, declare missing = "absent"\.$'
    for bad in (losses, np.ma.masked_invalid(losses)):
        with pytest.raises(hr.InvalidValue, match=r'RecordedArray\(losses, missing="absent"\)\.$'):
            hr.run(bad, {"a": hr.Hedge()}, seeds=1)
    for drop in (True, False):
        _write(tmp_path / "a.csv", losses, drop)
        with pytest.raises(hr.InvalidValue, match=way_out):
            _ = hr.Recorded(str(tmp_path / "a.csv")).setting
    zero: Any = "zero"
    with pytest.raises(hr.InvalidValue, match=r"Expected missing='zero' to be 'absent' or None"):
        hr.RecordedArray(losses, missing=zero)
    with pytest.raises(hr.InvalidValue, match=r"every loss in \[0, 1\]"):
        hr.RecordedArray(np.where(np.isnan(losses), NAN, 2.0), missing="absent")


def test_a_study_file_declares_gaps(tmp_path: Path) -> None:
    _write(tmp_path / "a.csv", _gapped(), drop=True)
    table = {
        "seeds": 1,
        "environment": {"name": "recorded", "path": str(tmp_path / "a.csv"), "missing": "absent"},
        "algorithms": [{"name": "phased_selection"}],
    }
    config = study_from_table(table)
    assert study_from_table(study_table(config)) == config
    [entry] = config.algorithms
    public = config.build(entry).certificate.public
    assert {PUBLIC_PRESENCE, PUBLIC_SLEEP} <= public.assumes
    assert public.curve.stated() == (1.0, 0.0)


def test_an_algorithm_without_sleeping_experts_names_the_gap(tmp_path: Path) -> None:
    losses = np.nan_to_num(_gapped())
    losses[4, 2] = [0.0, 1.0, NAN, 0.0]
    _write(tmp_path / "a.csv", losses, drop=True)
    game = hr.Recorded(str(tmp_path / "a.csv"), missing="absent")
    text = (
        r"running_leader does not support sleeping experts \(expert 'c' has gaps\); choose one of "
    )
    with pytest.raises(hr.Unsupported, match=text):
        hr.run(game, {"a": hr.RunningLeader(epsilon=1.0, delta=1e-6, every=4)}, seeds=1)


# Play


@by_algorithm
def test_only_present_clients_play_and_only_experts_that_are_awake(spec: Any) -> None:
    game = hr.RecordedArray(_gapped(), missing="absent")
    block, _ = game.block(0, 40, None)
    assert block.present is not None
    assert block.awake is not None
    for engine in ("vectorised", "in_process"):
        plays = plays_of(spec, game, engine=engine)
        assert ((plays == ABSENT) == ~block.present).all()
        chosen = np.take_along_axis(block.awake, np.maximum(plays, 0)[..., None], axis=-1)[..., 0]
        assert chosen[block.present].all()
    without = hr.RecordedArray(_gapped(sleeping=False), missing="absent")
    zeros = hr.RecordedArray(np.nan_to_num(_gapped(sleeping=False)))
    present = without.gaps.present
    for options in ({}, {"fused": False}, {"block_rounds": 7}):
        played, plain = plays_of(spec, without, **options), plays_of(spec, zeros)
        assert np.array_equal(played[present], plain[present])


@pytest.mark.parametrize("contract", ["absent clients", "sleeping experts"])
@by_algorithm
def test_the_contracts_on_masks_apply_and_hold(spec: Any, contract: str) -> None:
    assert examine(contract, spec).status == "holds"


@by_algorithm
@pytest.mark.parametrize("trial", range(3))
def test_one_vector_of_a_present_client_moves_sums_by_at_most_one(spec: Any, trial: int) -> None:
    """On the same outputs: each release by at most 1, and in phases only one of them; the vectors
    of two clients move more, so the test can tell.
    """
    worlds = [_gapped(31, seed=trial) for _ in range(3)]
    worlds[0][5], worlds[1][5], worlds[2][5] = 0.0, 0.0, 1.0
    worlds[1][5, 1] = 1.0
    ledgers: list[Ledger] = []
    for losses in worlds:
        game = hr.RecordedArray(losses, missing="absent")
        noise = RecordingNoise(SeededNoise(trial), ledgers[0] if ledgers else None)
        hr.simulate(spec.build(game.setting), game, 0, noise=noise, fused=False)
        ledgers.append(noise.ledger)
    one, many = (_moves(ledgers[0], other) for other in ledgers[1:])
    assert max(one, default=0.0) <= 1.0
    assert len(one) <= (10 if isinstance(spec, hr.ShrinkingDartboard) else 1)
    counted = not isinstance(spec, hr.RandomPrefix) or one  # a prefix may leave the round out
    assert one or not counted
    assert max(many, default=0.0) > 1.0 or not one or len(many) > 1


def _moves(one: Ledger, other: Ledger) -> list[float]:
    """How much the inputs of releases differ, for those that differ."""
    pairs = zip(one.releases, other.releases, strict=True)
    moved = [float(np.max(np.abs(np.subtract(a.value, b.value)))) for a, b in pairs]
    return [size for size in moved if size > 0]


def test_sums_of_recorded_losses_with_absent_clients_play_as_before() -> None:
    game = hr.RecordedArray(_gapped(sleeping=False), missing="absent")
    spec = BLOCKS["phased"]
    usual = hr.run(game, {"a": spec}, seeds=2)
    config = replace(usual.config, engine="summed")
    assert np.array_equal(run_study(config).regrets("a"), usual.regrets("a"))
    asleep = replace(config, environment=hr.RecordedArray(_gapped(), missing="absent"))
    with pytest.raises(hr.Unsupported, match="experts without a loss sleep"):
        run_study(asleep)


# Learners


@pytest.mark.parametrize("name", ["phased", "prefix", "dartboard"])
def test_a_learner_takes_who_is_present(name: str) -> None:
    losses, spec = _gapped(sleeping=False), BLOCKS[name]
    present = np.asarray(~np.isnan(losses).all(axis=-1))
    learner = hr.Learner(spec, clients=3, experts=4, horizon=40, absent=True)
    plays = []
    for row, here in zip(losses, present, strict=True):
        plays.append(learner.predict())
        learner.observe(row, present=here)
    expected = plays_of(spec, hr.RecordedArray(losses, missing="absent"), fused=False)
    assert np.array_equal(np.array(plays)[present], expected[present])
    assert PUBLIC_PRESENCE in learner.certificate.public.assumes
    assert "participation stays the same" in learner.certificate.public.adjacency


@pytest.mark.parametrize("name", ["phased", "prefix", "dartboard"])
def test_a_learner_takes_which_experts_are_awake(name: str) -> None:
    losses, spec = _gapped(), BLOCKS[name]
    there = ~np.isnan(losses)
    present = np.asarray(there.any(axis=-1))
    game: dict[str, Any] = {"clients": 3, "experts": 4, "horizon": 40}
    learner = hr.Learner(spec, **game, absent=True, sleeping=True)
    plays = []
    for row, awake, here in zip(losses, there, present, strict=True):
        plays.append(learner.predict(awake=awake))
        learner.observe(row, present=here)
    expected = plays_of(spec, hr.RecordedArray(losses, missing="absent"), fused=False)
    assert np.array_equal(np.array(plays)[present], expected[present])
    assert {PUBLIC_PRESENCE, PUBLIC_SLEEP} <= learner.certificate.public.assumes
    with pytest.warns(UserWarning, match="has reached its horizon"):
        last = learner.predict()
    learner.observe(np.zeros((3, 4)))
    asleep = np.ones((3, 4), bool)
    asleep[np.arange(3), last] = False
    assert (learner.predict(awake=asleep) == (last + 1) % 4).all()
    learner.observe(np.zeros((3, 4)))
    assert np.array_equal(learner.predict(), last)


def test_a_learner_says_what_is_wrong_with_sleep(tmp_path: Path) -> None:
    game: dict[str, Any] = {"clients": 2, "experts": 2, "horizon": 4}
    usual = hr.Learner(hr.PhasedSelection(), **game)
    everybody, nobody = np.ones((2, 2), bool), np.zeros((2, 2), bool)
    with pytest.raises(hr.InvalidValue, match=r"never sleep.*Make it with sleeping=True"):
        usual.predict(awake=everybody)
    learner = hr.Learner.private(
        hr.PhasedSelection(), **game, absent=True, sleeping=True, source=hr.SecureNoise()
    )
    hidden = np.ma.array(everybody, mask=everybody)
    for bad in ([True, False], everybody.astype(int), hidden, everybody[:1]):
        with pytest.raises(hr.InvalidValue, match=r"True or False for \(2, 2\) \(clients, experts"):
            learner.predict(awake=bad)
    learner.predict(awake=nobody)
    with pytest.raises(hr.InvalidValue, match="already played with other public information"):
        learner.predict(awake=everybody)
    with pytest.raises(hr.InvalidValue, match="No expert was awake for client 1"):
        learner.observe(np.zeros((2, 2)), present=[False, True])
    learner.observe(np.full((2, 2), NAN), present=[False, False])
    learner.predict(awake=everybody)
    with pytest.raises(hr.InvalidValue, match=r"loss at \(1, 0\)"):
        learner.observe([[0.0, 0.0], [NAN, 0.0]])
    with pytest.raises(hr.Unsupported, match="tree_hedge does not support sleeping experts"):
        hr.Learner(TreeHedge(), **game, sleeping=True)
    record = read_record(hr.record_deployment(learner, tmp_path / "live", title="Gaps"))
    check_certificates(record, tmp_path / "live")
    assert record.algorithms[0].choices["sleeping"] is True


def test_masked_losses_of_absent_clients_and_sleeping_experts_are_not_read() -> None:
    """A learner for gaps takes a masked array as it takes NaN; values under a mask never count."""
    losses = np.ma.masked_array(
        [[0.0, 1.0, 0.5], [9.0, 9.0, 9.0]], mask=[[False, False, True], [True] * 3]
    )
    awake = [[True, True, False], [True, True, True]]
    for learner in (
        hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, absent=True, sleeping=True),
        hr.Learner.private(
            hr.PhasedSelection(),
            clients=2, experts=3, horizon=9, absent=True, sleeping=True, source=hr.SecureNoise(),
        ),
    ):  # fmt: skip
        learner.predict(awake=awake)
        with pytest.raises(hr.InvalidValue, match=r"in \[0, 1\]"):
            learner.observe(losses)
        learner.observe(losses, present=[True, False])
        assert learner.round == 1


def test_masks_inside_lists_are_gaps() -> None:
    losses = np.full((4, 2, 3), 0.5)
    hidden = np.zeros((4, 2, 3), bool)
    hidden[1, 0], hidden[2, 1, 2] = True, True
    rows = [np.ma.masked_array(row, mask=mask) for row, mask in zip(losses, hidden, strict=True)]
    nested = [list(row) for row in rows]
    for given in (rows, nested, tuple(rows)):
        game = hr.RecordedArray(given, missing="absent")  # pyright: ignore[reportArgumentType]
        assert game.gaps.present is not None
        assert game.gaps.awake is not None
        assert np.argwhere(~game.gaps.present).tolist() == [[1, 0]]
        assert np.argwhere(~game.gaps.awake).tolist() == [[2, 1, 2]]
        with pytest.raises(hr.InvalidValue, match="none masked"):
            hr.RecordedArray(given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(hr.InvalidValue, match="Expected records with none masked"):
        hr.Replay(np.ma.masked_array(losses, mask=hidden))
    masked = np.ma.masked_array(losses[0], mask=hidden[1])
    with pytest.raises(hr.InvalidValue, match=r"Expected features and targets for .* none masked"):
        hr.ClientData([(masked, np.zeros(2))], hr.SquaredError())


def test_masked_presence_is_no_presence() -> None:
    learner = hr.Learner(hr.PhasedSelection(), clients=2, experts=3, horizon=9, absent=True)
    learner.predict()
    with pytest.raises(hr.InvalidValue, match="Expected present to be 2 times True or False"):
        learner.observe(np.zeros((2, 3)), np.ma.array([True, False], mask=[True, False]))


def test_a_learner_says_what_is_wrong_with_presence() -> None:
    usual = hr.Learner(hr.PhasedSelection(), clients=2, experts=2, horizon=4)
    usual.predict()
    with pytest.raises(hr.InvalidValue, match=r"always present.*Make it with absent=True"):
        usual.observe([[0, 1], [0, 1]], present=[True, False])
    assert PUBLIC_PRESENCE not in usual.certificate.public.assumes
    learner = hr.Learner.private(
        hr.PhasedSelection(), clients=2, experts=2, horizon=4, absent=True, source=hr.SecureNoise()
    )
    learner.predict()
    for bad in ([True], [1, 0], [[True, False]]):
        with pytest.raises(hr.InvalidValue, match="Expected present to be 2 times True or False"):
            learner.observe([[0, 1], [0, 1]], present=bad)
    with pytest.raises(hr.InvalidValue, match=r"loss at \(0, 1\)"):
        learner.observe([[0, NAN], [NAN, NAN]], present=[True, False])
    learner.observe([[0, 1], [NAN, NAN]], present=[True, False])
    assert learner.round == 1
    with pytest.raises(hr.Unsupported, match="running_leader does not support absent clients"):
        hr.Learner(
            hr.RunningLeader(epsilon=1.0, delta=1e-6, every=2),
            clients=2,
            experts=2,
            horizon=4,
            absent=True,
        )
