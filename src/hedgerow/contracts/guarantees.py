"""Contracts about privacy: the certificate covers everything, sensitivities and noise are as declared, the exact ratio stays below."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import chdtrc

from hedgerow.contracts.outcome import NotApplicable, demand
from hedgerow.contracts.recording import Ledger, RecordingNoise, all_paths
from hedgerow.core.certificate import DEFAULT_VIEWS, Channel, Observer
from hedgerow.core.messages import field_names
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded import RecordedArray

SETTING = Setting(clients=3, experts=5, horizon=40)
AUDIT_EPSILON = 6.0
FREE_COINS = frozenset({"uniform"})


def covers_every_message(spec: AlgorithmSpec) -> None:
    """Every message field has a channel, every channel is in somebody's view, every observer has one guarantee for all it sees."""
    algorithm = spec.build(SETTING)
    certificate = algorithm.certificate
    for name in (*field_names(algorithm.upload), *field_names(algorithm.broadcast)):
        demand(name in certificate.channels, f"the certificate does not cover the message field {name}")
    observers = [guarantee.observer for guarantee in certificate.guarantees]
    demand(sorted(o.value for o in observers) == sorted(o.value for o in Observer), "expected exactly one guarantee for each observer")
    seen: set[Channel] = set()
    for guarantee in certificate.guarantees:
        least = DEFAULT_VIEWS[guarantee.observer]
        if Channel.SUM in guarantee.view:
            least = least - {Channel.UPLOADS}
        missing = sorted(channel.value for channel in least - guarantee.view)
        demand(not missing, f"the {guarantee.observer.value} also sees {missing}, its guarantee leaves that out")
        demand(guarantee.curve.epsilon(0.0) == np.inf or guarantee.proof is not None, f"no proof for the {guarantee.observer.value}")
        seen |= guarantee.view
    unseen = sorted(channel.value for channel in set(certificate.channels.values()) - seen)
    demand(not unseen, f"nobody's view holds {unseen}")
    if not algorithm.private:
        for guarantee in certificate.guarantees:
            demand(guarantee.curve.epsilon(0.0) in (0.0, np.inf), "a finite epsilon is claimed without any mechanism")


def _private(spec: AlgorithmSpec, setting: Setting = SETTING) -> Algorithm:
    algorithm = spec.build(setting)
    if not algorithm.private:
        raise NotApplicable(f"{algorithm.name} has no mechanisms")
    return algorithm


def _record(algorithm: Algorithm, losses: np.ndarray, source: NoiseSource, replay: Ledger | None = None) -> Ledger:
    noise = RecordingNoise(source, replay)
    simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False)
    return noise.ledger


def sensitivities_hold(spec: AlgorithmSpec) -> None:
    """Values handed to `release` on neighbouring inputs, replayed on the same outputs, differ by at most the declared sensitivity."""
    algorithm = _private(spec)
    rng = np.random.default_rng(11)
    rounds, clients, experts = SETTING.horizon, SETTING.clients, SETTING.experts
    for trial in range(60):
        losses = rng.random((rounds, clients, experts)) if trial % 2 else rng.integers(0, 2, (rounds, clients, experts)).astype(float)
        neighbour = losses.copy()
        when, who = int(rng.integers(rounds)) if trial % 3 else 0, int(rng.integers(clients))
        losses[when, who] = rng.integers(0, 2, experts) if trial % 4 else 0.0
        neighbour[when, who] = 1.0 - losses[when, who]
        first = _record(algorithm, losses, SeededNoise(trial))
        second = _record(algorithm, neighbour, SeededNoise(trial), first)
        demand(len(first.releases) == len(second.releases), "neighbouring inputs give another number of releases on the same outputs")
        for a, b in zip(first.releases, second.releases, strict=True):
            moved = a.mechanism.distance(a.value, b.value)
            allowed = a.mechanism.sensitivity * (1 + 1e-9)
            text = f"{a.mechanism.purpose}: one changed loss moved a released value by {moved:.4g}"
            demand(moved <= allowed, f"{text}, declared sensitivity {a.mechanism.sensitivity:.4g}")


def _releases(algorithm: Algorithm, seeds: int) -> tuple[dict[str, list[Any]], set[tuple[str, str]]]:
    rng = np.random.default_rng(7)
    found: dict[str, list[Any]] = {}
    bare: set[tuple[str, str]] = set()
    setting = algorithm.setting
    for seed in range(seeds):
        losses = rng.random((setting.horizon, setting.clients, setting.experts)) * np.linspace(0, 1, setting.experts)
        losses *= (1.0, 0.2)[seed % 2]
        ledger = _record(algorithm, losses, SeededNoise(seed))
        bare |= set(ledger.bare_draws)
        for release in ledger.releases:
            found.setdefault(release.mechanism.purpose, []).append(release)
    return found, bare


def noise_follows_its_law(spec: AlgorithmSpec) -> None:
    """Real releases come from the certificate's mechanisms and follow their laws; 2/3 and 3/2 of the noise would be noticed.

    Outputs are mapped to numbers that are uniform under the declared law, for a Kolmogorov-Smirnov test.
    """
    algorithm = _private(spec, replace(SETTING, clients=2, horizon=60))
    found, bare = _releases(algorithm, 150)
    for law, purpose in sorted(bare):
        demand(law in FREE_COINS, f"{law} noise for {purpose!r} is drawn outside any mechanism")
    coins = np.random.default_rng(8)
    for purpose, mechanism in algorithm.certificate.mechanisms.items():
        demand(purpose in found, f"the certificate names the mechanism {purpose!r}, no run released through it")
        for release in found[purpose]:
            demand(release.mechanism == mechanism, f"{purpose}: released by {release.mechanism}, the certificate is about {mechanism}")
        p = _p_value(mechanism, [(r.value, r.output) for r in found[purpose]], coins)
        demand(p > 1e-4, f"{purpose}: the releases do not follow the declared law (p = {p:.1e})")
        probe, noise = mechanism.probe(), SeededNoise(12).server()
        samples = [(probe, mechanism.sample(probe, noise)) for _ in range(3000)]
        p = _p_value(mechanism, samples, coins)
        demand(p > 1e-4, f"{purpose}: the sampler does not follow the declared law (p = {p:.1e})")
        for factor in (2 / 3, 3 / 2):
            p = _p_value(mechanism.scaled(factor), samples, coins)
            demand(p < 1e-4, f"{purpose}: the sampler may as well have {factor:.2f} of the noise (p = {p:.1e})")


def _p_value(law: Any, pairs: list[tuple[Any, Any]], coins: np.random.Generator) -> float:
    flips = coins.random(len(pairs))
    mapped = [law.uniformise(value, output, coin) for (value, output), coin in zip(pairs, flips, strict=True)]
    from scipy.stats import kstest

    return float(kstest(mapped, "uniform").pvalue)


def ledger_composes(spec: AlgorithmSpec) -> None:
    """Where the proof is compositional, the releases of every run add up to at most the certificate."""
    algorithm = _private(spec)
    if algorithm.certificate.composition != "sum":
        raise NotApplicable("the proof is joint: held by sensitivities and the exact ratio")
    rng = np.random.default_rng(9)
    bound = algorithm.certificate.guarantee(Observer.PUBLIC).curve.epsilon(0.0)
    for seed in range(20):
        losses = rng.random((SETTING.horizon, SETTING.clients, SETTING.experts))
        spent = sum(r.mechanism.curve.bound for r in _record(algorithm, losses, SeededNoise(seed)).releases)
        demand(spent <= bound * (1 + 1e-9), f"a run released {spent:.4g}, the certificate says {bound:.4g}")


def exact_ratio_below_certificate(spec: AlgorithmSpec) -> None:
    """On a tiny game every transcript and every pair of neighbours is enumerated: no log-ratio above the certified epsilon.

    The likelihoods must sum to one and agree with simulated frequencies, so that they speak of the code that runs.
    """
    setting = Setting(clients=1, experts=2, horizon=3)
    loud = replace(spec, epsilon=AUDIT_EPSILON) if hasattr(spec, "epsilon") else spec  # pyright: ignore[reportArgumentType, reportCallIssue]
    algorithm = _private(loud, setting)
    if algorithm.log_likelihood is None:
        raise NotApplicable(f"{algorithm.name} declares no exact likelihood")
    likelihood = algorithm.log_likelihood
    certified = algorithm.certificate.guarantee(Observer.PEER).curve.epsilon(0.0)
    rounds = [np.array(pair, float) for pair in product((0, 1), repeat=2)]
    games = list(product(range(4), repeat=3))
    transcripts = all_paths(2, lambda noise: _broadcasts(algorithm, np.zeros((3, 1, 2)), noise))
    table = np.array([[likelihood(t, np.stack([rounds[i] for i in game])[:, None, :]) for t in transcripts] for game in games])
    totals = np.exp(table).sum(axis=1)
    demand(bool(np.allclose(totals, 1.0, atol=1e-9)), f"likelihoods sum to {totals.min():.6f}..{totals.max():.6f}, not to 1")
    worst = 0.0
    for (i, a), (j, b) in product(enumerate(games), repeat=2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
            both = np.isfinite(table[i]) | np.isfinite(table[j])
            worst = max(worst, float(np.abs(table[i, both] - table[j, both]).max()))
    demand(worst <= certified * (1 + 1e-6), f"a transcript has log-ratio {worst:.4f}, the certificate says {certified:.4f}")
    _frequencies_match(algorithm, transcripts, np.exp(table[games.index((1, 2, 1))]), np.stack([rounds[i] for i in (1, 2, 1)])[:, None, :])


def _broadcasts(algorithm: Algorithm, losses: np.ndarray, noise: NoiseSource) -> list[Any]:
    """All broadcasts of one run, the opening one included."""
    opened: list[Any] = []
    server = algorithm.server

    class Opening:
        """The same server, which notes what it opens with."""

        def open(self, noise: Any) -> tuple[Any, Any]:
            broadcast, state = server.open(noise)
            opened.append(broadcast)
            return broadcast, state

        def aggregate(self, state: Any, uploads: Any, noise: Any) -> tuple[Any, Any]:
            return server.aggregate(state, uploads, noise)

    everything = Everything()
    simulate(replace(algorithm, server=Opening(), advance=None), RecordedArray(losses), 0, sinks=[everything], noise=noise)
    return [opened[-1], *(broadcast for _, _, broadcast in everything.messages)]


def _frequencies_match(algorithm: Algorithm, transcripts: list[Any], expected: np.ndarray, losses: np.ndarray, runs: int = 4000) -> None:
    index = {repr(t): i for i, t in enumerate(transcripts)}
    counts = np.zeros(len(transcripts))
    for seed in range(runs):
        sent = _broadcasts(algorithm, losses, SeededNoise(seed))
        demand(repr(sent) in index, f"a run sent {sent}, which has no likelihood")
        counts[index[repr(sent)]] += 1
    demand(bool((counts[expected * runs < 1e-9] == 0).all()), "a run sent what has likelihood zero")
    order = np.argsort(expected)
    groups = np.minimum(np.cumsum(expected[order] * runs) // 25, 10**6)
    pooled = [(counts[order][groups == g].sum(), expected[order][groups == g].sum() * runs) for g in np.unique(groups)]
    observed, wanted = np.array(pooled).T
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    p = float(chdtrc(max(1, len(wanted) - 1), statistic))
    demand(p > 1e-5, f"simulated transcripts do not follow the likelihood (chi-square p = {p:.1e})")
