"""Planting a bug in an honest algorithm: what it changes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hedgerow.core.certificate import Guarantee
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from support.stopping import Stopping


@dataclass(frozen=True)
class Planted(AlgorithmSpec):
    """What a function makes of an honest algorithm; `loud`: audited on its loud games as well."""

    bug: Callable[[Algorithm], Algorithm]
    inner: AlgorithmSpec = field(default_factory=Stopping)
    loud: bool = False

    def audit_variants(self) -> tuple[AlgorithmSpec, ...]:
        louder = self.inner.audit_variants() if self.loud else ()
        return tuple(replace(self, inner=inner) for inner in louder)

    def resolve(self, setting: Setting) -> Algorithm:
        return self.bug(self.inner.build(setting))


def certified(algorithm: Algorithm, **changes: Any) -> Algorithm:
    """The algorithm with parts of its certificate changed."""
    return replace(algorithm, certificate=replace(algorithm.certificate, **changes))


def promising(algorithm: Algorithm, promise: Callable[[Guarantee], Guarantee]) -> Algorithm:
    """The algorithm with every guarantee changed."""
    return certified(algorithm, guarantees=tuple(map(promise, algorithm.certificate.guarantees)))


def claiming(algorithm: Algorithm, **changes: Any) -> Algorithm:
    """The algorithm with other claims."""
    return replace(algorithm, claims=replace(algorithm.claims, **changes))


def shortcut(algorithm: Algorithm, **changes: Any) -> Algorithm:
    """The algorithm with other shortcuts."""
    return replace(algorithm, shortcuts=replace(algorithm.shortcuts, **changes))
