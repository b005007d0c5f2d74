"""`predict_one` and `learn_one`, as in river, over experts that are fitted; river is not needed.

The experts are fixed: an expert that learned from protected data would reveal them. What is private
is which expert is followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.turn import Turn
from hedgerow.engines.learner import Learner, made_with
from hedgerow.environments.recorded.forecasts import Loss, forecast_losses
from hedgerow.privacy.secure import SecureNoise


class StreamExperts:
    """Follow one of several river-like models, chosen by a private learner, one case at a time.

    A round ends when every client has learned one case. With `absent=True` it also ends when a
    client comes with its next case: clients without a case are then absent.

    Parameters
    ----------
    models
        The experts by name, each with `predict_one(x)`. They must not learn from protected data.
    algorithm
        The algorithm that chooses among them, for example `hr.PhasedSelection(epsilon=1.0)`.
    horizon
        The number of rounds.
    clients
        The number of clients.
    loss, largest_error, quantile
        As for `hr.forecast_losses`: how a prediction is judged. `largest_error` is public.
    absent
        Whether clients may be absent; presence is then public.
    source
        `hr.SecureNoise()` for real data. None: seeded noise, for simulation only.
    seed
        The seed of that noise.

    Examples
    --------
    >>> import hedgerow as hr
    >>> class Always:
    ...     def __init__(self, answer):
    ...         self.answer = answer
    ...     def predict_one(self, x):
    ...         return self.answer
    >>> models = {"sun": Always("sun"), "rain": Always("rain")}
    >>> experts = hr.StreamExperts(
    ...     models, hr.PhasedSelection(epsilon=8.0), horizon=50, clients=2, loss="zero_one"
    ... )
    >>> for day in range(20):
    ...     for client in range(2):
    ...         _ = experts.predict_one({"day": day}, client=client)
    ...         experts.learn_one({"day": day}, "rain", client=client)
    >>> experts.predict_one({"day": 20})
    'rain'
    >>> experts.round
    20
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        algorithm: AlgorithmSpec,
        *,
        horizon: int | None = None,
        clients: int = 1,
        loss: Loss = "absolute",
        largest_error: float | None = None,
        quantile: float = 0.5,
        absent: bool = False,
        source: SecureNoise | None = None,
        seed: int = 0,
    ) -> None:
        self.models = dict(models)
        self._judge: dict[str, Any] = {
            "loss": loss,
            "largest_error": largest_error,
            "quantile": quantile,
        }
        self._learner = made_with(
            source,
            algorithm,
            seed,
            clients=clients,
            experts=len(self.models),
            horizon=horizon,
            absent=absent,
        )
        self._clients, self._absent, self._source = clients, absent, source
        self._rows: dict[int, np.ndarray] = {}
        self._turn = Turn()  # a case that two threads see must not count twice

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._source is not None:
            raise TypeError(
                "Private experts cannot be copied or saved: a copy could count a case again."
            )
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {', '.join(self.models)}; {self._learner!r}>"

    @property
    def learner(self) -> Learner:
        """The learner that chooses: for `hr.record_deployment` and `status()`. Do not play it."""
        return self._learner

    @property
    def round(self) -> int:
        """The number of rounds that have ended."""
        return self._learner.round

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from the predictions."""
        return self._learner.certificate

    def predict_one(self, x: Any, client: int = 0) -> Any:
        """Return the prediction of the expert that the client follows in this round."""
        self._check(client)
        with self._turn.take():
            if self._absent and client in self._rows:
                self._end()
            expert = self._learner.predict()[client]
        return list(self.models.values())[expert].predict_one(x)

    def learn_one(self, x: Any, y: Any, client: int = 0) -> None:
        """Learn from one case of a client; a target of None means that the outcome is not known."""
        self._check(client)
        with self._turn.take():
            if client in self._rows:
                if not self._absent:
                    waiting = sorted(set(range(self._clients)) - set(self._rows))
                    raise InvalidValue(
                        f"Client {client} has learned in this round; clients {waiting} have not. "
                        "Let them learn first, or allow absent clients with absent=True."
                    )
                self._end()
            if y is None:
                return
            predictions = [[model.predict_one(x) for model in self.models.values()]]
            losses, _ = forecast_losses(predictions, [y], **self._judge)
            if np.isnan(losses).any():
                raise InvalidValue(
                    "Expected every expert to predict, and a target that is not NaN."
                )
            self._rows[client] = losses[0]
            if len(self._rows) == self._clients:
                self._end()

    def end_round(self) -> None:
        """End the round; clients that have not learned in it are absent."""
        with self._turn.take():
            self._end()

    def _end(self) -> None:
        self._learner.predict()
        rows, self._rows = self._rows, {}  # a row that is lost is safe; one that is kept is not
        losses = np.zeros((self._clients, len(self.models)))
        here = np.zeros(self._clients, bool)
        for client, row in rows.items():
            losses[client], here[client] = row, True
        self._learner.observe(losses, None if here.all() else here)

    def _check(self, client: int) -> None:
        if not 0 <= client < self._clients:
            raise InvalidValue(f"Expected client={client} in 0, ..., {self._clients - 1}.")
