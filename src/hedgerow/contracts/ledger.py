"""The contract on composition: all releases about one datum cost at most what was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import sqrt

from hedgerow.contracts.neighbours import (
    SEEDED,
    TWO_RECORDS,
    Pair,
    Randomness,
    private,
    promises,
    replays,
    units,
)
from hedgerow.contracts.outcome import BrokenContract, NotApplicable, demand, same
from hedgerow.contracts.recording import Release
from hedgerow.core.certificate import Certificate, Channel, Guarantee, Observer, PrivacyCurve
from hedgerow.core.errors import Unsupported
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.units import Event, Unit
from hedgerow.privacy.budget import CURRENCIES, price
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.groups import of_one_person
from hedgerow.privacy.composition.steps import PureComposition
from hedgerow.privacy.curves import ApproximateDP, BoundedRange, GaussianDP, LaplaceDP, PureDP
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.privacy.mechanisms.additive import GaussianShare
from hedgerow.privacy.odometer import Odometer

Costs = frozenset[tuple[PrivacyCurve, int]]  # the costs of the counted releases, with multiplicity
_ROUNDING = 1e-9


def ledger_composes(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> None:
    """The releases that depend on one unit compose to at most what each observer is promised.

    The contract applies where the proof is compositional. The unit is that of the promise: an
    event, a person or a client. A release counts if changing the unit changes the value given to
    the mechanism while all earlier outputs stay the same. For an event, these are the releases of
    its client, and those of the server that depend on it beyond what its client released. Other
    clients learn about it only through earlier releases, so their releases cost nothing.

    With composition "sum" the costs of these releases are composed. With "moves" each costs what
    its mechanism states for the distance that the unit moves it. With "shifts" they must be
    Gaussian, and the length of all their shifts together, in units of noise, is compared; that of
    two records, too, if they enter separate releases.

    Every counted release is charged to every observer that has a promise. Uploads show the clients'
    releases and broadcasts the server's, raw or processed ("nothing raw in a view" checks that they
    show nothing else). A release that an observer does not see is charged to it too: the sum is
    then too large, never too small. The server is an exception where it sees what clients send. The
    noise that it draws itself hides nothing from it, so no release by the server may count.

    A sum that stays below a promise on every path is a filter (`proofs/odometer.md`), so parameters
    may be chosen during the run.
    """
    algorithm = private(spec)
    if algorithm.certificate.composition == "joint":
        raise NotApplicable("the proof is joint: 'sensitivities hold' and the exact ratio check it")
    if not promises(algorithm):
        raise NotApplicable(f"{algorithm.name} promises no protection")
    for unit in units(algorithm):
        pairs = replays(spec, unit, noise)
        stays_within(algorithm, unit, pairs)
        one = isinstance(unit, Event) and algorithm.certificate.grown == 1
        separate = algorithm.certificate.separate and one
        if algorithm.certificate.composition == "shifts" and separate:
            about = _of_two_records(_about(algorithm, unit))
            _shifts_stay_below(about, [_moved(pair) for pair in replays(spec, TWO_RECORDS, noise)])


def _about(algorithm: Algorithm, unit: Unit) -> list[Guarantee]:
    grown = algorithm.certificate.grown > 1  # all promises follow from one record
    return [guarantee for guarantee in promises(algorithm) if grown or guarantee.unit == unit]


def stays_within(algorithm: Algorithm, unit: Unit, pairs: Sequence[Pair]) -> None:
    """Demand that what these pairs release about a unit composes to at most what is promised."""
    about, moved = _about(algorithm, unit), [_moved(pair) for pair in pairs]
    for guarantee in about:
        for releases in moved:
            _hidden_by_others(guarantee, [release for release, _ in releases])
    if algorithm.certificate.composition == "shifts":
        _shifts_stay_below(about, moved, algorithm.certificate)
        return
    plans = {tuple(call.mechanism for call in pair.first.calls) for pair in pairs}
    by_move = algorithm.certificate.composition == "moves"
    found = {
        frozenset(Counter(_cost(one, far if by_move else None) for one, far in releases).items())
        for releases in moved
    }
    for costs in found:
        for guarantee in about:
            _stays_below(guarantee, costs, len(plans) == 1, algorithm.certificate)


def _moved(pair: Pair) -> list[tuple[Release, float]]:
    """The releases of a run that depend on the changed unit, and how far each moved."""
    return [
        (a, a.mechanism.distance(a.value, b.value))
        for a, b in pair.releases()
        if not same(a.value, b.value, by_value=True)
    ]


def _shifts_stay_below(
    promised: list[Guarantee],
    moved: list[list[tuple[Release, float]]],
    certificate: Certificate | None = None,
) -> None:
    """Compare the length of all shifts of a unit together, in units of noise, with the promise.

    Gaussian releases with given earlier outputs are one Gaussian vector, whose mean moves by the
    single shifts, each divided by the scale of its noise.
    """
    for release in (release for releases in moved for release, _ in releases):
        text = f"{release.mechanism.purpose}: only the shifts of Gaussian noise add up"
        demand(isinstance(release.mechanism, GaussianNoise), f"{text}, not {release.mechanism}")
    worst = max(
        sqrt(sum((distance / _scale(release)) ** 2 for release, distance in releases))
        for releases in moved
    )
    shift = _grown(GaussianDP(worst), certificate)
    for guarantee in promised:
        stated = guarantee.curve.stated()[0]
        for epsilon in (0.0, stated / 4, stated / 2, stated):
            allowed, found = guarantee.curve.delta(epsilon), shift.delta(epsilon)
            text = (
                f"the {guarantee.observer.value} is promised {guarantee.curve.words()} for"
                f" {guarantee.unit.words()}, whose shifts add up to mu = {worst:.4g}"
            )
            demand(
                found <= allowed * (1 + _ROUNDING),
                f"{text}: delta = {found:.4g} at epsilon = {epsilon:.4g}, not {allowed:.4g}",
            )


def _of_two_records(promised: list[Guarantee]) -> list[Guarantee]:
    """What the promises about one record say about two, if these enter separate releases."""
    return [
        replace(
            guarantee,
            unit=TWO_RECORDS,
            curve=of_one_person(guarantee.curve, 2, separate_reports=True),
        )
        for guarantee in promised
    ]


def _scale(release: Release) -> float:
    """The standard deviation of the noise of a release; shares of noise count together."""
    honest = release.mechanism.honest if isinstance(release.mechanism, GaussianShare) else 1
    return release.mechanism.scale * sqrt(honest)


def _hidden_by_others(guarantee: Guarantee, counted: list[Release]) -> None:
    """Demand that no promise about a server that sees uploads rests on the server's own noise."""
    if guarantee.observer is Observer.SERVER and guarantee.view & {Channel.UPLOADS, Channel.SUM}:
        for release in counted:
            demand(
                release.client is not None,
                "the promise about the server rests on noise that it draws itself"
                f" ({release.mechanism.purpose})",
            )


def _cost(release: Release, moved: float | None = None) -> PrivacyCurve:
    """The sharpest curve that the mechanism states for one release, or for that move."""
    mechanism = release.mechanism
    cost = mechanism.curve if moved is None else mechanism.cost_of_move(moved)
    if cost is None:
        raise BrokenContract(
            f"{mechanism.purpose}: a release whose mechanism states no cost cannot be part of a sum"
        )
    return cost


def _grown(curve: PrivacyCurve, certificate: Certificate | None) -> PrivacyCurve:
    """The curve of all records of a unit, where it follows from that of one."""
    if certificate is None or certificate.grown == 1:
        return curve
    return curve.of_records(certificate.grown, certificate.separate)


def _stays_below(
    guarantee: Guarantee, costs: Costs, planned: bool, certificate: Certificate
) -> None:
    """Compare with the promised curve at epsilon = 0 and at half and all of the stated epsilon."""
    stated = guarantee.curve.stated()[0]
    for epsilon in (0.0, stated / 2, stated):
        allowed, least = guarantee.curve.delta(epsilon), 1.0
        for rule in (_grown(found, certificate) for found in _rules(costs, planned)):
            # The delta at the stated epsilon implies a bound at every epsilon. Sometimes it is
            # better than the rule's own bound.
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
            text = (
                f"the {guarantee.observer.value} is promised delta = {allowed:.4g}"
                f" at epsilon = {epsilon:.4g}"
            )
            raise BrokenContract(f"{text}; a datum enters {spent}, {rest}")


@lru_cache(maxsize=256)
def _rules(costs: Costs, planned: bool) -> tuple[PrivacyCurve, ...]:
    """The composed curve by every proven rule that accepts these costs.

    Each of them is valid. The most expensive one to compute comes last.
    """
    return (*_sums(costs), *_equal_steps(costs), *(_plan(costs) if planned and costs else ()))


def _sums(costs: Costs) -> Iterator[PrivacyCurve]:
    """The sum in every currency that needs no delta; a single release costs what it states.

    A filter fixes its reserve of delta in advance, and a sum with a delta says nothing about that.
    """
    if sum(count for _, count in costs) == 1:
        yield from (cost for cost, _ in costs)
    for currency in CURRENCIES:
        with suppress(Unsupported):
            meter = Odometer(currency)
            for cost, count in costs:
                price(cost, currency)  # raises if the cost needs a delta
                for _ in range(count):
                    meter = meter.record(cost)
            yield meter.spent


def _equal_steps(costs: Costs) -> Iterator[PrivacyCurve]:
    """Rules for steps with a pure bound, each charged like the most expensive one."""
    steps, kinds = sum(count for _, count in costs), {type(cost) for cost, _ in costs}
    if costs and kinds <= {PureDP, LaplaceDP, BoundedRange}:
        largest = max(cost.epsilon(0.0) for cost, _ in costs)
        yield PureComposition(largest, steps)
        if kinds == {BoundedRange} and largest <= WIDEST:
            yield AdaptiveBoundedRange(largest, steps)


def _plan(costs: Costs) -> Iterator[PrivacyCurve]:
    with suppress(Unsupported):
        yield fixed_plan(sorted(costs, key=repr))
