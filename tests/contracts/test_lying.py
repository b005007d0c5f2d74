"""Servers that lie learn no more than is certified, and the contract catches clients that help."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.algorithms.registry import variants
from hedgerow.algorithms.walks.walk_leader import LeadingClient
from hedgerow.contracts.games import built, games_of
from hedgerow.contracts.lying import lying_servers_learn_no_more
from hedgerow.contracts.outcome import BrokenContract
from hedgerow.core.games import Games
from hedgerow.core.limits import Allowed, Between, Numbers
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.running_sums.filters import FilterState
from hedgerow.running_sums.lattice import LatticeEncoder
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe

GAMES = 10_000
FORMS = dict(variants())
EXPOSED = [
    name
    for name, spec in FORMS.items()
    if built(spec, games_of(spec).setting).certificate.trust in ("local", "distributed")
    and name != "uniform"  # its clients send nothing
]


@pytest.mark.long
@pytest.mark.parametrize("name", EXPOSED)
def test_no_lie_of_many_learns_more(name: str) -> None:
    assert f"{GAMES:,} games" in lying_servers_learn_no_more(FORMS[name], games=GAMES)


@pytest.mark.parametrize("name", FORMS)
def test_every_field_of_a_broadcast_has_limits(name: str) -> None:
    algorithm = built(FORMS[name], games_of(FORMS[name]).setting)
    assert set(algorithm.broadcasts.limits) == {f.name for f in fields(algorithm.broadcasts.kind)}


def test_every_form_without_a_trusted_server_is_tried() -> None:
    assert len(EXPOSED) >= 18
    for name in EXPOSED:
        assert "let through" in lying_servers_learn_no_more(FORMS[name], games=8), name


# Planted bugs: what clients of version 0.3.0 let in, and how they failed.


@dataclass(frozen=True)
class Gullible(AlgorithmSpec):
    """Lets in any value of one field."""

    inner: Any
    field: str
    allowed: Allowed

    @property
    def traits(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.traits

    def games(self) -> Any:
        return self.inner.games()

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        return replace(
            honest,
            broadcasts=replace(
                honest.broadcasts, limits={**honest.broadcasts.limits, self.field: self.allowed}
            ),
        )


class Refusing(LatticeEncoder):
    """Refuses large sums, as clients of version 0.3.0 did."""

    def step_clients(self, count: Any, memory: Any, vectors: Any) -> Any:
        rows = np.moveaxis(memory, -2, 0)
        filtered, after = self.step(FilterState(int(np.ravel(count)[0]), rows), vectors)
        return filtered, np.moveaxis(after.memory, 0, -2)


@dataclass(frozen=True)
class Failing(Gullible):
    """The same, and its filter refuses what is too large."""

    def resolve(self, setting: Setting) -> Algorithm:
        found: Any = super().resolve(setting)
        known = {name: getattr(found.client.encoder, name) for name in ("digits", "rounds")}
        old = found.client.encoder
        encoder = Refusing(old.factorisation, old.width, old.largest, **known)
        return replace(found, client=replace(found.client, encoder=encoder))


@dataclass(frozen=True)
class Keeping(LeadingClient):
    """Keeps its record after the upload."""

    def upload(self, state: Any, noise: Any) -> tuple[Any, Any]:
        return super().upload(state, noise)[0], state


@dataclass(frozen=True)
class Repeating(Gullible):
    """Sends the same record again if it is asked at once."""

    def resolve(self, setting: Setting) -> Algorithm:
        found: Any = super().resolve(setting)
        return replace(
            found,
            client=Keeping(**found.client.__dict__),
            shortcuts=replace(found.shortcuts, advance=None),
        )


ANY_ROUNDS = Between(0, 10**6)
LEADER, FTRL = hr.RunningLeader(trust="local"), hr.NoisyFTRL(trust="local")


@dataclass(frozen=True)
class ManySteps(Gullible):
    """Lets in models of every size; many local steps on examples whose large weights cancel.

    The first example moves the second weight. If the others are (Z, x, -Z), then x counts only by
    whole steps of the 24 bits of Z, and a small move of x turns the gradients of all later examples.
    """

    def games(self) -> Games:
        family = hr.Batch(hr.Huber(radius=10.0), 12)
        setting = Setting(clients=2, experts=3, horizon=2, family=family)
        examples = np.tile([0.68, 0.2, 0.68, 0.25], (2, 2, 12, 1))
        examples[:, :, 0] = [0.0, 1.0, 0.0, 0.0]

        def pair(rng: np.random.Generator, unit: Any) -> tuple[Any, Any]:
            other, cell = examples.copy(), (0, int(rng.integers(2)))
            other[(*cell, 0)] = 0.0
            return examples.reshape(2, 2, -1), other.reshape(2, 2, -1)

        return Games(
            setting,
            recorded=lambda records: hr.Replay(records, family),
            stream=lambda rng, setting: examples.reshape(2, 2, -1),
            pair=pair,
        )


def cancelling(rng: np.random.Generator, honest: np.ndarray) -> np.ndarray:
    """A model (Z, x, -Z) with Z of about 2^25, for the examples of `ManySteps`."""
    large = 2.0 ** rng.integers(22, 27) * rng.choice([-1.0, 1.0])
    return np.array([large, rng.uniform(0, 12), -large])


STEPS = hr.OnlineSGD(plan=Plan("convex", local_step=1.9))
PLANTED = {
    "a longer batch, running_leader": (Failing(LEADER, "rounds", ANY_ROUNDS), "numbers of size"),
    "a longer batch, noisy_ftrl": (Failing(FTRL, "rounds", ANY_ROUNDS), "numbers of size"),
    "one round more, blocks": (
        Gullible(hr.LimitedUpdates(trust="local"), "rounds", ANY_ROUNDS),
        "Expected .* records in a report",
    ),
    "any phase, Frank-Wolfe": (
        Gullible(FrankWolfe(trust="local", delta=1e-6), "rounds", ANY_ROUNDS),
        "records not used before",
    ),
    "asked again at once": (
        Repeating(hr.WalkLeader(), "rounds", ANY_ROUNDS),
        "a datum enters 2 of mu",
    ),
    "a large model, convex steps": (
        ManySteps(STEPS, "model", Numbers(3, 2.0**60)),
        "moved a released value|shifts add up",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_contract_catches(name: str) -> None:
    spec, why = PLANTED[name]
    clever = cancelling if isinstance(spec, ManySteps) else None
    with pytest.raises(BrokenContract, match=why):
        lying_servers_learn_no_more(spec, games=1_000, clever=clever)


def test_a_field_without_limits_is_refused() -> None:
    @dataclass(frozen=True)
    class Silent(Gullible):
        def resolve(self, setting: Setting) -> Algorithm:
            honest = self.inner.build(setting)
            return replace(
                honest,
                broadcasts=replace(
                    honest.broadcasts, limits={"rounds": honest.broadcasts.limits["rounds"]}
                ),
            )

    with pytest.raises(BrokenContract, match=r"Leader\.expert may be"):
        lying_servers_learn_no_more(Silent(LEADER, "expert", ANY_ROUNDS))


def test_models_of_the_domain_keep_the_bound_in_24_bits() -> None:
    honest = STEPS.build(ManySteps(STEPS, "model", ANY_ROUNDS).games().setting)
    found = lying_servers_learn_no_more(
        ManySteps(STEPS, "model", honest.broadcasts.limits["model"]), games=500, clever=cancelling
    )
    assert float(found.split("at most ")[1].split()[0]) <= 1


def test_a_longer_batch_is_cut_and_not_refused() -> None:
    """Even where the door is open, the client's filter shows nothing."""
    lying_servers_learn_no_more(Gullible(LEADER, "rounds", ANY_ROUNDS), games=400)


def test_laplace_reports_cost_what_their_mechanism_states() -> None:
    """A curve of Laplace noise lies below that of a pure guarantee with the same epsilon."""
    lying_servers_learn_no_more(hr.PhasedSelection(trust="local", report="laplace"))


@dataclass(frozen=True)
class Careless(AlgorithmSpec):
    """A client that leaves out its share of noise, or rounds what it sends after the share."""

    inner: Any
    how: str

    @property
    def traits(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.traits

    def resolve(self, setting: Setting) -> Algorithm:
        honest, how = self.inner.build(setting), self.how

        class Client(type(honest.client)):
            def upload(self, state: Any, noise: Any) -> Any:
                sent, after = super().upload(state, noise)
                if how == "rounds":
                    return replace(sent, values=np.round(sent.values)), after
                return replace(sent, values=0 * sent.values), after

        own = {f.name: getattr(honest.client, f.name) for f in fields(honest.client)}
        return replace(honest, client=Client(**own))


@pytest.mark.parametrize("how", ["rounds", "leaves it out"])
def test_a_share_that_is_left_out_or_touched_is_caught(how: str) -> None:
    spec = Careless(hr.WalkLeader(trust="distributed"), how)
    with pytest.raises(BrokenContract, match="after its share of noise"):
        lying_servers_learn_no_more(spec, games=4)
