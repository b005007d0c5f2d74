"""Run a study from Python into a run folder, and go on where it was interrupted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.environments.recorded.losses import Recorded, RecordedArray
from hedgerow.environments.recorded.table import Frame
from hedgerow.studies.config import StudyConfig
from hedgerow.studies.run import check_engine, run_study
from hedgerow.studies.storage.folder import write_study
from hedgerow.studies.storage.identity import studies_identity
from hedgerow.studies.storage.place import check_new
from hedgerow.studies.storage.unfinished import new_run, resumed_run, unfinished_at
from hedgerow.studies.study import Study

with needs("runs"):
    import pyarrow as pa
    import pyarrow.parquet as pq


def run_and_save(config: StudyConfig, out: Path, options: dict[str, Any]) -> Study:
    """Run a study into the folder `out`; an interrupted run of the same study is resumed."""
    if out.exists():
        check_new(out, "")
    config = replace(config, environment=_on_disk(config.environment, out))
    check_engine(config)
    found = studies_identity({"study": config})
    begun = unfinished_at(out)
    working = new_run(out, out.name, found) if begun is None else resumed_run(begun, found, False)
    with working as unfinished:
        study = run_study(config, store=unfinished.store, **options)
        write_study(study, unfinished.draft, unfinished.final, found["losses"]["study"])
    return study


def _on_disk(environment: Environment, out: Path) -> Environment:
    """The environment, with data of this process in a file, so that others can run it again."""
    kept: Any = environment
    if isinstance(kept, RecordedArray):
        path = _written(_table(kept), out)
        return Recorded(str(path), missing=kept.missing)
    if isinstance(getattr(kept, "path", None), Frame):
        return replace(kept, path=str(_written(kept.path.table, out)))
    return environment


def _table(array: RecordedArray) -> Any:
    """The losses of an array, as a file holds them."""
    rounds, clients, experts = array.losses.shape
    values = array.losses.copy()
    if array.gaps.awake is not None:
        values[~array.gaps.awake] = np.nan
    if array.gaps.present is not None:
        values[~array.gaps.present] = np.nan
    width = len(str(clients))
    who = array.clients or tuple(f"client {number:0{width}}" for number in range(clients))
    if tuple(sorted(who)) != tuple(who):
        who = tuple(f"{number:0{width}} {name}" for number, name in enumerate(who))
    names = array.expert_names
    for name in ("round", "client"):
        if name in names:
            raise InvalidValue(f"An expert is called {name!r}, as a column is. Rename the expert.")
    columns = {"round": np.repeat(np.arange(rounds), clients), "client": list(who) * rounds}
    flat = values.reshape(-1, experts)
    return pa.table({**columns, **{name: flat[:, at] for at, name in enumerate(names)}})


def _written(table: Any, out: Path) -> Path:
    """Write a table beside a run folder; the same table may be there already."""
    path = out.with_name(f"{out.name}.losses.parquet").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    pq.write_table(table, draft)
    if path.exists() and path.read_bytes() != draft.read_bytes():
        draft.unlink()
        raise InvalidValue(f"{path} holds other losses. Choose another folder, or delete it.")
    draft.replace(path)
    return path
