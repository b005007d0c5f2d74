"""An unfinished run, running or interrupted: a hidden folder `.NAME.partial` beside NAME.

It holds `unfinished.toml` (what the run depends on), `results/` (finished results, one small file
each) and `lock`. The running process holds the lock, and the system releases it when that process
ends for any reason. The run folder is written inside the hidden folder and then moved out in one
step.

The file of a result gets its name only when it is complete. It is a zip with checksums: one that a
crash has damaged counts as missing. Arrays are stored without loss, so a result is read back to the
last bit. Several processes may save at the same time.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from hedgerow.core.errors import Interrupted, InvalidValue
from hedgerow.core.extras import needs
from hedgerow.evaluation.following import Following
from hedgerow.evaluation.recorder import RunResult
from hedgerow.studies.storage.identity import Table, identity_differences
from hedgerow.studies.storage.place import check_new

Message = tuple[int, str, int, str, list[float]]
"""Round, direction, client (-1: the server), field, values."""

_WHOLE = tuple(f.name for f in fields(RunResult) if f.type == "int" and f.name != "seed")
_REAL = tuple(f.name for f in fields(RunResult) if f.type == "float")
_CURVES = tuple(f.name for f in fields(RunResult) if f.type == "np.ndarray")


@dataclass(frozen=True)
class Kept:
    """All plays and messages of one algorithm on one seed, for `--keep`."""

    label: str
    seed: int
    plays: np.ndarray
    messages: list[Message]


Pair = tuple[RunResult, Kept | None]


def message_rows(messages: list[tuple[int, Any, Any]]) -> list[Message]:
    """The exchanges as rows: one per field of each client's upload, and one per broadcast field."""
    rows: list[Message] = []
    for number, uploads, broadcast in messages:
        for f in fields(uploads):
            for client, value in enumerate(getattr(uploads, f.name)):
                rows.append(
                    (number, "upload", client, f.name, np.ravel(value).astype(float).tolist())
                )
        for f in fields(broadcast):
            value = getattr(broadcast, f.name)
            rows.append(
                (
                    number,
                    "broadcast",
                    -1,
                    f.name,
                    [] if value is None else np.ravel(value).astype(float).tolist(),
                )
            )
    return rows


def _arrays(result: RunResult, kept: Kept | None) -> dict[str, np.ndarray]:
    arrays = {name: getattr(result, name) for name in _CURVES}
    arrays["label"] = np.array(result.label)
    arrays["whole"] = np.array([getattr(result, name) for name in _WHOLE], np.int64)
    arrays["real"] = np.array([getattr(result, name) for name in _REAL], np.float64)
    arrays["comparator_names"] = np.array(list(result.comparators), str)
    arrays["comparator_losses"] = np.array(list(result.comparators.values()), np.float64)
    arrays["figure_names"] = np.array(list(result.figures), str)
    for number, curve in enumerate(result.figures.values()):
        arrays[f"figure_{number}"] = curve
    if result.following is not None:
        for f in fields(Following):
            arrays[f"following_{f.name}"] = np.array(getattr(result.following, f.name))
    if kept is not None:
        rounds, directions, clients, names, values = (
            zip(*kept.messages, strict=True) if kept.messages else ((), (), (), (), ())
        )
        arrays["plays"] = kept.plays
        arrays["message_numbers"] = np.array([rounds, clients, [len(v) for v in values]], np.int64)
        arrays["message_words"] = np.array([directions, names], str)
        arrays["message_values"] = np.array([x for v in values for x in v], np.float64)
    return arrays


def _messages(arrays: dict[str, np.ndarray]) -> list[Message]:
    rounds, clients, sizes = arrays["message_numbers"]
    values = np.split(arrays["message_values"], np.cumsum(sizes)[:-1]) if len(sizes) else []
    directions, names = arrays["message_words"].tolist()
    rows = zip(rounds.tolist(), directions, clients.tolist(), names, values, strict=True)
    return [
        (number, direction, client, name, value.tolist())
        for number, direction, client, name, value in rows
    ]


def _pair(arrays: dict[str, np.ndarray], seed: int) -> Pair:
    label = str(arrays["label"])
    single = dict(zip(_WHOLE, arrays["whole"].tolist(), strict=True)) | dict(
        zip(_REAL, arrays["real"].tolist(), strict=True)
    )
    comparators = dict(
        zip(arrays["comparator_names"].tolist(), arrays["comparator_losses"].tolist(), strict=True)
    )
    figures = {
        name: arrays[f"figure_{number}"]
        for number, name in enumerate(arrays["figure_names"].tolist())
    }
    following = None
    if "following_best" in arrays:
        found = {f.name: arrays[f"following_{f.name}"] for f in fields(Following)}
        following = Following(**{**found, "best": int(found["best"])})
    result = RunResult(
        label=label,
        seed=seed,
        figures=figures,
        **{name: arrays[name] for name in _CURVES},
        **single,
        comparators=comparators,
        following=following,
    )
    return result, Kept(
        label, seed, arrays["plays"], _messages(arrays)
    ) if "plays" in arrays else None


@dataclass(frozen=True)
class ResultStore:
    """A folder of results, by the number of the algorithm and the seed."""

    folder: Path

    def _file(self, algorithm: int, seed: int) -> Path:
        return self.folder / f"{algorithm}-{seed}.npz"

    def save(self, algorithm: int, pair: Pair) -> None:
        """Write one result; its file appears only when it is complete."""
        file = self._file(algorithm, pair[0].seed)
        draft = file.with_suffix(f".{os.getpid()}.draft")
        with draft.open("wb") as stream:
            np.savez(stream, **_arrays(*pair))  # pyright: ignore[reportArgumentType]
        draft.replace(file)

    def load(self, algorithm: int, seed: int) -> Pair | None:
        """Read one result; None if it is missing or damaged."""
        try:
            with (
                self._file(algorithm, seed).open("rb") as stream,
                np.load(stream, allow_pickle=False) as stored,
            ):
                return _pair({name: stored[name] for name in stored.files}, seed)
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("*.npz"))


try:
    import fcntl
except ImportError:  # no such locks on this system: two processes on one run go unnoticed
    fcntl = None

RECORD = "unfinished.toml"
FORMAT = "hedgerow unfinished run 1"
RUNS = Path("runs")


@dataclass(frozen=True)
class Unfinished:
    """An unfinished run.

    Parameters
    ----------
    path
        The hidden folder.
    name
        The name of the study file, without its ending.
    total
        How many results the finished run will have.
    seeds
        The number of seeds.
    keep
        Whether plays and messages are kept.
    options
        The options that the command line needs, besides the folder, to resume the run.
    identity
        What the results depend on.
    """

    path: Path
    name: str
    total: int
    seeds: int
    keep: bool
    options: tuple[str, ...]
    identity: Table

    @property
    def final(self) -> Path:
        """The run folder that it will become."""
        return self.path.with_name(self.path.name.removeprefix(".").removesuffix(".partial"))

    @property
    def store(self) -> ResultStore:
        """The finished results."""
        return ResultStore(self.path / "results")

    @property
    def draft(self) -> Path:
        """The folder in which the run folder is written."""
        return self.path / "run"

    @property
    def study(self) -> Table:
        """The configuration as plain values."""
        return self.identity["studies"]["study"]

    @property
    def command(self) -> str:
        """The command that resumes it."""
        return shlex.join(["hedgerow", "run", "--resume", str(self.final), *self.options])

    def words(self) -> str:
        """How much of it is finished."""
        algorithms = self.total // self.seeds
        factors = (
            f"{count} {noun}{'s' if count > 1 else ''}"
            for count, noun in ((algorithms, "algorithm"), (self.seeds, "seed"))
        )
        return f"{len(self.store)} of {self.total} results ({' x '.join(factors)}) are saved"


def hidden_run_folder(final: Path) -> Path:
    """The hidden folder of an unfinished run that will be called `final`."""
    return final.with_name(f".{final.name}.partial")


def read_unfinished(path: Path) -> Unfinished:
    """Read the unfinished run in a hidden folder."""
    file = path / RECORD
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        if table.get("format") != FORMAT:
            raise InvalidValue(
                f"{path} has the format {table.get('format')!r}, "
                f"but this version of hedgerow reads {FORMAT!r}. "
                "Finish it with the version that began it."
            )
        values = {key: table[key] for key in ("name", "total", "seeds", "keep", "identity")}
        return Unfinished(path, options=tuple(table["options"]), **values)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InvalidValue(
            f"Cannot read {file}: {error}. Delete {path}; nothing in it can be used."
        ) from error


def is_run_at_work(path: Path) -> bool:
    """Whether a process is working on it now."""
    try:
        with _claimed(path):
            return False
    except InvalidValue:
        return True
    except OSError:  # a folder that cannot be written to
        return False


def all_unfinished(place: Path, name: str | None = None) -> list[Unfinished]:
    """The interrupted runs in a folder, the latest first; with `name`, those of one study."""
    found = []
    for file in sorted(place.glob(f".*.partial/{RECORD}"), reverse=True):
        with suppress(InvalidValue):
            run = read_unfinished(file.parent)
            if not run.final.exists() and not is_run_at_work(run.path) and name in (None, run.name):
                found.append(run)
    return found


def unfinished_at(folder: Path) -> Unfinished | None:
    """The unfinished run that a user names by its hidden folder or by its future name."""
    for path in (folder, hidden_run_folder(folder)) if folder.name else (folder,):
        if (path / RECORD).is_file():
            return read_unfinished(path)
    return None


def refuse_unfinished(folder: Path) -> None:
    """Raise if the run is unfinished, and say how to finish it."""
    run = None if folder.is_dir() and not (folder / RECORD).exists() else unfinished_at(folder)
    if run is not None:
        how = (
            "Another process is running it now: wait for it"
            if is_run_at_work(run.path)
            else f"Finish it with `{run.command}`"
        )
        raise InvalidValue(f"The run {folder} is unfinished: {run.words()}. {how}.")


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """Hold the lock of a folder; raise if another process holds it."""
    with (path / "lock").open("a") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidValue(
                    f"Another process is using {path}. Wait until it ends."
                ) from error
        yield


def _candidates(out: Path | None, name: str) -> Iterator[Path]:
    """Names for a run folder: the requested one, or new ones under `runs/`."""
    if out is not None:
        yield out
        return
    base = RUNS / f"{datetime.now():%Y%m%d-%H%M%S}-{name}"
    yield base
    yield from (base.with_name(f"{base.name}-{number}") for number in count(2))


def check_free(out: Path) -> None:
    """Raise unless a run can be written to `out`."""
    check_new(out)
    path = hidden_run_folder(out)
    if not path.exists():
        return
    if not (path / RECORD).is_file():
        raise InvalidValue(
            f"--out {out} cannot be used because {path} exists. Choose another folder or delete it."
        )
    if is_run_at_work(path):
        raise InvalidValue(f"Another process is using --out {out}. Choose another folder.")
    run = read_unfinished(path)
    raise InvalidValue(
        f"The run --out {out} is unfinished: {run.words()}. "
        f"Resume it with `{run.command}` or delete {path}."
    )


@contextmanager
def new_run(
    out: Path | None, name: str, identity: Table, keep: bool = False, options: Sequence[str] = ()
) -> Iterator[Unfinished]:
    """Begin a run. If the body succeeds, its `draft` becomes the run folder `final`."""
    with needs("runs"):
        import tomli_w

    if out is not None:
        check_free(out)
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
                shutil.rmtree(new, ignore_errors=True)  # after success it has another name
        run = Unfinished(path, name, total, seeds, keep, tuple(options), identity)
        yield held.enter_context(_finishing(run, empty_parent=out is None))


def _take_name(new: Path, out: Path | None, name: str) -> Path:
    """Move a prepared folder to the first free name in one step: two runs never share one."""
    for final in _candidates(out, name):
        if final.exists() or hidden_run_folder(final).exists():
            continue
        try:
            new.rename(hidden_run_folder(final))
        except OSError:
            if hidden_run_folder(final).exists():
                continue
            raise
        return hidden_run_folder(final)
    assert out is not None
    check_free(out)
    raise InvalidValue(f"Another process has just created --out {out}. Choose another folder.")


@contextmanager
def resumed_run(run: Unfinished, identity: Table, keep: bool) -> Iterator[Unfinished]:
    """Resume an unfinished run. Everything that its results depend on must be unchanged."""
    if run.final.exists():
        raise InvalidValue(
            f"{run.final} is already finished. Delete {run.path}; it is no longer needed."
        )
    different = _differences(run, identity, keep)
    if different:
        more = f" and {len(different) - 6} more" if len(different) > 6 else ""
        raise InvalidValue(
            f"{run.final} has changed since it began: {'; '.join(different[:6])}{more}. "
            "Undo these changes, or start a new run without --resume."
        )
    with _claimed(run.path):
        for file in run.store.folder.glob("*.draft"):
            file.unlink(missing_ok=True)
        shutil.rmtree(run.draft, ignore_errors=True)
        with _finishing(run, empty_parent=False):
            yield run


def _differences(run: Unfinished, identity: Mapping[str, Any], keep: bool) -> list[str]:
    """What differs, by names that a user knows. Losses are named only if nothing else differs."""

    def named(table: Mapping[str, Any], keep: bool) -> Table:
        sources = {key: value for key, value in table.items() if key not in ("studies", "losses")}
        return {"--keep": keep, **table["studies"]["study"], **sources}

    losses = [{"losses": table["losses"]["study"]} for table in (run.identity, identity)]
    return identity_differences(
        named(run.identity, run.keep), named(identity, keep)
    ) or identity_differences(*losses)


@contextmanager
def _finishing(run: Unfinished, empty_parent: bool) -> Iterator[Unfinished]:
    """Create the run folder if the body succeeds.

    Otherwise keep the finished results; if there are none, delete the hidden folder.
    """
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
            raise Interrupted(f"Interrupted, but the run is complete: {run.final}") from error
        shutil.rmtree(run.draft, ignore_errors=True)
        if len(run.store) == 0:
            shutil.rmtree(run.path, ignore_errors=True)
            if empty_parent:
                with suppress(OSError):  # not empty: it holds other runs
                    run.path.parent.rmdir()
            raise
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"Interrupted. {run.words()}. To resume: {run.command}") from error
        error.add_note(f"{run.words()}. To resume once this is fixed: {run.command}")
        raise
    shutil.rmtree(run.path, ignore_errors=True)
