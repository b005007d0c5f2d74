"""Weekly COVID-19 reports of hospitals as a game: which hospital is fullest next week?

The data are those of the United States Department of Health and Human Services (data set anag-cw7u,
"COVID-19 Reported Patient Impact and Hospital Capacity by Facility"): one row for each hospital and
week, with averages over seven days. An excerpt with the same columns works, too. The data are never
downloaded.

Every hospital is a client and reports one number, its COVID-19 patients divided by its beds. One
decider chooses a hospital each week and gains that share. What happens to unusual rows:

* A suppressed number of patients (-999999: more than 0, but fewer than 4) counts as `suppressed`.
* A hospital does not report in a week in which its row, its beds or its patients are missing, or in
  which it has no beds. It is then worth 0, and everyone knows that.
* More patients than beds count as 1.
* A hospital takes part if its weekly averages add up to at least `keep` patients in 148 weeks, pro
  rata in shorter data, and it has beds in some week.

Certificates hold for hospitals that report their own counts, in a list that was fixed by something
public. Here `keep` reads the counts, and suppression lets one patient move a share by 4 / beds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.losses import Gains
from hedgerow.core.setting import Setting
from hedgerow.core.validate import between, nearest, one_of
from hedgerow.environments.recorded.data import find, find_any
from hedgerow.environments.recorded.table import unreadable

Patients = Literal["confirmed", "suspected"]
Sizes = Literal["own", "fewest"]

OFFICIAL = "hhs/COVID-19_Reported_Patient_Impact_and_Hospital_Capacity_by_Facility.csv"
EXCERPT = "hhs/nm_pa_ca_facility_weekly.csv.gz"
FILES = (OFFICIAL, f"{OFFICIAL}.gz", "hhs/anag-cw7u.csv", EXCERPT)
SOURCE = "https://healthdata.gov/d/anag-cw7u (export as CSV)"
PATIENTS: Mapping[Patients, str] = {
    "confirmed": "total_adult_patients_hospitalized_confirmed_covid_7_day_avg",
    "suspected": "total_adult_patients_hospitalized_confirmed_and_suspected_covid_7_day_avg",
}
HOSPITAL, WEEK, STATE = "hospital_pk", "collection_week", "state"
BEDS = "all_adult_hospital_inpatient_beds_7_day_avg"
SUPPRESSED, MOST_SUPPRESSED = -999999.0, 4.0
PUBLISHED_WEEKS, FIRST, LAST = 148, "2020-08-09", "2023-06-04"


def counted() -> Patients:
    """The counts of the published experiment if the official file is there: suspected ones too.

    The excerpt has suspected cases in 5 of its 72 weeks, so there confirmed ones count.
    """
    excerpt = find_any(FILES, SOURCE).name == Path(EXCERPT).name
    return "confirmed" if excerpt else "suspected"


@dataclass(frozen=True)
class Tally:
    """How many hospitals were left out, and how many values of the others were unusual.

    `without_beds` and `too_few` count hospitals that are left out. `missing` counts weeks of
    hospitals without a report, `suppressed` numbers of patients that are suppressed, and `full`
    weeks of hospitals with more patients than beds.
    """

    without_beds: int
    too_few: int
    missing: int
    suppressed: int
    full: int


@dataclass(frozen=True, eq=False)
class HospitalWeeks:
    """The reports of the hospitals that take part; arrays are (weeks, hospitals).

    `beds` are public, and 0 where a hospital does not report.
    """

    hospitals: tuple[str, ...]
    weeks: tuple[date, ...]
    gains: Array
    beds: Array
    reporting: np.ndarray
    tally: Tally

    @cached_property
    def setting(self) -> Setting:
        """The size of the game."""
        weeks, hospitals = self.gains.shape
        family = Gains(low=0.0, high=(1.0,) * hospitals)
        return Setting(hospitals, hospitals, weeks, deciders=1, family=family)

    @cached_property
    def fewest(self) -> Array:
        """The fewest beds of a hospital that reports, in each week."""
        return np.where(self.reporting, self.beds, np.inf).min(axis=1)


@dataclass(frozen=True, kw_only=True)
class Hospitals(Environment):
    """Which hospital has the largest share of COVID-19 patients? One choice each week.

    Every hospital is a client and reports its own gain, COVID-19 patients divided by beds. The
    number of beds is public (it is the side information of the game), and so is which hospitals
    report. Runs with different seeds have the same data.

    Parameters
    ----------
    state
        Two letters, such as "NM" (default), "PA" or "CA".
    patients
        "confirmed" (default), or "suspected", which counts confirmed and suspected cases.
    suppressed
        The number of patients that a suppressed number counts as, in [0, 4). Default 0.
    keep
        A hospital takes part if its weekly averages add up to this many patients in 148 weeks (the
        length of the published experiment), pro rata in shorter data. Default 100. It reads the
        protected counts, so certificates do not cover who takes part.
    first, last
        The first and the last day on which a week may begin. Default: those of the published
        experiment.
    sizes
        The public size of a hospital, to which algorithms with `sized=True` scale their noise.
        "own" (default): the beds of the hospital in this week. "fewest": for all hospitals the
        fewest beds of any that reports in this week, as published.
    path
        The file, in the official format. None: the official file, or else the excerpt, in the
        folder `hhs` of a data folder.

    Examples
    --------
    >>> Hospitals(state="CA", keep=50.0)
    Hospitals(state='CA', patients='confirmed', suppressed=0.0, keep=50.0, ...)

    References
    ----------
    Jacobsen and Fawaz 2025, section 5.2.
    """

    state: str = "NM"
    patients: Patients = "confirmed"
    suppressed: float = 0.0
    keep: float = 100.0
    first: str = FIRST
    last: str = LAST
    sizes: Sizes = "own"
    path: str | None = None

    def __post_init__(self) -> None:
        letters = isinstance(self.state, str) and self.state.isascii() and self.state.isupper()
        if not letters or len(self.state) != 2:
            raise InvalidValue(
                f'Expected state={self.state!r} to be two capital letters such as "NM".'
            )
        one_of(self, patients=get_args(Patients), sizes=get_args(Sizes))
        few = 0 <= self.suppressed < MOST_SUPPRESSED
        if not few:
            raise InvalidValue(
                f"Expected suppressed={self.suppressed!r} in [0, 4): larger numbers are not "
                "suppressed."
            )
        between("keep", self.keep, 0.0, 1e9)
        for name in ("first", "last"):
            given = getattr(self, name)
            if _day(given) is None:
                raise InvalidValue(f'Expected {name}={given!r} to be a day such as "2020-08-09".')

    @property
    def weeks(self) -> HospitalWeeks:
        """The reports; a file is read once in a process, and again when it has changed."""
        path = find_any(FILES, SOURCE) if self.path is None else find(self.path, here=True)
        return _load(path, path.stat().st_mtime_ns, self)

    @property
    def side(self) -> Array:
        """What is public: the size of each hospital in each week, (weeks, hospitals, 1)."""
        data = self.weeks
        fewest = np.where(data.reporting, data.fewest[:, None], 0.0)
        return (data.beds if self.sizes == "own" else fewest)[..., None]

    @property
    def setting(self) -> Setting:
        return self.weeks.setting

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self.weeks.hospitals

    @property
    def client_names(self) -> tuple[str, ...]:
        return self.weeks.hospitals

    @property
    def traits(self) -> Traits:
        return Traits(features=frozenset({Feature.SIDE_INFORMATION, Feature.SOME_REPORT}))

    def start(self, seed: int) -> tuple[Block, int]:
        data = self.weeks
        return Block(
            data.gains[:, None, :], data.gains[..., None], side=self.side, reporting=data.reporting
        ), 0

    def block(
        self, state: tuple[Block, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[Block, int]]:
        (whole, at), stop = state, state[1] + rounds
        assert whole.side is not None
        assert whole.reporting is not None
        block = Block(
            whole.losses[at:stop],
            whole.reports[at:stop],
            side=whole.side[at:stop],
            reporting=whole.reporting[at:stop],
        )
        return block, (whole, stop)

    def fingerprint(self) -> str:
        data = self.weeks
        return fingerprint_of(data.gains, self.side, data.reporting, repr(self))


@lru_cache(maxsize=32)
def _load(path: Path, changed: int, game: Hospitals) -> HospitalWeeks:
    return read_reports(path, game)


def read_reports(path: Path, game: Hospitals) -> HospitalWeeks:
    """Read the rows of one state and apply the rules of the module, in this order.

    Weeks outside `first` and `last` do not count. A state, a week or a number that makes no sense
    is named in the error.
    """
    rows = _rows(path, game)
    names, place = np.unique(rows[HOSPITAL], return_inverse=True)
    days, when = np.unique(rows[WEEK], return_inverse=True)
    cell = when * len(names) + place
    _refuse_repeats(cell, names, days, path)
    shape = (len(days), len(names))
    beds, patients = np.full(shape, np.nan), np.full(shape, np.nan)
    beds.flat[cell], patients.flat[cell] = rows[BEDS], rows[PATIENTS[game.patients]]
    hidden = patients == SUPPRESSED
    patients[hidden] = game.suppressed
    beds[~(beds > 0)] = np.nan  # none, suppressed or missing
    return _in_the_game(names, days, beds, patients, hidden, path, game)


def _in_the_game(
    names: np.ndarray,
    days: np.ndarray,
    beds: Array,
    patients: Array,
    hidden: np.ndarray,
    path: Path,
    game: Hospitals,
) -> HospitalWeeks:
    least = game.keep * len(days) / PUBLISHED_WEEKS
    reporting = np.isfinite(beds) & np.isfinite(patients)
    able, enough = reporting.any(axis=0), np.nansum(patients, axis=0) >= least
    kept = able & enough
    if kept.sum() < 2:
        raise InvalidValue(
            f"{kept.sum()} of {len(names)} hospitals of state={game.state!r} in {path} have beds "
            f"and at least {least:.4g} patients in {len(days)} weeks; a choice needs two. "
            "Choose another state, or lower keep."
        )
    some = reporting[:, kept].any(axis=1)  # a week without any report is not a round
    beds, patients, hidden = (part[np.ix_(some, kept)] for part in (beds, patients, hidden))
    reporting = reporting[np.ix_(some, kept)]
    share = np.where(reporting, patients / np.where(reporting, beds, 1.0), 0.0)
    tally = Tally(
        without_beds=int((~able).sum()),
        too_few=int((able & ~enough).sum()),
        missing=int((~reporting).sum()),
        suppressed=int((hidden & reporting).sum()),
        full=int((share > 1).sum()),
    )
    return HospitalWeeks(
        tuple(names[kept].tolist()),
        tuple(date.fromordinal(int(day)) for day in days[some]),
        round_to_lattice(np.minimum(share, 1.0)),
        np.where(reporting, beds, 0.0),
        reporting,
        tally,
    )


def _refuse_repeats(cell: np.ndarray, names: np.ndarray, days: np.ndarray, path: Path) -> None:
    found, counts = np.unique(cell, return_counts=True)
    if (counts > 1).any():
        when, who = divmod(int(found[counts > 1][0]), len(names))
        day = date.fromordinal(int(days[when]))
        raise InvalidValue(
            f"Hospital {names[who]!s} has more than one row for the week of {day} in {path}. "
            "Keep one."
        )


def _rows(path: Path, game: Hospitals) -> dict[str, np.ndarray]:
    """The rows of the state and the weeks of a game: names, days as ordinals, and numbers."""
    numbers = (BEDS, PATIENTS[game.patients])
    table = _read(path, (HOSPITAL, WEEK, STATE, *numbers))
    states = table[STATE]
    mine = np.flatnonzero(states == game.state)
    if not len(mine):
        known = nearest(game.state, sorted(set(states.tolist())))
        raise InvalidValue(f"{path} has no row of state={game.state!r}; {known}")
    lines = mine + 2
    texts, inverse = np.unique(table[WEEK][mine], return_inverse=True)
    days = [_day(text) for text in texts]
    for at, day in enumerate(days):
        if day is None:
            line = int(lines[(inverse == at).argmax()])
            raise _broken(path, line, f"Expected {WEEK} to be a day such as 2020-08-09.")
    when = np.array([day.toordinal() for day in days if day is not None])[inverse]
    first, last = (_day(text) for text in (game.first, game.last))
    assert first is not None
    assert last is not None
    inside = (when >= first.toordinal()) & (when <= last.toordinal())
    if not inside.any():
        raise InvalidValue(
            f"{path} has no week of state={game.state!r} from {game.first} to {game.last}. "
            "Choose other days."
        )
    found = {HOSPITAL: table[HOSPITAL][mine][inside], WEEK: when[inside]}
    for name in numbers:
        found[name] = _numbers(table[name][mine][inside], lines[inside], name, path)
    if (found[HOSPITAL] == "").any():
        line = int(lines[inside][(found[HOSPITAL] == "").argmax()])
        raise _broken(path, line, f"Expected {HOSPITAL} to name a hospital.")
    return found


def _numbers(texts: np.ndarray, lines: np.ndarray, name: str, path: Path) -> Array:
    """Numbers of at least 0, `SUPPRESSED`, or NaN where a cell is empty; 1,234 is 1234."""
    plain = np.array([text.strip().replace(",", "") or "nan" for text in texts.tolist()])
    try:
        values = plain.astype(float)
    except ValueError:
        for text, line in zip(texts.tolist(), lines.tolist(), strict=True):
            if not _is_number(text.strip().replace(",", "") or "nan"):
                raise _broken(path, line, f"Expected {name} to be a number.") from None
        raise
    wrong = ((values < 0) & (values != SUPPRESSED)) | np.isinf(values)
    if wrong.any():
        at = int(wrong.argmax())
        text = f"Expected {name} >= 0, or -999999 where it is suppressed."
        raise _broken(path, int(lines[at]), text)
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _broken(path: Path, line: int, text: str) -> InvalidValue:
    return InvalidValue(f"{path}, line {line}: {text}")


def _day(text: Any) -> date | None:
    """The day in a text of one of the official forms; None if there is none.

    >>> {str(_day(t)) for t in ("2020-08-09T00:00:00.000", "2020/08/09", "08/09/2020")}
    {'2020-08-09'}
    """
    for form in ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y"):
        try:
            return datetime.strptime(str(text)[:10], form).date()
        except ValueError:
            continue
    return None


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Some columns of a CSV file as texts, without reading the others."""
    with needs("runs"):
        import pyarrow as pa
        from pyarrow import csv

    options = csv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=False,
    )
    try:
        table = csv.read_csv(path, convert_options=options)
    except pa.ArrowKeyError as error:
        missing = str(error).partition("'")[2].partition("'")[0]
        raise InvalidValue(
            f"The column {missing!r} is missing in {path}. "
            f"Expected a file of the official format, from {SOURCE}."
        ) from error
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from None
    return {name: table[name].to_numpy(zero_copy_only=False) for name in columns}
