"""The manifest: what a study is, to the last bit, signed by the server and by each client.

A client does not trust the manifest. It builds the algorithm again from the choices in it and
refuses any difference, so every client gets the privacy that the manifest shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.certificate import LEDGERS, Guarantee, with_helpers, with_public_mask
from hedgerow.core.combination import PublicForecasts
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.family_text import family_of
from hedgerow.core.losses import Family
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.rounding import round_down
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.deployment import veil
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.keys import fingerprint, signed_by
from hedgerow.deployment.masks import MOST_CLIENTS, Masked
from hedgerow.deployment.own_file import FileForm
from hedgerow.engines.learner import private_algorithm
from hedgerow.records.plain import first_difference, plain, typed
from hedgerow.version import __version__

PROTOCOL = 6
"""Changes whenever messages or ledgers change."""
READ = range(1, PROTOCOL + 1)
"""The protocols whose ledgers are still checked and stated; 1 is that of version 0.3.0."""
SEALED = 3
"""The first protocol whose uploads are sealed to the server."""
ROOTED = 4
"""The first protocol whose answers sign one root of all receipts."""
SHARED = 5
"""The first protocol whose clients may add shares of noise, with helpers."""
LONGEST = 2**22
"""The most bytes of a manifest."""
GONE = (Feature.ABSENT_CLIENTS, Feature.SLEEPING_EXPERTS)
PLAYED = (*GONE, Feature.SIDE_INFORMATION, Feature.SOME_REPORT)
"""The features beyond the plain game that a deployment offers."""
EXPERIMENTAL = "experimental: not yet reviewed by outside cryptographers"
"""What is said wherever masks protect something."""
ONCE = (
    "helpers never run from an old copy of their folder, or twice at the same time: otherwise the "
    "server could read single uploads"
)
"""What helpers must keep to where exchanges close without some clients."""
NOT_PRIVATE = "not private: the noise comes from a seed"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"[0-9a-f]{64}")
_BOX = re.compile(f"[0-9a-f]{{{veil.PUBLIC}}}")


class ManifestRefused(HedgerowError):
    """A manifest is malformed, or differs from what this machine computes; the text says where."""


@dataclass(frozen=True)
class Manifest:
    """What a study is: who takes part, which algorithm with which noise, and what it guarantees.

    Use `Manifest.make` to make one and `Manifest.read` for bytes that arrived.

    Parameters
    ----------
    title
        What the study is about, in one line.
    algorithm, choices
        The registered name and the choices, as in a study file.
    setting
        `experts`, `horizon`, `deciders` if a separate role plays, at every client alike, and
        `family` unless losses are in [0, 1]. `names` of the experts, in
        order, and `file`, what the file of every client has (`FileForm`), are optional and public.
        The number of clients is that of the roster.
    features
        What goes beyond the plain game: "absent clients", "sleeping experts", "public side
        information", "rounds in which only some clients report".
    closing
        What happens if a client is silent: "wait", or a rule that the algorithm supports.
    server
        The server's public key, in hexadecimal digits.
    sealing
        How uploads are sealed: the `suite`, and the public key of the `server` for it. Empty
        before protocol 3.
    aggregation
        With `trust="distributed"`: the `helpers` by name, each with its public keys to `sign` and
        to `seal`, how many clients may be `colluding` with the server, and the `least` number of
        clients in a sum. Otherwise empty.
    roster
        The public key of each client by name. A client's number is its place among sorted names.
        An empty key is an open seat: the server may give it to a client later (`Roster`).
    seed
        None: secure noise. A number: noise from this seed, for tests; then nothing is private.
    resolved
        What the choices give, to the last bit: mechanisms, guarantees, parameters, fingerprint.
    protocol
        Which messages and ledgers; it must be the same everywhere.
    version
        The version of the package that made the manifest, for readers. Other versions may take
        part if they compute `resolved` to the last bit.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> manifest = Manifest.make(
    ...     title="Wards", algorithm="sparse_vector", choices={"epsilon": "0.5"},
    ...     experts=3, horizon=10, server="00" * 32, roster={"a": "11" * 32, "b": "22" * 32},
    ...     sealing=veil.load_or_make(Path(tempfile.mkdtemp()) / "server.box").public,
    ... )
    >>> manifest.clients, manifest.private, manifest.index("b")
    (('a', 'b'), True, 1)
    >>> Manifest.read(manifest.to_bytes()) == manifest
    True
    >>> rebuild(manifest).name
    'sparse_vector'
    """

    title: str
    algorithm: str
    choices: Mapping[str, Any]
    setting: Mapping[str, Any]
    features: tuple[str, ...]
    closing: str
    server: str
    sealing: Mapping[str, str]
    aggregation: Mapping[str, Any]
    roster: Mapping[str, str]
    seed: int | None
    resolved: Mapping[str, Any]
    protocol: int = PROTOCOL
    version: str = __version__

    @classmethod
    def make(
        cls,
        *,
        title: str,
        algorithm: str,
        experts: int,
        horizon: int | None,
        server: str,
        sealing: str,
        roster: Mapping[str, str],
        choices: Mapping[str, Any] | None = None,
        deciders: int | None = None,
        family: str | None = None,
        names: Sequence[str] | None = None,
        file: FileForm | None = None,
        features: tuple[str, ...] = (),
        closing: str = "wait",
        seed: int | None = None,
        helpers: Mapping[str, Mapping[str, str]] | None = None,
        colluding: int | None = None,
        least: int | None = None,
    ) -> Manifest:
        """Return the manifest of a new study; refuse, by name, what cannot be deployed.

        `helpers`, `colluding` and `least` (None: all clients) are those of `aggregation`; without
        trust="distributed", None.
        `server` and `sealing` are the server's public keys, for signing and for sealing. Budgets
        among the choices (epsilon, delta, mu) are read as decimals and rounded down to
        floats, so that ten studies of 0.1 fit into a budget of 1.
        """
        wide: dict[str, Any] = {} if deciders is None else {"deciders": deciders}
        wide |= {} if family is None else {"family": family}
        wide |= {} if names is None else {"names": list(names)}
        wide |= {} if file is None else {"file": file.to_dict()}
        shared = {"colluding": colluding, "least": len(roster) if least is None else least}
        found = cls(
            title=title,
            algorithm=algorithm,
            choices=_plain_choices(algorithm, choices or {}),
            setting={"experts": experts, "horizon": horizon, **wide},
            features=tuple(sorted(features)),
            closing=closing,
            server=server,
            sealing={"suite": veil.SUITE, "server": sealing},
            aggregation={}
            if helpers is None and colluding is None and least is None
            else {"helpers": dict(sorted((helpers or {}).items())), **shared},
            roster=dict(sorted(roster.items())),
            seed=seed,
            resolved={},
        )
        _check_form(found)
        made = replace(found, resolved=resolved(build(found)))
        size = len(made.to_bytes())
        if size > LONGEST:
            raise InvalidValue(
                f"The manifest of {len(roster)} clients has {size} bytes; at most {LONGEST} are "
                "allowed. Make several studies with fewer clients."
            )
        return made

    @classmethod
    def read(cls, data: bytes) -> Manifest:
        """Read a manifest; anything but its one canonical form is refused."""
        if len(data) > LONGEST:
            raise ManifestRefused(f"The manifest is longer than {LONGEST} bytes.")
        try:
            table = json.loads(data.decode())
            if not isinstance(table, dict) or canonical(table) != data:
                raise ValueError("it is not in canonical form")
            names = {f.name for f in fields(cls)}
            for entry, since in (("sealing", SEALED), ("aggregation", SHARED)):
                if table.get("protocol") in range(1, since):
                    table[entry] = table.get(entry, {})
            if set(table) != names:
                wrong = sorted(names ^ set(table))[0]
                raise ValueError(f"the entry {wrong!r} is missing or unknown")
            found = cls(**{**table, "features": tuple(table["features"])})
            _check_form(found)
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            raise ManifestRefused(f"This is not a manifest of this version: {error}") from error
        return found

    def to_bytes(self) -> bytes:
        """The one canonical form: JSON with sorted keys and no spaces."""
        table = asdict(self)
        if self.protocol < SEALED:
            del table["sealing"]
        if self.protocol < SHARED:
            del table["aggregation"]
        return canonical(table)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes; it names the study."""
        return hashlib.sha256(self.to_bytes()).digest()

    @property
    def signed_text(self) -> bytes:
        """What the server signs."""
        return b"hedgerow manifest\n" + self.digest

    @cached_property
    def clients(self) -> tuple[str, ...]:
        """The names of the clients, by number."""
        return tuple(sorted(self.roster))

    def index(self, name: str) -> int:
        """The number of a client."""
        return self.clients.index(name)

    @property
    def helpers(self) -> Mapping[str, Mapping[str, str]]:
        """The public keys of each helper by name; none unless clients add shares of noise."""
        return self.aggregation.get("helpers", {})

    @property
    def helper_names(self) -> tuple[str, ...]:
        """The names of the helpers, by number."""
        return tuple(sorted(self.helpers))

    @property
    def colluding(self) -> int:
        """How many clients may work with the server, where clients add shares of noise."""
        return int(self.aggregation["colluding"])

    @property
    def least(self) -> int:
        """The least number of clients that an exchange may count."""
        return int(self.aggregation.get("least", 1))

    @property
    def private(self) -> bool:
        """Whether the noise is secure; with a seed nothing is private."""
        return self.seed is None

    @property
    def family(self) -> Family:
        """What a record is charged by."""
        return family_of(str(self.setting["family"])) if "family" in self.setting else LOSSES

    @property
    def plays(self) -> frozenset[Feature]:
        """What goes beyond the plain game."""
        return frozenset(Feature(name) for name in self.features)

    def words(self) -> list[str]:
        """The manifest in a few lines, for a person who decides whether to join."""
        clients = "1 client" if len(self.roster) == 1 else f"{len(self.roster)} clients"
        size = f"{clients}, {self.setting['experts']} experts"
        rounds = self.setting["horizon"]
        lines = [
            f"{self.title} ({self.digest.hex()[:16]})",
            f"{self.algorithm}, {size}, {'no limit on' if rounds is None else rounds} rounds",
            *self._compared(),
            *self.resolved["guarantees_in_words"],
            *self._trusted(),
            *self._protected(),
            f"if a client is silent, {rule_of(self.closing).words}",
            *self._seats(),
            *self._shared(),
        ]
        return lines if self.private else [*lines, NOT_PRIVATE]

    def _seats(self) -> list[str]:
        """Which clients may still come."""
        names = ", ".join(name for name in self.clients if not self.roster[name])
        return [f"the server may give these seats to other clients: {names}"] if names else []

    def _shared(self) -> list[str]:
        """Who must not work with the server, where clients add shares of noise."""
        if not self.helpers:
            return []
        shown = (f"{name} ({fingerprint(''.join(k.values()))})" for name, k in self.helpers.items())
        every, drop = f"all {len(self.roster)} clients", self.closing == "drop"
        counted = f"at least {self.least} of {every}" if drop else every
        needed = f"{counted} and every helper"
        lines = [
            EXPERIMENTAL,
            f"helpers, compare each fingerprint with the helper itself: {', '.join(shown)}",
            f"the server sees sums over {counted}, and no single upload, as long as one helper "
            "does not work with it",
            f"the guarantee allows {self.colluding} of the clients to work with it",
            f"an exchange needs {needed}; without them, the study ends",
            "nobody can notice a client that sends false numbers",
        ]
        return [*lines, ONCE] if drop else lines

    def _compared(self) -> list[str]:
        """What is compared: the experts by name and order, what a round and a loss are."""
        names, file = self.setting.get("names"), self.setting.get("file")
        lines = [] if names is None else [f"experts, in this order: {', '.join(names)}"]
        if file is None:
            return lines
        return lines + FileForm.read(file).words(isinstance(self.family, PublicForecasts))

    @property
    def trusts_server(self) -> bool:
        """Whether clients send the server exact data, which it protects."""
        return self.resolved["trust"] == "central"

    def _trusted(self) -> list[str]:
        """That the server is trusted, where it is."""
        if not self.trusts_server:
            return []
        return [
            "the server is trusted with exact data; if it adds no noise, nobody can detect that "
            "afterwards"
        ]

    def _protected(self) -> list[str]:
        """The change that is hidden, and all that is declared about the data and not checked."""
        found = [g for g in self.resolved["guarantees"] if g["stated"] is not None]
        assumed = {name: text for g in found for name, text in g["assumes"].items()}
        return [
            *dict.fromkeys(f"neighbours: {guarantee['adjacency']}" for guarantee in found),
            *(
                f"assumed, not checked: {text} ({name})"
                for name, text in sorted(assumed.items())
                if name.startswith(("DECLARED_", "PUBLIC_"))
            ),
        ]


def canonical(table: Any) -> bytes:
    """JSON with sorted keys, no spaces, ASCII only, finite numbers.

    >>> canonical({"b": 0.5, "a": [1]})
    b'{"a":[1],"b":0.5}'
    """
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _check_form(manifest: Manifest) -> None:
    """Refuse a manifest whose entries have wrong types or names."""
    if not manifest.title.strip():
        raise InvalidValue(f"Expected title={manifest.title!r} to say what the study is about.")
    if len(manifest.title) > 200 or not manifest.title.isprintable():
        raise InvalidValue(
            f"Expected title={manifest.title[:200]!r} to be one line of at most 200 characters."
        )
    tables = (manifest.choices, manifest.setting, manifest.roster, manifest.resolved)
    for kind in (*tables, manifest.aggregation):
        if not isinstance(kind, dict):
            raise InvalidValue(f"Expected table={type(kind).__name__!r} to be a JSON object.")
    _check_setting(manifest)
    for name, kind in (("algorithm", str), ("protocol", int), ("version", str)):
        given = getattr(manifest, name)
        if type(given) is not kind:
            raise InvalidValue(f"Expected {name}={given!r} to be of type {kind.__name__}.")
    _check_parties(manifest)
    able = [feature.value for feature in PLAYED]
    for name in manifest.features:
        if name not in able:
            raise InvalidValue(f"Expected feature={name!r} in {able}.")
    if manifest.features != tuple(sorted(set(manifest.features))):
        raise InvalidValue(
            f"Expected features={manifest.features!r} to be sorted, with each feature once."
        )
    seed = manifest.seed
    whole = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63
    if seed is not None and not whole:
        raise InvalidValue(f"Expected seed={seed!r} to be None or a whole number >= 0.")
    rule_of(manifest.closing)


def _check_setting(manifest: Manifest) -> None:
    """Refuse other entries of the setting, names that a page cannot show, and an unfit file."""
    needed = {"experts", "horizon"}
    if not needed <= set(manifest.setting) <= {*needed, "deciders", "family", "names", "file"}:
        raise InvalidValue(
            f"Expected setting={sorted(manifest.setting)!r} to have {sorted(needed)}, and nothing "
            "else but deciders, family, names and file."
        )
    names = manifest.setting.get("names")
    if names is not None:
        if not isinstance(names, list):
            raise InvalidValue(f"Expected names={type(names).__name__!r} to be a list.")
        wrong = unfit_names(names)
        if wrong or len(names) != manifest.setting["experts"]:
            raise InvalidValue(
                f"Expected names={wrong or len(names)!r} to be one short, different text per "
                "expert."
            )
    if "file" in manifest.setting:
        form = FileForm.read(manifest.setting["file"])
        form.check(names, isinstance(manifest.family, PublicForecasts), manifest.plays)


def _check_parties(manifest: Manifest) -> None:
    """Refuse unfit names and keys, and a key that two parties have."""
    if not manifest.roster:
        raise InvalidValue(f"Expected clients={manifest.roster!r} to name at least one client.")
    for name, key in manifest.roster.items():
        if not _NAME.fullmatch(name):
            raise InvalidValue(
                f"Expected client={name[:80]!r} to be a name of letters, digits, '.', '_' and '-'."
            )
        if not KEY.fullmatch(key) and (key or not rule_of(manifest.closing).may_close):
            raise InvalidValue(
                f"Expected the key of {name}={key[:80]!r} to be 64 hex digits or, with closing = "
                "'fold' or 'drop', empty: an open seat."
            )
    if not KEY.fullmatch(manifest.server):
        raise InvalidValue(f"Expected server={manifest.server[:80]!r} to be 64 hex digits.")
    _check_sealing(manifest)
    _check_aggregation(manifest)
    keys = [manifest.server, *filter(None, manifest.roster.values())]
    keys += [manifest.sealing["server"]] if manifest.sealing else []
    keys += [key for one in manifest.helpers.values() for key in one.values()]
    for key, times in Counter(keys).items():
        if times > 1:
            raise InvalidValue(f"Two parties have the same key, {key[:64]}. Each makes its own.")


def _check_sealing(manifest: Manifest) -> None:
    """Refuse another way of sealing, or a key of another length; nothing is negotiated."""
    sealing, protocol = manifest.sealing, manifest.protocol
    if not isinstance(sealing, dict):
        raise InvalidValue(f"Expected sealing={type(sealing).__name__!r} to be a JSON object.")
    if protocol < SEALED:
        if sealing:
            raise InvalidValue(f"Expected sealing={sealing!r} to be empty in protocol {protocol}.")
        return
    if set(sealing) != {"suite", "server"}:
        raise InvalidValue(f"Expected sealing={sorted(sealing)!r} to be a suite, a key.")
    if sealing["suite"] != veil.SUITE:
        raise InvalidValue(f"Expected suite={sealing['suite']!r} to be {veil.SUITE!r}.")
    if not _BOX.fullmatch(sealing["server"]):
        raise InvalidValue(
            f"Expected the server's key for sealing={sealing['server'][:80]!r} to be "
            f"{veil.PUBLIC} hex digits."
        )


def _check_aggregation(manifest: Manifest) -> None:
    """Refuse helpers without keys, and more clients that work with the server than there can be."""
    shared, clients = manifest.aggregation, len(manifest.roster)
    if not shared:
        return
    if set(shared) != {"helpers", "colluding", "least"}:
        raise InvalidValue("Expected aggregation to have helpers, colluding, least, nothing else.")
    _check_helpers(shared["helpers"])
    colluding, least = shared["colluding"], shared["least"]
    if not all(manifest.roster.values()):
        raise InvalidValue("Expected no open seats with helpers, who know clients by their keys.")
    if type(least) is not int or not 1 <= least <= clients:
        raise InvalidValue(f"Expected least={least!r} from 1 to {clients}, all clients.")
    if type(colluding) is not int or not 1 <= colluding < least:
        raise InvalidValue(
            f"Expected colluding={colluding!r} from 1 to {least - 1}: every client knows its own "
            "share of noise, and one share at least must stay secret in every sum."
        )
    if clients > MOST_CLIENTS:
        raise InvalidValue(
            f"Expected at most {MOST_CLIENTS} clients with trust='distributed', got {clients}: "
            "sums could leave the range of masked numbers. Make several studies."
        )
    if manifest.closing == "wait" and least < clients:
        raise InvalidValue(
            f"Expected least={least!r} to be {clients}, all clients: with closing='wait' nobody is "
            "left out. Leave out least, or choose closing='drop'."
        )
    if manifest.seed is not None:
        raise InvalidValue(
            "Noise from a seed is not whole steps, as masks need. Leave out the seed, or choose "
            "trust='central' or 'local' to try a study with a seed."
        )
    if "honest" in manifest.choices:
        raise InvalidValue(
            "Leave out honest: it is the least number of clients in a sum, less those that may be "
            "colluding."
        )


def _check_helpers(helpers: Any) -> None:
    """Refuse helpers with unfit names, or without keys."""
    if not isinstance(helpers, dict) or not helpers:
        raise InvalidValue("Expected helpers to name at least one: nobody else opens sums.")
    for name, keys in helpers.items():
        if not _NAME.fullmatch(name):
            raise InvalidValue(f"Expected the helper {name[:80]!r} to be named as a client is.")
        known = isinstance(keys, dict) and set(keys) == {"sign", "seal"}
        if not known or not KEY.fullmatch(keys["sign"]) or not _BOX.fullmatch(keys["seal"]):
            raise InvalidValue(f"The keys of the helper {name} are not those in its file.")


def unfit_names(names: Sequence[Any]) -> list[str]:
    """The names of experts that a page cannot show: long, empty, not text, or not different."""
    return [
        str(name)[:80]
        for at, name in enumerate(names)
        if not isinstance(name, str)
        or not 0 < len(name.strip()) <= 80
        or not name.isprintable()
        or name in names[:at]
    ]


def spec_of(manifest: Manifest) -> AlgorithmSpec:
    """The algorithm with the choices of the manifest."""
    choices = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in manifest.choices.items()
    }
    if manifest.helpers and choices.get("trust") == "distributed":
        choices["honest"] = manifest.least - manifest.colluding
    return typed(ALGORITHMS[manifest.algorithm], choices, "algorithm", manifest.algorithm)


def build(manifest: Manifest) -> Algorithm:
    """Build the algorithm from the choices, certified for exact noise, or refuse it by name."""
    spec = spec_of(manifest)
    size, family = manifest.setting, manifest.family
    clients, deciders = len(manifest.roster), size.get("deciders")
    setting = Setting(clients, size["experts"], size["horizon"], deciders, family)
    plays = manifest.plays
    absent, sleeping = (feature in plays for feature in GONE)
    built = private_algorithm(spec, setting, absent, sleeping, True)
    check_deployable(built, plays, bool(manifest.helpers))
    deployed = built.closed_by(rule_of(manifest.closing).name)
    certificate = with_public_mask(deployed.certificate, LEDGERS)
    if manifest.helpers:
        drop = manifest.closing == "drop"
        sizes = clients, manifest.colluding
        certificate = with_helpers(certificate, manifest.helper_names, *sizes, drop)
    return replace(deployed, certificate=certificate)


def check_deployable(
    algorithm: Algorithm, plays: frozenset[Feature] = frozenset(PLAYED), helped: bool = False
) -> None:
    """Raise, by name, unless the algorithm can be deployed in a game that has these features.

    It needs a guarantee with central or local trust or, if the study has helpers (`helped`), with
    distributed trust; exact noise, a range for every upload, and clients that play. A separate
    decider sees only what every client sees, so each plays for it.

    >>> from hedgerow.algorithms.baselines.hedge import Hedge
    >>> check_deployable(Hedge().build(Setting(2, 3, 10)))
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.Unsupported: hedge cannot be deployed: it protects nobody.
    """
    name, certificate = algorithm.name, algorithm.certificate

    def refuse(reason: str) -> None:
        raise Unsupported(f"{name} cannot be deployed: {reason}.")

    if not any(guarantee.protects for guarantee in certificate.guarantees):
        refuse("it protects nobody")
    if (certificate.trust == "distributed") is not helped:
        refuse(
            f"it has trust={certificate.trust!r}, and only trust='distributed' has helpers"
            if helped
            else "trust='distributed' needs helpers and the number of colluding clients"
        )
    if helped:
        Masked.of(algorithm)
        if algorithm.decider is not None or Feature.SOME_REPORT in plays:
            refuse("under masks every client plays, and adds its share of noise to every exchange")
    if algorithm.setting.deciders not in (None, 1):
        refuse("in a deployment all clients play for one decider")
    if Feature.PEOPLE in algorithm.needs:
        refuse(
            "a deployment counts people and does not keep their losses apart, so they vote in "
            "simulations only. Choose unit='client', which protects each of them, too"
        )
    missing = sorted(feature.value for feature in algorithm.needs - plays)
    if missing:
        refuse(f"it needs features = {missing} in the study file")
    algorithm.require_exact_noise()
    algorithm.require_limits()


def resolved(algorithm: Algorithm) -> dict[str, Any]:
    """All that decides what an algorithm releases and promises, as plain values; floats in hex."""
    certificate = algorithm.certificate
    return {
        "name": algorithm.name,
        "setting": repr(algorithm.setting),
        "trust": certificate.trust,
        "combine": algorithm.uploads.combine,
        "plays": algorithm.plays,
        "upload": algorithm.uploads.kind.__name__,
        "broadcast": algorithm.broadcasts.kind.__name__,
        "channels": {name: channel.value for name, channel in certificate.channels.items()},
        "mechanisms": [exact(plain(mechanism)) for mechanism in certificate.mechanisms],
        "parameters": exact(plain(algorithm.parameters)),
        "guarantees": [_guarantee(guarantee) for guarantee in certificate.guarantees],
        "guarantees_in_words": [guarantee.words() for guarantee in certificate.guarantees],
        "when_spent": certificate.when_spent,
        "fingerprint": algorithm.fingerprint(),
    }


def _guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "observer": guarantee.observer.value,
        "sees": sorted(channel.value for channel in guarantee.view),
        "unit": guarantee.unit.words(),
        "adjacency": guarantee.adjacency,
        "curve": exact(plain(guarantee.curve)),
        "stated": exact(list(guarantee.curve.stated())) if guarantee.protects else None,
        "colluding": guarantee.colluding,
        "horizon": guarantee.horizon,
        "assumes": {assumption.name: assumption.meaning for assumption in guarantee.assumes},
        "proof": None if guarantee.proof is None else guarantee.proof.words(),
    }


def exact(value: Any) -> Any:
    """The plain value with every number as text, floats in hex: no bit is lost or forgiven.

    >>> exact({"scale": 0.1, "count": 2})
    {'scale': '0x1.999999999999ap-4', 'count': '2'}
    """
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [exact(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    return value.hex() if isinstance(value, float) else str(value)


def rebuild(manifest: Manifest) -> Algorithm:
    """Build the algorithm from the choices and compare it with the manifest, bit by bit.

    Raises `ManifestRefused` and names the first difference: another protocol, another value of a
    noise scale, other code.
    """
    if manifest.protocol != PROTOCOL:
        raise ManifestRefused(
            f"The manifest has protocol {manifest.protocol!r}, but this machine has {PROTOCOL!r}. "
            "All parties of a study need the same one: use version "
            f"{manifest.version} of the package."
        )
    try:
        veil.check_public("the server", manifest.sealing["server"])
        for name, keys in manifest.helpers.items():
            veil.check_public(f"helper {name}", keys["seal"])
    except InvalidValue as error:
        raise ManifestRefused(str(error)) from error
    algorithm = _built(manifest)
    _compare(manifest, manifest.resolved, resolved(algorithm))
    return algorithm


def promised(manifest: Manifest) -> Algorithm:
    """The algorithm of a study, perhaps of an earlier version, whose guarantees are these.

    For statements. The code may have changed, and so the fingerprint; but trust, mechanisms and
    guarantees are compared bit by bit. Raises `ManifestRefused` if they differ.
    """
    if manifest.protocol not in READ:
        raise ManifestRefused(
            f"The study has protocol {manifest.protocol!r}, and this version reads up to "
            f"{PROTOCOL!r}. Use version {manifest.version} of the package."
        )
    algorithm = _built(manifest)
    _compare(manifest, _promises(manifest.resolved), _promises(resolved(algorithm)))
    return algorithm


def _promises(table: Mapping[str, Any]) -> dict[str, Any]:
    """What an algorithm promises, in a form that all protocols have."""
    guarantees = [{**one, "assumes": sorted(one["assumes"])} for one in table["guarantees"]]
    same = ("name", "setting", "trust", "channels", "mechanisms", "when_spent")
    return {**{name: table[name] for name in same}, "guarantees": guarantees}


def _built(manifest: Manifest) -> Algorithm:
    try:
        return build(manifest)
    except HedgerowError as error:
        raise ManifestRefused(f"The choices of the manifest cannot be built: {error}") from error


def _compare(manifest: Manifest, stated: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse a manifest that states something else than its choices give here."""
    found = first_difference(own, stated, same=_identical)
    if found is None:
        return
    place, here, there = found
    code = (
        "other code made it"
        if manifest.version == __version__
        else f"it is of version {manifest.version}, which computes another number"
    )
    raise ManifestRefused(
        f"The manifest says {place} = {_short(there)}, but its choices give {_short(here)} here. "
        f"Do not join: the manifest was altered, or {code}."
    )


def check_signed(manifest: Manifest, signature: bytes) -> None:
    """Raise `ManifestRefused` unless the server of the manifest has signed it."""
    if not signed_by(manifest.server, signature, manifest.signed_text):
        raise ManifestRefused("The manifest is not signed by the server that it names.")


def _identical(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _plain_choices(algorithm: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """The choices as JSON values; budgets are decimals, rounded down to floats."""
    traits = ALGORITHMS[algorithm].traits
    budgets = {traits.epsilon, traits.delta, "mu"}
    return {
        name: decimal_down(value) if name in budgets and _is_number(value) else _json(value)
        for name, value in choices.items()
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | str) and not isinstance(value, bool)


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return list(value) if isinstance(value, tuple) else value


def decimal_of(value: str | float | Decimal) -> Fraction:
    """The exact number that a text or a float prints; a float counts as its shortest decimal.

    >>> decimal_of(0.1), decimal_of("1e-6")
    (Fraction(1, 10), Fraction(1, 1000000))
    """
    try:
        number = Decimal(value if isinstance(value, str) else repr(value))
        if isinstance(value, Decimal):
            number = value
        if not number.is_finite() or abs(number.adjusted()) > 300:
            raise InvalidOperation
    except InvalidOperation:
        raise InvalidValue(f"Expected {value!r} to be a decimal number, such as 2.0.") from None
    return Fraction(number)


def decimal_down(value: str | float | Decimal) -> float:
    """The largest float that is not above the decimal.

    >>> decimal_down("0.1") < 0.1, decimal_down("0.5")
    (True, 0.5)
    """
    return round_down(decimal_of(value))
