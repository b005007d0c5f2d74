"""The tree-perturbed leader: noise by exact columns, padding, own scales, silos, and the bound."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.correlated.silo_games import RANGES
from hedgerow.algorithms.correlated.silo_games import SETTING as SILO
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.audits.runner import AuditRow, attack
from hedgerow.contracts.suite import CONTRACTS, examine
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.core.units import Part, Person
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.privacy.curves import ApproximateDP, GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.records.build import algorithm_record
from hedgerow.running_sums.filters import FilterState
from hedgerow_papers.agarwal2017.attacks import cases
from hedgerow_papers.agarwal2017.printed_leader import AgarwalTreeLeader
from hedgerow_papers.agarwal2017.tree_game import TreeGame
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader, padded_bound
from support.played import regrets

BEDS = tuple(1 / (8.0 + week % 5) for week in range(16))
OWN = TreeLeader(mu=1.0, reports="silo", padding=False, unit=Part(Person(1), BEDS))
SILOS = {
    "one report": TreeLeader(reports="silo"),
    "a person": TreeLeader(mu=0.5, reports="silo", unit="part:0.1"),
    "own scales": OWN,
}
ON_SILOS = (
    "same on every engine",
    "covers every message",
    "sensitivities hold",
    "nothing raw in a view",
    "ledger composes",
)


def sums_of(algorithm: Any) -> np.ndarray:
    """The noisy running sums of zero losses before each batch, as the server decodes and pads."""
    found: list[np.ndarray] = []

    class Kept(type(algorithm.server)):
        def say(self, sums: np.ndarray, wait: int) -> Any:
            found.append(sums)
            return super().say(sums, wait)

    server = Kept(**{f.name: getattr(algorithm.server, f.name) for f in fields(algorithm.server)})
    noise = SeededNoise(0).server()
    _, state = server.open(noise)
    for _ in range(server.encoder.factorisation.rounds):
        nothing = LossSums(np.zeros(server.experts, np.int64))
        _, state = server.aggregate(state, nothing, noise)
    return np.array(found)


def plays(spec: Any, losses: np.ndarray) -> np.ndarray:
    kept, environment = Everything(wants_messages=False), RecordedArray(losses)
    hr.simulate(spec.build(environment.setting), environment, 0, sinks=[kept])
    return kept.all_plays()


@pytest.mark.parametrize(("rounds", "draws"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (148, 8)])
def test_a_batch_is_in_as_many_nodes_as_the_horizon_has_levels(rounds: int, draws: int) -> None:
    """The exact column norm of the tree of all exchanges is sqrt(ceil(log2 T))."""
    game = TreeGame(Setting(1, 3, rounds), Schedule(1), "each")
    assert game.draws == draws
    columns = (game.tree.matrix() ** 2).sum(axis=0)
    assert columns.max() == columns[0] == draws
    assert game.moved() == pytest.approx(sqrt(3 * draws), rel=1e-9)
    assert game.moved() >= sqrt(3 * draws)


def test_the_budget_is_spent_and_not_more() -> None:
    built: Any = TreeLeader(mu=0.5).build(Setting(2, 24, 148))
    (noise,) = built.certificate.mechanisms
    assert noise.noise_scale() == pytest.approx(sqrt(24) * sqrt(8) / 0.5, rel=1e-9)
    assert built.certificate.peer.curve.mu == pytest.approx(0.5, rel=1e-12)
    assert built.certificate.peer.curve.mu <= 0.5
    assert built.parameters["deviation"] == pytest.approx(sqrt(24) * 8 / 0.5, rel=1e-9)


def test_every_padded_sum_has_the_same_noise_and_unpadded_ones_do_not() -> None:
    setting = Setting(1, 3000, 12)
    padded, plain = (
        sums_of(TreeLeader(mu=1.0, padding=padding).build(setting)) for padding in (True, False)
    )
    node = sqrt(3000 * 4)
    assert np.allclose(padded.std(axis=1) / node, 2.0, rtol=0.06)  # four draws everywhere
    ones = np.array([k.bit_count() for k in range(12)])
    assert np.allclose(plain.std(axis=1) / node, np.sqrt(ones), rtol=0.06)
    # nodes are shared between sums, padding is not
    assert np.corrcoef(plain[8], plain[10])[0, 1] > 0.6
    assert np.corrcoef(padded[0], padded[8])[0, 1] < 0.1


def test_without_a_budget_it_is_follow_the_leader() -> None:
    losses = np.random.default_rng(0).random((40, 4, 3))
    for spec in (TreeLeader(mu=inf, every=3), TreeLeader(mu=1e6, padding=False, every=3)):
        assert np.array_equal(plays(spec, losses), plays(hr.FollowTheLeader(3), losses))
    built = TreeLeader(mu=inf).build(Setting(4, 3, 40))
    assert built.certificate.trust == "none"
    assert not built.certificate.public.protects
    assert built.claims.regret_bound is None


def test_min_regret_takes_the_noise_of_the_smallest_bound_and_certifies_what_it_gives() -> None:
    setting = Setting(2, 10, 1000)
    least: Any = TreeLeader(mu=inf, aim="min_regret", every=2, early=False).build(setting)
    deviation = 2 * 2 * sqrt(500 / 2)
    assert least.parameters["deviation"] == pytest.approx(deviation)
    assert least.regret_at_most == pytest.approx(2 * sqrt(4 * 500 * log(10)))
    for factor in (0.8, 1.25):  # the bound is larger on both sides
        assert padded_bound(setting, Schedule(2), factor * deviation) > least.regret_at_most
    assert least.certificate.peer.curve.mu == pytest.approx(sqrt(10) * 9 / deviation)
    tight, loose = (
        TreeLeader(mu=mu, aim="min_regret").build(setting).parameters["deviation"]
        for mu in (0.1, 100.0)
    )
    assert tight == pytest.approx(sqrt(10) * 10 / 0.1, rel=1e-9)
    assert loose == pytest.approx(2 * sqrt(500))


def test_published_constants_are_labelled_with_what_they_give() -> None:
    spec = AgarwalTreeLeader(epsilon=1.0, delta=1e-6, aim="min_noise")
    built = spec.build(Setting(1, 24, 148))
    found = built.certificate.peer
    assert found.claimed == ApproximateDP(1.0, 1e-6)
    assert built.certificate.calibration == "published"
    mu = 1 / (sqrt(8) * log(8e6))
    assert found.curve.stated()[0] == pytest.approx(GaussianDP(mu).epsilon(1e-6))
    assert found.curve.stated()[0] < 0.2
    more = replace(spec, aim="min_regret").build(Setting(1, 24, 10**6))
    assert more.certificate.peer.curve.stated()[0] < found.curve.stated()[0]


def test_own_scales_are_tight() -> None:
    """The shifts of one person in the worst week add up to exactly the budget, in no week to more.

    With one scale for all nodes there would be more noise.
    """
    game = TreeGame(SILO, Schedule(1), "silo", Part(Person(1), BEDS))
    server: Any = OWN.build(SILO).server
    shifts = []
    for week, moved in enumerate(BEDS[:-1]):
        state, total = FilterState(0, game.encoder.start((4,)).memory), 0.0
        for k in range(game.tree.rounds):
            vector = np.zeros(4)
            vector[0] = float(k == week)
            node, state = game.tree.encoder.step(state, vector)
            scale = server.scales[k] * server.releasing.scale
            total += (moved * node[0] / scale) ** 2
        shifts.append(sqrt(total))
    assert max(shifts) <= 1.0
    assert max(shifts) == pytest.approx(1.0, rel=1e-4)
    one = replace(OWN, unit=Part(Person(1), max(BEDS))).build(SILO)
    own = OWN.build(SILO).parameters["deviation"]
    assert 0.8 < own / one.parameters["deviation"] < 0.99


def test_a_unit_is_a_record_a_report_or_a_person() -> None:
    plain = TreeLeader().build(Setting(2, 3, 10)).certificate.peer
    assert "one loss vector of one client" in plain.words()
    report = SILOS["one report"].build(SILO).certificate.peer
    assert "replace one gain g_(i,t) in [-1,4] of one client" in report.adjacency
    person = SILOS["a person"].build(SILO).certificate.peer
    assert isinstance(person.unit, Part)
    assert "by at most 0.1 in the l2 norm (declared, not checked)" in person.words()
    rounds = SILOS["own scales"].build(SILO).certificate.peer
    assert f"from {min(BEDS):.6g} to {max(BEDS):.6g}" in rounds.words()  # the smallest counts
    assert "moves the gains of all experts in one round by at most 0.1" in person.adjacency
    for spec in SILOS.values():  # statements need a record that fits the game
        algorithm_record("silo", spec.build(SILO), {"name": "tree_leader"}, "recorded")
    assert {"DECLARED_PART", "OTHER_CLIENTS"} <= {a.name for a in person.assumes}
    assert not any(a.name == "OTHER_CLIENTS" for a in report.assumes)


def test_how_far_a_record_moves_the_sums() -> None:
    """Each range counts once where every client reports all experts; a silo has its own."""
    lengths = np.array([1.0, 2.0, 4.0, 1.5])
    each = TreeGame(replace(SILO, clients=3, deciders=None), Schedule(1), "each")
    assert each.change("l2") == pytest.approx(sqrt((lengths**2).sum()))
    assert each.change("l1") == pytest.approx(lengths.sum())
    assert TreeGame(SILO, Schedule(1), "silo").change("l2") == 4.0
    assert each.span == 5.0  # gains from -1 to 4


@pytest.mark.parametrize("contract", ON_SILOS)
@pytest.mark.parametrize("name", ["a person", "own scales"])
def test_silos_keep_the_contracts(name: str, contract: str) -> None:
    found = examine(contract, SILOS[name])
    assert found.status == "holds", found.detail


@pytest.mark.long
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("name", SILOS)
def test_silos_keep_all_contracts(name: str, secure: bool) -> None:
    for contract in CONTRACTS:
        found = examine(contract, SILOS[name], secure=secure)
        assert found.status != "broken", (contract, found.detail)


def test_silos_are_followed_by_gain() -> None:
    gains = RANGES.clip(np.random.default_rng(1).random((30, 4)) * [1, 1, 0.5, 2]).records
    game = hr.Replay(gains[:, None, :], RANGES, reports=gains[..., None])
    found = hr.run(game, {"tree": TreeLeader(mu=inf, reports="silo")}, seeds=1)
    before = np.vstack([np.zeros(4), np.cumsum(gains, axis=0)[:-1]])
    expected = -gains[np.arange(30), before.argmax(axis=1)].sum()
    assert found.results[0].loss[-1] == pytest.approx(expected)


def test_a_sum_out_of_range_does_not_end_the_game() -> None:
    """A client that lies is brought into range; an error would show the others' sum."""
    algorithm = TreeLeader(mu=1.0).build(Setting(2, 2, 9, family=hr.Gains(high=0.3)))
    server: Any = algorithm.server
    noise = SeededNoise(0).server()
    _, state = server.open(noise)
    most = round(0.3 * 2**20)  # the largest gain of an honest client, in lattice units
    for lie in (2**40, -(2**40), 0):
        sent = [algorithm.uploads.bounded(LossSums(np.full(2, n)), 1).losses for n in (lie, most)]
        _, state = server.aggregate(state, LossSums(np.sum(sent, axis=0)), noise)
    assert state.exchanges == 3


def test_clients_that_report_no_week_and_side_information_are_welcome() -> None:
    gains = RANGES.clip(np.ones((6, 4))).records
    reporting = np.ones((6, 4), bool)
    reporting[2, 1] = False
    reports = gains[..., None] * reporting[..., None]
    beds = np.full((6, 4, 1), 9.0)
    game = hr.Replay(gains[:, None, :], RANGES, reports=reports, side=beds, reporting=reporting)
    hr.simulate(TreeLeader(mu=1.0, reports="silo").build(game.setting), game, 0)


def test_regret_stays_below_the_bound() -> None:
    """It is far below the regret of guessing. Without padding the bound says nothing here."""
    stream = hr.Bernoulli(clients=1, experts=2, horizon=500, mean=0.8, gap=0.6)
    spec = TreeLeader(mu=0.8)
    bound = spec.build(stream.setting).regret_at_most
    assert 0 < regrets(spec, stream, seeds=3).mean() < bound < 0.4 * 0.6 * 500
    assert replace(spec, padding=False).build(stream.setting).regret_at_most == 500


def test_the_bound_is_in_the_units_of_the_gains() -> None:
    small, large = (Setting(2, 3, 4, family=hr.Gains(low=0.0, high=high)) for high in (1.0, 8.0))
    for padding in (True, False):
        spec = TreeLeader(mu=3.0, padding=padding)
        ratio = spec.build(large).regret_at_most / spec.build(small).regret_at_most
        assert ratio == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"delta": 0.0}, "delta=0.0 > 0"),
        ({"epsilon": 1.0, "mu": 1.0}, "exactly one of"),
        ({"mu": -1.0}, "mu=-1.0 > 0"),
        ({"aim": "least"}, "aim='least'"),
        ({"reports": "all"}, "reports='all'"),
        ({"every": 0}, "every=0"),
        ({"unit": "part:0.0"}, "Expected unit='part:0.0'"),
        ({"unit": "part:1;2"}, "padding=True to be False where moves"),
        ({"aim": "min_regret", "padding": False}, "padding=False to be True with aim"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        TreeLeader(**choices)


def test_the_printed_noise_is_for_one_sensitivity() -> None:
    with pytest.raises(InvalidValue, match="to be one number"):
        AgarwalTreeLeader(aim="min_noise", padding=False, unit="part:1.0;2.0")


def test_games_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Unsupported, match="needs a horizon"):
        TreeLeader().build(Setting(2, 2, None))
    with pytest.raises(Unsupported, match="reports='silo' needs separate deciders"):
        TreeLeader(reports="silo").build(Setting(2, 2, 10))
    with pytest.raises(InvalidValue, match="one number for each of 12 rounds"):
        OWN.build(replace(SILO, horizon=12))


def test_the_ledger_finds_noise_for_one_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: noise for one node, though a loss vector is in several."""
    monkeypatch.setattr(TreeGame, "moved", lambda self: self.change("l2"))
    found = examine("ledger composes", TreeLeader(epsilon=1.5))
    assert found.status == "broken"
    assert "shifts add up" in found.detail


def test_audits_reach_the_certificate_and_catch_a_fifth_less_noise() -> None:
    rows = [AuditRow(case, attack(case)) for case in cases(TreeLeader())]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated", "violated"]
    assert (rows[1].finding.epsilon or 0.0) > 0.999 * rows[1].certified


def test_every_client_rounds_and_the_declared_sensitivity_pays_for_all() -> None:
    """A person may be at all clients, and each of them rounds its record by itself."""
    found = []
    for clients in (1, 1000):
        built = TreeLeader(mu=1.0, unit="part:1e-5").build(Setting(clients, 4, 8))
        (noise,) = built.certificate.mechanisms
        assert isinstance(noise, GaussianNoise)
        found.append(noise.sensitivity)
    assert found[1] - found[0] >= 999 * 2.0**-20 * 2
