"""The Sparse-Vector algorithm of Asi et al. 2023 (Algorithm 1), as printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hedgerow_papers.gao2024.fed_svt import FedSVT


@dataclass(frozen=True)
class AsiSparseVector(FedSVT):
    """Sparse-Vector with the printed constants, which are for one client. `SparseVector` is better.

    It has 6 ceil(log2 d) + 24 ln(1/rho) draws, and with delta > 0 a smaller rate than `FedSVT`. The
    constants are used for all clients together. Parameters and guarantee are those of `FedSVT`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> AsiSparseVector().build(setting).parameters["switches"]
    114

    References
    ----------
    Asi et al. 2023, "Near-optimal algorithms for private online optimization in the realizable
    regime", Algorithm 1.
    """

    name: ClassVar[str] = "asi2023_sparse_vector"
    draws_per_bit: ClassVar[int] = 6
    spread: ClassVar[int] = 32
