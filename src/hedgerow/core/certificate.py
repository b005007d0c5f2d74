"""Certificates: who sees what, which unit is protected, by which curve, and where it is proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import exp
from typing import Literal

from hedgerow import proofs
from hedgerow.core.mechanism import Mechanism, NoGuarantee, PrivacyCurve
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.core.rounding import rounded_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Unit


class Observer(Enum):
    """A party that may try to learn about the data; its guarantee covers all that it sees, jointly.

    `SERVER` sees the messages of all clients, `PEER` is another client, and `PUBLIC` sees only the
    plays and their timing.

    Examples
    --------
    >>> import hedgerow as hr
    >>> certificate = hr.SparseVector().build(hr.Setting(10, 100, 512)).certificate
    >>> certificate.guarantee(hr.Observer.PUBLIC).curve.stated()
    (1.0, 0.0)
    >>> certificate.guarantee(hr.Observer.SERVER).protects
    False
    """

    SERVER = "server"
    PEER = "peer"
    PUBLIC = "public"


WHO = {
    Observer.SERVER: "The server",
    Observer.PEER: "Another client",
    Observer.PUBLIC: "The public",
}
MUCH = 20.0  # from this epsilon on, plain words give no number: e^20 is more than a hundred million


class Channel(Enum):
    """Where information flows. Every message field belongs to one channel."""

    UPLOADS = "uploads"
    SUM = "sum of uploads"
    BROADCASTS = "broadcasts"
    PLAYS = "plays"
    TIMING = "timing"


DEFAULT_VIEWS: Mapping[Observer, frozenset[Channel]] = {
    Observer.SERVER: frozenset(
        {Channel.UPLOADS, Channel.BROADCASTS, Channel.PLAYS, Channel.TIMING}
    ),
    Observer.PEER: frozenset({Channel.BROADCASTS, Channel.PLAYS, Channel.TIMING}),
    Observer.PUBLIC: frozenset({Channel.PLAYS, Channel.TIMING}),
}


Composition = Literal["sum", "moves", "shifts", "joint"]
"""How the releases of a run that one unit enters make up its cost.

* `"sum"`: their costs compose to the claim.
* `"moves"`: the same, but each release costs what its mechanism states for the distance that the
  unit moves it (`Mechanism.cost_of_move`), which may be less than for the full sensitivity.
* `"shifts"`: they are Gaussian, and their shifts add up in one mean vector. With the distance that
  the unit moves each release and the scale of its noise,
  sqrt(sum (distance / scale)^2) <= mu (`proofs/mechanisms.md#shifts`).
* `"joint"`: a proof covers all releases at once and needs an exact likelihood.
"""


@dataclass(frozen=True)
class Assumption:
    """A condition that must hold in the real world for a guarantee to hold."""

    name: str
    meaning: str


TRUSTED_SERVER = Assumption(
    "TRUSTED_SERVER", "the server follows the protocol and discloses nothing but its broadcasts"
)
IDEAL_REALS = Assumption(
    "IDEAL_REALS",
    "noise is independent, secret and drawn from the exact real law, and compared exactly: "
    "no floating-point effects",
)


ENTROPY = Assumption(
    "ENTROPY",
    "the operating system's entropy is unpredictable, AES-256 in counter mode looks random, "
    "the noise stays secret, and no saved copy of the running machine (a snapshot or clone of "
    "a virtual machine) is started again: it would draw the same noise twice",
)
ARITHMETIC = Assumption(
    "ARITHMETIC",
    "the library functions behind the samplers are as accurate as `proofs/secure_noise.md#floats` "
    "says, which is tested",
)
LEDGERS = Assumption(
    "LEDGERS",
    "disks keep what they have committed, keys stay secret, no ledger is restored from a copy "
    "unnoticed, and whether a process dies does not depend on the noise that it has just drawn "
    "(`proofs/deployment.md`)",
)
HELPER_LEDGERS = Assumption(
    "HELPER_LEDGERS",
    "no client and, at the same time, all honest helpers run from old copies of their folders",
)
ONE_HELPER = Assumption(
    "HELPER_LEDGERS",
    "no helper runs from an old copy of its folder, or twice at the same time: the server could "
    "then read single uploads",
)
CIPHERS = Assumption(
    "CIPHERS",
    "nobody can break Ed25519 while the study runs, or AES-256, SHA-256, and both X25519 and "
    "ML-KEM-768 (`proofs/secure_sums.md`)",
)
PUBLIC_PARAMETERS = Assumption(
    "PUBLIC_PARAMETERS", "every parameter was chosen without looking at the data"
)
OTHER_CLIENTS = Assumption(
    "OTHER_CLIENTS", "clients that look or collude hold no data of the protected person"
)
FEW_CLIENTS = Assumption(
    "FEW_CLIENTS", "nobody has records at more clients than the unit says; nobody checks this"
)
PUBLIC_PRESENCE = Assumption(
    "PUBLIC_PRESENCE",
    "which clients take part in which round is not protected (a missing play shows it) and does "
    "not depend on the protected record; clients without a case still answer when an exchange "
    "is due",
)
PUBLIC_SLEEP = Assumption(
    "PUBLIC_SLEEP",
    "which experts sleep in which round is not protected and does not depend on the protected "
    "record",
)
PUBLIC_DELAYS = Assumption(
    "PUBLIC_DELAYS",
    "when a loss is reported is not protected and does not depend on the protected record",
)
PUBLIC_SIDE = Assumption(
    "PUBLIC_SIDE",
    "the side information of clients is not protected and does not depend on the protected record",
)
PUBLIC_REPORTERS = Assumption(
    "PUBLIC_REPORTERS",
    "which clients report in which round is not protected and does not depend on the protected "
    "record",
)
PUBLIC_ANSWERS = Assumption(
    "PUBLIC_ANSWERS",
    "which clients answer which exchange, and how late, is not protected and does not depend on "
    "the protected record",
)


def no_carry_over(record: Record) -> Assumption:
    """The assumption that a record has no influence on later ones except through the game."""
    later = record.charges if record.holds_charges else record.plural
    later += f" and {record.public}" if record.public else ""
    text = f"later {later} depend on the protected record only through what was broadcast"
    return Assumption("NO_CARRY_OVER", text)


NO_CARRY_OVER = no_carry_over(LOSS_VECTOR)


@dataclass(frozen=True)
class Proof:
    """Where a guarantee is proven: a file under `proofs/` and a heading anchor in it."""

    file: str
    anchor: str

    def words(self) -> str:
        return f"proofs/{self.file}#{self.anchor}"

    def read(self) -> str:
        """Return the text of the section, in Markdown with LaTeX formulas."""
        return proofs.read(self.file.removesuffix(".md"), self.anchor)


@dataclass(frozen=True)
class Guarantee:
    """What one observer can learn about one unit from all that it sees together.

    `colluding` clients (a peer counts as one of them) may combine their data and random draws with
    what the observer sees. `horizon` is the number of rounds that it covers; None: any number.
    """

    observer: Observer
    view: frozenset[Channel]
    unit: Unit
    adjacency: str
    curve: PrivacyCurve
    proof: Proof | None = None
    colluding: int = 0
    horizon: int | None = None
    claimed: PrivacyCurve | None = None
    assumes: frozenset[Assumption] = frozenset()

    def words(self) -> str:
        """State the guarantee in one sentence, for readers who sign but do not calculate."""
        sees = ", ".join(sorted(channel.value for channel in self.view))
        sentence = f"{self.observer.value} (sees {sees}): {self.curve.words()}"
        if self.protects:
            sentence += f" for {self.unit.words()}"
        if self.claimed is not None:
            sentence += f"; the paper claims {self.claimed.words()}"
        if self.assumes:
            sentence += f"; assumes {', '.join(sorted(a.name for a in self.assumes))}"
        return sentence

    def plain_words(self) -> str:
        """State the guarantee in one sentence, for people who do not calculate."""
        channels = sorted(channel.value for channel in self.view)
        sees = " and ".join(filter(None, (", ".join(channels[:-1]), *channels[-1:])))
        who = f"{WHO[self.observer]}, which sees {sees or 'nothing'}"
        if not self.protects:
            return f"{who}: {self.curve.words()}."
        epsilon, delta = self.curve.stated()
        if epsilon >= MUCH:
            return (
                f"{who}: changing {self.unit.words()} may make what it sees more than a hundred "
                f"million times likelier ({self.curve.words()})."
            )
        times = rounded_up(exp(epsilon), 3)
        more = f", plus a probability of {rounded_up(delta)}" if delta else ""
        return (
            f"{who}: changing {self.unit.words()} makes nothing that it sees more than {times} "
            f"times likelier{more} ({self.curve.words()})."
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of a single loss or gain; one outside it is refused."""
        return self.unit.record.bounds

    @property
    def protects(self) -> bool:
        """Whether there is any guarantee at all."""
        return not isinstance(self.curve, NoGuarantee)


@dataclass(frozen=True, repr=False)
class Certificate:
    """All guarantees of one algorithm with its parameters.

    `channels` maps every field of every message (`"Type.field"`) to its channel. `mechanisms` holds
    the objects that draw the noise, not copies. `composition` says how the releases that one unit
    enters make up its cost (`Composition`). `entered` is the largest number of releases that one
    unit enters, if it is known. `when_spent` describes what happens if the budget is spent before
    the horizon ends.

    `separate` is True if the records of one person, at whichever clients they are, enter releases
    that no other of them enters and, unless these are Gaussian, one record after the other. Then k
    records compose, such as to sqrt(k) mu; otherwise they add up in one release, such as to k mu
    (`proofs/mechanisms.md#separate-releases`).

    `grown` is how many records a unit has beyond those for which mechanisms state their costs: the
    curves follow from those of one record (`proofs/mechanisms.md#units`).
    """

    trust: Literal["none", "central", "distributed", "local"]
    calibration: str
    guarantees: tuple[Guarantee, ...]
    channels: Mapping[str, Channel]
    mechanisms: tuple[Mechanism, ...] = ()
    composition: Composition = "joint"
    when_spent: str = ""
    entered: int | None = None
    separate: bool = False
    grown: int = 1

    def __repr__(self) -> str:
        lines = [f"<Certificate: trust {self.trust}, calibration {self.calibration}>"]
        return "\n".join([*lines, *(guarantee.words() for guarantee in self.guarantees)])

    @property
    def plays_at_home(self) -> bool:
        """Whether clients keep their plays at home: no observer sees them."""
        return not any(Channel.PLAYS in guarantee.view for guarantee in self.guarantees)

    def guarantee(self, observer: Observer) -> Guarantee:
        """Return what one observer can learn."""
        return next(g for g in self.guarantees if g.observer is observer)

    @property
    def server(self) -> Guarantee:
        """What the server can learn."""
        return self.guarantee(Observer.SERVER)

    @property
    def peer(self) -> Guarantee:
        """What another client can learn."""
        return self.guarantee(Observer.PEER)

    @property
    def public(self) -> Guarantee:
        """What an outsider can learn from the plays and their timing."""
        return self.guarantee(Observer.PUBLIC)


def with_exact_noise(certificate: Certificate) -> Certificate:
    """Return the same guarantees for noise that is exact on the lattice.

    They assume real entropy and no longer assume ideal real numbers.
    """
    guarantees = tuple(
        replace(g, assumes=(g.assumes - {IDEAL_REALS}) | {ENTROPY, ARITHMETIC})
        if IDEAL_REALS in g.assumes
        else g
        for g in certificate.guarantees
    )
    return replace(certificate, guarantees=guarantees)


def with_helpers(
    certificate: Certificate, helpers: Sequence[str], clients: int, colluding: int, drop: bool
) -> Certificate:
    """Return the guarantees of shares of noise in a deployment with these helpers.

    The sums are opened by a protocol (`proofs/secure_sums.md`), and no longer assumed. `drop`: sums
    may leave out clients, as many as the noise allows beside those that work with the server.
    """
    one = f"the helper {helpers[0]}" if len(helpers) == 1 else f"one of {', '.join(helpers)}"
    aggregation = Assumption(
        "AGGREGATION",
        f"{one} does not work with the server, at most {colluding} of the {clients} clients do, "
        "and the keys of helpers and clients were compared outside this system",
    )
    together = {aggregation, ONE_HELPER if drop else HELPER_LEDGERS, CIPHERS}
    guarantees = tuple(
        replace(
            g,
            colluding=colluding,
            assumes={a for a in g.assumes if a.name != "SECURE_AGGREGATION"} | together,
        )
        for g in certificate.guarantees
    )
    return replace(certificate, guarantees=guarantees)


PRESENCE_STAYS = "; participation stays the same"
ANSWERS_STAY = "; who answers which exchange, and how late, stays the same"


def with_public_mask(
    certificate: Certificate, assumption: Assumption, narrower: str = ""
) -> Certificate:
    """Return the guarantees for a game with public masks or delays (`proofs/masks.md`)."""
    guarantees = tuple(
        replace(
            g,
            assumes=g.assumes | {assumption} if g.protects else g.assumes,
            adjacency=g.adjacency + narrower,
        )
        for g in certificate.guarantees
    )
    return replace(certificate, guarantees=guarantees)


def with_private_plays(certificate: Certificate) -> Certificate:
    """Return the guarantees for clients that keep their plays at home: nobody sees plays."""
    guarantees = tuple(replace(g, view=g.view - {Channel.PLAYS}) for g in certificate.guarantees)
    return replace(certificate, guarantees=guarantees)


def not_private(
    reason: str, channels: Mapping[str, Channel], record: Record = LOSS_VECTOR
) -> Certificate:
    """Return a certificate that states, for every observer, that nothing is protected."""
    raw, unit = NoGuarantee(reason), Event(record=record)
    guarantees = tuple(
        Guarantee(observer, view, unit, unit.adjacency(), raw)
        for observer, view in DEFAULT_VIEWS.items()
    )
    return Certificate("none", "none", guarantees, channels)


def trusted_server(
    *,
    setting: Setting,
    curve: PrivacyCurve,
    proof: Proof,
    channels: Mapping[str, Channel],
    mechanisms: tuple[Mechanism, ...],
    calibration: str = "certified",
    claimed: PrivacyCurve | None = None,
    composition: Composition = "joint",
    when_spent: str = "",
    entered: int | None = None,
    separate: bool = False,
    sent: str = "",
    assumes: frozenset[Assumption] = frozenset(),
) -> Certificate:
    """Return a certificate of the central model: clients send exact sums to a trusted server.

    What the server sends back protects one record, such as a loss vector, from everyone else. Only
    the server adds noise, so clients that combine what they know learn no more than the public.
    `sent` says what clients send, if not sums of losses or records. `assumes` are further
    assumptions.
    """
    record = setting.family.record
    unit, vectors = Event(record=record), record.holds_charges
    usual = f"sums of their {record.charges}" if vectors else f"values of their {record.plural}"
    raw = NoGuarantee(f"clients send the server exact {sent or usual}")
    usually = {TRUSTED_SERVER, IDEAL_REALS, PUBLIC_PARAMETERS, no_carry_over(record)}
    guarantees = [
        Guarantee(
            Observer.SERVER,
            DEFAULT_VIEWS[Observer.SERVER],
            unit,
            unit.adjacency(),
            raw,
            horizon=setting.horizon,
        )
    ]
    for observer in (Observer.PEER, Observer.PUBLIC):
        guarantees.append(
            Guarantee(
                observer,
                DEFAULT_VIEWS[observer],
                unit,
                unit.adjacency(),
                curve,
                proof,
                colluding=setting.clients - 1,
                horizon=setting.horizon,
                claimed=claimed,
                assumes=assumes | usually,
            )
        )
    return Certificate(
        "central",
        calibration,
        tuple(guarantees),
        channels,
        mechanisms,
        composition,
        when_spent,
        entered,
        separate,
    )
