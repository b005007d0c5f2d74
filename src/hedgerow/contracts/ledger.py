"""The contract about composition: what a run releases about one datum adds up to no more than was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hedgerow.contracts.neighbours import SEEDED, Randomness, neighbours, private, promises, record
from hedgerow.contracts.outcome import BrokenContract, NotApplicable, demand, same
from hedgerow.contracts.recording import Release
from hedgerow.core.certificate import Channel, Guarantee, Observer, PrivacyCurve
from hedgerow.core.errors import Unsupported
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.privacy.budget import CURRENCIES
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.steps import PureComposition
from hedgerow.privacy.curves import ApproximateDP, BoundedRange, LaplaceDP, PureDP
from hedgerow.privacy.odometer import Odometer

Costs = frozenset[
    tuple[PrivacyCurve, int]
]  # what the releases that count cost, and how many cost that
_ROUNDING = 1e-9


def ledger_composes(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """Where the proof is compositional, the releases one datum enters compose to at most what each observer is promised.

    A datum belongs to one client. A release counts for it if another datum in its place changes the value handed to the mechanism
    while everything released before stays as it was: releases of the datum's own client, and those of the server that depend on
    it beyond what its client released. Other clients know it through earlier releases only, so theirs cost nothing and the sum is
    one client's, not everybody's.

    All that count are charged to every observer who is promised anything. Uploads show the clients' releases and broadcasts the
    server's, as they are or worked on ("nothing raw in a view" holds that there is nothing else); one that an observer does not
    see at all is charged to it all the same, which is never too little. The exception is the server where it sees what clients send:
    noise that it draws itself hides nothing from it, so a release of its own must not count.

    A sum that stays below a promise on every path is a filter's (`proofs/odometer.md`), so parameters may be chosen during the run.
    """
    algorithm = private(spec)
    if algorithm.certificate.composition != "sum":
        raise NotApplicable("the proof is joint: held by sensitivities and the exact ratio")
    promised = promises(algorithm)
    if not promised:
        raise NotApplicable(f"{algorithm.name} protects nobody")
    plans, found = set[tuple[Any, ...]](), set[Costs]()
    for plan, counted in _counted(algorithm, noise):
        for guarantee in promised:
            _hidden_by_others(guarantee, counted)
        plans.add(plan)
        found.add(frozenset(Counter(_cost(release) for release in counted).items()))
    for costs in found:
        for guarantee in promised:
            _stays_below(guarantee, costs, planned=len(plans) == 1)


def _counted(
    algorithm: Algorithm, noise: Randomness
) -> Iterator[tuple[tuple[Any, ...], list[Release]]]:
    """For each run its mechanisms in order, and the releases that count for the datum in which its neighbour differs."""
    for trial, losses, neighbour in neighbours(60):
        first = record(algorithm, losses, noise.source(trial))
        second = record(algorithm, neighbour, noise.source(trial), first)
        demand(
            len(first.releases) == len(second.releases),
            "neighbouring inputs give another number of releases on the same outputs",
        )
        counted = [
            a
            for a, b in zip(first.releases, second.releases, strict=True)
            if not same(a.value, b.value)
        ]
        yield tuple(release.mechanism for release in first.releases), counted


def _hidden_by_others(guarantee: Guarantee, counted: list[Release]) -> None:
    if guarantee.observer is Observer.SERVER and guarantee.view & {Channel.UPLOADS, Channel.SUM}:
        for release in counted:
            demand(
                release.client is not None,
                f"the server is protected by noise that it draws itself ({release.mechanism.purpose})",
            )


def _cost(release: Release) -> PrivacyCurve:
    """The sharpest curve that the mechanism states for one release."""
    mechanism = release.mechanism
    cost = mechanism.curve
    if cost is None:
        raise BrokenContract(
            f"{mechanism.purpose}: a release without a cost of its own cannot be part of a sum"
        )
    return cost


def _stays_below(guarantee: Guarantee, costs: Costs, planned: bool) -> None:
    """At three points of the promised curve: total variation, half of the stated epsilon, and the stated epsilon."""
    stated = guarantee.curve.stated()[0]
    for epsilon in (0.0, stated / 2, stated):
        allowed, least = guarantee.curve.delta(epsilon), 1.0
        for rule in _rules(costs, planned):
            # what holds at the stated epsilon implies something everywhere, now and then more than the rule itself says
            implied = ApproximateDP(stated, rule.delta(stated)).delta(epsilon)
            least = min(least, implied, rule.delta(epsilon))
            if least <= allowed * (1 + _ROUNDING):
                break
        else:
            spent = " and ".join(sorted(f"{count} of {cost.words()}" for cost, count in costs))
            rest = (
                f"which compose to delta = {least:.4g} there"
                if least < 1
                else "for which no rule of composition is proven"
            )
            text = f"the {guarantee.observer.value} is promised delta = {allowed:.4g} at epsilon = {epsilon:.4g}"
            raise BrokenContract(f"{text}; a datum enters {spent}, {rest}")


@lru_cache(maxsize=256)
def _rules(costs: Costs, planned: bool) -> tuple[PrivacyCurve, ...]:
    """The composition by every proven rule that takes these costs. Each of them holds; the dearest to compute comes last."""
    return (*_sums(costs), *_equal_steps(costs), *(_plan(costs) if planned and costs else ()))


def _sums(costs: Costs) -> Iterator[PrivacyCurve]:
    for currency in CURRENCIES:
        with suppress(Unsupported):
            meter = Odometer(currency)
            for cost, count in costs:
                for _ in range(count):
                    meter = meter.record(cost)
            yield meter.spent


def _equal_steps(costs: Costs) -> Iterator[PrivacyCurve]:
    """Steps with a pure bound, taken as if each were the dearest."""
    steps, kinds = sum(count for _, count in costs), {type(cost) for cost, _ in costs}
    if costs and kinds <= {PureDP, LaplaceDP, BoundedRange}:
        dearest = max(cost.epsilon(0.0) for cost, _ in costs)
        yield PureComposition(dearest, steps)
        if kinds == {BoundedRange} and dearest <= WIDEST:
            yield AdaptiveBoundedRange(dearest, steps)


def _plan(costs: Costs) -> Iterator[PrivacyCurve]:
    with suppress(Unsupported):
        yield fixed_plan(sorted(costs, key=repr))
