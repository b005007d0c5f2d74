"""The seeds of a study on a Dask cluster: the same results as on one machine, bit for bit.

    pip install "dask[distributed]"
    python examples/cluster.py                  # two worker processes on this machine
    python examples/cluster.py SCHEDULER:8786   # a cluster that is already running

Hedgerow, in the same version, must be on every machine. The losses are sent there once.
"""

# pyright: reportMissingImports=false
import sys

import numpy as np

import hedgerow as hr

try:
    from dask.distributed import Client, LocalCluster
except ImportError:
    sys.exit('This example needs Dask: pip install "dask[distributed]"')

game = hr.Realizable(clients=10, experts=20, horizon=256)
algorithms = {"private": hr.Doubling(epsilon=1.0), "not private": hr.AdaHedge()}

if __name__ == "__main__":  # worker processes import this file
    cluster = (
        sys.argv[1]
        if len(sys.argv) > 1
        else LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    )
    with Client(cluster) as client:
        scheduler = client.scheduler_info()["address"].removeprefix("tcp://")
        far = hr.run(game, algorithms, seeds=8, executor=f"dask://{scheduler}")
    print(far)
    near = hr.run(game, algorithms, seeds=8)
    pairs = list(zip(far.results, near.results, strict=True))
    same = all(np.array_equal(a.regret, b.regret) for a, b in pairs)
    print(f"the same results as on one machine: {same}")
