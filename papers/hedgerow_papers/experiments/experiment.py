"""The parts of a reproduction: studies to run, published values, expectations and a verdict."""

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
Holds = Literal["as printed", "with other constants", "no"]


@dataclass(frozen=True)
class Check:
    """One expectation: `obtained op limit`.

    `published` is the paper's value where its text states one.
    """

    name: str
    obtained: float
    op: Literal["<=", ">="]
    limit: float
    published: float | None = None

    @property
    def passed(self) -> bool:
        return self.obtained <= self.limit if self.op == "<=" else self.obtained >= self.limit


@dataclass(frozen=True)
class TextTable:
    """A table of results to print; the first columns may repeat the entry above.

    >>> print(TextTable("gains", ("state", "gain"), (("NM", "1.0"), ("NM", "2.0"))).markdown())
    | state | gain |
    |---|---|
    | NM | 1.0 |
    |  | 2.0 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def printed(self) -> list[tuple[str, ...]]:
        """The rows, without a first entry that is the same as the one above."""
        above = ("", *(row[0] for row in self.rows))
        return [
            ("" if row[0] == last else row[0], *row[1:])
            for row, last in zip(self.rows, above, strict=False)
        ]

    def markdown(self) -> str:
        """The table for a page of the documentation."""
        lines = [self.columns, *self.printed()]
        head, *rest = [f"| {' | '.join(line)} |" for line in lines]
        return "\n".join([head, "|" + "---|" * len(self.columns), *rest])


def judged(as_printed: bool, otherwise: bool = False) -> Holds:
    """What a claim comes to; `otherwise` says whether it holds with other constants."""
    return "as printed" if as_printed else "with other constants" if otherwise else "no"


def claim_words(holds: Holds | None) -> str:
    """The verdict on a claim, for readers.

    >>> claim_words("no"), claim_words("as printed")
    ('does not hold', 'holds as printed')
    """
    if holds is None:
        return "not judged"
    return "does not hold" if holds == "no" else f"holds {holds}"


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's claim holds, the checks of our expectations, a note and tables.

    `holds` is about the claim as printed, under the privacy that it claims, against the right
    baseline. "with other constants": something near it holds, and the note says what. None: there
    is no claim that we can test, or a quick run cannot.
    """

    holds: Holds | None
    checks: tuple[Check, ...]
    message: str = ""
    tables: tuple[TextTable, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One published figure or table.

    Parameters
    ----------
    id
        The name on the command line and of the files.
    title
        The heading in the gallery.
    claim
        The claim that is tested: the sentence of the paper, if there is one.
    studies
        Takes `quick` and returns the study configurations by name.
    judge
        Takes the finished studies and returns the verdict.
    draw
        Writes the main picture to the given path, `{id}.png`. It may write more pictures beside it,
        `{id}-something.png` (`pictures.sibling`); all of them are shown.
    data
        The files that the experiment needs, each with the address where it can be obtained.
    resumable
        Whether every finished result is kept while the experiment runs, so that an interrupted one
        goes on where it stopped when it is started again: for experiments of many hours.
    of_state
        Takes two letters and returns the same experiment on the data of this state. None: it is not
        about states.
    """

    id: str
    title: str
    claim: str
    studies: Callable[[bool], dict[str, StudyConfig]]
    judge: Callable[[Studies], Verdict]
    draw: Callable[[Studies, Path], None]
    data: tuple[tuple[str, str], ...] = ()
    resumable: bool = False
    of_state: Callable[[str], Experiment] | None = None


def spent(algorithm: Algorithm) -> float:
    """The epsilon that the certificate proves against an observer of everything public."""
    return algorithm.certificate.guarantee(Observer.PUBLIC).curve.stated()[0]


def lower_end_of_difference(larger: Estimate, smaller: Estimate) -> float:
    """Lower end of the 95 % Welch interval for the difference of two means: above 0 is significant.

    Both sides use the same seeds. If they are correlated at all, they are so positively, and the
    interval is too wide.
    """
    return welch(larger, smaller).low
