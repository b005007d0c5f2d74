"""A run that is going on, or was interrupted: a hidden folder `.NAME.partial` beside the run folder NAME it will become.

It holds `unfinished.toml` (what the run depends on), `results/` (what is finished, see `result_store`) and `lock`, held by the
process at work and let go by the system when that ends, however it ends. The run folder is written inside and moved out whole.
"""

from __future__ import annotations

import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import tomli_w

from hedgerow.core.errors import Interrupted, InvalidValue
from hedgerow.studies.storage.identity import Table, differences
from hedgerow.studies.storage.results import ResultStore

try:
    import fcntl
except ImportError:  # no such locks on this system: two processes on one run are not noticed
    fcntl = None

RECORD = "unfinished.toml"
FORMAT = "hedgerow unfinished run 1"
RUNS = Path("runs")


@dataclass(frozen=True)
class Unfinished:
    """`path` is the hidden folder; `options` are what the command line needs besides the folder to go on."""

    path: Path
    name: str
    total: int
    seeds: int
    keep: bool
    options: tuple[str, ...]
    identity: Table

    @property
    def final(self) -> Path:
        return self.path.with_name(self.path.name.removeprefix(".").removesuffix(".partial"))

    @property
    def store(self) -> ResultStore:
        return ResultStore(self.path / "results")

    @property
    def draft(self) -> Path:
        """Where the run folder is written."""
        return self.path / "run"

    @property
    def study(self) -> Table:
        return self.identity["studies"]["study"]

    @property
    def command(self) -> str:
        return shlex.join(["hedgerow", "run", "--resume", str(self.final), *self.options])

    def words(self) -> str:
        algorithms = self.total // self.seeds
        parts = f"{algorithms} algorithm{'s' if algorithms > 1 else ''} x {self.seeds} seed{'s' if self.seeds > 1 else ''}"
        return f"{len(self.store)} of {self.total} results ({parts}) are safe"


def hidden(final: Path) -> Path:
    return final.with_name(f".{final.name}.partial")


def read_unfinished(path: Path) -> Unfinished:
    """The unfinished run in a hidden folder."""
    file = path / RECORD
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        if table.get("format") != FORMAT:
            raise InvalidValue(
                f"Expected {path} in the format {FORMAT!r}, it is in {table.get('format')!r}: finish it with that version."
            )
        values = {key: table[key] for key in ("name", "total", "seeds", "keep", "identity")}
        return Unfinished(path, options=tuple(table["options"]), **values)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InvalidValue(
            f"Cannot read {file}: {error}. Delete {path}, nothing of it can be used."
        ) from error


def at_work(path: Path) -> bool:
    """Whether a process is running it now."""
    try:
        with _claimed(path):
            return False
    except InvalidValue:
        return True
    except OSError:  # a place where nobody can write
        return False


def all_unfinished(place: Path, name: str | None = None) -> list[Unfinished]:
    """The interrupted runs in a folder, the latest first; perhaps only those of one study file."""
    found = []
    for file in sorted(place.glob(f".*.partial/{RECORD}"), reverse=True):
        with suppress(InvalidValue):
            run = read_unfinished(file.parent)
            if not run.final.exists() and not at_work(run.path) and name in (None, run.name):
                found.append(run)
    return found


def unfinished_at(folder: Path) -> Unfinished | None:
    """The unfinished run that a user means by a folder: its hidden one, or the name it will have."""
    for path in (folder, hidden(folder)) if folder.name else (folder,):
        if (path / RECORD).is_file():
            return read_unfinished(path)
    return None


def refuse_unfinished(folder: Path) -> None:
    """Whoever reads finished runs says so, and how to finish this one."""
    run = None if folder.is_dir() and not (folder / RECORD).exists() else unfinished_at(folder)
    if run is not None:
        how = "it is running now" if at_work(run.path) else f"finish it with `{run.command}`"
        raise InvalidValue(
            f"Expected a finished run at {folder}, it is unfinished: {run.words()}; {how}."
        )


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, or say that somebody else does."""
    with (path / "lock").open("a") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidValue(
                    f"Expected {path} to be at rest, another process is running it now."
                ) from error
        yield


def _candidates(out: Path | None, name: str) -> Iterator[Path]:
    """Names for a run folder: the one asked for, or new ones under `runs/`."""
    if out is not None:
        yield out
        return
    base = RUNS / f"{datetime.now():%Y%m%d-%H%M%S}-{name}"
    yield base
    yield from (base.with_name(f"{base.name}-{number}") for number in count(2))


def _check_free(out: Path) -> None:
    if out.exists():
        raise InvalidValue(f"Expected --out {out} to be new, it exists.")
    path = hidden(out)
    if not path.exists():
        return
    if not (path / RECORD).is_file():
        raise InvalidValue(f"Expected --out {out} to be new, {path} is in its way.")
    if at_work(path):
        raise InvalidValue(f"Expected --out {out} to be new, another process is running it now.")
    run = read_unfinished(path)
    raise InvalidValue(
        f"Expected --out {out} to be new, it is unfinished: {run.words()}. To go on: {run.command} (or delete {path})."
    )


@contextmanager
def new_run(
    out: Path | None, name: str, identity: Table, keep: bool = False, options: Sequence[str] = ()
) -> Iterator[Unfinished]:
    """Begin a run; when the body has ended well, what it wrote into `draft` is the run folder `final`."""
    if out is not None:
        _check_free(out)
    study = identity["studies"]["study"]
    seeds, total = study["seeds"], study["seeds"] * len(study["algorithms"])
    record = {
        "format": FORMAT,
        "name": name,
        "total": total,
        "seeds": seeds,
        "keep": keep,
        "options": list(options),
        "identity": identity,
    }
    parent, new = RUNS if out is None else out.parent, None
    with ExitStack() as held:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            new = Path(mkdtemp(prefix=".new-run-", dir=parent))
            (new / "results").mkdir()
            (new / RECORD).write_text(tomli_w.dumps(record), encoding="utf-8")
            held.enter_context(_claimed(new))
            path = _take_name(new, out, name)
        except OSError as error:
            raise InvalidValue(f"Cannot write to {out or RUNS}: {error.strerror}.") from error
        finally:
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)  # it has another name if all went well
        run = Unfinished(path, name, total, seeds, keep, tuple(options), identity)
        yield held.enter_context(_finishing(run, empty_parent=out is None))


def _take_name(new: Path, out: Path | None, name: str) -> Path:
    """Move a prepared folder to the first free name, in one step: two runs never share one."""
    for final in _candidates(out, name):
        if final.exists() or hidden(final).exists():
            continue
        try:
            new.rename(hidden(final))
        except OSError:
            if hidden(final).exists():
                continue
            raise
        return hidden(final)
    assert out is not None
    _check_free(out)
    raise InvalidValue(f"Expected --out {out} to be new, another process has just begun it.")


@contextmanager
def resumed(run: Unfinished, identity: Table, keep: bool) -> Iterator[Unfinished]:
    """Go on with an unfinished run, which must be the very same."""
    if run.final.exists():
        raise InvalidValue(
            f"Expected {run.final} to be unfinished, it is there already; {run.path} can be deleted."
        )
    different = _differences(run, identity, keep)
    if different:
        more = f" and {len(different) - 6} more" if len(different) > 6 else ""
        raise InvalidValue(
            f"Expected {run.final} to be resumed as it began; {'; '.join(different[:6])}{more}. "
            f"Make it the same again, or begin anew without --resume."
        )
    with _claimed(run.path):
        for file in run.store.folder.glob("*.draft"):
            file.unlink(missing_ok=True)
        shutil.rmtree(run.draft, ignore_errors=True)
        with _finishing(run, empty_parent=False):
            yield run


def _differences(run: Unfinished, identity: Mapping[str, Any], keep: bool) -> list[str]:
    """By names that a user knows; other losses are told where nothing else explains them."""

    def told(table: Mapping[str, Any], keep: bool) -> Table:
        sources = {key: value for key, value in table.items() if key not in ("studies", "losses")}
        return {"--keep": keep, **table["studies"]["study"], **sources}

    losses = [{"losses": table["losses"]["study"]} for table in (run.identity, identity)]
    return differences(told(run.identity, run.keep), told(identity, keep)) or differences(*losses)


@contextmanager
def _finishing(run: Unfinished, empty_parent: bool) -> Iterator[Unfinished]:
    """The run folder appears when the body ends well; else what is finished stays, or nothing where nothing is."""
    try:
        run.draft.mkdir()
        yield run
        try:
            run.draft.rename(run.final)
        except OSError as error:
            raise InvalidValue(f"Cannot write to {run.final}: {error.strerror}.") from error
    except BaseException as error:
        if run.final.exists() and not run.draft.exists():
            shutil.rmtree(run.path, ignore_errors=True)
            raise Interrupted(f"Interrupted; the run was complete: {run.final}") from error
        shutil.rmtree(run.draft, ignore_errors=True)
        if len(run.store) == 0:
            shutil.rmtree(run.path, ignore_errors=True)
            if empty_parent:
                with suppress(OSError):  # not empty: other runs are in it
                    run.path.parent.rmdir()
            raise
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"Interrupted; {run.words()}. To go on: {run.command}") from error
        error.add_note(f"{run.words()}. To go on once that is mended: {run.command}")
        raise
    shutil.rmtree(run.path, ignore_errors=True)
