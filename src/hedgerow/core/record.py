"""What a record of a game is: the words that certificates and statements use for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Record:
    """What one client holds, in secret, about one round. The default is a loss vector of experts.

    Parameters
    ----------
    name
        What it is called; the plural has an s.
    symbol
        The letter in formulas.
    space
        Where it lies: the words or the formula that follow its symbol.
    meaning
        What it says; `{option}` stands for "expert" or, where points are played, "coordinate".
    charge
        What one play costs or earns: a loss or a gain.
    bounds
        The smallest and the largest charge; a record outside its space is refused.
    each
        How many of them a client holds in one round. Default: 1.
    public
        What else a client holds about a round and everybody may know, such as "forecasts" or
        "forecasts and absences"; it is not protected. Default: nothing.

    Examples
    --------
    >>> from hedgerow.core.record import Record
    >>> Record().at("i,t"), Record().plural, Record().charges
    ('l_(i,t)', 'loss vectors', 'losses')
    """

    name: str = "loss vector"
    symbol: str = "l"
    space: str = "in [0,1]^d"
    meaning: str = "how badly each {option} did at one client in one round"
    charge: str = "loss"
    bounds: tuple[float, float] = (0.0, 1.0)
    each: int = 1
    public: str = ""

    def at(self, place: str, prime: str = "") -> str:
        """The record of a client and a round in a formula."""
        return f"{self.symbol}{prime}_({place})"

    @property
    def placed(self) -> str:
        """The record of client i in round t, and where it lies."""
        return f"{self.at('i,t')} {self.space}".strip()

    @property
    def shown(self) -> frozenset[str]:
        """What is public, one by one."""
        return frozenset(self.public.split(" and ")) - {""}

    def showing(self, more: Iterable[str]) -> Record:
        """The same record where `more` is public, too.

        >>> Record(public="forecasts").showing(["absences"]).public
        'forecasts and absences'
        """
        found = [self.public] if self.public else []
        return replace(self, public=" and ".join(found + sorted({*more} - self.shown)))

    @property
    def plural(self) -> str:
        """Several such records."""
        return _several(self.name)

    @property
    def charges(self) -> str:
        """What plays cost or earn: losses or gains."""
        return _several(self.charge)

    @property
    def holds_charges(self) -> bool:
        """Whether the record itself consists of losses or gains."""
        return self.charge in self.name


def _several(noun: str) -> str:
    return f"{noun}{'es' if noun.endswith('s') else 's'}"


LOSS_VECTOR = Record()


def of_own_expert(record: Record) -> Record:
    """The record of a silo, a client that reports one number, about its own expert.

    >>> of_own_expert(gain_vector((0.0, 40.0))).placed
    'g_(i,t) in [0,40]'
    """
    low, high = record.bounds
    how = "badly" if record.charge == "loss" else "well"
    meaning = f"how {how} the {{option}} of one client did in one round"
    return replace(record, name=record.charge, space=f"in [{low:g},{high:g}]", meaning=meaning)


def gain_vector(bounds: tuple[float, float], space: str | None = None) -> Record:
    """A record of gains: how well each expert did.

    >>> gain_vector((-1.0, 1.0)).space
    'in [-1,1]^d'
    """
    low, high = bounds
    cube = f"in [{low:g},{high:g}]^d"
    meaning = "how well each {option} did at one client in one round"
    return Record("gain vector", "g", space or cube, meaning, "gain", bounds)


def example(bounds: tuple[float, float], space: str, answer: str = "target") -> Record:
    """A record of features and a target or label, from which a loss of every point follows.

    >>> example((0.0, 2.0), "(features of norm at most 1)").name
    'example'
    """
    meaning = f"features and a {answer} at one client in one round"
    return Record("example", "z", space, meaning, "loss", bounds)


def secret_target(bounds: tuple[float, float], most: float) -> Record:
    """A record of public forecasts and a secret target; only the target is protected.

    >>> secret_target((0.0, 9.0), 8.0).placed
    'y_(i,t) in [-8,8]'
    """
    meaning = "what came true at one client in one round, which forecasts were made of"
    space = f"in [{-most:g},{most:g}]"
    return Record("target", "y", space, meaning, "loss", bounds, public="forecasts")


def distribution(bounds: tuple[float, float]) -> Record:
    """A record of shares that add up to 1, such as how often each outcome occurred.

    >>> distribution((0.0, 3.0)).at("j,s", "'")
    "p'_(j,s)"
    """
    meaning = "the share of each outcome at one client in one round"
    return Record("distribution", "p", "in the simplex", meaning, "loss", bounds)
