"""`hr.combine`: combine the forecasts of a table, in a simulation, beside what is usually done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.algorithms.mixture.private_mixture import Mixture, PrivateMixture
from hedgerow.core.certificate import Certificate
from hedgerow.core.combination import Combination
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.transcript import Everything
from hedgerow.core.validate import at_least
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.combining import CombinedLoss, Combining
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.environments.recorded.table import coded
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.evaluation.best_point import best_point
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import aligned

GAIN = "less than the plain average"
PLAIN, PRIVATE, AT_HOME = "plain average", "private", "private, mixed and kept at home"
TRIMMED = 0.2  # of the forecasts, at each end
DRAWS = 2000  # of the bootstrap
FEW = 30  # rounds


@dataclass(frozen=True)
class Way:
    """One way to combine: its mean loss, and how much less that is than with the plain average.

    `loss` is in percent of the scale, or in the units of the target if there is no scale. It is a
    mean over runs, with the 95 % interval of this mean. `gain` has a 95 % interval for one run on
    other rounds of the same kind, over blocks of consecutive rounds and the noise of a run.
    """

    name: str
    loss: Estimate
    gain: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        noise = self.loss.half_width if self.loss.count > 1 else None
        interval = [self.low, self.high]
        row = {"name": self.name, "loss": self.loss.mean, "loss_half_width": noise}
        return row | {"gain": self.gain, "gain_interval": interval}


@dataclass(frozen=True, eq=False)
class Combined:
    """What `hr.combine` found: a row for each way to combine, weights, and the certificate.

    Parameters
    ----------
    table
        The forecasts and targets.
    ways
        The rows, from the plain average on.
    weights
        The weights (rounds, models) of one private run.
    certificate
        Who can learn what from a private run.
    notes
        What a reader should know.
    """

    table: ForecastTable
    ways: tuple[Way, ...]
    weights: Array
    certificate: Certificate
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Way:
        for way in self.ways:
            if way.name == name:
                return way
        raise InvalidValue(f"Unknown way {name!r}; {', '.join(way.name for way in self.ways)}")

    def cells(self) -> list[list[str]]:
        """Headings and rows of text."""
        head = ["", "loss in %" if _unit(self.table) == 100 else "loss", GAIN]
        return [head, *(_cells(way) for way in self.ways)]

    def __str__(self) -> str:
        stated = f"certificate of a private run: {self.certificate.server.words()}"
        notes = (f"note: {note}" for note in self.notes)
        return "\n".join([aligned(self.cells()), *notes, stated])

    def plot(self, path: str | Path) -> None:
        """Draw the weights over time, by model."""
        from hedgerow.evaluation.plots.weights import draw_weights

        title = "Weights of the forecasts, learned from one private bit for each target"
        draw_weights(self.weights, self.table.models, self.table.rounds, Path(path), title)

    def to_dict(self) -> dict[str, Any]:
        """The rows, the last weights by model, and the certificate in words."""
        last = dict(zip(self.table.models, map(float, self.weights[-1]), strict=True))
        words = [guarantee.words() for guarantee in self.certificate.guarantees]
        rows = [way.to_dict() for way in self.ways]
        return {"ways": rows, "weights": last, "certificate": words, "notes": list(self.notes)}


def _cells(way: Way) -> list[str]:
    noisy = way.loss.count > 1
    loss = f"{way.loss.mean:.2f}" + (f" ± {way.loss.half_width:.2f}" if noisy else "")
    gain = "" if way.name == PLAIN else f"{way.gain:.2f} [{way.low:.2f}, {way.high:.2f}]"
    return [way.name, loss, gain]


def combine(
    table: ForecastTable,
    *,
    epsilon: float = 1.0,
    loss: CombinedLoss = "absolute",
    quantile: float = 0.5,
    largest_error: float = 1.0,
    cut_off: float | None = None,
    late: int = 0,
    seeds: int = 20,
    published: bool = False,
) -> Combined:
    """Combine forecasts privately, in a simulation, and compare with what is usually done.

    The rows are the plain average, the median, the trimmed mean, the best single model and the best
    fixed combination in hindsight, what each client learns alone, what all learn together without
    privacy, and with it. The last row is a client that mixes the private combination with its own
    learner and keeps the result at home, which costs no privacy.

    Parameters
    ----------
    table
        The forecasts, targets and scale; `hr.ForecastTable.read` reads a file.
    epsilon
        The privacy budget of one target. Default 1.
    loss
        "absolute" (default), "pinball" or "squared".
    quantile
        The quantile that forecasts are for, in (0, 1). Only with "pinball".
    largest_error
        The largest error whose slope counts in full, in units of the scale. Only with "squared".
    cut_off
        A loss counts at most this much in the rows, in units of the scale. None (default): all of
        it. What is learned does not depend on it.
    late
        After how many further rounds a target becomes known. Default 0: before the next round.
    seeds
        How many private runs are made, at least 1. Default 20.
    published
        Whether clients show the forecasts that they use. False (default): they keep them at home,
        so they may mix in their own learner, and the certificate says that nobody sees plays.

    Returns
    -------
    Combined
        Print it for the rows; `plot` draws the weights by model; `certificate` says who can learn
        what. It is a simulation with seeded noise: real data need a deployment.

    Examples
    --------
    >>> import hedgerow as hr
    >>> states = hr.FluSight().combination  # 53 states, 12 models, 56 weeks
    >>> found = hr.combine(states, cut_off=1.0, seeds=5)
    >>> round(found["plain average"].loss.mean, 2)
    15.72
    >>> found["private"].loss.mean < 15.5
    True
    """
    at_least("seeds", seeds, 1)
    at_least("late", late, 0)
    if cut_off is not None and not cut_off > 0:
        raise InvalidValue(f"Expected cut_off={cut_off!r} > 0.")
    if not isinstance(table, ForecastTable):
        kind = type(table).__name__
        raise InvalidValue(
            f"Expected a table, got {kind}. Read one with hr.ForecastTable.read, or take "
            "hr.FluSight().combination."
        )
    game = Combining(table, loss, quantile, largest_error)
    played: Environment = Delayed(of=game, rounds=late) if late else game
    scores = partial(np.einsum, "tid,tid->ti", game.records[..., :-1])
    judge, spec = _Judge(game, cut_off), PrivateMixture(epsilon)
    runs = [_weights(spec, played, seed) for seed in range(seeds)]
    ways = {
        **_usual(game),
        "alone, not private": [scores(_weights(Mixture(), played, 0, alone=True))],
        "together, not private": [scores(_weights(Mixture(), played, 0))],
        PRIVATE: [scores(weights) for weights in runs],
    }
    if not published:
        spec = replace(spec, at_home=True)
        ways[AT_HOME] = [scores(_weights(spec, played, seed)) for seed in range(seeds)]
    certificate = spec.build(game.setting).in_game(played.traits).certificate
    there = table.present.argmax(axis=1)  # in every round a client that is there
    weights = runs[0][np.arange(len(there)), there]
    rows = tuple(judge.way(name, several) for name, several in ways.items())
    return Combined(table, rows, weights, certificate, _notes(game))


def _unit(table: ForecastTable) -> float:
    """Losses are shown in percent of a scale, or as they are."""
    return 1.0 if (np.asarray(table.scale) == 1).all() else 100.0


def _notes(game: Combining) -> tuple[str, ...]:
    table = game.table
    notes = ["simulation: not private"]
    if len(table.rounds) < FEW:
        notes.append(f"{len(table.rounds)} rounds are few: intervals over them are rough")
    for k, name in enumerate(table.models):
        if repeats(table.forecasts[..., k], table.targets):
            notes.append(
                f"{name} repeats the last target, so it shows a secret: NO_CARRY_OVER does not hold"
            )
    notes += coded(table.targets)
    gaps = int((~table.awake & table.present[..., None]).sum())
    if gaps:
        notes.append(f"{gaps:,} missing forecasts count as the median of the others")
    absent = int((~table.present).sum())
    if absent:
        notes.append(f"{absent:,} pairs of round and client have no target or no forecast")
    if not (game.records[..., :-1] != 0).any():
        notes.append("all models have the same forecasts, so there is nothing to learn")
    return tuple(notes)


def repeats(forecasts: Array, targets: Array) -> bool:
    """Whether most forecasts of a model are the last target itself.

    >>> targets = np.arange(6.0)[:, None]
    >>> repeats(targets - 1, targets), repeats(targets + 1, targets)
    (True, False)
    """
    now, before = forecasts[1:], targets[:-1]
    both = ~np.isnan(now) & ~np.isnan(before)
    return bool(both.any() and (now == before)[both].mean() > 0.5)


def _weights(spec: AlgorithmSpec, game: Environment, seed: int, *, alone: bool = False) -> Array:
    """The weights (rounds, clients, models) that clients play."""
    setting = replace(game.setting, clients=1) if alone else game.setting
    algorithm = spec.build(setting).in_game(game.traits)
    seen = Everything(wants_messages=False)
    simulate(algorithm, game, seed, sinks=[seen], alone=alone)
    return seen.all_plays()


def _usual(game: Combining) -> dict[str, list[Array]]:
    """What is usually done, as forecasts in the units of the records."""
    table, forecasts = game.table, game.records[..., :-1]
    scale = np.asarray(table.scale)
    centre = table.filled.mean(axis=2)
    family, present = game.setting.family, table.present

    def units(values: Array) -> Array:
        return (values - centre) / scale

    models, records = forecasts.shape[2], game.records[present]
    vertices = np.eye(models)
    charged = [float(family.value(records, one[None]).sum()) for one in vertices]
    best = int(np.argmin(charged))
    found = best_point(family, models, lambda: [records])
    return {
        PLAIN: [units(table.average)],
        "median": [units(table.median)],
        "trimmed mean": [units(_trimmed(table))],
        "best single model, in hindsight": [forecasts[..., best]],
        "best combination, in hindsight": [forecasts @ found.point],
    }


def _trimmed(table: ForecastTable) -> Array:
    """The mean of the forecasts without a fifth of them at each end."""
    ordered = np.sort(table.forecasts, axis=2)  # NaN at the end
    count = table.awake.sum(axis=2, keepdims=True)
    place, cut = np.arange(ordered.shape[2]), np.floor(TRIMMED * count)
    kept = (place >= cut) & (place < count - cut)
    total = np.where(kept, ordered, 0.0).sum(axis=2)
    return total / np.maximum(kept.sum(axis=2), 1)


@dataclass(frozen=True)
class _Judge:
    """Losses of forecasts, in percent, and intervals over blocks of rounds."""

    game: Combining
    cut_off: float | None

    def by_round(self, forecasts: Array) -> Array:
        """The loss of each round, summed over clients."""
        family, targets = self.game.setting.family, self.game.records[..., -1]
        assert isinstance(family, Combination)
        squared = self.game.loss == "squared"
        paid = (forecasts - targets) ** 2 if squared else family.of.charge(forecasts, targets)
        paid = paid if self.cut_off is None else np.minimum(paid, self.cut_off)
        there = self.game.table.present
        return _unit(self.game.table) * np.where(there, paid, 0.0).sum(axis=1)

    def way(self, name: str, several: list[Array]) -> Way:
        present = self.game.table.present
        losses = np.array([self.by_round(one) for one in several])
        saved = self.by_round(_usual_plain(self.game)) - losses
        counts = present.sum(axis=1)
        low, high = block_interval(saved, counts)
        total = counts.sum()
        estimate = Estimate.of(losses.sum(axis=1) / total)
        return Way(name, estimate, float(saved.mean(axis=0).sum() / total), low, high)


def _usual_plain(game: Combining) -> Array:
    table = game.table
    return (table.average - table.filled.mean(axis=2)) / np.asarray(table.scale)


def block_interval(sums: Array, counts: Array, draws: int = DRAWS) -> tuple[float, float]:
    """Return a 95 % interval of what one run on other rounds of the same kind would have.

    `sums` has the sum of each round for every run (runs, rounds), and `counts` how many numbers are
    in each of them. Two things vary: the rounds, by a bootstrap of blocks of about the cube root of
    their number, which follow each other in a circle; and the noise, by a run drawn for each of
    these. As blocks are few, the interval is widened as that of a mean is (Student's t).

    >>> low, high = block_interval(np.ones((1, 30)), np.full(30, 2))
    >>> low, high
    (0.5, 0.5)
    """
    runs, rounds = sums.shape
    size = ceil(rounds ** (1 / 3))
    blocks = ceil(rounds / size)
    source = SeededNoise(0).server()
    starts = (source.draw("uniform", "blocks", (draws, blocks)) * rounds).astype(np.int64)
    places = (starts[..., None] + np.arange(size)).reshape(draws, -1)[:, :rounds] % rounds
    mean, total = sums.mean(axis=0), counts.sum()
    found = mean[places].sum(axis=1) / np.maximum(counts[places].sum(axis=1), 1)
    if runs > 1:
        chosen = (source.draw("uniform", "runs", (draws,)) * runs).astype(np.int64)
        apart = (sums.sum(axis=1) - mean.sum()) / total
        found += sqrt(runs / (runs - 1)) * apart[chosen]
    centre = mean.sum() / total
    wider = _widened(blocks)
    low, high = centre + wider * (np.quantile(found, [0.025, 0.975]) - centre)
    return float(low), float(high)


def _widened(blocks: int) -> float:
    """What a normal interval of a mean is multiplied by if there are few blocks."""
    from scipy.special import stdtrit  # scipy.stats takes a third of a second to load

    free = max(blocks - 1, 1)
    return float(stdtrit(free, 0.975) / 1.96 * sqrt(blocks / free))
