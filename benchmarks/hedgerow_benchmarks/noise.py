"""Benchmarks of noise: secure noise against numpy and OpenDP, seeded noise against numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import LAWS, SeededNoise
from hedgerow.privacy.mechanisms import ExponentialMechanism, NoisyMax
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.exact import ExactLaw
from hedgerow.privacy.secure.laws import LatticeLaw
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import REPEATS, compared, in_turn, seconds

SIZES = (1, 100, 10**4, 10**6)
PEERS: dict[LatticeLaw, tuple[str, Mapping[int, float]]] = {
    "gaussian": ("normal", {10**4: 1.1, 10**6: 2.0}),
    "laplace": ("normal", {10**4: 1.1, 10**6: 2.0}),
    "exponential": ("exponential", {10**4: 1.3, 10**6: 2.5}),
}
"""What secure noise of each law is compared with, and the largest ratios by size."""
CUBES = (10, 100, 10**4)
"""Dimensions of K-norm noise."""
EXPERTS = 10**4
_SAMPLES = 2 * 10**6
_OPENDP_SAMPLES = 10**4


def _repeat(draw: Callable[[], object], times: int) -> Callable[[], object]:
    """A function that draws `times` times."""

    def work() -> object:
        drawn = None
        for _ in range(times):
            drawn = draw()
        return drawn

    return work


def sampling_rows(sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Lattice noise of scale 1 (2^20 steps) against noise of numpy, in several sizes."""
    generator = np.random.default_rng(0)
    server = SecureNoise().server()
    for law, (peer, limits) in PEERS.items():
        for size in sizes:
            times = max(1, min(20_000, _SAMPLES // size))
            shape = () if size == 1 else (size,)
            ours = _repeat(partial(server.draw, law, "bench", shape, scale=1.0), times)
            theirs = (
                partial(generator.normal, 0.0, 1.0, size)
                if peer == "normal"
                else partial(generator.exponential, 1.0, size)
            )
            found = compared(ours, _repeat(theirs, times))
            limit = limits.get(size)
            yield Row(
                f"{law}/d={size}",
                found.ratio,
                f"numpy {peer}",
                size * times / found.seconds,
                "per second",
                None if limit is None else "<=",
                limit,
                found.spread,
            )


def cube_rows() -> Iterator[Row]:
    """K-norm noise of 100 clients, against numpy: a sum of exponentials times uniform numbers."""
    generator, secure, rows = np.random.default_rng(0), SecureNoise(), 100
    for size in CUBES:

        def theirs(size: int = size) -> object:
            length = generator.exponential(1.0, (rows, size + 1)).sum(axis=-1, keepdims=True)
            return length * generator.uniform(-1.0, 1.0, (rows, size))

        times = max(1, _SAMPLES // (rows * size))
        ours = _repeat(partial(secure.cube, 1.0, rows, size), times)
        found = compared(ours, _repeat(theirs, times))
        yield Row(
            f"k-norm/d={size}",
            found.ratio,
            "numpy exponential, uniform",
            rows * times / found.seconds,
            "vectors per second",
            "<=",
            2.1,
            found.spread,
        )


def quick_noise() -> Iterator[Row]:
    """Secure noise of 10^4 numbers."""
    return sampling_rows((10**4,))


def opendp_rows() -> Iterator[Row]:
    """OpenDP's samplers of the same laws on the integers, if it is installed.

    Install it with `pip install opendp`.
    """
    try:
        import opendp.prelude as opendp
    except ImportError:
        return
    dp: Any = opendp
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    makers = {
        "gaussian": lambda: dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=2.0**20),
        "laplace": lambda: dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=2.0**20),
    }
    for law, make in makers.items():
        measurement, zeros = make(), [0] * _OPENDP_SAMPLES
        taken = median(seconds(partial(measurement, zeros)) for _ in range(3))
        yield Row(
            f"{law}/d={_OPENDP_SAMPLES}/OpenDP", None, None, _OPENDP_SAMPLES / taken, "per second"
        )


def setup_rows() -> Iterator[Row]:
    """The set-up time of a sampler for a new scale."""
    chosen: list[tuple[LatticeLaw, float]] = [("gaussian", 1000.0), ("laplace", 2.0**30)]
    for law, scale in chosen:
        taken = median(seconds(partial(ExactLaw, law, scale)) for _ in range(REPEATS))
        yield Row(f"set-up/{law}/scale={scale:g}", taken, "1 s", taken, "s", "<=", 1.0)


def selection_rows() -> Iterator[Row]:
    """One choice among 10^4 experts, against numpy's argmax of scores with Gumbel noise."""
    generator = np.random.default_rng(1)
    scores = round_to_lattice(generator.random(EXPERTS) * 20)
    server, seeded = SecureNoise().server(), SeededNoise(0).server()
    mechanisms = {
        "exponential mechanism": ExponentialMechanism("bench", 1.0),
        "permute and flip": NoisyMax("bench", "exponential", 1.0),
    }
    for name, mechanism in mechanisms.items():
        theirs = _repeat(lambda: int(np.argmax(generator.gumbel(size=EXPERTS) - scores / 2)), 50)
        ratio, taken = in_turn(_repeat(partial(server.release, mechanism, scores), 50), theirs)
        yield Row(
            f"select/{name}/d={EXPERTS}",
            ratio,
            "numpy Gumbel argmax",
            taken / 50 * 1e6,
            "us",
            "<=",
            5.0,
        )
        taken = seconds(_repeat(partial(seeded.release, mechanism, scores), 50))
        yield Row(f"select/{name}/d={EXPERTS}/seeded", None, None, taken / 50 * 1e6, "us")


def seeded_rows() -> Iterator[Row]:
    """Seeded noise from named streams, against direct draws from numpy."""
    count = 2**20
    rng = np.random.default_rng(0)
    for law in ("exponential", "gumbel"):
        noise = SeededNoise(0).server()
        ratio, taken = in_turn(
            partial(noise.draw, law, "bench", rounds=count), partial(LAWS[law], rng, count)
        )
        yield Row(
            f"seeded/{law}/n={count}", ratio, f"numpy {law}", taken / count * 1e9, "ns per draw"
        )


def noise_rows() -> Iterator[Row]:
    """All benchmarks of noise."""
    yield from sampling_rows()
    yield from cube_rows()
    yield from opendp_rows()
    yield from setup_rows()
    yield from selection_rows()
    yield from seeded_rows()


NOISE = Benchmark(noise_rows, quick_noise)
