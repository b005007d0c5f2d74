"""What an application at a client uses: `predict()`, then `observe(round, losses)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Side, charged, taken
from hedgerow.core.certificate import Certificate
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.people import Who
from hedgerow.core.protocol import ReportingClient
from hedgerow.core.turn import Turn
from hedgerow.core.validate import numbers
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.own_file import SHOWN, FileForm
from hedgerow.engines.status import Status
from hedgerow.privacy.secure.process import Home


class NoReply(HedgerowError):
    """The server has not answered yet; call again."""


class ClientLearner:
    """One client of a study, played round by round.

    Everything is kept in the client's ledger. After a crash, open the ledger again and go on with
    the round that `round` names; what was observed before is known.

    Parameters
    ----------
    client
        The client's state machine, from `StudyClient(...)` or `StudyClient.join(...)`.

    Examples
    --------
    >>> import tempfile
    >>> from hedgerow.deployment.simulated import small_study
    >>> study = small_study(tempfile.mkdtemp(), clients=1, experts=3, horizon=4)
    >>> learner = study.learner(0)
    >>> learner.predict()
    array(0)
    >>> learner.observe(0, [1.0, 0.0, 0.5])
    >>> learner.observe(0, [1.0, 0.0, 0.5])  # the same again changes nothing
    >>> learner.round
    1
    >>> study.close()
    """

    def __init__(self, client: StudyClient) -> None:
        self._client = client
        self._home = Home()
        self._turn = Turn()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("A client of a study cannot be copied or saved: its ledger is its state.")

    @property
    def client(self) -> StudyClient:
        """The state machine below."""
        return self._client

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from this study."""
        return self._client.algorithm.certificate

    @property
    def round(self) -> int:
        """The number of rounds that are finished; also the number of the next one."""
        return self._client.round

    @property
    def over(self) -> bool:
        """Whether the horizon is reached: the last play repeats, and nothing more is learned."""
        return self._client.over

    @property
    def status(self) -> Status:
        """Where the study stands at this client; it shows no record.

        `switches_left` is known at the server only.
        """
        client = self._client
        private, exchanges = client.manifest.private, max(0, client.exchange)
        return Status.of(
            client.algorithm, private, client.round, exchanges, client.remaining, switches_left=None
        )

    def predict(
        self,
        awake: npt.ArrayLike | None = None,
        tries: int | None = None,
        reporting: npt.ArrayLike | None = None,
    ) -> np.ndarray:
        """Return the play of this round: the number of an expert, or a point.

        Repeated calls give the same. If an exchange is due, it takes place first, and this waits
        for the server. After the horizon it is the last play of the game.

        Parameters
        ----------
        awake
            Which experts may be chosen in this round, if the study allows sleeping experts. None:
            all.
        tries
            How often the server is called before `NoReply` is raised. None: until it answers.
        reporting
            Which clients report in this round, if the study allows that only some do; this is
            public. None: all.
        """
        with self._turn.take():
            self._home.require("client of a study")
            mask = self._mask(awake, reporting)
            if self._client.over:
                return np.array(self._client.last_play)
            if not self._client.played:
                self._make_ready(tries)
            elif mask is not None and not np.array_equal(mask, _or_all(self._client.mask, mask)):
                raise InvalidValue("This round is already played with other public information.")
            return np.array(self._client.play(mask))

    def _make_ready(self, tries: int | None) -> None:
        made = 0
        while not self._client.advance():
            made += 1
            if tries is not None and made >= tries:
                raise NoReply("The server has not answered yet. Call again.")

    def observe(
        self,
        round_number: int,
        losses: npt.ArrayLike | Mapping[str, float] | None,
        tries: int | None = None,
        about: str | None = None,
        side: npt.ArrayLike | None = None,
        people: Sequence[Who] | None = None,
    ) -> None:
        """Take the losses of all experts in a round, or the record of another loss family.

        A round that was observed before is compared: the same losses change nothing, others are
        refused. After the horizon losses are ignored. Errors show no loss.

        Parameters
        ----------
        round_number
            The number of the round, from 0. It is `round`, or a round that is already observed.
        losses
            One number for each expert, in the order of the manifest, or by name where the manifest
            names them. None: this client had no case in this round, if the study allows absent
            clients.
        tries
            As in `predict`, for a round that was not played yet.
        about
            The name of the target, such as "Ohio, 2026-01-03", in a game of public forecasts and
            secret targets. A target is answered once: under another round, or with another value,
            the same name is refused.
        side
            What is public about this client in this round, such as its number of beds, if the
            study has such side information.
        people
            Ids of all persons that these losses are about. The account counts in how many rounds
            each of them was, in all studies together, and refuses more than its unit or that of
            the study allows. Ids stay on this machine and are kept as keyed hashes.
        """
        ordered = self._ordered(losses) if isinstance(losses, Mapping) else losses
        given = None if ordered is None else numbers("losses", ordered)
        with self._turn.take():
            self._home.require("client of a study")
            client = self._client
            target = self._target(about, given is None)
            public = self._public(side, given is None)
            values = None if public is None else public.values
            shown = given if given is None or values is None else np.concatenate([given, values])
            found = client.fingerprint_of(round_number, shown, target)
            if round_number < client.round:
                if round_number >= 0 and client.known(round_number) is None:
                    raise self._missed(round_number)
                if round_number < 0 or client.known(round_number) != found:
                    raise InvalidValue(
                        f"Round {round_number} was observed before, with other losses. The first "
                        f"ones count. Continue with round {client.round}."
                    )
                return
            if client.over:
                return
            if round_number != client.round:
                raise InvalidValue(
                    f"Expected the losses of round {client.round}, got those of round "
                    f"{round_number}."
                )
            reports = self._checked(given, public)
            if people is not None:
                self._counted(people, round_number)
            if not client.played:
                self._make_ready(tries)
                if client.round != round_number:  # exchanges were closed meanwhile
                    raise self._missed(round_number)
                client.play()
            client.observe(reports, found, target, public)

    def _counted(self, people: Sequence[Who], round_number: int) -> None:
        """Count the people of a round in the account; refuse those who were there too often."""
        client = self._client
        if not isinstance(people, list | tuple | np.ndarray):  # a text is a list of its letters
            raise InvalidValue('Expected people to be a list of ids, such as ["p-17"].')
        if client.manifest.plays & SHOWN:
            raise InvalidValue(
                "Leave `people` out: in this study rounds may be missing, which would show when a "
                "person was there."
            )
        form = client.manifest.setting.get("file")
        name = str(round_number) if form is None else FileForm.read(form).name_of(round_number)
        units = [g.unit for g in client.algorithm.certificate.guarantees if g.protects]
        client.account.count(people, name, round_number, client.study, units)

    def _ordered(self, losses: Mapping[str, float]) -> list[float]:
        """Losses by name in the order of the manifest; another set of names is refused."""
        names = self._client.manifest.setting.get("names")
        if names is None:
            raise InvalidValue("The manifest of this study does not name its experts. Give a list.")
        for name in (*names, *losses):
            if (name in names) is not (name in losses):
                which = "is missing" if name in names else "is not in the manifest"
                raise InvalidValue(f"The loss of {name!r} {which}; experts: {', '.join(names)}.")
        return [losses[name] for name in names]

    def _target(self, about: str | None, absent: bool) -> bytes | None:
        """What the ledger calls the target; there is one if a part of the records is public."""
        has_targets = bool(self._client.algorithm.setting.family.record.public)
        if about is None or absent:
            if has_targets and not absent:
                raise InvalidValue(
                    'Name the target, such as about="Ohio, 2026-01-03": a target is answered once, '
                    "and its name tells whether it was."
                )
            return None
        if not has_targets:
            raise InvalidValue("`about` names a target, and the records of this game have none.")
        if not isinstance(about, str) or not about.strip():
            raise InvalidValue("Expected `about` to name the target, such as a place and a date.")
        return self._client.name_of(" ".join(about.split()))

    def _missed(self, round_number: int) -> InvalidValue:
        return InvalidValue(
            f"Round {round_number} was missed: exchanges closed without this client. "
            f"Go on with round {self._client.round}."
        )

    def _mask(
        self, awake: npt.ArrayLike | None, reporting: npt.ArrayLike | None
    ) -> np.ndarray | None:
        """The experts that are awake, or the clients that report; None: all."""
        setting, found = self._client.algorithm.setting, None
        for name, given, feature, count in (
            ("awake", awake, Feature.SLEEPING_EXPERTS, setting.experts),
            ("reporting", reporting, Feature.SOME_REPORT, setting.clients),
        ):
            if given is None:
                continue
            found = np.array(given)
            if feature not in self._client.manifest.plays:
                raise _without(feature, name)
            if found.shape != (count,) or found.dtype != np.bool_:
                raise InvalidValue(f"Expected {name} to be {count} times True or False.")
            if name == "awake" and not found.any():
                raise InvalidValue("Expected awake to be at least once True.")
        return found

    def _public(self, side: npt.ArrayLike | None, absent: bool) -> Side | None:
        """What is public about this client in this round, as its algorithm takes it."""
        plays, needs = self._client.manifest.plays, self._client.algorithm.needs
        shown = None if Feature.SOME_REPORT not in plays else np.array(not absent)
        if side is None:
            if Feature.SIDE_INFORMATION in needs and not absent:
                raise InvalidValue(
                    'Give what is public about this client in this round, such as "side": [120].'
                )
            values = np.zeros(1) if Feature.SIDE_INFORMATION in needs else None
            return None if values is None and shown is None else Side(values, shown)
        if Feature.SIDE_INFORMATION not in plays:
            raise _without(Feature.SIDE_INFORMATION, "side")
        values = numbers("side", side)
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise InvalidValue("Expected side to be a list of finite numbers.")
        return Side(values, shown)

    def _checked(self, given: Array | None, side: Side | None) -> Array:
        """What the client's algorithm sees; refuse a wrong shape or range, without showing it.

        An absent client has zeros (`proofs/masks.md#absent-clients`).
        """
        algorithm, plays = self._client.algorithm, self._client.manifest.plays
        setting, role = algorithm.setting, algorithm.client
        wide = setting.family.record_width(setting.experts)
        if algorithm.decider is not None and isinstance(role, ReportingClient):
            wide = role.width
        if given is None:
            if not plays & {Feature.ABSENT_CLIENTS, Feature.SOME_REPORT}:
                raise Unsupported(
                    "In this study no client may be absent: its manifest has no absent clients. "
                    "Report losses for every round."
                )
            return np.zeros(wide)
        if given.shape != (wide,):
            raise InvalidValue(f"Expected {wide} numbers for this round, got {given.shape}.")
        if algorithm.decider is not None:  # ranges may differ between clients
            mine = np.arange(setting.clients) == self._client.index
            alone = np.where(mine[:, None], given, 0.0)
            return taken(alone, setting, self.round, secret=True, reporting=mine)[mine][0]
        awake = None if self._client.mask is None else self._client.mask[None]
        records = taken(given[None], setting, self.round, secret=True, awake=awake)
        play = None if awake is None else self._client.play()[None]
        return charged(records, awake, play)[0]

    def finish(self, tries: int | None = None) -> None:
        """Tell the server that this client has played its last round; wait until it knows."""
        with self._turn.take():
            self._home.require("client of a study")
            if not self._client.over:
                raise InvalidValue(f"Round {self.round} is still to be played.")
            made = 0
            while not self._client.finish():
                made += 1
                if tries is not None and made >= tries:
                    raise NoReply("The server has not answered yet. Call again.")

    def close(self) -> None:
        """Close the ledger; the study goes on when it is opened again."""
        self._client.close()


def _without(feature: Feature, name: str) -> Unsupported:
    return Unsupported(
        f"This study has no {feature.value}: its manifest does not name them. Leave `{name}` out."
    )


def _or_all(mask: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.ones_like(like) if mask is None else mask
