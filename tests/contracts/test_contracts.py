"""Every registered algorithm keeps every contract, and every contract catches an algorithm that
breaks it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts.games import SETTING, games_of
from hedgerow.contracts.guarantees import chance, pooled
from hedgerow.contracts.outcome import same
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.contracts.suite import CONTRACTS, ON_BOTH_SOURCES, Outcome, examine
from hedgerow.core.losses import Linear
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.environments.drawn.switching import Switching
from hedgerow.privacy.mechanisms import ExponentialMechanism
from hedgerow_papers.gao2024.fed_svt import FedSVT
from support.broken import BROKEN, WorstPlayer
from support.broken_games import BROKEN_GAMES
from support.honest import HONEST, NoisySums

FORMS: dict[str, Any] = dict(variants())
LOUDER: dict[str, Any] = {  # where a short game has many changes of expert
    "gao2024_fed_svt, epsilon 100": FedSVT(epsilon=100.0),
    "sparse_vector, approximate, epsilon 20": SparseVector(epsilon=20.0, delta=1e-3),
    "gao2024_fed_svt, approximate, epsilon 50": FedSVT(epsilon=50.0, delta=1e-3),
    "sparse_vector, every 3": SparseVector(every=3, epsilon=20.0),
    "shrinking_dartboard, every 3": ShrinkingDartboard(every=3, epsilon=20.0, delta=1e-6),
}
SPECS = FORMS | LOUDER
QUICK = (
    "same on every engine",
    "same for every block",
    "causal",
    "pure",
    "resumable",
    "states survive",
    "covers every message",
    "sensitivities hold",
)


OF_EVERY_FORM = (
    "same on every engine",
    "covers every message",
    "nothing raw in a view",
    "sensitivities hold",
    "within the budget",
)
ALIKE = ("covers every message", "within the budget")
OTHER_NUMBERS = ("approximate", "pure")  # forms with the roles of the default one
# The contracts of the quick suite; the others are for `make test-full`. A default form keeps all
# of them in the quick suite, and another form those above, unless it is listed here.
IN_THE_QUICK_SUITE = {
    # tests/algorithms/test_regret_bounds.py plays it against losses that react
    "hedge": tuple(c for c in CONTRACTS if c != "regret below bound"),
    # as printed, for reproductions
    "agarwal2017_tree_leader": ALIKE,
    "asi2023_dartboard": OF_EVERY_FORM,
    "asi2023_potential": OF_EVERY_FORM,
    "asi2023_sparse_vector": OF_EVERY_FORM,
    "gao2024_fed_dp_ope_stoch": OF_EVERY_FORM,
    "gao2024_fed_svt": OF_EVERY_FORM,
    "jacobsen2025_walk_batches": ALIKE,
    "jacobsen2025_walk_meta": ALIKE,
    "zhang2024_online_sgd": (*ALIKE, "sensitivities hold"),
    # its server is that of sparse_vector, with other thresholds
    "doubling": tuple(
        c for c in CONTRACTS if c not in ("million rounds", "exact ratio below certificate")
    ),
    # it restarts as doubling does, and its paper tests what it does otherwise
    "potential": (*OF_EVERY_FORM, "regret below bound"),
    # it draws as the dartboard does
    "private_hedge": tuple(
        c for c in CONTRACTS if c not in ("noise follows its law", "same for every block")
    ),
    # its server is that of phased_selection
    "random_prefix": tuple(
        c for c in CONTRACTS if c not in ("noise follows its law", "sensitivities hold")
    ),
    # its noise is that of a continual sum (tests/algorithms/test_continual_sum.py)
    "online_sgd": tuple(
        c for c in CONTRACTS if c not in ("noise follows its law", "uploads are bounded")
    ),
    "online_sgd, distributed": (*ALIKE, "sensitivities hold"),
    "running_leader": tuple(
        c
        for c in CONTRACTS
        if c not in ("regret below bound", "noise follows its law", "same for every block")
    ),
    # it releases what running_leader does
    "window_leader": ALIKE,
    "window_leader, distributed": (),
    "window_leader, local": (),
    "running_leader, distributed": ALIKE,
    "running_leader, local": ALIKE,
    # the same server with other numbers; the search for them takes half a second in every setting
    "proven_sparse_vector": ("covers every message", "regret below bound"),
    "proven_doubling": ("covers every message", "regret below bound"),
    "proven_potential": ("covers every message", "regret below bound"),
    # its noise is that of a continual sum (tests/algorithms/test_continual_sum.py)
    "tree_leader": tuple(c for c in CONTRACTS if c != "noise follows its law"),
    "tree_hedge": (*ALIKE, "sensitivities hold", "ledger composes", "regret below bound"),
    "tree_hedge, approximate": ALIKE,
    # clients report as those of walk_leader do
    "walk_batches": tuple(
        c
        for c in CONTRACTS
        if c not in ("causal", "sensitivities hold", "noise follows its law", "million rounds")
    ),
    "walk_leader, distributed": ("covers every message", "sensitivities hold", "within the budget"),
    # papers/tests/test_walk_meta.py has quicker ones
    "walk_meta": ALIKE,
    # in games of experts it is the shrinking dartboard
    "cover_dartboard": (),
    "cover_dartboard, pure": (),
}
SECURE_IN_THE_QUICK_SUITE = {
    "cover_dartboard": (),
    "doubling": tuple(c for c in ON_BOTH_SOURCES if c != "exact ratio below certificate"),
    "online_sgd": ("ledger composes",),
    "potential": tuple(
        c
        for c in ON_BOTH_SOURCES
        if c not in ("exact ratio below certificate", "noise follows its law")
    ),
    "private_hedge": tuple(c for c in ON_BOTH_SOURCES if c != "noise follows its law"),
    "running_leader": tuple(c for c in ON_BOTH_SOURCES if c != "noise follows its law"),
    "sparse_vector": tuple(c for c in ON_BOTH_SOURCES if c != "exact ratio below certificate"),
    "tree_hedge": (),
    "tree_leader": (),
    "jacobsen2025_walk_batches": (),
    "jacobsen2025_walk_meta": (),
    "walk_batches": (),
    "walk_leader": tuple(c for c in ON_BOTH_SOURCES if c != "sensitivities hold"),
    "walk_meta": ALIKE,
    "window_leader": (),
}
QUICK_FOR = {  # in the quick suite for these only; others have roles like theirs
    "closing rules hold": ("phased_selection", "running_leader", "sparse_vector"),
}
SECURE_QUICK_FOR = {  # on secure noise; the others draw from the same samplers
    **dict.fromkeys(
        (
            "closing rules hold",
            "nothing raw in a view",
            "sensitivities hold",
            "uploads are bounded",
        ),
        ("phased_selection",),
    ),
    "exact ratio below certificate": ("shrinking_dartboard",),
    "ledger composes": ("running_leader",),
    "noise follows its law": ("sparse_vector", "walk_leader"),
}


def _marked(case: tuple[str, str], quick: bool) -> Any:
    return pytest.param(*case, marks=() if quick else pytest.mark.long)


def _cases() -> list[Any]:
    """The full suite for every form of every registered algorithm; the quick contracts for louder
    ones.
    """
    found = [(a, c) for a in SPECS for c in (CONTRACTS if a in FORMS else QUICK)]

    def quick(algorithm: str, contract: str) -> bool:
        usual = CONTRACTS if algorithm in ALGORITHMS else OF_EVERY_FORM
        if algorithm in LOUDER or algorithm.endswith(OTHER_NUMBERS):
            usual = (*ALIKE, "sensitivities hold")
        if algorithm not in QUICK_FOR.get(contract, (algorithm,)):
            return False
        return contract in IN_THE_QUICK_SUITE.get(algorithm, usual)

    return [_marked(case, quick(*case)) for case in found]


@pytest.mark.parametrize(("algorithm", "contract"), _cases())
def test_algorithm_keeps_contract(algorithm: str, contract: str) -> None:
    outcome = examine(contract, SPECS[algorithm])
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize("contract", [name for name in CONTRACTS if name != "million rounds"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_algorithm_keeps_contract(name: str, contract: str) -> None:
    outcome = examine(contract, HONEST[name])
    other_games = (
        "same by sums",
        "sleeping experts",
        "absent clients",
        "anytime",
        "public is public",
    )
    no_budget = (
        "within the budget",
        "exact ratio below certificate",
        "noiseless is reference",
        "regret below bound",
    )
    no_ranges = ("uploads are bounded", "closing rules hold")
    trusted = "every client" not in name and contract == "a lying server"
    applies = contract not in (*other_games, *no_budget, *no_ranges) and not trusted
    assert outcome.status == ("holds" if applies else "not applicable"), outcome.detail


def _secure_cases() -> list[Any]:
    """Every form that secure noise can sample; in the quick suite those with default choices."""
    found = [(a, c) for a, spec in FORMS.items() if _can_be_secure(spec) for c in ON_BOTH_SOURCES]
    usual = {a: ON_BOTH_SOURCES if a in ALGORITHMS else () for a in FORMS}
    return [
        _marked(
            (a, c),
            c in SECURE_IN_THE_QUICK_SUITE.get(a, usual[a]) and a in SECURE_QUICK_FOR.get(c, (a,)),
        )
        for a, c in found
    ]


def _can_be_secure(spec: Any) -> bool:
    mechanisms = spec.build(games_of(spec).setting).certificate.mechanisms
    return bool(mechanisms) and all(getattr(mechanism, "exact", False) for mechanism in mechanisms)


@pytest.mark.parametrize(("algorithm", "contract"), _secure_cases())
def test_algorithm_keeps_contract_on_secure_noise(algorithm: str, contract: str) -> None:
    outcome = examine(contract, SPECS[algorithm], secure=True)
    if outcome.status == "not applicable":
        pytest.skip(f"not applicable: {outcome.detail}")
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize(
    "name",
    [
        "half the noise",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("half the selection noise", "a mechanism that lies")
        ),
    ],
)
def test_contract_catches_it_on_secure_noise(name: str) -> None:
    contract, spec = BROKEN[name]
    assert examine(contract, spec, secure=True).status == "broken"


@cache
def _verdict(name: str) -> Outcome:
    contract, spec = BROKEN[name]
    return examine(contract, spec)


# What they break, others of the quick suite break as well.
SLOW_TO_CATCH = (
    "a mechanism that is not used",
    "a mechanism that lies, audited",
    "too quiet to be audited",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in SLOW_TO_CATCH else ())
        for name in BROKEN
        if name not in BROKEN_GAMES
    ],
)
def test_contract_catches(name: str) -> None:
    assert _verdict(name).status == "broken", _verdict(name)
    mistakes = ("TypeError", "AttributeError", "NameError", "KeyError")  # in the test itself
    assert not _verdict(name).detail.startswith(mistakes), _verdict(name)
    assert " of exchange " not in _verdict(name).detail  # not even let in


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.long if ", " in n or n == "walk_meta" else ())
        for n in FORMS
        if issubclass(Linear, FORMS[n].traits.families)  # the others have no experts to follow
    ],
)
def test_whoever_follows_the_worst_expert_keeps_no_bound(name: str) -> None:
    """Where the contract applies at all, it could have failed."""
    honest = FORMS[name].build(SETTING)
    outcome = examine("regret below bound", WorstPlayer(FORMS[name]))
    vacuous = name == "gao2024_fed_dp_ope_stoch"  # its batches are small: guessing keeps the bound
    assert outcome.status == (
        "not applicable" if honest.claims.regret_bound is None or vacuous else "broken"
    ), outcome.detail


def test_a_bound_that_a_guess_would_keep_is_not_counted() -> None:
    """Such a bound says nothing about the game; the contract says so instead of passing."""
    assert (
        examine("regret below bound", ShrinkingDartboard(epsilon=1e-3)).status == "not applicable"
    )


LAWS = [
    np.array(
        [1e-6, 1e-6, 0.1, 0.3, 0.6 - 2e-6]
    ),  # rare transcripts alone would fill the first group with next to nothing
    np.array([0.999, 0.001]),
    np.geomspace(1e-9, 1.0, 60) / np.geomspace(1e-9, 1.0, 60).sum(),
    np.full(32, 1 / 32),
]


@pytest.mark.parametrize("law", LAWS, ids=len)
def test_no_group_of_transcripts_is_rare(law: np.ndarray) -> None:
    groups = pooled(law, 25 / 800)
    assert sorted(np.concatenate(groups)) == list(range(len(law)))
    assert min(law[group].sum() for group in groups) >= 25 / 800


@pytest.mark.parametrize("law", LAWS, ids=len)
def test_frequencies_of_the_exact_law_raise_no_alarm(law: np.ndarray) -> None:
    """At every level, and with rare transcripts: 3000 samples of 800 runs."""
    chances = np.array(
        [chance(counts, law) for counts in np.random.default_rng(5).multinomial(800, law, 3000)]
    )
    for level in (0.1, 0.01, 1e-3):
        assert stats.binomtest(int((chances < level).sum()), 3000, level, "greater").pvalue > 1e-4
    assert chances.min() > 1e-5


def test_frequencies_with_half_the_noise_raise_one() -> None:
    """Even at the level of secure noise."""
    scores = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    stated, half = (
        ExponentialMechanism("selection", epsilon).probabilities(scores) for epsilon in (2.0, 4.0)
    )
    chances = [
        chance(counts, stated) for counts in np.random.default_rng(6).multinomial(800, half, 100)
    ]
    assert max(chances) < 1e-10


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "adds up what has no cost",
            "a release whose mechanism states no cost cannot be part of a sum",
        ),
        (
            "counts one release of many",
            "the server is promised delta = 0.4621 at epsilon = 0; a datum enters",
        ),
        (
            "a false Gaussian claim",
            r"the peer is promised .* a datum enters 1 of mu = 0.5 \(Gaussian\)",
        ),
        (
            "Gaussian releases that do not add",
            r"the peer is promised .* a datum enters \d+ of mu = 0.5 \(Gaussian\)",
        ),
        (
            "a false claim to the server alone",
            "the server is promised .* a datum enters 1 of epsilon = 1",
        ),
        (
            "the server's own noise",
            "the promise about the server rests on noise that it draws itself",
        ),
        ("a promise for a whole site", "a datum enters 39 of epsilon = 1"),
        ("a likelihood that leaves out uploads", r"the server sees \['uploads'\]"),
        ("a likelihood that leaves out clients", "clients release with their own noise"),
        (
            "half the chance of a draw",
            r"two neighbours have delta = .* at epsilon = .*, but a certificate says",
        ),
        (
            "spends more than it was given",
            r"the \w+ is promised epsilon = 2, .*, but epsilon=1.0 and delta=0.0 were requested:"
            " at this",
        ),
        pytest.param(
            "too quiet to be audited",
            "of the certificate: offer audit_variants",
            marks=pytest.mark.long,
        ),
    ],
)
def test_contract_says_why(name: str, reason: str) -> None:
    assert re.search(reason, _verdict(name).detail), _verdict(name).detail


def test_what_clients_release_is_recorded_one_by_one_and_replayed_on_every_engine() -> None:
    environment = Switching(clients=3, experts=5, horizon=12)
    algorithm = NoisySums("gaussian").build(environment.setting)
    recorded, replayed, plays = RecordingNoise(SeededNoise(1)), [], []
    simulate(algorithm, environment, 1, noise=recorded)
    releases = recorded.ledger.releases
    assert [release.client for release in releases] == [0, 1, 2] * 11
    assert all(np.shape(release.value) == np.shape(release.output) == (5,) for release in releases)
    engines: tuple[EngineName, ...] = ("vectorised", "in_process")
    for engine in engines:
        noise, kept = RecordingNoise(SeededNoise(2), recorded.ledger), Everything()
        simulate(algorithm, environment, 1, noise=noise, engine=engine, sinks=[kept])
        replayed.append(noise.ledger.releases)
        plays.append(kept.all_plays())
    assert same(replayed[0], releases)
    assert same(replayed[1], releases)
    assert same(plays[0], plays[1])


OF_DEPLOYMENTS = {  # caught in test_deployed.py and test_lying.py
    "uploads are bounded",
    "closing rules hold",
    "a lying server",
}


def test_every_contract_has_a_broken_algorithm() -> None:
    caught = {contract for contract, _ in BROKEN.values()}
    assert caught | OF_DEPLOYMENTS == set(CONTRACTS)
