"""Store the finished results of a study while it is still running: one small file per result.

A file gets its name only when it is complete. It is a zip with checksums: a file that a crash has
damaged counts as missing. Arrays are stored without loss, so a result is read back to the last bit.
Several processes may save at the same time.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.evaluation.following import Following
from hedgerow.evaluation.recorder import RunResult

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
