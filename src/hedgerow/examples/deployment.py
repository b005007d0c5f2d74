"""Three hospitals follow one of four models every day, with noise that protects, and a privacy statement to sign.

python examples/deployment.py FOLDER, then: hedgerow statement FOLDER --details examples/statement_details.toml
"""

import sys

import numpy as np

import hedgerow as hr

if len(sys.argv) != 2:
    sys.exit("Expected the name of a new folder: python examples/deployment.py FOLDER")
source = hr.SecureNoise()  # the key comes from the operating system: there is no seed
learner = hr.Learner.private(
    hr.SparseVector(epsilon=1.0), clients=3, experts=4, horizon=60, source=source
)
hr.record_deployment(
    learner, sys.argv[1], title="Forecasting models at three hospitals"
)  # before the first round

for _ in range(60):
    followed = learner.predict()  # the model that each hospital follows today
    losses = np.tile(
        [0.0, 0.5, 0.5, 1.0], (3, 1)
    )  # what each model lost at each hospital, in [0, 1]: from your own systems
    learner.observe(losses)
