"""A private deployment: every day, three hospitals choose one of four models together.

Run it, then write the privacy statement:

    python examples/deployment.py FOLDER
    hedgerow statement FOLDER --details examples/statement_details.toml
"""

import sys

import numpy as np

import hedgerow as hr

if len(sys.argv) != 2:
    sys.exit("Name a new folder: python examples/deployment.py FOLDER")

# The key of the noise comes from the operating system; there is no seed.
learner = hr.Learner.private(
    hr.SparseVector(epsilon=1.0), clients=3, experts=4, horizon=60, source=hr.SecureNoise()
)

# Record the certificate before the first round.
hr.record_deployment(learner, sys.argv[1], title="Forecasting models at three hospitals")

for _ in range(60):
    followed = learner.predict()  # the model that each hospital follows today
    # The loss of each model at each hospital, in [0, 1]. Replace this line by your own data.
    losses = np.tile([0.0, 0.5, 0.5, 1.0], (3, 1))
    learner.observe(losses)
