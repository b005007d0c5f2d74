"""A scikit-learn style estimator over experts that are fitted models; scikit-learn is not needed.

The experts are fixed: fit them beforehand, on data that need no protection. What is private is
which expert is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from importlib import import_module
from typing import Any

import numpy as np

from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.validate import unmasked
from hedgerow.engines.learner import Learner, made_with
from hedgerow.environments.recorded.forecasts import Loss, forecast_losses
from hedgerow.environments.recorded.table import is_missing
from hedgerow.privacy.secure import SecureNoise


@dataclass(eq=False, repr=False)
class ExpertEstimator:
    """Predict with the expert that a private learner follows: `partial_fit`, `predict`, `fit`.

    Rows come in rounds: each round has one row for each client, in the order of the clients. A row
    whose target is NaN, None or masked belongs to a client that is absent in that round.

    Parameters
    ----------
    estimators
        Pairs of a name and a fitted model with `predict(X)`, as for scikit-learn's voting.
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
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> class Times:
    ...     def __init__(self, factor):
    ...         self.factor = factor
    ...     def predict(self, X):
    ...         return self.factor * np.asarray(X)[:, 0]
    >>> models = [("once", Times(1.0)), ("twice", Times(2.0)), ("thrice", Times(3.0))]
    >>> X = np.random.default_rng(0).random((200, 1))
    >>> model = hr.ExpertEstimator(
    ...     models, hr.PhasedSelection(epsilon=8.0), horizon=200, clients=2, largest_error=2.0
    ... )
    >>> _ = model.fit(X, 2 * X[:, 0])  # 100 rounds of two clients
    >>> model.predict([[0.25], [0.5]])
    array([0.5, 1. ])
    >>> model.certificate.public.curve.words()
    'epsilon = 8, delta = 0'
    """

    estimators: Sequence[tuple[str, Any]]
    algorithm: AlgorithmSpec
    _: KW_ONLY
    horizon: int | None = None
    clients: int = 1
    loss: Loss = "absolute"
    largest_error: float | None = None
    quantile: float = 0.5
    absent: bool = False
    source: SecureNoise | None = None
    seed: int = 0

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is accepted and adds nothing."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def set_params(self, **params: Any) -> ExpertEstimator:
        """Change parameters; they count from the next `fit`."""
        known = self.get_params()
        if params and self.source is not None and hasattr(self, "learner_"):
            raise InvalidValue(
                "A private estimator keeps its parameters once its game has begun. "
                "Make a new estimator."
            )
        for name, value in params.items():
            if name not in known:
                raise InvalidValue(f"Unknown parameter {name!r}; valid: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> ExpertEstimator:
        """Return a new estimator with the same fitted experts, which scikit-learn would forget."""
        return type(self)(**self.get_params())

    def __sklearn_tags__(self) -> Any:
        """Return the default tags; only scikit-learn asks for them, in a pipeline for example."""
        return import_module("sklearn.base").BaseEstimator().__sklearn_tags__()

    def fit(self, rows: Any, y: Any) -> ExpertEstimator:
        """Start a new game and play it on these rows."""
        if self.source is not None and hasattr(self, "learner_") and self.learner_.round:
            raise InvalidValue(
                "A private estimator has learned already: another game could release the same "
                "records again. Use partial_fit for further rounds, or a new estimator."
            )
        if self.source is None:
            self._start()
        return self.partial_fit(rows, y)

    @property
    def learner(self) -> Learner:
        """The learner that chooses: for `hr.record_deployment` and `status()`. Do not play it."""
        if not hasattr(self, "learner_"):
            self._start()
        return self.learner_

    def _start(self) -> None:
        self.begun_: tuple[int, int] | None = None  # a call that has not ended: round, rounds
        self.learner_ = made_with(
            self.source,
            self.algorithm,
            self.seed,
            clients=self.clients,
            experts=len(self.estimators),
            horizon=self.horizon,
            absent=self.absent,
        )

    def partial_fit(self, rows: Any, y: Any) -> ExpertEstimator:
        """Play further rounds: rows of one round after the other, one for each client.

        After an interrupt the next call says how many rounds were learned, and learns nothing.
        """
        learner = self.learner
        self._require_whole(learner)
        predictions, targets = self._predictions(rows), unmasked(y)
        if len(targets) != len(predictions) or len(targets) % self.clients:
            raise InvalidValue(
                f"Expected rows and targets of whole rounds of {self.clients} clients, got "
                f"{len(predictions)} rows and {len(targets)} targets."
            )
        losses, _ = forecast_losses(
            predictions,
            targets,
            loss=self.loss,
            largest_error=self.largest_error,
            quantile=self.quantile,
        )
        known = ~is_missing(targets)
        if not (known.all() or self.absent):
            raise InvalidValue(
                "A target is missing. Nothing was learned. Allow absent clients with absent=True."
            )
        if np.isnan(losses[known]).any():
            raise InvalidValue(
                "Expected every expert to predict in every row. Nothing was learned."
            )
        losses[~known] = 0.0
        self.begun_ = learner.round, len(losses) // self.clients
        for first in range(0, len(losses), self.clients):
            part = slice(first, first + self.clients)
            learner.predict()
            learner.observe(losses[part], None if known[part].all() else known[part])
        self.begun_ = None
        return self

    def _require_whole(self, learner: Learner) -> None:
        """Raise once after a call that was interrupted: its rows must not be counted again."""
        if self.begun_ is None:
            return
        (start, rounds), self.begun_ = self.begun_, None
        raise InvalidValue(
            f"The last call was interrupted after {learner.round - start} of {rounds} rounds, "
            "which are learned. Call again, with the rows of the other rounds only."
        )

    def predict(self, rows: Any) -> np.ndarray:
        """Return the predictions of the experts that the clients follow now.

        Row i belongs to client i; with more rows than clients, the clients take turns.
        """
        if not hasattr(self, "learner_"):
            raise InvalidValue("This estimator has not learned yet. Call fit or partial_fit.")
        predictions = self._predictions(rows)
        plays = self.learner_.predict()
        at = np.arange(len(predictions))
        return predictions[at, plays[at % self.clients]]

    def _predictions(self, rows: Any) -> np.ndarray:
        return np.stack([unmasked(model.predict(rows)) for _, model in self.estimators], axis=-1)

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from the predictions; after `fit`."""
        return self.learner_.certificate
