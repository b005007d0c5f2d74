"""A plugin to copy: an experiment, from the runs to the verdict.

    hedgerow reproduce my-speedup --plugin examples/my_experiment.py

It needs the papers (`pip install ./papers` in a checkout), which know how to run experiments.

`studies` lists the runs, `judge` compares them with the claim, and `draw` makes the picture.
"""

from pathlib import Path

import hedgerow as hr
from hedgerow.evaluation.plots.canvas import canvas, footnote
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer

CLIENTS = (1, 2, 4, 8)


def studies(quick: bool) -> dict[str, StudyConfig]:
    """One study per number of clients; fewer seeds if `quick`."""
    algorithm = hr.SparseVector(epsilon=2.0)
    return {
        f"m={m}": StudyConfig(
            title=f"{m} clients",
            environment=hr.Realizable(clients=m, experts=30, horizon=400),
            algorithms=(Entry("private", algorithm),),
            seeds=5 if quick else 30,
        )
        for m in CLIENTS
    }


def judge(done: Studies) -> Verdict:
    """The claim holds if 8 clients have less regret than one; the check asks for a factor of 4."""
    speedup = done["m=1"].regret("private").mean / done["m=8"].regret("private").mean
    return Verdict(holds=judged(speedup > 1), checks=(Check("m=8/speedup", speedup, ">=", 4.0),))


def draw(done: Studies, path: Path) -> None:
    """Regret against the number of clients, beside a line of slope -1."""
    regrets = [done[f"m={m}"].regret("private") for m in CLIENTS]
    figure, axes = canvas("Regret against the number of clients")
    axes.errorbar(CLIENTS, [r.mean for r in regrets], [r.half_width for r in regrets], marker="o")
    axes.plot(CLIENTS, [regrets[0].mean / m for m in CLIENTS], "--", label="theory: 1/m")
    axes.set(xscale="log", yscale="log", xlabel="clients", ylabel="regret (mean over clients)")
    axes.legend(frameon=False)
    footnote(figure, footer(done, studies))
    figure.savefig(path, dpi=150)


hr.EXPERIMENTS.add(
    "my-speedup",
    Experiment(
        id="my-speedup",
        title="How much does each client gain from the others?",
        claim="regret falls as 1/m",
        studies=studies,
        judge=judge,
        draw=draw,
    ),
)
