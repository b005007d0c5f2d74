"""Contracts on privacy.

The certificate covers everything that is sent, sensitivities and noise are as declared, and exact
likelihood ratios stay below the certified curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc

from hedgerow.contracts.adversary import by_round, largest_delta, sort_by_prefix
from hedgerow.contracts.games import (
    EXPERTS,
    PLACES,
    SETTING,
    Place,
    built,
    games_of,
    has_experts,
    pairs,
    places,
    possible_places,
    records_between,
    with_record,
)
from hedgerow.contracts.neighbours import (
    SEEDED,
    TRIALS,
    TWO_RECORDS,
    Pair,
    Randomness,
    budget_of,
    changed,
    private,
    promises,
    record,
    replays,
    units,
)
from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.contracts.recording import MAY_BE_FREE, all_paths
from hedgerow.core.certificate import DEFAULT_VIEWS, ENTROPY, IDEAL_REALS, Channel, Observer
from hedgerow.core.games import Games
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.messages import encode, field_names
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Person, Unit
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.environments.recorded.losses import RecordedArray

AUDIT_GAMES = (Setting(clients=1, experts=2, horizon=4), Setting(clients=2, experts=2, horizon=3))
LEAST_POWER = 0.5
EPSILONS = 7  # points from 0 to the stated epsilon at which a curve is compared with exact deltas
LEAST_EXPECTED = 25


def covers_every_message(spec: AlgorithmSpec) -> None:
    """Every message field has a channel, and every observer one guarantee for all that it sees.

    Every channel is in the view of at least one observer. Where only the sum of uploads is said to
    be seen, the server gets only the sum.
    """
    algorithm = built(spec, games_of(spec).setting)
    certificate = algorithm.certificate
    for name in (*field_names(algorithm.uploads.kind), *field_names(algorithm.broadcasts.kind)):
        demand(
            name in certificate.channels, f"the certificate does not cover the message field {name}"
        )
    summed = [
        n for n in field_names(algorithm.uploads.kind) if certificate.channels[n] is Channel.SUM
    ]
    demand(
        not summed or algorithm.uploads.combine == "sum",
        f"the certificate says that only the sum of {summed} is seen, but the server gets each",
    )
    observers = [guarantee.observer for guarantee in certificate.guarantees]
    demand(
        sorted(o.value for o in observers) == sorted(o.value for o in Observer),
        "expected exactly one guarantee for each observer",
    )
    seen: set[Channel] = set()
    for guarantee in certificate.guarantees:
        least = DEFAULT_VIEWS[guarantee.observer]
        if Channel.SUM in guarantee.view:
            least = least - {Channel.UPLOADS}
        if certificate.plays_at_home:
            least = least - {Channel.PLAYS}
        missing = sorted(channel.value for channel in least - guarantee.view)
        demand(
            not missing,
            f"the {guarantee.observer.value} also sees {missing}, which its guarantee omits",
        )
        demand(
            not guarantee.protects or guarantee.proof is not None,
            f"no proof for the {guarantee.observer.value}",
        )
        seen |= guarantee.view
    unseen = sorted(channel.value for channel in set(certificate.channels.values()) - seen)
    demand(not unseen, f"no observer's view includes {unseen}")
    for guarantee in certificate.guarantees:
        epsilon, honest = guarantee.curve.stated()[0], guarantee.assumes & {IDEAL_REALS, ENTROPY}
        text = (
            f"the {guarantee.observer.value}'s guarantee does not name its assumption about noise"
            " (IDEAL_REALS or ENTROPY)"
        )
        demand(not guarantee.protects or epsilon == 0 or bool(honest), text)
    if not algorithm.has_mechanisms:
        for guarantee in certificate.guarantees:
            free = guarantee.curve.stated() == (0.0, 0.0)
            demand(free or not guarantee.protects, "a guarantee is claimed without any mechanism")


def within_the_budget(spec: AlgorithmSpec) -> None:
    """The certified curve stays within the requested epsilon and delta.

    At the epsilon of the spec, the curve's delta is at most the delta of the spec. The quoted
    epsilon and delta are not larger than the requested ones. Published constants are exempt: they
    may exceed the budget that they were printed for, and their certificate states what they cost.
    """
    epsilon, delta = budget_of(spec)
    if epsilon is None:
        raise NotApplicable("it has no field for epsilon, so no budget was requested")
    algorithm = built(spec, games_of(spec).setting)
    if algorithm.certificate.calibration == "published":
        raise NotApplicable(
            "it uses published constants; its certificate states what they really cost"
        )
    if not promises(algorithm):
        raise NotApplicable(f"{algorithm.name} promises no protection")
    tiny = AUDIT_GAMES if has_experts(spec) else ()
    protected = [
        guarantee
        for one in (algorithm, *(built(_in_tiny_games(spec), setting) for setting in tiny))
        for guarantee in promises(one)
    ]
    for guarantee in protected:
        spent, request = (
            guarantee.curve.delta(epsilon),
            f"epsilon={epsilon} and delta={delta} were requested",
        )
        text = (
            f"the {guarantee.observer.value} is promised {guarantee.curve.words()}, but {request}"
        )
        demand(spent <= delta, f"{text}: at this epsilon delta is {spent:.3g}")
        stated = guarantee.curve.stated()
        demand(stated[0] <= epsilon and stated[1] <= delta, f"{text}: it is quoted as {stated}")


def sensitivities_hold(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """On neighbouring streams, released values differ by at most the declared sensitivity.

    Neighbours differ in one unit of a promise. The second run is replayed with the outputs of the
    first. If the records of a person enter separate releases, no release depends on two records
    of one person, wherever they are.
    """
    algorithm = private(spec)
    two = (TWO_RECORDS,) if algorithm.certificate.separate else ()
    for unit in dict.fromkeys((*units(algorithm), *two)):
        if isinstance(unit, Person) and unit.clients > 1:
            _tried_at_every_place(spec, unit)
        moves_are_small(unit, replays(spec, unit, noise))
    if two:
        _records_are_separate(spec, noise)


def moves_are_small(unit: Unit, found: Sequence[Pair]) -> None:
    """Demand that no release of these pairs moves by more than its declared sensitivity."""
    for a, b in (both for pair in found for both in pair.releases()):
        moved = a.mechanism.distance(a.value, b.value)
        allowed = a.mechanism.sensitivity * (1 + 1e-9)
        text = f"{a.mechanism.purpose}: {unit.words()} moved a released value by {moved:.4g}"
        demand(
            moved <= allowed,
            f"{text}, but the declared sensitivity is {a.mechanism.sensitivity:.4g}",
        )


def _tried_at_every_place(spec: AlgorithmSpec, unit: Unit) -> None:
    """Demand that pairs try the records of a person who moves at every place of the game."""
    games, possible, tried = games_of(spec), set[Place](), set[Place]()
    for _, stream, neighbour in pairs(spec, unit, TRIALS):
        first, second = games.recorded(stream), games.recorded(neighbour)
        tried |= places(records_between(first, second))
        possible |= possible_places(first)
        if tried >= PLACES.keys():
            return
    for place, words in PLACES.items():
        fine = place in tried or place not in possible
        demand(fine, f"no pair of its games tries {unit.words()} {words}")


def _records_are_separate(spec: AlgorithmSpec, noise: Randomness) -> None:
    """Replay each of two records alone, and both: a release depends on one of them at most."""
    algorithm, games = built(spec, games_of(spec).setting), games_of(spec)
    tried = zip(pairs(spec, TWO_RECORDS, TRIALS), replays(spec, TWO_RECORDS, noise), strict=True)
    for (trial, stream, neighbour), pair in tried:
        first, second = games.recorded(stream), games.recorded(neighbour)
        alone = [
            record(algorithm, with_record(cell, first, second), noise.source(trial), pair.first)
            for cell in records_between(first, second)
        ]
        runs = zip(*(one.releases for one in (pair.first, pair.second, *alone)), strict=True)
        for none, both, *single in runs:
            moved = [one.value for one in single if not same(one.value, none.value, by_value=True)]
            demand(
                len(moved) < 2 and same((moved or [none.value])[0], both.value, by_value=True),
                f"{none.mechanism.purpose}: a release depends on two records of one person, but"
                " the certificate says that they enter separate releases",
            )


def _releases(
    algorithm: Algorithm, games: Games, seeds: int, noise: Randomness
) -> tuple[dict[Any, list[Any]], set[tuple[str, str, str]]]:
    """The releases of many runs by mechanism, and the draws made outside any mechanism."""
    rng = np.random.default_rng(7)
    found: dict[Any, list[Any]] = {}
    bare: set[tuple[str, str, str]] = set()
    for seed in range(seeds):
        stream = games.stream(rng, algorithm.setting)
        if games is EXPERTS:
            stream *= (1.0, 0.2)[seed % 2]  # a game with small losses differs
        ledger = record(algorithm, games.recorded(stream), noise.source(seed))
        bare |= {coin.kind for coin in ledger.coins}
        for call in ledger.calls:
            found.setdefault(call.mechanism, []).extend(call.releases())
    return found, bare


def noise_follows_its_law(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """Releases come from the certificate's mechanisms and follow the declared laws.

    Outputs are mapped to numbers that are uniform under the declared law and put to a
    Kolmogorov-Smirnov test. The test must also reject 2/3 and 3/2 of the declared noise.

    Outside mechanisms only uniform noise is drawn, and what the algorithm declares as `free_noise`.
    Such noise hides nothing: "nothing raw in a view" compares runs in which it is the same, and
    demands that its law is the same. A choice or a flip is made by a mechanism.
    """
    games = games_of(spec)
    short = replace(SETTING, clients=2, horizon=60) if has_experts(spec) else games.setting
    algorithm = private(spec, short)
    unused = _releases_follow(algorithm, games, noise)
    # A threshold may be too high for a short run to reach. The variants for audits come closer.
    for variant in _audit_variants(spec):
        if unused:
            unused &= _releases_follow(built(variant, short), games, noise)
    demand(
        not unused,
        f"the certificate names the mechanism {min(unused, default='')!r}, but no run used it",
    )
    coins = np.random.default_rng(8)
    for mechanism in algorithm.certificate.mechanisms:
        purpose = mechanism.purpose
        probe, server = round_to_lattice(mechanism.probe()), noise.source(12).server()
        samples = [(probe, mechanism.sample(probe, server)) for _ in range(3000)]
        p = _p_value(mechanism, samples, coins)
        demand(
            p > noise.alarm,
            f"{purpose}: the sampler does not follow the declared law (p = {p:.1e})",
        )
        for factor in (2 / 3, 3 / 2):
            p = _p_value(mechanism.scaled(factor), samples, coins)
            demand(
                p < 1e-4,
                f"{purpose}: the test cannot rule out {factor:.2f} of the noise (p = {p:.1e})",
            )


def _releases_follow(algorithm: Algorithm, games: Games, noise: Randomness) -> set[str]:
    """Test the releases of real runs; return the purposes for which no mechanism was used.

    A purpose may have several mechanisms, of which late ones are for long games.
    """
    found, bare = _releases(algorithm, games, 150, noise)
    declared, coins = algorithm.certificate.mechanisms, np.random.default_rng(8)
    for method, law, purpose in sorted(bare):
        drawn = method in MAY_BE_FREE
        free = drawn and (law == "uniform" or purpose in algorithm.claims.free_noise)
        what = f"{law} noise" if drawn else f"what {method!r} picks by scores"
        demand(free, f"{what} for {purpose!r} is drawn outside any mechanism")
    for mechanism in declared:
        demand(
            mechanism.purpose not in algorithm.claims.free_noise,
            f"{mechanism.purpose!r} is declared as noise that protects nothing",
        )
    for used, releases in found.items():
        demand(
            used in declared,
            f"{used.purpose}: released by {used}, which the certificate does not name",
        )
        p = _p_value(used, [(r.value, r.output) for r in releases], coins)
        demand(
            p > noise.alarm,
            f"{used.purpose}: the releases do not follow the declared law (p = {p:.1e})",
        )
    return {mechanism.purpose for mechanism in declared} - {used.purpose for used in found}


def _p_value(law: Any, pairs: list[tuple[Any, Any]], coins: np.random.Generator) -> float:
    flips = coins.random(len(pairs))
    mapped = [
        law.uniformise(value, output, coin)
        for (value, output), coin in zip(pairs, flips, strict=True)
    ]
    from scipy.stats import kstest

    return float(kstest(mapped, "uniform").pvalue)


def exact_ratio_below_certificate(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """On tiny games, no exact delta is above the certified curve.

    Every transcript and every pair of neighbours is enumerated. The largest log-ratio is compared
    with the curve's epsilon at delta = 0. The exact delta is compared with the curve at smaller
    epsilon, also for the worst adversary whose later losses react to broadcasts (`adversary`).

    The likelihoods must sum to one and match simulated frequencies, so that they describe the code
    that runs. The games must reach at least half of the certificate, or they say nothing.

    If the composition is "sum", `ledger_composes` checks the certificate too. Otherwise no other
    contract does, so a promise that the likelihood of broadcasts cannot check is broken.
    """
    own = not has_experts(spec)
    spec = spec if own else _in_tiny_games(spec)
    algorithm = private(changed(spec, interval=1), None if own else AUDIT_GAMES[0])
    if not promises(algorithm):
        raise NotApplicable(f"{algorithm.name} promises no protection")
    alone = algorithm.certificate.composition == "joint"
    if algorithm.claims.log_likelihood is None:
        demand(
            not alone,
            "the certificate cannot be checked: it has neither an exact likelihood nor a"
            " compositional proof",
        )
        raise NotApplicable("the proof is compositional: 'ledger composes' checks it")
    if alone:
        for unit in units(algorithm):
            demand(
                isinstance(unit, Event) and not own,
                "the certificate cannot be checked: exact likelihoods are compared on games of"
                f" experts that differ in one loss vector, not in {unit.words()}",
            )
        _all_in_broadcasts(algorithm)
    if own or units(algorithm) != (Event(),):
        raise NotApplicable("the proof is compositional: 'ledger composes' checks it")
    closest = max(
        _audit_game(built(variant, setting), setting, noise)
        for variant, setting in product(_audit_variants(spec), AUDIT_GAMES)
    )
    if closest < (LEAST_POWER if algorithm.certificate.grown == 1 else LEAST_POWER / 2):
        weak = f"the tiny games reach only {closest:.2f} of the certificate: offer audit_variants()"
        demand(not alone, weak)
        raise NotApplicable(weak)


def _in_tiny_games(spec: AlgorithmSpec) -> AlgorithmSpec:
    """The spec with a unit that tiny games can hold: two records, if it has more than one."""
    larger = spec.unit is not None and not isinstance(parse_unit(spec.unit), Event)
    return replace(spec, unit=Person(2)) if larger else spec


def _audit_variants(spec: AlgorithmSpec) -> tuple[AlgorithmSpec, ...]:
    """The spec's variants for audits; by default one with a large epsilon and one with a small one.

    A large epsilon brings the worst ratio close to the certificate. With a small one, frequencies
    are more informative.
    """
    found = spec.audit_variants() or tuple(
        changed(spec, epsilon=epsilon, interval=1) for epsilon in (24.0, 3.0)
    )
    if spec.unit is None:
        return found
    return tuple(replace(one, unit=spec.unit) for one in found)


def _all_in_broadcasts(algorithm: Algorithm) -> None:
    """Demand that the likelihood of broadcasts covers everything in the guaranteed views.

    It covers neither what clients send nor what they play with their own noise.
    """
    for guarantee in promises(algorithm):
        beyond = sorted(
            channel.value for channel in guarantee.view & {Channel.UPLOADS, Channel.SUM}
        )
        text = (
            f"the {guarantee.observer.value} sees {beyond}, which the likelihood of broadcasts does"
            " not cover"
        )
        demand(not beyond, f"{text}, and the proof is not compositional")
    setting = algorithm.setting
    ones = RecordedArray(np.ones((setting.rounds, setting.clients, setting.experts)))
    released = record(algorithm, ones, SeededNoise(0)).releases
    text = "clients release with their own noise, which the likelihood of broadcasts does not cover"
    demand(
        all(release.client is None for release in released),
        f"{text}, and the proof is not compositional",
    )


def _audit_game(algorithm: Algorithm, setting: Setting, noise: Randomness) -> float:
    """Enumerate one tiny game; return the largest share of a certificate that a pair reaches.

    The share is of the log-ratio, or of delta where the log-ratio has no certified bound.
    """
    likelihood = algorithm.claims.log_likelihood
    assert likelihood is not None
    promised = [guarantee.curve for guarantee in promises(algorithm)]
    curves = [curve for i, curve in enumerate(promised) if curve not in promised[:i]]
    shape = (setting.rounds, setting.clients, 2)
    vectors = [np.array(pair, float) for pair in product((0, 1), repeat=2)]
    background = np.zeros(shape)
    background[:, 1:] = 0.5  # the datum belongs to the first client
    choosing = setting.rounds - 1  # no exchange follows the last round
    games = list(product(range(4), repeat=choosing))
    paths = all_paths(2, lambda noise: broadcasts_of(algorithm, background, noise))
    found = list({tuple(map(encode, sent)): sent for sent in paths}.values())  # each once
    order, levels = sort_by_prefix([by_round(sent, choosing) for sent in found], choosing)
    transcripts = [found[i] for i in order]

    def stream(game: tuple[int, ...]) -> np.ndarray:
        losses = background.copy()
        losses[:choosing, 0] = np.stack([vectors[i] for i in game])
        return losses

    table = np.array([[likelihood(t, stream(game)) for t in transcripts] for game in games])
    chances = np.exp(table)
    totals = chances.sum(axis=1)
    demand(
        bool(np.allclose(totals, 1.0, atol=1e-9)),
        f"likelihoods sum to {totals.min():.6f}..{totals.max():.6f}, not to 1",
    )
    index = {game: i for i, game in enumerate(games)}
    records = algorithm.certificate.grown
    differ = (np.array(games)[:, None] != np.array(games)).sum(axis=-1)
    pairs = np.argwhere((differ > 0) & (differ <= records))
    with np.errstate(invalid="ignore"):
        ratios = np.abs(table[pairs[:, 0]] - table[pairs[:, 1]])
    worst = float(
        np.nanmax(ratios)
    )  # nan where both are impossible: such a transcript does not count
    moved = list(permutations(range(4), 2))
    closest, by_vector = 0.0, chances.reshape(*[len(vectors)] * choosing, -1)
    for curve in curves:
        pure, stated = curve.epsilon(0.0), curve.stated()[0]
        demand(
            worst <= pure * (1 + 1e-6),
            f"a transcript has log-ratio {worst:.4f}, but a certificate says {pure:.4f}",
        )
        closest = max(closest, worst / pure) if pure < np.inf else closest
        for epsilon in np.linspace(0.0, stated, EPSILONS).tolist():
            exact = largest_delta(by_vector, levels, moved, epsilon, records)
            allowed = curve.delta(epsilon)
            text = f"two neighbours have delta = {exact:.3e} at epsilon = {epsilon:.4f}"
            demand(
                exact <= allowed * (1 + 1e-6) + 1e-12,
                f"{text}, but a certificate says {allowed:.3e}",
            )
            closest = (
                max(closest, exact / allowed) if allowed > 1e-9 and pure == np.inf else closest
            )
    varied = (1, 2, 1)[:choosing]
    _frequencies_match(algorithm, transcripts, np.exp(table[index[varied]]), stream(varied), noise)
    return closest


def _frequencies_match(
    algorithm: Algorithm,
    transcripts: list[Any],
    expected: np.ndarray,
    losses: np.ndarray,
    noise: Randomness,
    runs: int = 800,
) -> None:
    index = {repr(t): i for i, t in enumerate(transcripts)}
    counts = np.zeros(len(transcripts))
    for seed in range(runs):
        sent = broadcasts_of(algorithm, losses, noise.source(seed))
        demand(repr(sent) in index, f"a run sent {sent}, which was not enumerated")
        counts[index[repr(sent)]] += 1
    alarm = noise.alarm / 10
    never = (
        expected * runs * len(expected) < alarm
    )  # seeing any of them is less likely than `alarm`
    demand(not counts[never].any(), "a run sent a transcript of (nearly) zero likelihood")
    p = chance(counts, expected)
    demand(p > alarm, f"simulated transcripts do not follow the likelihood (p = {p:.1e})")


def chance(counts: np.ndarray, expected: np.ndarray) -> float:
    """An upper bound on the probability of such counts.

    It is the least p-value of exact binomial tests, one per group of outcomes, times their number.
    """
    runs, groups = int(counts.sum()), pooled(expected, LEAST_EXPECTED / counts.sum())
    seen = np.array([counts[group].sum() for group in groups])
    likely = np.array([expected[group].sum() for group in groups]).clip(max=1.0)
    tails = np.minimum(bdtr(seen, runs, likely), bdtrc(seen - 1, runs, likely))
    return min(1.0, 2 * len(groups) * float(tails.min()))


def pooled(expected: np.ndarray, least: float) -> list[np.ndarray]:
    """Group outcomes, rare ones together, so that every group has probability at least `least`."""
    groups, group = list[np.ndarray](), list[int]()
    for index in np.argsort(expected):
        group.append(int(index))
        if expected[group].sum() >= least:
            groups.append(np.array(group))
            group = []
    if group:
        groups[-1:] = [np.concatenate([*groups[-1:], group])]
    return groups
