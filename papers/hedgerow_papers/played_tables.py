"""What the two papers' tables of regret have in common when they are played: bounds and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import bound_words
from hedgerow.studies.config import StudyConfig
from hedgerow_papers.experiments.experiment import Check, Studies
from hedgerow_papers.experiments.pictures import footer


def rounds(done: Studies) -> int:
    """The horizon, which is the same in all studies."""
    return next(iter(done.values())).config.environment.setting.rounds


def proven(value: float | None, horizon: int) -> str:
    """A proven bound in words, where it covers the losses.

    >>> proven(None, 512), proven(52.3456, 512), proven(512.0, 512)
    ('none', '52.35', 'vacuous')
    """
    if value is None:
        return "none"
    return bound_words(value) if value < horizon else "vacuous"


def bound_checks(done: Studies) -> Iterator[Check]:
    """Every regret against the bound that is proven for its losses, where the bound can fail."""
    for losses, study in done.items():
        for name, value in study.regret_bounds().items():
            if value is not None and value < rounds(done):
                text = f"{losses}/{name}/lower end of regret, limit the proven bound"
                yield Check(text, study.regret(name).low, "<=", value)


def draw_table(
    groups: Mapping[str, Mapping[str, Estimate]],
    path: Path,
    title: str,
    size: str,
    done: Studies,
    studies: Callable[[bool], Mapping[str, StudyConfig]],
) -> None:
    """Draw the regrets of a table as bars: a group per line of it."""
    from hedgerow_papers.panels import plot_bars

    title = f"{title} ({size}, T = {rounds(done)})"
    plot_bars(groups, path, title, "regret per client (log scale)", footer(done, studies))
