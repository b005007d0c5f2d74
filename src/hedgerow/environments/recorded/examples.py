"""Your own examples by client and round, for online learning: arrays, or a CSV or Parquet file.

A file has the columns `round`, `client` and `target` (or `label`), and one column for every
feature. All clients have the same number of rows in every round, at least one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hedgerow.core.batch import Batch
from hedgerow.core.block import Block
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.environment import Environment, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family, require_family
from hedgerow.core.measure import Measure
from hedgerow.core.model import Model
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, masked, one_of
from hedgerow.environments.measures import TestAccuracy, TestLoss
from hedgerow.environments.recorded.data import find
from hedgerow.environments.recorded.table import (
    headings,
    line,
    no_round,
    number_column,
    read_table,
)

Labelled = tuple[Array, Array]
TARGETS = ("target", "label")


class _Examples(Environment):
    """Replays records (rounds, clients, numbers) of several examples each."""

    records: Array

    @property
    def setting(self) -> Setting:
        rounds, clients, numbers = self.records.shape
        family = self._batch()
        return Setting(clients, family.point_width(numbers), rounds, family=family)

    def _batch(self) -> Batch:
        raise NotImplementedError

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part = self.records[state : state + rounds]
        return Block(part, part, checked=True), state + rounds

    def fingerprint(self) -> str:
        return fingerprint_of(self.records, repr(self._batch()))


@dataclass(frozen=True, eq=False)
class ClientData(_Examples):
    """Your own examples, in the order in which each client sees them.

    Parameters
    ----------
    data
        Features and targets of every client: a dict or a list of pairs of arrays. Features have
        shape (count, ...), targets (count,). In every round each client uses its next examples;
        none is used twice.
    loss
        The loss family of one example: `hr.Logistic(...)` (labels -1 and 1),
        `hr.SquaredError(...)`, `hr.Huber(...)`, or a model `hr.Model(...)`.
    examples
        How many examples every client uses in a round. Default: 1.
    horizon
        The number of rounds of one pass. None (default): as many as the client with the fewest
        examples has.
    test
        Features and targets to measure the model on, or None.
    clip
        Whether to move features and targets into the range that the loss declares; `moved` counts
        them. Default: False, and an example outside is an error.
    passes
        How many times all rounds are played, in the same order. Default: 1. With more, what is
        protected must be an example that is used as often: `unit=hr.Example(passes, apart)`.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> rng = np.random.default_rng(0)
    >>> def client(count):
    ...     features = rng.uniform(-0.5, 0.5, (count, 3))
    ...     return features, np.where(features[:, 0] > 0, 1.0, -1.0)
    >>> game = hr.ClientData({"north": client(20), "south": client(25)}, hr.Logistic(), examples=2)
    >>> game.setting.clients, game.setting.horizon, game.unused
    (2, 10, 5)
    """

    data: Mapping[Any, Labelled] | Sequence[Labelled] = field(repr=False)
    loss: Family
    examples: int = 1
    horizon: int | None = None
    test: Labelled | None = field(default=None, repr=False)
    clip: bool = False
    passes: int = 1

    def __post_init__(self) -> None:
        require_family(self.loss)
        at_least("examples", self.examples, 1)
        at_least("passes", self.passes, 1)
        named = _named(self.data)
        if not named:
            raise InvalidValue("Expected the examples of at least one client.")
        rows = {name: _rows(f"client {name!r}", pair) for name, pair in named.items()}
        first = next(iter(rows))
        for name, own in rows.items():
            if own.shape[1] != rows[first].shape[1]:
                raise InvalidValue(
                    f"Client {name!r} has {own.shape[1] - 1} features, but client {first!r} has "
                    f"{rows[first].shape[1] - 1}. All clients need the same features."
                )
            if not len(own):
                raise InvalidValue(f"Client {name!r} has no examples. Leave it out.")
        _require_width(self.loss, rows[first].shape[1] - 1)
        if self.horizon is not None:
            at_least("horizon", self.horizon, 1)
        needed = self.examples * (self.horizon or 1)
        for name, own in rows.items():
            if len(own) < needed:
                most = len(own) // self.examples
                less = (
                    f", leave it out, or set horizon={most} or less" if most else " or leave it out"
                )
                raise InvalidValue(
                    f"Client {name!r} has {len(own)} examples and needs {needed}, {self.examples} "
                    f"in every round. Give it more{less}."
                )
        rounds = self.horizon or min(map(len, rows.values())) // self.examples
        used = rounds * self.examples
        records = np.stack([own[:used].reshape(rounds, -1) for own in rows.values()], axis=1)
        moved = 0
        if self.clip:
            clipped = self._batch().clip(records)
            records, moved = clipped.records, clipped.moved
        for at, name in enumerate(rows):
            _check(self.loss, f"client {name!r}", records[:, at].reshape(used, -1))
        records = np.tile(records, (self.passes, 1, 1))
        records.setflags(write=False)
        found = {
            "records": records,
            "moved": moved,
            "unused": sum(map(len, rows.values())) - used * len(rows),
            "tested": None if self.test is None else self._tested(self.test, rows[first].shape[1]),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        _ = self.setting

    @property
    def traits(self) -> Traits:
        rounds = len(self.records) // self.passes
        return Traits(reuse=(self.passes, rounds if self.passes > 1 else 1))

    records: Array = field(init=False, repr=False)
    moved: int = field(init=False)
    unused: int = field(init=False)
    tested: Array | None = field(init=False, repr=False)

    def _batch(self) -> Batch:
        return Batch(self.loss, self.examples)

    def _tested(self, test: Labelled, width: int) -> Array:
        rows = _rows("test", test)
        if rows.shape[1] != width:
            raise InvalidValue(
                f"The test data have {rows.shape[1] - 1} features, but the clients have "
                f"{width - 1}."
            )
        if not len(rows):
            raise InvalidValue("The test data have no examples. Leave them out (test=None).")
        rows = self.loss.clip(rows).records if self.clip else rows
        _check(self.loss, "the test data", rows)
        return rows

    def measures(self) -> tuple[Measure, ...]:
        tested = self.tested
        if tested is None:
            return ()
        loss = TestLoss(self.loss, lambda seed: tested)
        scored = isinstance(self.loss, Model) and self.loss.scores is not None
        labelled = scored or isinstance(self.loss, Logistic)
        return (loss, TestAccuracy(self.loss, lambda seed: tested)) if labelled else (loss,)


def _require_width(loss: Family, features: int) -> None:
    """Refuse examples that a model does not take."""
    if isinstance(loss, Model) and prod(loss.features) != features:
        raise InvalidValue(
            f"The examples have {features} features, but the model takes {prod(loss.features)}."
        )


def _check(loss: Family, whose: str, rows: Array) -> None:
    """Refuse examples outside the declared range; the error says whose they are, and which."""
    try:
        loss.check("record", rows)
    except InvalidValue as error:
        text = str(error).replace("use family.clip(records).records", "set clip=True")
        raise InvalidValue(f"In {whose}: {text}") from None


def _named(data: Mapping[Any, Labelled] | Sequence[Labelled]) -> dict[Any, Labelled]:
    return dict(data) if isinstance(data, Mapping) else dict(enumerate(data))


def _rows(whose: str, pair: Labelled) -> Array:
    """Features and targets in rows (count, features + 1)."""
    if any(map(masked, pair)):
        raise InvalidValue(f"Expected features and targets for {whose} with none masked.")
    try:
        features, targets = (np.asarray(part, float) for part in pair)
    except (TypeError, ValueError):
        raise InvalidValue(
            f"Expected two arrays of numbers for {whose}: features and targets."
        ) from None
    if features.ndim < 2 or targets.shape != features.shape[:1]:
        raise InvalidValue(
            f"Expected features (count, ...) and as many targets for {whose}, "
            f"got shapes {features.shape} and {targets.shape}."
        )
    flat = features.reshape(len(features), prod(features.shape[1:]))
    return np.concatenate([flat, targets[:, None]], axis=1)


@dataclass(frozen=True)
class RecordedExamples(_Examples):
    """Examples by client and round from a CSV or Parquet file.

    The file has the columns `round` (0, 1, 2, ...), `client` and `target` (or `label`), and one
    column for each feature. All clients have the same number of rows in every round.

    Parameters
    ----------
    path
        The file, relative to the folder of `--data`, the current folder or a data folder; or
        absolute.
    loss
        "logistic" (default; labels are -1 and 1), "squared" or "huber" (with threshold 1).
    feature_norm
        The largest Euclidean norm of the features of one example.
    radius
        The radius of the ball of models.
    target
        The largest absolute target, for "squared" and "huber".
    clip
        Whether to move features and targets into the declared range. Default: False, and an example
        outside is an error.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import hedgerow as hr
    >>> file = Path(mkdtemp()) / "examples.csv"
    >>> rows = ["round,client,age,dose,label", "0,a,0.1,0.2,1", "0,b,0.5,0.3,-1"]
    >>> _ = file.write_text("\\n".join(rows))
    >>> game = hr.RecordedExamples(str(file))
    >>> game.setting.clients, game.setting.experts, game.setting.horizon
    (2, 2, 1)
    """

    path: str
    loss: Literal["logistic", "squared", "huber"] = "logistic"
    feature_norm: float = 1.0
    radius: float = 10.0
    target: float = 1.0
    clip: bool = False

    def __post_init__(self) -> None:
        one_of(self, loss=("logistic", "squared", "huber"))
        _ = self.family_of_one

    @property
    def family_of_one(self) -> Family:
        """The loss family of one example."""
        if self.loss == "logistic":
            return Logistic(self.feature_norm, self.radius)
        if self.loss == "squared":
            return SquaredError(self.feature_norm, self.radius, self.target)
        return Huber(self.feature_norm, self.radius, self.target, threshold=1.0)

    @cached_property
    def _read(self) -> Array:
        return self._table[0]

    @cached_property
    def _table(self) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
        """The examples, and the names of the features and of the clients."""
        return read_examples(find(self.path, here=True))

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self._table[1]

    @property
    def client_names(self) -> tuple[str, ...]:
        return self._table[2]

    def _batch(self) -> Batch:
        return Batch(self.family_of_one, self._read.shape[2])

    @cached_property
    def records(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        records = self._read.reshape(*self._read.shape[:2], -1)
        if self.clip:
            records = self._batch().clip(records).records
        self._batch().check("record", records)
        return records

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the file themselves."""
        names = ("path", "loss", "feature_norm", "radius", "target", "clip")
        return {name: getattr(self, name) for name in names}


def read_examples(path: Path) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
    """Return examples (rounds, clients, count, features + 1), and the names of features, clients.

    Clients are sorted by name.
    """
    table = read_table(path)
    target = next((name for name in TARGETS if name in table), None)
    for column, found in (("round", "round" in table), ("client", "client" in table)):
        if not found:
            raise InvalidValue(f"Expected a column {column!r} in {path}, found {headings(table)}.")
    if target is None:
        raise InvalidValue(
            f"Expected a column 'target' or 'label' in {path}, found {headings(table)}."
        )
    names = [name for name in table if name not in ("round", "client", target)]
    if not names:
        raise InvalidValue(f"Expected at least one column of features in {path}.")
    rounds = table["round"]
    if not len(rounds):
        raise InvalidValue(f"Expected at least one row in {path}.")
    whole = rounds.dtype.kind in "iu"
    if not whole or rounds.min() < 0:
        found = "a number below 0" if whole else no_round(rounds, path)
        raise InvalidValue(f"Expected whole round numbers 0, 1, 2, ... in {path}, got {found}.")
    clients, client = np.unique(table["client"].astype(str), return_inverse=True)
    count = int(rounds.max()) + 1
    sizes = np.bincount(rounds * len(clients) + client, minlength=count * len(clients))
    size = int(sizes[0])
    wrong = np.flatnonzero(sizes != size) if size else np.zeros(1, int)
    if len(wrong):
        when, which = divmod(int(wrong[0]), len(clients))
        raise InvalidValue(
            f"The client of {line(int((client == which).argmax()), path)} has {sizes[wrong[0]]} "
            f"examples in round {when} of {path}. Every client needs the same number in every "
            f"round, at least one; the first has {size} in round 0."
        )
    columns = [number_column(table, name, path) for name in (*names, target)]
    order = np.lexsort((client, rounds))  # stable: rows keep their order within client and round
    examples = np.stack(columns, axis=-1)[order]
    shape = (count, len(clients), size, len(names) + 1)
    return examples.reshape(shape), tuple(names), tuple(clients.tolist())
