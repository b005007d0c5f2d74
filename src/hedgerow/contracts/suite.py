"""All contracts, and how to run them on an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hedgerow.contracts import agreement, guarantees, ledger, utility
from hedgerow.contracts.neighbours import SECURE
from hedgerow.contracts.outcome import BrokenContract, NotApplicable
from hedgerow.core.protocol import AlgorithmSpec

Contract = Callable[..., None]  # a spec, and for some a `Randomness`

CONTRACTS: dict[str, Contract] = {
    "same on every engine": agreement.same_on_every_engine,
    "same for every block": agreement.same_for_every_block,
    "causal": agreement.causal,
    "pure": agreement.pure,
    "resumable": agreement.resumable,
    "valid plays": agreement.valid_plays,
    "sleeping experts": agreement.sleeping_experts,
    "covers every message": guarantees.covers_every_message,
    "sensitivities hold": guarantees.sensitivities_hold,
    "nothing raw in a view": guarantees.nothing_raw_in_a_view,
    "noise follows its law": guarantees.noise_follows_its_law,
    "ledger composes": ledger.ledger_composes,
    "exact ratio below certificate": guarantees.exact_ratio_below_certificate,
    "noiseless is reference": utility.noiseless_is_reference,
    "regret below bound": utility.regret_below_bound,
    "million rounds": utility.million_rounds,
}


ON_BOTH_SOURCES = (
    "sensitivities hold",
    "nothing raw in a view",
    "noise follows its law",
    "ledger composes",
    "exact ratio below certificate",
)  # the others compare runs on the same noise, which secure noise never gives twice


@dataclass(frozen=True)
class Outcome:
    contract: str
    status: Literal["holds", "not applicable", "broken"]
    detail: str


def examine(name: str, spec: AlgorithmSpec, *, secure: bool = False) -> Outcome:
    """One contract on one algorithm, with seeded noise or with `secure` noise, where it is about noise."""
    try:
        if secure:
            CONTRACTS[name](spec, SECURE)
        else:
            CONTRACTS[name](spec)
    except NotApplicable as reason:
        return Outcome(name, "not applicable", str(reason))
    except BrokenContract as error:
        return Outcome(name, "broken", str(error))
    except Exception as error:  # an algorithm that fails outright breaks the contract it failed in
        return Outcome(name, "broken", f"{type(error).__name__}: {error}")
    return Outcome(name, "holds", (CONTRACTS[name].__doc__ or "").strip().splitlines()[0])
