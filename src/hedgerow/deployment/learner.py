"""What an application at a client uses: `predict()`, then `observe(round, losses)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import charged, taken
from hedgerow.core.certificate import Certificate
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.turn import Turn
from hedgerow.core.validate import numbers
from hedgerow.deployment.client import StudyClient
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

    def predict(self, awake: npt.ArrayLike | None = None, tries: int | None = None) -> np.ndarray:
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
        """
        with self._turn.take():
            self._home.require("client of a study")
            mask = None if awake is None else self._mask(awake)
            if self._client.over:
                return np.array(self._client.last_play)
            if not self._client.played:
                self._make_ready(tries)
            elif mask is not None and not np.array_equal(mask, _or_all(self._client.awake, mask)):
                raise InvalidValue("This round is already played with other experts awake.")
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
        """
        ordered = self._ordered(losses) if isinstance(losses, Mapping) else losses
        given = None if ordered is None else numbers("losses", ordered)
        with self._turn.take():
            self._home.require("client of a study")
            client = self._client
            target = self._target(about, given is None)
            found = client.fingerprint_of(round_number, given, target)
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
            reports = self._checked(given)
            if not client.played:
                self._make_ready(tries)
                if client.round != round_number:  # exchanges were closed meanwhile
                    raise self._missed(round_number)
                client.play()
            client.observe(reports, found, target)

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

    def _mask(self, awake: npt.ArrayLike) -> np.ndarray:
        mask, experts = np.array(awake), self._client.algorithm.setting.experts
        if Feature.SLEEPING_EXPERTS not in self._client.manifest.plays:
            raise Unsupported(
                "In this study all experts are awake: its manifest has no sleeping experts. Leave "
                "`awake` out."
            )
        if mask.shape != (experts,) or mask.dtype != np.bool_ or not mask.any():
            raise InvalidValue(
                f"Expected awake to be {experts} times True or False, at least once True."
            )
        return mask

    def _checked(self, given: Array | None) -> Array:
        """What the client's algorithm sees; refuse a wrong shape or range, without showing it.

        An absent client has zeros (`proofs/masks.md#absent-clients`).
        """
        setting = self._client.algorithm.setting
        if given is None:
            if Feature.ABSENT_CLIENTS not in self._client.manifest.plays:
                raise Unsupported(
                    "In this study no client may be absent: its manifest has no absent clients. "
                    "Report losses for every round."
                )
            return np.zeros(setting.family.record_width(setting.experts))
        wide = setting.family.record_width(setting.experts)
        if given.shape != (wide,):
            raise InvalidValue(f"Expected {wide} numbers for this round, got {given.shape}.")
        awake = None if self._client.awake is None else self._client.awake[None]
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


def _or_all(mask: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.ones_like(like) if mask is None else mask
