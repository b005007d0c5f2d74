"""Contracts about privacy: the certificate covers everything, sensitivities and noise are as declared, the exact ratio stays below."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations, product
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc

from hedgerow.contracts.adversary import by_round, largest_delta, told_apart
from hedgerow.contracts.neighbours import (
    SEEDED,
    SETTING,
    Randomness,
    budget_of,
    changed,
    neighbours,
    private,
    promises,
    record,
)
from hedgerow.contracts.outcome import NotApplicable, demand, same
from hedgerow.contracts.recording import all_paths
from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    ENTROPY,
    IDEAL_REALS,
    Channel,
    Guarantee,
    Observer,
)
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.messages import field_names
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.broadcasts import broadcasts_of

AUDIT_GAMES = (Setting(clients=1, experts=2, horizon=4), Setting(clients=2, experts=2, horizon=3))
LEAST_POWER = 0.5
EPSILONS = (
    7  # so many points of a curve are compared with exact deltas, from 0 to the stated epsilon
)
LEAST_EXPECTED = 25
FREE_COINS = frozenset({"uniform"})


def covers_every_message(spec: AlgorithmSpec) -> None:
    """Every message field has a channel, every channel is in somebody's view, every observer has one guarantee for all it sees."""
    algorithm = spec.build(SETTING)
    certificate = algorithm.certificate
    for name in (*field_names(algorithm.upload), *field_names(algorithm.broadcast)):
        demand(
            name in certificate.channels, f"the certificate does not cover the message field {name}"
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
        missing = sorted(channel.value for channel in least - guarantee.view)
        demand(
            not missing,
            f"the {guarantee.observer.value} also sees {missing}, its guarantee leaves that out",
        )
        demand(
            not guarantee.protects or guarantee.proof is not None,
            f"no proof for the {guarantee.observer.value}",
        )
        seen |= guarantee.view
    unseen = sorted(channel.value for channel in set(certificate.channels.values()) - seen)
    demand(not unseen, f"nobody's view holds {unseen}")
    for guarantee in certificate.guarantees:
        epsilon, honest = guarantee.curve.stated()[0], guarantee.assumes & {IDEAL_REALS, ENTROPY}
        text = f"the {guarantee.observer.value}'s guarantee hides what it assumes about noise (IDEAL_REALS or ENTROPY)"
        demand(not guarantee.protects or epsilon == 0 or bool(honest), text)
    if not algorithm.has_mechanisms:
        for guarantee in certificate.guarantees:
            free = guarantee.curve.stated() == (0.0, 0.0)
            demand(free or not guarantee.protects, "a guarantee is claimed without any mechanism")


def within_the_budget(spec: AlgorithmSpec) -> None:
    """What is promised is no worse than what was asked for: delta(epsilon) is at most delta, for the spec's own epsilon and delta, and
    what is quoted is not larger than either.

    Published constants are labelled with what they really give, and may miss the budget that they were printed for.
    """
    epsilon, delta = budget_of(spec)
    if epsilon is None:
        raise NotApplicable("it has no field for epsilon: nobody asked for a budget")
    algorithm = spec.build(SETTING)
    if algorithm.certificate.calibration == "published":
        raise NotApplicable(
            "its constants are the published ones, its certificate says what they really give"
        )
    if not promises(algorithm):
        raise NotApplicable(f"{algorithm.name} protects nobody")
    protected = [
        guarantee
        for built in (algorithm, *map(spec.build, AUDIT_GAMES))
        for guarantee in promises(built)
    ]
    for guarantee in protected:
        spent, asked = (
            guarantee.curve.delta(epsilon),
            f"epsilon={epsilon} and delta={delta} were asked for",
        )
        text = (
            f"the {guarantee.observer.value} is promised {guarantee.curve.words()}, where {asked}"
        )
        demand(spent <= delta, f"{text}: at this epsilon delta is {spent:.3g}")
        stated = guarantee.curve.stated()
        demand(stated[0] <= epsilon and stated[1] <= delta, f"{text}: it is quoted as {stated}")


def sensitivities_hold(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """Values handed to `release` on neighbouring inputs, replayed on the same outputs, differ by at most the declared sensitivity."""
    algorithm = private(spec)
    for trial, losses, neighbour in neighbours(60):
        first = record(algorithm, losses, noise.source(trial))
        second = record(algorithm, neighbour, noise.source(trial), first)
        demand(
            len(first.releases) == len(second.releases),
            "neighbouring inputs give another number of releases on the same outputs",
        )
        for a, b in zip(first.releases, second.releases, strict=True):
            moved = a.mechanism.distance(a.value, b.value)
            allowed = a.mechanism.sensitivity * (1 + 1e-9)
            text = f"{a.mechanism.purpose}: one changed loss moved a released value by {moved:.4g}"
            demand(moved <= allowed, f"{text}, declared sensitivity {a.mechanism.sensitivity:.4g}")


def nothing_raw_in_a_view(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """Given the same releases and coins, everything a protected observer sees is the same on neighbouring inputs."""
    algorithm = spec.build(SETTING)
    protected = promises(algorithm)
    if not protected:
        raise NotApplicable(f"{algorithm.name} protects nobody")
    for trial, losses, neighbour in neighbours(30):
        first, second = Everything(), Everything()
        ledger = record(algorithm, losses, noise.source(trial), None, (first,))
        record(algorithm, neighbour, noise.source(trial), ledger, (second,))
        for guarantee in protected:
            for (name, a), (_, b) in zip(
                _seen(algorithm, guarantee, first), _seen(algorithm, guarantee, second), strict=True
            ):
                demand(
                    same(a, b),
                    f"the {guarantee.observer.value} sees {name}, which depends on data beyond what was released",
                )


def _seen(algorithm: Algorithm, guarantee: Guarantee, kept: Everything) -> list[tuple[str, Any]]:
    """Everything in an observer's view, by name."""
    channels, view = algorithm.certificate.channels, guarantee.view
    seen: list[tuple[str, Any]] = []
    if Channel.PLAYS in view:
        seen.append(("plays", kept.all_plays()))
    if Channel.TIMING in view:
        seen.append(("the times of exchanges", [when for when, _, _ in kept.messages]))
    for message, position in ((algorithm.upload, 1), (algorithm.broadcast, 2)):
        for name, short in zip(
            field_names(message), (f.name for f in fields(message)), strict=True
        ):
            if channels.get(name) not in view:
                continue
            values = [getattr(entry[position], short) for entry in kept.messages]
            seen.append(
                (
                    name,
                    [np.sum(v, axis=0) for v in values]
                    if channels[name] is Channel.SUM
                    else values,
                )
            )
    return seen


def _releases(
    algorithm: Algorithm, seeds: int, noise: Randomness
) -> tuple[dict[Any, list[Any]], set[tuple[str, str]]]:
    """Releases of many runs by mechanism, and what was drawn outside of any."""
    rng = np.random.default_rng(7)
    found: dict[Any, list[Any]] = {}
    bare: set[tuple[str, str]] = set()
    setting = algorithm.setting
    for seed in range(seeds):
        losses = rng.random((setting.horizon, setting.clients, setting.experts)) * np.linspace(
            0, 1, setting.experts
        )
        losses *= (1.0, 0.2)[seed % 2]
        ledger = record(algorithm, losses, noise.source(seed))
        bare |= {(law, purpose) for _, law, purpose, _ in ledger.coins}
        for release in ledger.releases:
            found.setdefault(release.mechanism, []).append(release)
    return found, bare


def noise_follows_its_law(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """Real releases come from the certificate's mechanisms and follow their laws; 2/3 and 3/2 of the noise would be noticed.

    Outputs are mapped to numbers that are uniform under the declared law, for a Kolmogorov-Smirnov test.
    """
    algorithm = private(spec, replace(SETTING, clients=2, horizon=60))
    unused = _releases_follow(algorithm, noise)
    for louder in (
        _loud(spec) if unused else ()
    ):  # a threshold may be so far away that no short run comes near it
        unused &= _releases_follow(louder.build(algorithm.setting), noise)
    demand(
        not unused,
        f"the certificate names the mechanism {min(unused, default='')!r}, no run released through it",
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
                f"{purpose}: the sampler may as well have {factor:.2f} of the noise (p = {p:.1e})",
            )


def _releases_follow(algorithm: Algorithm, noise: Randomness) -> set[str]:
    """Holds the releases of real runs against the certificate's mechanisms; returns the purposes of those that were not used."""
    found, bare = _releases(algorithm, 150, noise)
    for law, purpose in sorted(bare):
        demand(law in FREE_COINS, f"{law} noise for {purpose!r} is drawn outside any mechanism")
    declared, coins = algorithm.certificate.mechanisms, np.random.default_rng(8)
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
    return {mechanism.purpose for mechanism in declared if mechanism not in found}


def _p_value(law: Any, pairs: list[tuple[Any, Any]], coins: np.random.Generator) -> float:
    flips = coins.random(len(pairs))
    mapped = [
        law.uniformise(value, output, coin)
        for (value, output), coin in zip(pairs, flips, strict=True)
    ]
    from scipy.stats import kstest

    return float(kstest(mapped, "uniform").pvalue)


def exact_ratio_below_certificate(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """On tiny games every transcript and every pair of neighbours is enumerated: no delta above the certified curve.

    The largest log-ratio is compared with the curve's epsilon at delta = 0, and the exact delta with the curve at smaller epsilon,
    also where later losses react to what was sent, in the worst way (`adversary`).

    The likelihoods must sum to one and agree with simulated frequencies, so that they speak of the code that runs; and the
    games must come within half of the certificate, or they say nothing. Unless the ledger holds the certificate (its composition is
    "sum"), a promise that the likelihood of broadcasts cannot check is broken: nobody else would.
    """
    algorithm = private(changed(spec, interval=1), AUDIT_GAMES[0])
    if not promises(algorithm):
        raise NotApplicable(f"{algorithm.name} protects nobody")
    alone = algorithm.certificate.composition != "sum"
    if algorithm.log_likelihood is None:
        demand(
            not alone,
            "a finite epsilon with neither an exact likelihood nor a compositional proof cannot be checked",
        )
        raise NotApplicable("the proof is compositional: held by the ledger")
    if alone:
        _all_in_broadcasts(algorithm)
    closest = max(
        _audit_game(variant.build(setting), setting, noise)
        for variant, setting in product(_loud(spec), AUDIT_GAMES)
    )
    if closest < LEAST_POWER:
        weak = f"the tiny games reach only {closest:.2f} of the certificate: offer audit_variants()"
        demand(not alone, weak)
        raise NotApplicable(weak)


def _loud(spec: AlgorithmSpec) -> tuple[AlgorithmSpec, ...]:
    """A large epsilon brings the worst ratio close to the certificate; with a small one frequencies tell more."""
    return spec.audit_variants() or tuple(
        changed(spec, epsilon=epsilon, interval=1) for epsilon in (24.0, 3.0)
    )


def _all_in_broadcasts(algorithm: Algorithm) -> None:
    """The likelihood speaks of broadcasts: not of what clients send, nor of what they play by noise of their own."""
    for guarantee in promises(algorithm):
        beyond = sorted(
            channel.value for channel in guarantee.view & {Channel.UPLOADS, Channel.SUM}
        )
        text = f"the {guarantee.observer.value} sees {beyond}, of which the likelihood of broadcasts says nothing"
        demand(not beyond, f"{text}, and the proof is not compositional")
    setting = algorithm.setting
    released = record(
        algorithm, np.ones((setting.horizon, setting.clients, setting.experts)), SeededNoise(0)
    ).releases
    text = "clients release noise of their own, of which the likelihood of broadcasts says nothing"
    demand(
        all(release.client is None for release in released),
        f"{text}, and the proof is not compositional",
    )


def _audit_game(algorithm: Algorithm, setting: Setting, noise: Randomness) -> float:
    """One tiny game, enumerated; returns how close the worst pair comes to a certificate: in log-ratio, or in delta if unbounded."""
    likelihood = algorithm.log_likelihood
    assert likelihood is not None
    promised = [guarantee.curve for guarantee in promises(algorithm)]
    curves = [curve for i, curve in enumerate(promised) if curve not in promised[:i]]
    shape = (setting.horizon, setting.clients, 2)
    vectors = [np.array(pair, float) for pair in product((0, 1), repeat=2)]
    quiet = np.zeros(shape)
    quiet[:, 1:] = 0.5  # further clients are in the background; the datum belongs to the first
    choosing = setting.horizon - 1  # no exchange follows the last round
    games = list(product(range(4), repeat=choosing))
    found = all_paths(2, lambda noise: broadcasts_of(algorithm, quiet, noise))
    order, levels = told_apart([by_round(sent, choosing) for sent in found], choosing)
    transcripts = [found[i] for i in order]

    def stream(game: tuple[int, ...]) -> np.ndarray:
        losses = quiet.copy()
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
    pairs = np.array(
        [
            (index[game], index[(*game[:when], other, *game[when + 1 :])])
            for game, when, other in product(games, range(choosing), range(4))
        ]
    )
    with np.errstate(invalid="ignore"):
        ratios = np.abs(table[pairs[:, 0]] - table[pairs[:, 1]])
    worst = float(np.nanmax(ratios))  # both impossible: not a number, and no matter
    closest, by_vector = 0.0, chances.reshape(*[len(vectors)] * choosing, -1)
    for curve in curves:
        pure, stated = curve.epsilon(0.0), curve.stated()[0]
        demand(
            worst <= pure * (1 + 1e-6),
            f"a transcript has log-ratio {worst:.4f}, a certificate says {pure:.4f}",
        )
        closest = max(closest, worst / pure) if pure < np.inf else closest
        for epsilon in np.linspace(0.0, stated, EPSILONS).tolist():
            exact = largest_delta(by_vector, levels, list(permutations(range(4), 2)), epsilon)
            allowed = curve.delta(epsilon)
            text = f"two neighbours have delta = {exact:.3e} at epsilon = {epsilon:.4f}"
            demand(
                exact <= allowed * (1 + 1e-6) + 1e-12, f"{text}, a certificate says {allowed:.3e}"
            )
            closest = (
                max(closest, exact / allowed) if allowed > 1e-9 and pure == np.inf else closest
            )
    loud = (1, 2, 1)[:choosing]
    _frequencies_match(algorithm, transcripts, np.exp(table[index[loud]]), stream(loud), noise)
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
        demand(repr(sent) in index, f"a run sent {sent}, which has no likelihood")
        counts[index[repr(sent)]] += 1
    alarm = noise.alarm / 10
    never = expected * runs * len(expected) < alarm  # to see any of them is as unlikely
    demand(not counts[never].any(), "a run sent what has likelihood zero")
    p = chance(counts, expected)
    demand(p > alarm, f"simulated transcripts do not follow the likelihood (p = {p:.1e})")


def chance(counts: np.ndarray, expected: np.ndarray) -> float:
    """How probable such counts are at most: an exact binomial test for each group of outcomes, times the number of tests."""
    runs, groups = int(counts.sum()), pooled(expected, LEAST_EXPECTED / counts.sum())
    seen = np.array([counts[group].sum() for group in groups])
    likely = np.array([expected[group].sum() for group in groups]).clip(max=1.0)
    tails = np.minimum(bdtr(seen, runs, likely), bdtrc(seen - 1, runs, likely))
    return min(1.0, 2 * len(groups) * float(tails.min()))


def pooled(expected: np.ndarray, least: float) -> list[np.ndarray]:
    """Indices of outcomes, rare ones together, so that every group is expected at least so often."""
    groups, group = list[np.ndarray](), list[int]()
    for index in np.argsort(expected):
        group.append(int(index))
        if expected[group].sum() >= least:
            groups.append(np.array(group))
            group = []
    if group:
        groups[-1:] = [np.concatenate([*groups[-1:], group])]
    return groups
