"""`hedgerow demo`: a built-in study."""

from __future__ import annotations

from dataclasses import replace

from rich.table import Table

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.cli.options import Debug, Json, Out
from hedgerow.cli.output import OUT, print_indented, print_json, progress_bar
from hedgerow.cli.tables import new_table
from hedgerow.core.certificate import Observer
from hedgerow.environments.drawn.realizable import NearRealizable
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.folder import fresh_folder, study_document, write_study
from hedgerow.studies.study import Study

HOSPITALS = NearRealizable(
    clients=8, experts=24, horizon=730, mean=0.4, law="uniform", best_loss=2.0
)
PRIVATE = SparseVector(epsilon=1.0, every=1, best_loss=2.0)
TOGETHER, ALONE, OPEN = "private, together", "private, alone", "not private, together"


def study() -> StudyConfig:
    """The study: every day for two years, eight hospitals choose one of 24 forecasting models."""
    return StudyConfig(
        title="Eight hospitals, 24 forecasting models, two years: private at epsilon = 1",
        environment=HOSPITALS,
        algorithms=(
            Entry(ALONE, PRIVATE, replace(HOSPITALS, clients=1)),
            Entry(TOGETHER, PRIVATE),
            Entry(OPEN, FollowTheLeader(every=1)),
        ),
        seeds=30,
    )


def demo(out: Out = None, json: Json = False, debug: Debug = False) -> None:
    """Simulate eight hospitals that learn together privately.

    They learn which forecasting model to follow, with differential privacy.

    The demo compares private learning together, private learning alone and learning together
    without privacy. It prints what each observer can learn, and writes a run folder with a picture.
    """
    config = study()
    with fresh_folder(out, "demo") as folder:
        with progress_bar("demo") as update:
            done = run_study(
                config, progress=lambda count, total: update("simulating hospitals", count, total)
            )
        record = write_study(done, folder.path, folder.final)
    if json:
        print_json(study_document(done, record))
        return
    OUT.print(_table(done))
    regret = {row.label: row.regret.mean for row in done.summary()}
    OUT.print(
        f"Regret alone is {regret[ALONE] / regret[TOGETHER]:.1f} times as large as together, "
        "at the same privacy."
    )
    OUT.print("\nWhat each observer can learn about one day's losses of one hospital:")
    for guarantee in done.algorithms[TOGETHER].certificate.guarantees:
        print_indented(f"{guarantee.words()}")
    OUT.print(f"\n{STAMP}. Picture: {folder.final / 'regret.png'}", markup=False, soft_wrap=True)


def _table(done: Study) -> Table:
    """A table for first-time readers: figures per hospital, with the epsilon."""
    table = new_table(
        [""],
        ("regret per hospital", "epsilon", "exchanges", "numbers sent per hospital"),
        title=done.config.title,
    )
    for row in done.summary():
        guarantee = done.algorithms[row.label].certificate.guarantee(Observer.PUBLIC)
        shown = f"{guarantee.curve.stated()[0]:.3g}" if guarantee.protects else "none"
        each = row.numbers_sent.mean / done.algorithms[row.label].setting.clients
        table.add_row(
            row.label, str(row.regret), shown, f"{row.exchanges.mean:,.0f}", f"{each:,.0f}"
        )
    return table
