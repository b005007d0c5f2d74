"""The one search for step sizes behind zhang2024-figure3: many runs at once, on other data seeds.

The paper states neither its steps nor how it found them. Every method gets the same grid. For each
method the step with the least test loss at the end is kept, as a mean over the data seeds and noise
draws given here, which no reported run uses. The search looks at test data and is not private: it
says what the best step can do, as the paper's figures do.

This simulation plays logistic regression only, all steps and methods together. It follows
`OnlineSGD`; a test compares the two without noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from hedgerow.core.batch import Batch
from hedgerow.core.lattice import Array
from hedgerow.environments.drawn.generated import generator
from hedgerow.running_sums.kinds import Kind, factorise
from hedgerow_papers.zhang2024.streams import FederatedSynthetic

GRID = tuple(round(0.05 * 2 ** (k / 2), 3) for k in range(22))  # 0.05 to 72
SEEDS = (1000, 1001)  # data
DRAWS = 2  # of noise, for each of them
END = (0.92, 0.94, 0.96, 0.98, 1.0)  # where the test loss is taken, as parts of the game


@dataclass(frozen=True)
class Trial:
    """One run: a step and its noise.

    `multiplier` is the noise of one upload divided by the sensitivity, before the factorisation; 0
    means none. `average` is that of the released models, 0 means none.
    """

    step: float
    kind: Kind = "independent"
    multiplier: float = 0.0
    average: float = 0.0
    local: bool = True


@lru_cache(maxsize=16)
def _decoded(kind: Kind, rounds: int, width: int, seed: int) -> Any:
    """Noise of running sums for a sensitivity and a multiplier of 1; kinds share draws."""
    factors = factorise(kind, rounds)
    decoding = factors.decoding()
    drawn = generator(seed, 4).standard_normal((decoding.shape[1], width))
    return (factors.sensitivity() * (decoding @ drawn)).astype(np.float32)


def _log_loss(margins: Array) -> Array:
    return np.logaddexp(0.0, -margins)


def final_losses(
    game: FederatedSynthetic, trials: Sequence[Trial], seed: int, noise_seed: int
) -> Array:
    """Return the test loss of each trial, as a mean over the end of the game."""
    family, rounds, width = game.family, game.horizon, game.features
    assert isinstance(family, Batch)
    steps, keep = (
        np.array([getattr(t, name) for t in trials], np.float32)[:, None]
        for name in ("step", "average")
    )
    local = np.array([t.step / game.examples * t.local for t in trials], np.float32)[:, None]
    spread = 2 / game.examples / sqrt(game.clients)  # 2 B_g / tau, in the mean over clients
    kinds = list(dict.fromkeys(t.kind for t in trials))
    noise = np.stack([_decoded(kind, rounds, width, noise_seed) for kind in kinds])
    own = np.array([kinds.index(t.kind) for t in trials])
    scales = np.array([t.multiplier * spread for t in trials], np.float32)[:, None]
    test = game.test(seed)
    signed = (test[:, :-1] * test[:, -1:]).astype(np.float32)
    ends = {round(at * rounds) for at in END}
    sums = np.zeros((len(trials), width), np.float32)
    trail, found, state = np.zeros_like(sums), [], game.start(seed)
    for r in range(1, rounds + 1):
        model = -steps * (sums + scales * noise[own, r - 2] if r > 1 else sums)
        trail = keep * trail + (1 - keep) * model
        if r in ends:
            shown = trail / (1 - keep**r)
            parts = [
                _log_loss(shown[k : k + 64] @ signed.T).mean(axis=1)
                for k in range(0, len(trials), 64)
            ]
            found.append(np.concatenate(parts))
        block, state = game.block(state, 1, None)
        examples = family.examples(block.losses[0])
        rows = (examples[..., :-1] * examples[..., -1:]).astype(np.float32)
        margins = np.einsum("sd,ktd->skt", model, rows, optimize=True)
        alike = np.einsum("ktd,kud->ktu", rows, rows)
        pulls = np.empty_like(margins)
        for t in range(game.examples):  # what earlier local steps add to the margin
            moved = np.einsum("skq,kq->sk", pulls[..., :t], alike[:, t, :t])
            pulls[..., t] = 1 / (1 + np.exp(np.minimum(margins[..., t] + local * moved, 60.0)))
        sums -= np.einsum("skt,ktd->sd", pulls, rows, optimize=True) / (
            game.clients * game.examples
        )
    return np.mean(found, axis=0)


def losses_by_step(
    game: FederatedSynthetic, methods: Mapping[str, Trial]
) -> dict[str, dict[float, float]]:
    """Return the mean test loss of each method at each step; `step` of a method is ignored.

    Parameters
    ----------
    game
        The game; it is played with the data seeds of the search.
    methods
        The methods by name.

    Examples
    --------
    >>> game = FederatedSynthetic(clients=4, features=5, examples=2, horizon=20)
    >>> found = losses_by_step(game, {"noiseless": Trial(1.0)})["noiseless"]
    >>> found[3.2] < found[0.05]
    True
    """
    trials = [
        Trial(step, m.kind, m.multiplier, m.average, m.local)
        for m in methods.values()
        for step in GRID
    ]
    total = np.zeros(len(trials))
    for seed in SEEDS:
        for draw in range(DRAWS):
            total += final_losses(game, trials, seed, seed * DRAWS + draw)
    table = total.reshape(len(methods), len(GRID)) / (len(SEEDS) * DRAWS)
    return {
        name: dict(zip(GRID, row.tolist(), strict=True))
        for name, row in zip(methods, table, strict=True)
    }


def best_steps(game: FederatedSynthetic, methods: Mapping[str, Trial]) -> dict[str, float]:
    """Return the step of each method with the least mean test loss.

    Parameters
    ----------
    game
        The game; it is played with the data seeds of the search.
    methods
        The methods by name.

    Examples
    --------
    >>> game = FederatedSynthetic(clients=4, features=5, examples=2, horizon=20)
    >>> best_steps(game, {"noiseless": Trial(1.0)})["noiseless"] > 1
    True
    """
    found = losses_by_step(game, methods)
    return {name: min(losses, key=losses.__getitem__) for name, losses in found.items()}
