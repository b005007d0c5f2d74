"""Exact releases: what all that is released shows, judged against certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, cast

import numpy as np
import pytest

from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase
from hedgerow.audits.cases.parts import all_transcripts, favour_expert_0
from hedgerow.audits.cases.releases import expert_pairs, less_noise, release_cases, worst_pair
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.replay import Loss, loss_of, loss_of_all
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, Observer
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
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
EXACT = "exact releases"


def row_of(case: AuditCase, seed: int = 0) -> AuditRow:
    return AuditRow(case, attack(case, seed))


def losses(algorithm: Algorithm, changed: int, runs: int, observer: Any = Observer.SERVER) -> Any:
    first, second = map(RecordedArray, pair(algorithm.setting, changed))
    noise = SeededNoise(5)
    return [loss_of(algorithm, observer, first, second, noise)[0] for _ in range(runs)]


def case_of(algorithm: Algorithm, changed: int = 1, **choices: Any) -> AuditCase:
    """The whole certificate on a pair that differs in `changed` records."""
    return release_cases(algorithm, *pair(algorithm.setting, changed), **choices)[1]


# The loss is that of the mechanisms that drew.


@pytest.mark.parametrize(("law", "clients"), [("gaussian", 1), ("share", 3)])
def test_the_loss_of_gaussian_reports_is_mu(law: Law, clients: int) -> None:
    """Two records are sqrt(2) mu, and four fifths of the noise 1.25 mu; all exactly.

    Shares are counted without that of one client, which may collude.
    """
    algorithm = local_leader(law, 1.0, Setting(clients, 4, 3))
    certified = GaussianDP(1.0).epsilon(1e-6)
    for audited, changed, factor in (
        (algorithm, 1, 1.0),
        (algorithm, 2, sqrt(2)),
        (less_noise(algorithm, 0.8), 1, 1.25),
    ):
        found = losses(audited, changed, 3)
        assert {loss.seen for loss in found} == {True}
        for loss in found:
            assert loss.mu == pytest.approx(factor, rel=1e-9)
            assert loss.epsilon(1e-6) == pytest.approx(GaussianDP(factor).epsilon(1e-6), rel=1e-8)
    assert losses(algorithm, 1, 1)[0].epsilon(1e-6) <= certified


@pytest.mark.parametrize("law", ["laplace", "vote"])
def test_the_loss_of_one_pure_report_is_its_largest_log_ratio(law: Law) -> None:
    algorithm = local_leader(law, 1.0, ONE)
    mechanism = algorithm.certificate.mechanisms[0]
    first, second = pair(ONE)
    (loss,) = losses(algorithm, 1, 1)
    if law == "vote":
        possible = [
            mechanism.log_density(first[0, 0], output) - mechanism.log_density(second[0, 0], output)
            for output in range(4)
        ]
        assert loss.bounds == pytest.approx((max(possible), -min(possible)), rel=1e-9)
    else:
        assert loss.bounds == pytest.approx((1.0, 1.0), rel=1e-9)
    assert loss.reached == loss.bounds
    assert loss.epsilon(0.0) == max(loss.bounds) == loss.reversed().epsilon(0.0) <= 1.0


def test_the_loss_of_a_path_is_what_every_path_shows() -> None:
    """The smallest; if paths differ, the largest that one of them reaches. Gaussian ones may not."""
    one, more = Loss(0.0, (1.0, 0.5), (1.0, 0.5), True), Loss(0.0, (1.0004, 0.5), (1.0, 0.5), True)
    assert loss_of_all([more, one]).bounds == (1.0, 0.5)
    other = Loss(0.0, (2.0, 0.1), (1.5, 0.1), False)
    assert loss_of_all([one, other]) == Loss(0.0, (1.5, 0.5), (1.5, 0.5), False)
    endless = Loss(0.0, (inf, 0.0), (inf, 0.0), True)
    assert loss_of_all([endless, endless]).epsilon(0.0) == inf
    gaussian = [Loss(mu, (0.0, 0.0), (0.0, 0.0), True) for mu in (1.0, 1.1)]
    with pytest.raises(InvalidValue, match="depends on the noise here"):
        loss_of_all(gaussian)
    with pytest.raises(Unsupported, match="not added up"):
        Loss(1.0, (1.0, 0.0), (1.0, 0.0), True).epsilon(1e-6)


# Certificates


@pytest.mark.parametrize(("law", "clients"), [("gaussian", 1), ("laplace", 1), ("share", 2)])
def test_the_certificate_is_attained_and_a_fifth_less_noise_is_caught(
    law: Law, clients: int
) -> None:
    algorithm = local_leader(law, 1.0, Setting(clients, 4, 3))
    rows = [row_of(case) for case in release_cases(algorithm, *pair(algorithm.setting))]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated", "violated"]
    null, whole, less, drawn = (row.finding.epsilon or 0.0 for row in rows)
    assert null == 0.0
    assert rows[1].certified * (1 - 3e-6) < whole == drawn <= rows[1].certified < less
    assert "not as large as stated" in str(rows[3].finding.wrong)
    assert rows[3].to_dict()["reason"] == rows[3].finding.wrong


def test_two_records_are_more_than_one() -> None:
    """A pair that differs in two records breaks a certificate of one record, and keeps that of
    sqrt(2) mu.
    """
    two = row_of(case_of(local_leader("gaussian", 1.0, ONE), changed=2))
    assert two.verdict == "violated"
    case = replace(two.case, claim="two records", certified=GaussianDP(sqrt(2)))
    assert AuditRow(case, two.finding).verdict == "holds"
    found = row_of(case_of(local_leader("laplace", 1.0, ONE), changed=2))
    assert (found.verdict, found.finding.epsilon) == ("violated", pytest.approx(2.0))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("law", ["gaussian", "share"])
def test_no_seed_changes_a_verdict(law: Law, seed: int) -> None:
    algorithm = local_leader(law, (0.1, 1.0, 5.0)[seed % 3], Setting(2, 4, 3))
    cases = release_cases(algorithm, *pair(algorithm.setting))
    verdicts = [row_of(case, seed).verdict for case in cases]
    assert verdicts == ["holds", "holds", "violated", "violated"]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e3])
def test_rounding_errors_raise_no_alarm(law: Law, epsilon: float) -> None:
    """The noise attains its bound, which is never passed."""
    row = row_of(case_of(local_leader(law, epsilon, Setting(1, 3, 2))))
    assert row.verdict == "holds"
    assert row.finding.epsilon is not None
    assert row.certified * (1 - 1e-6) <= row.finding.epsilon <= row.certified


# Who sees the releases


def test_an_observer_that_sees_less_is_never_alarmed_about() -> None:
    """The peer sees the leader, not the reports: half the noise of the reports proves nothing."""
    algorithm = local_leader("gaussian", 1.0, ONE)
    rows = [
        row_of(case) for case in release_cases(algorithm, *pair(ONE), observer=Observer.PEER)[:3]
    ]
    assert [row.verdict for row in rows] == ["holds", "holds", "inconclusive"]
    assert rows[2].to_dict()["reason"] == "the peer does not see everything that was released"
    assert [row.to_dict()["seen"] for row in rows] == [True, False, False]


def test_a_claim_about_all_releases_is_about_those_that_the_observer_does_not_see() -> None:
    """The proof adds up all releases, so too little noise breaks it for every observer."""
    algorithm = local_leader("gaussian", 1.0, ONE)
    rows = [
        row_of(case)
        for case in release_cases(algorithm, *pair(ONE), observer=Observer.PEER, claim=RELEASES)
    ]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated", "violated"]
    assert [row.finding.seen for row in rows] == [True, False, False, False]
    certificate = replace(algorithm.certificate, composition="joint")
    with pytest.raises(InvalidValue, match="adds up no releases"):
        replace(rows[1].case, algorithm=replace(algorithm, certificate=certificate))


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
    assert {loss.seen for loss in losses(algorithm, 1, 3)} == {seen}
    assert {loss.seen for loss in losses(algorithm, 1, 3, Observer.PEER)} == {False}


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
    summed = replace(
        algorithm, certificate=hidden, uploads=replace(algorithm.uploads, combine="sum")
    )
    assert {loss.seen for loss in losses(summed, 1, 3)} == {False}


def test_broadcast_releases_are_seen_and_the_own_noise_of_the_server_hides_nothing() -> None:
    central = NoisySums("gaussian", "server").build(Setting(1, 4, 3))
    streams = pair(ONE)
    rows = [row_of(case) for case in release_cases(central, *streams, observer=Observer.PEER)]
    assert [row.verdict for row in rows] == ["holds", "holds", "violated", "violated"]
    wrong = replace(rows[1].case, claim="the server's own noise", observer=Observer.SERVER)
    with pytest.raises(InvalidValue, match=r"the server sees Report\.losses, which depends on"):
        attack(wrong)


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
        attack(case)


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
        row_of(release_cases(algorithm, *streams)[1]).finding for streams in (pair(ONE), games)
    )
    assert arrays == environments
    case = release_cases(algorithm, *games)[1]
    likelihood = replace(
        algorithm, claims=replace(algorithm.claims, log_likelihood=lambda sent, losses: 0.0)
    )
    other = replace(case, algorithm=likelihood, method="exact ratio", observer=Observer.PEER)
    with pytest.raises(InvalidValue, match=r"Expected arrays of losses .* got Game"):
        attack(other)
    recorded = PhasedSelection().build(Setting(2, 3, 5))
    first, second = favour_expert_0(Setting(2, 3, 5), 4)
    curve, sent = recorded.certificate.peer.curve, all_transcripts(recorded, first)
    plain = AuditCase("c", WHOLE, recorded, curve, first, second, sent, runs=200)
    wrapped = replace(plain, first=RecordedArray(first), second=RecordedArray(second))
    assert attack(plain) == attack(wrapped)


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


def test_mechanisms_are_found_in_the_fields_of_a_role() -> None:
    algorithm = local_leader("gaussian", 1.0, ONE)
    assert isinstance(algorithm.client, Walker)
    assert less_noise(algorithm, 0.5).client == Walker(4, algorithm.client.report.scaled(0.5))

    @dataclass(frozen=True)
    class Plain:
        inner: Any

    hidden = replace(algorithm, client=cast(Any, Plain((1.0,))))
    with pytest.raises(InvalidValue, match=r"No field .* of local_leader .* Make its mechanisms"):
        release_cases(hidden, *pair(ONE))


def test_the_worst_pair_is_found() -> None:
    """The first loss vector of three enters most releases, and all experts move."""
    algorithm = RunningLeader().build(Setting(1, 2, 6))
    first, second = worst_pair(algorithm, expert_pairs(algorithm.setting), Observer.PEER)
    assert isinstance(first, np.ndarray)
    assert np.argwhere(first != second).tolist() == [[0, 0, 0], [0, 0, 1]]


# The package's own algorithms


@pytest.mark.parametrize(
    "spec",
    [
        PhasedSelection(trust="local"),
        PhasedSelection(trust="local", epsilon=0.1, delta=1e-6),
        PhasedSelection(trust="local", report="laplace"),
        PhasedSelection(trust="distributed", delta=1e-6),
        PhasedSelection(trust="distributed", epsilon=8.0, delta=1e-5, honest=30),
    ],
)
def test_phased_selection_before_the_server(spec: PhasedSelection) -> None:
    """All noise attains its certificate; a datum in two blocks shows more."""
    rows = [row_of(case) for case in cases_of("phased_selection", spec)]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert {row.case.observer for row in rows} == {Observer.SERVER}
    whole = [row for row in rows if row.case.name.startswith("all releases") and row.passed][:1]
    assert whole[0].certified / (whole[0].finding.epsilon or 0.0) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.long
def test_the_command_shows_exact_releases(hedgerow: Command) -> None:
    answer = hedgerow("audit", "phased_selection", "--set", "trust=local", "--json")
    rows = answer.document()["rows"]
    assert answer.code == 0
    assert {row["observer"] for row in rows if row["method"] == EXACT} == {"server"}
    assert "releases" in hedgerow("audit", "phased_selection", "--set", "trust=local").out
