"""The list of all contracts, and a function that checks one of them on an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Literal

from hedgerow.contracts import (
    agreement,
    closing,
    guarantees,
    ledger,
    lying,
    utility,
    views,
)
from hedgerow.contracts.neighbours import SECURE
from hedgerow.contracts.outcome import BrokenContract, NotApplicable
from hedgerow.core.errors import NotInstalled
from hedgerow.core.protocol import AlgorithmSpec

# A contract takes a spec and, in some cases, a `Randomness`; it may return what it tried.
Contract = Callable[..., str | None]

CONTRACTS: dict[str, Contract] = {
    "same on every engine": agreement.same_on_every_engine,
    "same for every block": agreement.same_for_every_block,
    "same by sums": agreement.same_by_sums,
    "causal": agreement.causal,
    "pure": agreement.pure,
    "resumable": agreement.resumable,
    "states survive": agreement.states_survive,
    "valid plays": agreement.valid_plays,
    "anytime": agreement.anytime,
    "sleeping experts": agreement.sleeping_experts,
    "absent clients": agreement.absent_clients,
    "covers every message": guarantees.covers_every_message,
    "within the budget": guarantees.within_the_budget,
    "sensitivities hold": guarantees.sensitivities_hold,
    "nothing raw in a view": views.nothing_raw_in_a_view,
    "public is public": views.public_is_public,
    "noise follows its law": guarantees.noise_follows_its_law,
    "ledger composes": ledger.ledger_composes,
    "exact ratio below certificate": guarantees.exact_ratio_below_certificate,
    "uploads are bounded": closing.uploads_are_bounded,
    "closing rules hold": closing.closing_rules_hold,
    "a lying server": lying.lying_servers_learn_no_more,
    "noiseless is reference": utility.noiseless_is_reference,
    "regret below bound": utility.regret_below_bound,
    "million rounds": utility.million_rounds,
}

# The contracts that take noise as an argument. The others use no noise, or compare runs with the
# same noise, which a secure source cannot repeat.
ON_BOTH_SOURCES = tuple(
    name for name, check in CONTRACTS.items() if "noise" in signature(check).parameters
)


@dataclass(frozen=True)
class Outcome:
    """The result of one contract on one algorithm; `detail` says what holds or what went wrong."""

    contract: str
    status: Literal["holds", "not applicable", "broken"]
    detail: str


def examine(name: str, spec: AlgorithmSpec, *, secure: bool = False) -> Outcome:
    """Check one contract on one algorithm, with seeded noise or with `secure` noise."""
    try:
        if secure and name not in ON_BOTH_SOURCES:
            raise NotApplicable("it draws no noise, or needs the same noise twice")
        tried = CONTRACTS[name](spec, **({"noise": SECURE} if secure else {}))
    except (NotApplicable, NotInstalled) as reason:
        return Outcome(name, "not applicable", str(reason))
    except BrokenContract as error:
        return Outcome(name, "broken", str(error))
    except Exception as error:  # an algorithm that raises breaks the contract
        return Outcome(name, "broken", f"{type(error).__name__}: {error}")
    holds = (CONTRACTS[name].__doc__ or "").strip().splitlines()[0]
    return Outcome(name, "holds", f"{holds} ({tried})" if tried else holds)
