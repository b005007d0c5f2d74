"""Running and window leader: noise by the column norm, what is decoded, trust, and the regret."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any, get_args

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.correlated.running_leader import RunningLeader, regret_bound
from hedgerow.algorithms.correlated.silo_games import RANGES
from hedgerow.algorithms.correlated.silo_games import SETTING as SILO
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.case import RELEASES, WHOLE
from hedgerow.audits.cases.running_leader import cases
from hedgerow.contracts.suite import CONTRACTS, examine
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Sink
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder
from hedgerow.privacy.calibrate import gaussian_scale
from hedgerow.running_sums import BufferedToeplitz, Kind, ToeplitzRoot, factorise
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader

SETTING = Setting(clients=4, experts=3, horizon=40)
KINDS = get_args(Kind)
ON_SILOS = (
    "sensitivities hold",
    "ledger composes",
    "nothing raw in a view",
    "covers every message",
)
TRUSTS = ("central", "distributed", "local")


def plays(spec: RunningLeader, losses: np.ndarray, seed: int = 0) -> np.ndarray:
    found: list[np.ndarray] = []

    class Kept(Sink):
        def rounds(self, first_round: int, block: Any, plays: Any) -> None:
            found.append(np.array(plays))

    environment = RecordedArray(losses)
    hr.simulate(spec.build(environment.setting), environment, seed, sinks=[Kept()])
    return np.concatenate(found)


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_noise_pays_for_the_column_norm(trust: Any) -> None:
    """One vector moves all releases together by sqrt(d) times the norm of a column of C."""
    algorithm = RunningLeader(trust=trust).build(SETTING)
    (noise,) = algorithm.certificate.mechanisms
    column = factorise("blt", 40).sensitivity()
    needed = gaussian_scale(hr.Budget(1.0, 1e-6), sqrt(3) * column)
    drawn = (noise.noise_scale() or 0.0) * sqrt(3 if trust == "distributed" else 1)
    assert needed <= drawn == pytest.approx(needed, rel=1e-4)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("kind", KINDS)
def test_almost_without_noise_it_follows_the_leader(kind: Any, trust: Any) -> None:
    losses = np.random.default_rng(0).random((40, 4, 3))
    spec = RunningLeader(epsilon=1e6, trust=trust, factorisation=kind, every=3)
    totals = np.cumsum(losses.sum(axis=1), axis=0)
    known = [0, 1, 2, *(t // 3 * 3 for t in range(3, 40))]  # the last exchange: 1, 2, 3, 6, ...
    expected = [0 if t == 0 else int(totals[t - 1].argmin()) for t in known]
    assert (plays(spec, losses) == np.array(expected)[:, None]).all()


def best_windows(losses: np.ndarray) -> list[int]:
    """Whom the window leader follows without noise, by its definition; no window is kept."""
    sums = np.concatenate([np.zeros_like(losses[:1]), np.cumsum(losses, axis=0)])
    whole, found = -1, [0]
    led: dict[int, tuple[int, float]] = {whole: (0, 0.0)}  # by window: its leader, its score
    for count in range(1, len(losses)):
        led = {h: (x, score + losses[count - 1, x]) for h, (x, score) in led.items()}
        whole_score = led[whole][1]
        starts = {h: 2**h * (count // 2**h - 1) for h in range(count.bit_length())} | {whole: 0}
        led = {
            h: (int((sums[count] - sums[start]).argmin()), led.get(h, (0, whole_score))[1])
            for h, start in starts.items()
        }
        found.append(led[min(sorted(led), key=lambda h: led[h][1])][0])
    return found


@pytest.mark.parametrize("trust", TRUSTS)
def test_almost_without_noise_the_best_window_is_followed(trust: Any) -> None:
    rng = np.random.default_rng(0)
    losses = np.clip(
        np.repeat(rng.random((5, 1, 3)), 16, axis=0) + rng.random((80, 4, 3)) / 2, 0, 1
    )
    spec = hr.WindowLeader(epsilon=1e6, trust=trust)
    expected = best_windows(losses.sum(axis=1))
    assert (plays(spec, losses) == np.array(expected)[:, None]).all()
    assert expected != plays(RunningLeader(epsilon=1e6, trust=trust), losses)[:, 0].tolist()


@pytest.mark.parametrize("trust", TRUSTS)
def test_windows_cost_no_privacy_and_a_few_rows(trust: Any) -> None:
    """It releases what the running leader does, under the same certificate."""
    decoded, rows = [], {}
    for kind in (hr.WindowLeader, RunningLeader):
        algorithm, source = kind(trust=trust).build(SETTING), SeededNoise(0)
        _, server = algorithm.server.open(source.server())
        clients = algorithm.client.start(source.everyone("client", 4))
        for _ in range(40):
            uploads, clients = algorithm.client.upload(clients, source.everyone("client", 4))
            together = type(uploads)(uploads.losses.sum(axis=0))
            _, server = algorithm.server.aggregate(server, together, source.server())
        decoded.append(server.decoded)
        rows[kind] = algorithm, server
    assert (decoded[0] == decoded[1]).all()
    (windows, state), (all_rounds, _) = rows[hr.WindowLeader], rows[RunningLeader]
    assert windows.certificate == all_rounds.certificate
    assert windows.claims.regret_bound is None
    assert len(state.starts) == len(state.ends) == len(state.scores) - 1 == 6  # 32 <= 40 < 64


def test_with_secure_sums_windows_follow_changes() -> None:
    game = hr.Switching(clients=100, experts=10, horizon=512, segments=4)
    both = {"windows": hr.Private(trust="distributed"), "all": RunningLeader(trust="distributed")}
    study = hr.run(game, both, seeds=4)
    won = [
        one.final_regret - all_.final_regret for one, all_ in zip(*map(study.of, both), strict=True)
    ]
    assert max(won) < -50


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_decoded_sums_have_the_stated_deviation(trust: Any) -> None:
    """Zero losses: the last decoded sum is noise; half of its deviation would be noticed."""
    setting = Setting(clients=4, experts=500, horizon=16)
    algorithm = RunningLeader(trust=trust, factorisation="root").build(setting)
    source = SeededNoise(0)
    _, server = algorithm.server.open(source.server())
    clients = algorithm.client.start(source.everyone("client", 4))
    released = []
    for _ in range(16):
        uploads, clients = algorithm.client.upload(clients, source.everyone("client", 4))
        _, server = algorithm.server.aggregate(
            server, type(uploads)(uploads.losses.sum(axis=0)), source.server()
        )
        released.append(server.decoded[-1])  # the root remembers every release
    sums = ToeplitzRoot(16).coefficients()[::-1] @ np.array(released)
    stated = algorithm.parameters["deviation"]
    assert 0.9 < sums.std() / stated < 1.1


def test_correlated_noise_has_less_regret_than_independent_noise() -> None:
    stream = Bernoulli(clients=10, experts=10, horizon=256, gap=0.2)

    def regret(kind: Any) -> float:
        algorithm, found = RunningLeader(factorisation=kind).build(stream.setting), []
        for seed in range(8):
            recorder = Recorder(stream.setting, points=2)
            counters = hr.simulate(algorithm, stream, seed, sinks=[recorder])
            found.append(recorder.result("", seed, counters).final_regret)
        assert np.mean(found) <= algorithm.regret_at_most
        return float(np.mean(found))

    assert regret("blt") < 0.7 * regret("independent")


def test_the_bound_by_hand() -> None:
    """The first sums are used in 99 later rounds; the noise of the last sum is not used."""
    short = Setting(clients=1, experts=2, horizon=10)
    assert (
        regret_bound(short, Schedule(5), np.array([10.0, 99.0])) == 10.0
    )  # never above the horizon
    last = np.append(np.full(99, 10.0), 1e6)
    assert regret_bound(Setting(2, 2, 100), Schedule(1), last) < 100
    rounded = regret_bound(Setting(2, 2, 100), Schedule(1), last, off=1.0)
    assert rounded == pytest.approx(1 + 1.17741 * (10 + 99 * 8 / 20) / 2, rel=1e-5)
    bound = regret_bound(Setting(2, 2, 100), Schedule(1), np.full(100, 10.0))
    assert bound == pytest.approx(1 + 1.17741 * (10 + 99 * 4 / 20) / 2, rel=1e-5)
    assert regret_bound(Setting(2, 1, 100), Schedule(1), np.full(100, 10.0)) == 0.0


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"delta": 0.0}, "delta=0.0 > 0"),
        ({"trust": "nobody"}, "trust='nobody'"),
        ({"factorisation": "best"}, "factorisation='best'"),
        ({"factorisation": 7}, "factorisation=7"),
        ({"every": 0}, "every=0"),
        ({"reports": "some"}, "reports='some'"),
        ({"reports": "silo", "trust": "local"}, "'central' with reports='silo'"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        RunningLeader(**choices)


def test_a_factorisation_may_be_given_instead_of_its_name() -> None:
    named, given = (RunningLeader(factorisation=kind) for kind in ("root", ToeplitzRoot(40)))
    assert named.build(SETTING).fingerprint() == given.build(SETTING).fingerprint()
    with pytest.raises(InvalidValue, match="rounds=20 to be 40, the horizon given"):
        replace(given, every=2, early=False).build(SETTING)


def test_clients_in_different_rounds_are_refused() -> None:
    """One memory is filtered for all clients together, by the coefficients of one round."""
    algorithm = RunningLeader(trust="local", factorisation="tree").build(SETTING)
    source = SeededNoise(0)
    state = algorithm.client.start(source.everyone("client", 4))
    with pytest.raises(InvalidValue, match="all clients to be in the same round"):
        algorithm.client.upload(
            replace(state, uploads=np.array([0, 0, 1, 0])), source.everyone("client", 4)
        )


def test_it_needs_a_horizon() -> None:
    with pytest.raises(Unsupported, match="needs a horizon"):
        RunningLeader().build(Setting(2, 2, None))


def test_the_ledger_finds_a_cost_of_one_release_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: noise for one release, though a vector enters all later ones."""
    monkeypatch.setattr(BufferedToeplitz, "sensitivity", lambda *_: 1.0)
    found = examine("ledger composes", RunningLeader(epsilon=0.9))  # not built before
    assert found.status == "broken"
    assert "shifts add up" in found.detail


@pytest.mark.parametrize("trust", TRUSTS)
def test_audits_have_a_null_case_the_claim_and_too_little_noise(trust: Any) -> None:
    found = cases(RunningLeader(trust=trust))
    assert [case.expected for case in found] == ["holds", "holds", "violated", "violated"]
    assert {case.method for case in found} == {"exact releases"}
    assert {case.claim for case in found} == {RELEASES if trust == "central" else WHOLE}


@pytest.mark.parametrize(
    "contract",
    [pytest.param(name, marks=() if name in ON_SILOS else pytest.mark.long) for name in CONTRACTS],
)
def test_silos_keep_the_contracts(contract: str) -> None:
    found = examine(contract, RunningLeader(reports="silo"))
    assert found.status != "broken", found.detail
    assert found.status == "holds" or contract not in ON_SILOS


def test_silos_are_followed_by_gain() -> None:
    gains = RANGES.clip(np.random.default_rng(1).random((30, 4)) * [1, 1, 0.5, 2]).records
    game = hr.Replay(gains[:, None, :], RANGES, reports=gains[..., None])
    spec = RunningLeader(epsilon=1e6, reports="silo")
    found = hr.run(game, {"silo": spec}, seeds=1)
    before = np.cumsum(gains, axis=0)[:-1]
    played = [0, *before.argmax(axis=1).tolist()]
    assert found.results[0].loss[-1] == pytest.approx(-gains[np.arange(30), played].sum(), rel=1e-6)


def test_silos_have_less_noise_than_a_tree() -> None:
    """One number moves by its range; the tree that is released node by node needs more noise."""
    setting = replace(SILO, horizon=148)
    own = RunningLeader(epsilon=1.0, reports="silo").build(setting)
    tree = TreeLeader(epsilon=1.0, delta=1e-6, reports="silo", padding=False).build(setting)
    assert own.parameters["deviation"] < 0.6 * tree.parameters["deviation"]
    assert own.certificate.mechanisms[0].sensitivity == pytest.approx(
        4.0 * factorise("blt", 148).sensitivity(), rel=1e-3
    )
    assert own.claims.regret_bound is None


def test_deciders_need_a_trusted_server_and_silos_deciders() -> None:
    with pytest.raises(Unsupported, match="lets the clients play, not deciders"):
        RunningLeader(trust="local").build(replace(SETTING, deciders=1))
    with pytest.raises(Unsupported, match="needs separate deciders"):
        RunningLeader(reports="silo").build(SETTING)


def test_the_bound_is_in_the_units_of_the_gains() -> None:
    small, large = (replace(SETTING, family=hr.Gains(low=0.0, high=high)) for high in (1.0, 8.0))
    one, eight = (
        RunningLeader(epsilon=500.0).build(game).regret_at_most for game in (small, large)
    )
    assert eight == pytest.approx(8 * one, rel=1e-4)
