"""Privacy accounting and noise: what a release costs, and the code that draws it.

* `budget`: the privacy budget and the exact price of a release.
* `odometer`: the running sum of a stream of releases, and a filter that keeps it within a budget.
* `calibrate`: the least noise that fits a budget, and the cost of a curve.
* `curves`: delta as a function of epsilon, for one release. Trade-off functions are in
  `curves.trade_off`, curves made of others in `curves.wrapped`.
* `composition`: curves of several releases (`steps`, `bounded_range`, `random_draws`,
  `fixed_plan`), and of several records or runs (`groups`).
  `recursion` computes the tables of `bounded_range`, and `table_cache` keeps them on disk.
* `mechanisms`: additive noise, private selection, coins, the sparse vector technique, and noise
  shared by clients.
* `secure`: exact noise for real data, from the operating system's entropy.
* `search`: bisection and a root, which the other modules share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
