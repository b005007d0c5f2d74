"""What a reproduction is: studies to run, what was published, what we expect, and a verdict that could have been the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hedgerow.core.certificate import Observer
from hedgerow.core.protocol import Algorithm
from hedgerow.evaluation.statistics import Estimate, welch
from hedgerow.studies.config import StudyConfig
from hedgerow.studies.study import Study

Studies = Mapping[str, Study]


@dataclass(frozen=True)
class Check:
    """One expectation: `obtained op limit`. `published` is the paper's value where its text states one."""

    name: str
    obtained: float
    op: Literal["<=", ">="]
    limit: float
    published: float | None = None

    @property
    def passed(self) -> bool:
        return self.obtained <= self.limit if self.op == "<=" else self.obtained >= self.limit


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's claim was seen (None: it makes none we can test), and our own expectations."""

    reproduces: bool | None
    checks: tuple[Check, ...]
    message: str = ""


@dataclass(frozen=True)
class Experiment:
    """One published figure or table. `studies(quick)` are configuration objects; `data` names files it cannot do without.

    `draw` writes its main picture to the path it is given, `{id}.png`, and may write others beside it, `{id}-something.png`
    (`pictures.sibling`); all of them are shown.
    """

    id: str
    title: str
    claim: str
    studies: Callable[[bool], dict[str, StudyConfig]]
    judge: Callable[[Studies], Verdict]
    draw: Callable[[Studies, Path], None]
    data: tuple[tuple[str, str], ...] = ()


def spent(algorithm: Algorithm) -> float:
    """The epsilon that its certificate proves against whoever sees all that is public."""
    return algorithm.certificate.guarantee(Observer.PUBLIC).curve.stated()[0]


def lower_end_of_difference(larger: Estimate, smaller: Estimate) -> float:
    """Lower end of the 95 % Welch interval for the difference of two means: above 0 is significant.

    Both sides use the same seeds, which makes them, if anything, positively correlated and the interval too wide.
    """
    return welch(larger, smaller).low
