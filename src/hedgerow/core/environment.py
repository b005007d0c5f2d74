"""The base class of environments, which produce losses, and the traits of their games."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from hedgerow.core.block import FILL_GAPS, Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array, Units
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.regret_bound import ADVERSARIES, Adversary
from hedgerow.core.setting import Setting
from hedgerow.core.validate import one_of


class Feature(Enum):
    """A feature of a game beyond the plain one; algorithms that do not support it are refused."""

    SLEEPING_EXPERTS = "sleeping experts"
    ABSENT_CLIENTS = "absent clients"
    LATE_REPORTS = "late reports"
    SIDE_INFORMATION = "public side information"
    SOME_REPORT = "rounds in which only some clients report"
    PEOPLE = "people behind records"


MASKS_AND_DELAYS = frozenset(
    {Feature.SLEEPING_EXPERTS, Feature.ABSENT_CLIENTS, Feature.LATE_REPORTS}
)
"""Covered by `proofs/masks.md`, for every algorithm that uses only the reports of its clients."""


@dataclass(frozen=True)
class Traits:
    """What an environment declares about its game; the defaults describe the plain game.

    * `adversary` is the weakest class that contains the environment: "stochastic" if losses are
      drawn in every round from one law, independently of other rounds and clients (some regret
      bounds hold only there), "oblivious" if they are fixed in advance, "adaptive" if reports may
      depend on plays.
    * `sees_plays`: `block` gets the past plays and returns one round at a time. Such an adversary
      is adaptive.
    * `features` are the features beyond the plain game.
    * `fresh`: every seed draws new data. Otherwise seeds count as runs on the same data.
    * `best_loss`: some expert never loses more than this, on average over clients; None: unknown.
      Some regret bounds need it.
    * `changes`: the best expert changes about this often, by design. Regret can then be measured
      against the best sequence of experts with as many changes.
    * `why_no_sums`: for an environment with `sums`, why sums cannot be drawn with these parameters.
    * `origins` say where features come from, for errors.
    * `reuse`: the most rounds in which one record is used, and the least distance between two.
    """

    adversary: Adversary = "oblivious"
    sees_plays: bool = False
    features: frozenset[Feature] = frozenset()
    fresh: bool = False
    why_no_sums: str | None = None
    origins: tuple[tuple[Feature, str], ...] = ()
    best_loss: float | None = None
    changes: int = 0
    reuse: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        one_of(self, adversary=ADVERSARIES)
        if self.sees_plays:
            object.__setattr__(self, "adversary", "adaptive")

    def require_support(
        self,
        algorithm: str,
        supports: frozenset[Feature],
        able: Callable[[Feature], Iterable[str]] | None = None,
    ) -> None:
        """Raise if an algorithm does not support a feature of the game, and name the feature.

        `able` returns the algorithms that support a feature, if the caller knows them.
        """
        for feature in sorted(self.features - supports, key=lambda feature: feature.value):
            names = [] if able is None else list(able(feature))
            others = (
                "`hedgerow list algorithms` shows which do"
                if able is None
                else f"choose one of {', '.join(names)}"
                if names
                else "no algorithm does with its default parameters"
            )
            origin = "".join(f" ({text})" for one, text in self.origins if one is feature)
            more = f" {FILL_GAPS}" if feature is Feature.SLEEPING_EXPERTS else ""
            text = f"{algorithm} does not support {feature.value}{origin}; {others}.{more}"
            raise Unsupported(text)

    def require_needed(self, algorithm: str, needs: frozenset[Feature]) -> None:
        """Raise if the game lacks a feature that an algorithm needs, and name the feature."""
        for feature in sorted(needs - self.features, key=lambda feature: feature.value):
            raise Unsupported(f"{algorithm} needs {feature.value}, which this game does not have.")


PLAIN_GAME = Traits()


def numbered(noun: str, count: int) -> tuple[str, ...]:
    """Names for things without names.

    >>> numbered("expert", 2)
    ('expert 0', 'expert 1')
    """
    return tuple(f"{noun} {number}" for number in range(count))


MISPLACED = {"fresh": bool, "adaptive": bool, "adversary": str, "features": frozenset}
IN_SETTING = "{} overrides `family`, which has no effect. Give the family in `setting`."


class Once(property):
    """A property of an environment, which does not change: it is made at the first read and kept.

    The key names the class that declares it, because `super()` may read that of a base class, too.
    """

    def __init__(self, made: Callable[[Any], Any], cls: type) -> None:
        super().__init__(made, doc=made.__doc__)
        length = len(cls.__mro__)  # a base class of the same name has another
        self._key = f"{cls.__module__}.{cls.__qualname__}.{made.__name__}/{length}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        kept = instance.__dict__
        if self._key not in kept:
            kept[self._key] = self.make(instance)
        return kept[self._key]

    def make(self, instance: Any) -> Any:
        """The value for this environment."""
        return super().__get__(instance)


class Environment(ABC):
    """A source of losses: a frozen dataclass of choices. `block` is pure.

    Properties named `setting` and `traits` are computed once for each environment.
    """

    def __init_subclass__(cls) -> None:
        """Refuse traits that are declared as class attributes, where they would have no effect."""
        super().__init_subclass__()
        for name in ("setting", "traits"):
            declared = cls.__dict__.get(name)
            if type(declared) is property and declared.fget is not None:
                setattr(cls, name, Once(declared.fget, cls))
        if "family" in cls.__dict__:
            raise TypeError(IN_SETTING.format(cls.__name__))
        for name, kind in MISPLACED.items():
            annotation = str(cls.__annotations__.get(name, "ClassVar"))
            if isinstance(cls.__dict__.get(name), kind) and "ClassVar" in annotation:
                raise TypeError(f"{cls.__name__}.{name} has no effect. Declare it in `traits`.")

    @property
    @abstractmethod
    def setting(self) -> Setting:
        """The number of clients, experts and rounds, and the loss family."""

    @property
    def family(self) -> Family:
        """The loss family of the setting: what a play costs."""
        return self.setting.family

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The names of the experts (of coordinates, where points are played), in order."""
        return numbered("expert" if self.family.linear else "coordinate", self.setting.experts)

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names of the clients, in order."""
        return numbered("client", self.setting.clients)

    @property
    def unit(self) -> float:
        """What a loss of 1 is in the user's units, such as the largest error that counts."""
        return 1.0

    def rivals(self) -> dict[str, Array]:
        """Return losses (rounds, clients) of what is compared besides experts, by name."""
        return {}

    def measures(self) -> tuple[Measure, ...]:
        """Return the measures to record in every run, such as accuracy; new objects each time.

        They appear as columns of the table and in JSON.
        """
        return ()

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of the results should know of the data, such as clipped records.

        It may be computed from secret data: it is for simulations.
        """
        return ()

    @property
    def traits(self) -> Traits:
        """The traits of the game; override them where the defaults do not hold."""
        return PLAIN_GAME

    @abstractmethod
    def start(self, seed: int) -> Any:
        """Return the state before the first round."""

    @abstractmethod
    def block(self, state: Any, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, Any]:
        """Return the next rounds and the state after them.

        `past_plays` are the plays of the last round, if the environment sees them.
        """

    def sums(self, state: Any, rounds: int) -> tuple[Units, Any]:
        """Return each expert's losses in the next rounds, over all clients, in lattice units.

        Optional. The sums are drawn directly, with the law of the sum of the single losses.
        """
        raise Unsupported(f"{type(self).__name__} cannot draw sums of losses directly.")

    def fingerprint(self) -> str | None:
        """Return a text that identifies the data; None if the environment has no data."""
        return None


def draws_sums(kind: type[Environment]) -> bool:
    """Whether environments of this class have `sums`."""
    return kind.sums is not Environment.sums


def fingerprint_of(*parts: np.ndarray | str | None) -> str:
    """Hash arrays and texts, to detect whether two environments have the same data."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype.str}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        else:
            total.update(repr(part).encode())
    return total.hexdigest()
