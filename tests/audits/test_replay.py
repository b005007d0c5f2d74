"""Replayed releases: the log-ratio of all that clients release, judged against certificates of
local and distributed trust.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, cast

import numpy as np
import pytest

from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.audits.case import WHOLE, AuditCase
from hedgerow.audits.cases.parts import favour_expert_0
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.replay import log_ratio
from hedgerow.audits.runner import AuditRow, cases_of, examine
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, Observer
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import Noise, SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise
from support.command import Command
from support.honest import NoisySums
from support.walks import Heard, Law, Report, Walker, local_leader, pair

ONE = Setting(1, 4, 3)
REPLAYED = "replayed releases"


def row_of(case: AuditCase, seed: int = 0) -> AuditRow:
    return AuditRow(case, examine(case, seed))


def ratios(algorithm: Algorithm, changed: int, runs: int, observer: Any = Observer.SERVER) -> Any:
    first, second = map(RecordedArray, pair(algorithm.setting, changed))
    noise = SeededNoise(5)
    found = [log_ratio(algorithm, observer, first, second, noise) for _ in range(runs)]
    return np.array([ratio.value for ratio in found]), {ratio.seen for ratio in found}


def case_of(algorithm: Algorithm, changed: int = 1, **choices: Any) -> AuditCase:
    """The whole certificate on a pair that differs in `changed` records."""
    case = release_cases(algorithm, *pair(algorithm.setting, changed), **choices)[1]
    return replace(case, runs=choices.get("runs", 100))


# The log-ratio has the law that the mechanism promises.


@pytest.mark.parametrize(("law", "clients"), [("gaussian", 1), ("share", 3)])
def test_the_log_ratio_of_gaussian_reports_is_gaussian(law: Law, clients: int) -> None:
    """With mu = 1: mean mu^2 / 2 and deviation mu. Two appearances are sqrt(2) mu; half the noise
    is 2 mu. Four standard errors separate the three cases.
    """
    runs, algorithm = 200, local_leader(law, 1.0, Setting(clients, 4, 3))
    for audited, changed, mu in (
        (algorithm, 1, 1.0),
        (algorithm, 2, sqrt(2)),
        (less_noise(algorithm, 0.5), 1, 2.0),
    ):
        values, seen = ratios(audited, changed, runs)
        assert seen == {True}
        assert values.std() == pytest.approx(mu, abs=4 * mu / sqrt(2 * runs))
        assert values.mean() == pytest.approx(mu**2 / 2, abs=4 * mu / sqrt(runs))


@pytest.mark.parametrize("law", ["laplace", "vote"])
def test_the_log_ratio_of_one_pure_report_is_exact(law: Law) -> None:
    """One report of one client: the ratio is that of its densities."""
    algorithm = local_leader(law, 1.0, ONE)
    mechanism = algorithm.certificate.mechanisms[0]
    first, second = pair(ONE)
    values, _ = ratios(algorithm, 1, 200)
    if law == "vote":
        possible = [
            mechanism.log_density(first[0, 0], output) - mechanism.log_density(second[0, 0], output)
            for output in range(4)
        ]
        assert {min(range(4), key=lambda i: abs(value - possible[i])) for value in values} == {0, 1}
        assert all(min(abs(value - one) for one in possible) < 1e-9 for value in values)
    else:
        assert 1.0 - 1e-9 <= values.max() <= 1.0
    # E_P of dQ/dP is 1
    assert np.exp(-values).mean() == pytest.approx(1.0, abs=4 * np.exp(-values).std() / sqrt(200))


# Certificates


@pytest.mark.parametrize(
    ("law", "clients", "runs"),
    [("gaussian", 1, 150), ("laplace", 1, 100), ("vote", 1, 100), ("share", 2, 120)],
)
def test_the_certificate_holds_and_half_the_noise_is_caught(
    law: Law, clients: int, runs: int
) -> None:
    algorithm = local_leader(law, 1.0, Setting(clients, 4, 3))
    rows = [row_of(case) for case in release_cases(algorithm, *pair(algorithm.setting), runs=runs)]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated"]
    null, whole, half = (row.finding.epsilon for row in rows)
    assert null == 0.0
    assert whole is not None
    assert half is not None
    assert 0.4 * rows[1].certified < whole <= rows[1].certified < half


def test_two_records_are_more_than_one() -> None:
    """A pair that differs in two records breaks a certificate of one record, and keeps that of
    sqrt(2) mu.
    """
    two = row_of(case_of(local_leader("gaussian", 1.0, ONE), changed=2, runs=400))
    assert two.verdict == "violated"
    case = replace(two.case, claim="two records", certified=GaussianDP(sqrt(2)))
    assert AuditRow(case, two.finding).verdict == "holds"
    pure = case_of(local_leader("laplace", 1.0, ONE), changed=2)
    found = row_of(pure)
    assert (found.verdict, found.finding.epsilon) == ("violated", pytest.approx(2.0, rel=0.1))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("law", ["gaussian", "share"])
def test_no_seed_raises_a_false_alarm(law: Law, seed: int) -> None:
    algorithm = local_leader(law, (0.1, 1.0, 5.0)[seed % 3], Setting(2, 4, 3))
    cases = release_cases(algorithm, *pair(algorithm.setting), runs=1000)
    assert [row_of(case, seed).verdict for case in cases] == ["holds", "holds", "violated"]


def test_rounding_errors_raise_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laplace noise attains its bound. With a tiny epsilon the rounding errors of log-densities are
    larger than the tolerance of the verdict, so a ratio that is not rounded down is too large.
    """
    case = case_of(local_leader("laplace", 1e-6, Setting(1, 3, 2)), runs=120)
    row = row_of(case)
    assert row.verdict == "holds"
    assert row.finding.epsilon == pytest.approx(1e-6, rel=1e-4)
    monkeypatch.setattr("hedgerow.audits.replay._ROUNDING", 0.0)
    assert row_of(case).verdict == "violated"


# Who sees the releases


def test_an_observer_that_sees_less_is_never_alarmed_about() -> None:
    """The peer sees the leader, not the reports: half the noise of the reports proves nothing."""
    algorithm = local_leader("gaussian", 1.0, ONE)
    rows = [
        row_of(case)
        for case in release_cases(algorithm, *pair(ONE), runs=100, observer=Observer.PEER)
    ]
    assert [row.verdict for row in rows] == ["holds", "holds", "inconclusive"]
    assert rows[2].to_dict()["reason"] == "the peer does not see everything that was released"
    assert [row.to_dict()["seen"] for row in rows] == [True, False, False]


@dataclass(frozen=True)
class Rounding(Walker):
    """Sends less than it releases."""

    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        sent, state = super().upload(state, noise)
        return Report(np.sign(sent.about)), state


@dataclass(frozen=True)
class Sampling(Walker):
    """Reports with probability a half, by a secret coin: the coin protects, too."""

    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        kept = noise.draw("uniform", "sample")[..., None] < 0.5
        return Report(noise.release(self.report, np.where(kept, state.losses, 0.5))), state


@dataclass(frozen=True)
class Masking(Walker):
    """Draws the same coin by a release of nothing, which it does not send."""

    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        mask = GaussianNoise("mask", 1.0)
        kept = noise.release(mask, np.zeros_like(state.losses))[..., :1] < 0.0
        return Report(noise.release(self.report, np.where(kept, state.losses, 0.5))), state


@pytest.mark.parametrize("client", [Rounding, Sampling, Masking])
def test_what_is_not_sent_may_protect(client: Any) -> None:
    """Half of the noise: what was released shows more than the certificate, and the server may not.

    With `Sampling` it does not, because half of the reports are sent without the datum.
    """
    algorithm = less_noise(local_leader("laplace", 1.0, ONE, client), 0.5)
    row = row_of(case_of(algorithm))
    assert (row.verdict, row.finding.seen) == ("inconclusive", False)
    assert row.finding.epsilon is not None
    assert row.finding.epsilon > row.certified


@dataclass(frozen=True)
class Remembering(Walker):
    """Takes off what it has sent too much before: only its own outputs, not the sums, say how much."""

    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        sent = noise.release(self.report, state.losses)
        return Report(sent), replace(state, losses=state.losses - sent)

    def observe(self, state: Heard, reports: np.ndarray, noise: Noise) -> Heard:
        return replace(state, losses=reports + 0.1 * state.losses)


@pytest.mark.parametrize(("client", "seen"), [(Walker, True), (Remembering, False)])
def test_sums_are_judged_only_where_nothing_else_matters(client: Any, seen: bool) -> None:
    algorithm = local_leader("share", 1.0, Setting(3, 4, 3), client)
    assert ratios(algorithm, 1, 3)[1] == {seen}
    assert ratios(algorithm, 1, 3, Observer.PEER)[1] == {False}


def test_sums_without_a_law_are_an_envelope() -> None:
    algorithm = local_leader("laplace", 1.0, Setting(3, 4, 3))
    certificate = algorithm.certificate
    server = certificate.server
    hidden = replace(
        certificate,
        channels={**certificate.channels, "Report.about": Channel.SUM},
        guarantees=(
            replace(server, view=server.view - {Channel.UPLOADS} | {Channel.SUM}),
            *certificate.guarantees[1:],
        ),
    )
    summed = replace(algorithm, certificate=hidden, combine="sum")
    assert ratios(summed, 1, 3)[1] == {False}


def test_broadcast_releases_are_seen_and_the_own_noise_of_the_server_hides_nothing() -> None:
    central = NoisySums("gaussian", "server").build(Setting(1, 4, 3))
    streams = pair(ONE)
    rows = [
        row_of(case) for case in release_cases(central, *streams, runs=100, observer=Observer.PEER)
    ]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated"]
    wrong = replace(rows[1].case, claim="the server's own noise", observer=Observer.SERVER)
    with pytest.raises(InvalidValue, match=r"the server sees Report\.losses, which depends on"):
        examine(wrong)


# What cannot be replayed is refused.


@dataclass(frozen=True)
class Raw(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        sent, state = super().upload(state, noise)
        return Report(np.where(state.losses > 0.5, sent.about, 0.0)), state


@dataclass(frozen=True)
class Sometimes(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        if state.losses.sum() < 2:
            return Report(np.zeros_like(state.losses)), state
        return super().upload(state, noise)


@dataclass(frozen=True)
class Choosing(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        noise.choose("gumbel", state.losses, 1.0, "best")
        return super().upload(state, noise)


@dataclass(frozen=True)
class Tossing(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        if state.losses.sum() < 2:
            noise.draw("uniform", "toss")
        return super().upload(state, noise)


@dataclass(frozen=True)
class Counting(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        noise.index(2 if state.losses.sum() < 2 else 3, "toss")
        return super().upload(state, noise)


@dataclass(frozen=True)
class Scaling(Walker):
    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        noise.draw("gaussian", "toss", scale=1.0 + state.losses.sum())
        return super().upload(state, noise)


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (Raw, "the server sees .*, which depends on the data beyond what was released"),
        (Sometimes, "neighbouring streams give different numbers|depends on data beyond what"),
        (Choosing, "'best' is drawn from data outside any mechanism"),
        (Counting, "the law of a coin depends on data beyond what was released"),
        (Scaling, "the law of a coin depends on data beyond what was released"),
        (Tossing, "the sequence of coins depends on the data"),
    ],
)
def test_a_run_that_cannot_be_replayed_is_refused(client: Any, why: str) -> None:
    case = case_of(local_leader("gaussian", 1.0, ONE, client))
    with pytest.raises(InvalidValue, match=f"local_leader cannot be replayed: .*({why})"):
        examine(case)


# Cases


@dataclass(frozen=True, eq=False)
class Game(Environment):
    """An environment that is not an array of the package."""

    losses: np.ndarray

    @property
    def setting(self) -> Setting:
        return Setting(self.losses.shape[1], self.losses.shape[2], self.losses.shape[0])

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: Any) -> tuple[Block, int]:
        return Block.of(round_to_lattice(self.losses[state : state + rounds])), state + rounds


def test_any_environment_can_be_audited() -> None:
    algorithm = local_leader("gaussian", 1.0, ONE)
    games = [Game(stream) for stream in pair(ONE)]
    arrays, environments = (
        row_of(release_cases(algorithm, *streams, runs=100)[1]).finding
        for streams in (pair(ONE), games)
    )
    assert arrays == environments
    case = release_cases(algorithm, *games)[1]
    for method in ("black box", "glass box"):
        likelihood = replace(algorithm, log_likelihood=lambda sent, losses: 0.0)
        other = replace(case, algorithm=likelihood, method=method, observer=Observer.PEER)
        with pytest.raises(InvalidValue, match=r"Expected arrays of losses .* got Game"):
            examine(other)
    recorded = PhasedSelection().build(Setting(2, 3, 5))
    assert recorded.log_likelihood is not None
    first, second = favour_expert_0(Setting(2, 3, 5), 4)
    black = AuditCase(
        "c",
        WHOLE,
        recorded,
        recorded.certificate.peer.curve,
        first,
        second,
        (),
        "black box",
        runs=200,
    )
    wrapped = replace(black, first=RecordedArray(first), second=RecordedArray(second))
    assert examine(black) == examine(wrapped)


def test_the_null_case_may_be_an_environment() -> None:
    algorithm = local_leader("gaussian", 1.0, ONE)
    first, second = pair(ONE)
    for same, other, accepted in (
        (RecordedArray(first), RecordedArray(first), True),
        (RecordedArray(first), first, True),
        (game := Game(first), game, True),
        (RecordedArray(first), RecordedArray(second), False),
        (Game(first), Game(first), False),  # nothing says that these are the same data
    ):
        null, *rest = release_cases(algorithm, first, second)
        cases = (replace(null, first=same, second=other), *rest)
        AUDITS.add(f"audited_{id(cases)}", lambda spec, cases=cases: cases)
        if accepted:
            assert cases_of(f"audited_{id(cases)}", PhasedSelection()) == cases
        else:
            with pytest.raises(InvalidValue, match="to begin with a null case"):
                cases_of(f"audited_{id(cases)}", PhasedSelection())


def test_half_the_noise_is_found_in_the_fields_of_a_role() -> None:
    algorithm = local_leader("gaussian", 1.0, ONE)
    assert isinstance(algorithm.client, Walker)
    assert less_noise(algorithm, 0.5).client == Walker(4, algorithm.client.report.scaled(0.5))

    @dataclass(frozen=True)
    class Plain:
        inner: Any

    hidden = replace(algorithm, client=cast(Any, Plain((1.0,))))
    with pytest.raises(InvalidValue, match=r"No field .* of local_leader .* Pass broken="):
        release_cases(hidden, *pair(ONE))
    cases = release_cases(hidden, *pair(ONE), broken=algorithm)
    assert cases[2].algorithm is algorithm


# The package's own algorithms


def before_the_server(spec: PhasedSelection, runs: int) -> list[AuditRow]:
    rows = [
        row_of(replace(case, runs=runs))
        for case in cases_of("phased_selection", spec)
        if case.method == REPLAYED
    ]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert {row.case.observer for row in rows} == {Observer.SERVER}
    assert [row.verdict for row in rows[:4]] == ["holds", "holds", "violated", "violated"]
    return rows


def test_phased_selection_before_the_server() -> None:
    """K-norm noise attains epsilon; a datum in two blocks shows twice as much."""
    rows = before_the_server(PhasedSelection(trust="local"), runs=100)
    shown = [row.finding.epsilon for row in rows]
    assert shown == pytest.approx([0.0, 1.0, 2.0, 2.0], rel=0.1)
    assert not any(row.case.parameters for row in rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "spec",
    [
        PhasedSelection(trust="local", epsilon=0.1, delta=1e-6),
        PhasedSelection(trust="local", report="laplace"),
        PhasedSelection(trust="distributed", delta=1e-6),
        PhasedSelection(trust="distributed", epsilon=8.0, delta=1e-5, honest=30),
    ],
)
def test_phased_selection_with_other_noise(spec: PhasedSelection) -> None:
    before_the_server(spec, runs=1000)


@pytest.mark.long
def test_the_command_shows_replayed_releases(hedgerow: Command) -> None:
    answer = hedgerow("audit", "phased_selection", "--set", "trust=local", "--json")
    rows = answer.document()["rows"]
    assert answer.code == 0
    assert {row["observer"] for row in rows if row["method"] == REPLAYED} == {"server"}
    assert "replayed" in hedgerow("audit", "phased_selection", "--set", "trust=local").out
