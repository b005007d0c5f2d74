"""Does `hr.choose` without data rank algorithms as real data do? Rank correlations on twelve games.

The typical streams were chosen on the twelve stations of the examples and on FluSight by peaks,
with all states and other groups. MovieLens and FluSight by week were not looked at. Run it with
`HEDGEROW_DATA=... python tools/rank_correlation.py`; it takes a few minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import hedgerow as hr
from hedgerow.core.noise import SeededNoise
from hedgerow.environments.recorded.flusight import Scale
from hedgerow.studies.choose.ranking import Ranking
from hedgerow_papers.gao2024.movielens import MovieLensGenres


def games() -> Iterator[tuple[str, np.ndarray]]:
    """Losses of shape (rounds, clients, experts), by name."""
    states = SeededNoise(38).server()
    scales: tuple[Scale, ...] = ("peak", "week")
    for scale in scales:
        losses = hr.FluSight(scale=scale).losses
        yield f"flu by {scale}", losses
        for group in range(3):
            some = states.draw("uniform", "states", (losses.shape[1],)).argsort()[:12]
            yield f"flu by {scale}, twelve states {group}", losses[:, some]
    users = MovieLensGenres()
    first, second = (users.start(seed)[0] for seed in (0, 1))
    yield "films, 10 clients", first
    yield "films, first 120 rounds", first[:120]
    yield "films, 40 clients", second.reshape(-1, 18)[:6000].reshape(150, 40, 18)
    yield "films, 3 clients", first[:, :3]


def correlation(guessed: Ranking, measured: Ranking, column: str) -> float:
    """Of the regrets on drawn streams with those on the data."""
    truth = {row.label: row.expected.mean for row in measured.private}
    pairs = [
        (getattr(row, column).mean, truth[row.label])
        for row in guessed.private
        if row.label in truth
    ]
    one, other = zip(*pairs, strict=True)
    found: Any = spearmanr(one, other)
    return float(found.statistic)


def main() -> None:
    """Print one line for each game, and the means."""
    rows = []
    for name, losses in games():
        measured = hr.choose(np.round(losses * 2**20) / 2**20, seeds=6)
        rounds, clients, experts = losses.shape
        size = {"clients": clients, "experts": experts, "horizon": rounds}
        usual, law = (hr.choose(known, **size, seeds=4) for known in ("fixed", "law"))
        asked = ((usual, "expected"), (usual, "worst"), (law, "expected"))
        rows.append([correlation(guess, measured, column) for guess, column in asked])
        print(f"{name:28}", *(f"{value:6.2f}" for value in rows[-1]), flush=True)
    print(f"{'mean':28}", *(f"{value:6.2f}" for value in np.mean(rows, axis=0)))
    print("columns: default; its worst streams; --losses law")


if __name__ == "__main__":
    main()
