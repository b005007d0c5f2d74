"""Mechanisms: the only code that draws protective noise.

One object draws the release and states its cost. Each is a `Mechanism`, whose interface is in
`hedgerow.core.mechanism`. Its `curve` is the sharpest guarantee of one release that is proven here.
A `Comparison` has no curve: its cost is part of its `AboveThreshold`, which is a sequence of
releases with one `curve` for all its answers.

Every one has a `log_density` of one release. Private choices also have `probabilities` and
`log_probability`; coins and sparse-vector sequences have `log_probability`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
