"""Personal play: what do clients lose that mix the public combination with their own learner?

A client that keeps its plays at home mixes the private combination with what it has learned by
itself (`private_mixture` with `at_home`). That costs no privacy. It should be nearly as good as the
better of the two, whichever that is. Places differ here more than those of the flu data do:

* *biases*: each model has a bias, which is partly common to all places and partly the place's own.
* *other models*: each place has another good model, with an error of a tenth of the others'.
* *waves*: as for an epidemic, targets rise and fall by factors, errors are in proportion to them
  and have heavy tails, and biases are as above.
* *drift*: biases wander, by a random walk in each place.

In the first three a place is drawn again after 15 or 40 rounds on average, or never. Every seed
draws another game. The constants of personal play were chosen on other draws of the first three
kinds and on flu data, without a look at drift or at these sizes.

A client cannot know after one target which of the two to trust, so it loses about a round at the
start. Where learning alone has a small fraction of the loss of the public combination, one round is
much of it: so the margin is a share of the loss alone, or two rounds of the plain average.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hedgerow.algorithms.mixture.private_mixture import Mixture, PrivateMixture
from hedgerow.core.combination import Combination
from hedgerow.core.convex import AbsoluteError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting
from hedgerow.core.validate import one_of
from hedgerow.environments.drawn.examples import CHUNK, Chunked
from hedgerow.environments.drawn.generated import generator
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, TextTable, Verdict
from hedgerow_papers.experiments.pictures import BARS, footer
from hedgerow_papers.ours.drawn_quantiles import PlainLoss

Kind = Literal["biases", "other models", "waves", "drift"]
PUBLIC, ALONE, AT_HOME = "private, public combination", "alone, not private", "private, at home"
MARGIN, ROUNDS = 0.02, 2.0  # of the loss alone, or rounds of the plain average
LARGEST = 2.0**20
SEEDS, QUICK_SEEDS = 20, 2


@dataclass(frozen=True, kw_only=True)
class DifferentPlaces(Chunked):
    """Places whose forecasts err differently; see the text of this file.

    Parameters
    ----------
    kind
        "biases" (default), "other models", "waves" or "drift".
    own
        The share of the variance of biases that is the place's own, in [0, 1].
    lasting
        After how many rounds a place is drawn again, on average. None: never.
    clients, models, horizon
        The size of the game; at most 256 rounds.
    """

    kind: Kind = "biases"
    own: float = 1.0
    lasting: float | None = None
    clients: int = 30
    models: int = 10
    horizon: int = 120

    def __post_init__(self) -> None:
        one_of(self, kind=get_args(Kind))
        if not 0 <= self.own <= 1:
            raise InvalidValue(f"Expected own={self.own!r} in [0, 1].")
        if self.lasting is not None and not self.lasting >= 1:
            raise InvalidValue(f"Expected lasting={self.lasting!r} >= 1.")
        if not self.horizon <= CHUNK:
            raise InvalidValue(f"Expected horizon={self.horizon!r} <= {CHUNK}.")

    @property
    def setting(self) -> Setting:
        family = Combination(AbsoluteError(feature_norm=LARGEST, target=LARGEST))
        return Setting(self.clients, self.models, self.horizon, family=family)

    def chunk(self, seed: int, index: int) -> Array:
        rng, places = generator(seed, 1), (self.clients, self.models)
        level, growth = np.exp(rng.normal(size=self.clients)), np.zeros(self.clients)
        shared = np.sqrt(1 - self.own) * rng.normal(size=self.models)
        bias, good = self._biases(rng, shared), rng.integers(self.models, size=self.clients)
        records = np.empty((CHUNK, self.clients, self.models + 1))
        for row in records:
            if self.lasting is not None:
                again = rng.random(self.clients) < 1 / self.lasting
                bias = np.where(again[:, None], self._biases(rng, shared), bias)
                good = np.where(again, rng.integers(self.models, size=self.clients), good)
            noise = rng.normal(size=places)
            if self.kind == "other models":
                error = noise * np.where(np.arange(self.models) == good[:, None], 0.2, 2.0)
            else:
                error = bias + 0.3 * noise
            if self.kind == "drift":
                bias = bias + 0.15 * rng.normal(size=places)
            if self.kind == "waves":
                growth = 0.8 * growth + 0.15 * rng.normal(size=self.clients) + 0.1 * rng.normal()
                level = np.clip(level * np.exp(growth), 0.05, 50.0)
                error = 0.2 * level[:, None] * (bias + 0.6 * rng.standard_t(3, size=places))
            shock = 0.3 * rng.normal(size=self.clients)
            centre = error.mean(axis=1)
            row[:, :-1] = error - centre[:, None]
            row[:, -1] = level * shock - centre if self.kind == "waves" else shock - centre
        return self.setting.family.clip(records).records

    def _biases(self, rng: Any, shared: Array) -> Array:
        """Biases (places, models) of variance 1: what is shared, and each place's own part."""
        return shared + np.sqrt(self.own) * rng.normal(size=(self.clients, self.models))

    def measures(self) -> tuple[PlainLoss, ...]:
        return (PlainLoss(self.setting.family, self.models),)


def _games() -> dict[str, DifferentPlaces]:
    found = {}
    kinds: tuple[tuple[Kind, tuple[float, ...]], ...] = (
        ("biases", (0.5, 1.0)),
        ("other models", (1.0,)),
        ("waves", (0.5, 1.0)),
    )
    for kind, shares in kinds:
        for own in shares:
            for lasting in (None, 40.0, 15.0):
                name = (
                    kind if kind == "other models" else f"{kind}, {own:.0%} own".replace("%", " %")
                )
                name += ", lasting" if lasting is None else f", about {lasting:g} rounds"
                found[name] = DifferentPlaces(kind=kind, own=own, lasting=lasting)
    for own in (0.5, 1.0):
        found[f"drift, {100 * own:g} % own"] = DifferentPlaces(kind="drift", own=own)
    found["waves of 52 places, 131 rounds"] = DifferentPlaces(
        kind="waves", own=0.8, lasting=30.0, clients=52, models=12, horizon=131
    )
    found["waves, 56 rounds"] = DifferentPlaces(kind="waves", own=0.5, horizon=56)
    return found


GAMES = _games()


def studies(quick: bool) -> dict[str, StudyConfig]:
    entries = (
        Entry(PUBLIC, PrivateMixture()),
        Entry(ALONE, Mixture(), alone=True),
        Entry(AT_HOME, PrivateMixture(at_home=True)),
    )
    seeds = QUICK_SEEDS if quick else SEEDS
    names = list(GAMES)[::6] if quick else list(GAMES)
    return {
        name: StudyConfig(f"Personal play, {name}", GAMES[name], entries, seeds) for name in names
    }


def _lost(study: Study, label: str) -> Array:
    """The loss of every seed, mean over places, summed over rounds."""
    return np.array([run.loss[-1] for run in study.of(label)])


def _plain(study: Study) -> Array:
    return np.array([run.figures[PlainLoss.name][-1] for run in study.of(ALONE)])


def _share(study: Study, label: str) -> Estimate:
    """The loss as a share of that of the plain average."""
    return Estimate.of(_lost(study, label) / _plain(study))


def judge(done: Studies) -> Verdict:
    checks, most = [], 0.0
    for name, study in done.items():
        rounds = study.config.environment.setting.rounds
        home = _lost(study, AT_HOME)
        for other in (ALONE, PUBLIC):
            least = _lost(study, other)
            allowed = np.maximum(MARGIN * least, ROUNDS * _plain(study) / rounds)
            value = Estimate.of((home - least) / allowed).high
            checks.append(Check(f"{name}/more than {other}, in margins", value, "<=", 1.0))
        alone = _lost(study, ALONE)
        most = max(most, float((home.mean() - alone.mean()) / alone.mean()))
    worse = sum(_lost(s, AT_HOME).mean() > _lost(s, ALONE).mean() for s in done.values())
    both = sum(
        _lost(s, AT_HOME).mean() < min(_lost(s, ALONE).mean(), _lost(s, PUBLIC).mean())
        for s in done.values()
    )
    message = (
        f"of {len(done)} games personal play has a larger mean loss than learning alone in {worse},"
        f" by {100 * most:.1f} % at most, and a smaller one than both in {both}"
    )
    return Verdict(None, tuple(checks), message, (_table(done),))


def _table(done: Studies) -> TextTable:
    rows = tuple(
        (name, *(_share(study, label).words(digits=3) for label in (PUBLIC, ALONE, AT_HOME)))
        for name, study in done.items()
    )
    head = ("places", PUBLIC, ALONE, AT_HOME)
    return TextTable("Loss as a share of that of the plain average", head, rows)


def draw(done: Studies, path: Path) -> None:
    """Draw the loss of each way on every game, as a share of that of the plain average."""
    from hedgerow.evaluation.plots.canvas import COLOURS, GREY, canvas, footnote

    figure, axes = canvas("Personal play beside learning alone and together", width=9.0)
    places = np.arange(len(done))[::-1]
    for colour, label in zip(COLOURS, (PUBLIC, ALONE, AT_HOME), strict=False):
        found = [_share(study, label) for study in done.values()]
        means, halves = [v.mean for v in found], [np.nan_to_num(v.half_width) for v in found]
        axes.errorbar(
            means, places, xerr=halves, color=colour, marker="o", ms=5, ls="", label=label
        )
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_yticks(places, list(done), fontsize=8)
    axes.set_xlabel("loss, as a share of that of the plain average")
    axes.legend(frameon=False, fontsize=9)
    footnote(figure, "epsilon = 1; " + footer(done, studies, BARS))
    figure.savefig(path, dpi=150)


EXPERIMENT = Experiment(
    id="personal-play",
    title="Personal play: the public combination and the own learner, mixed at home",
    claim=(
        "none published; personal play is never worse than learning alone, or than the public"
        " combination, by more than 2 % or two rounds of the plain average"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
