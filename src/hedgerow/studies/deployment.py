"""The privacy record of a deployment: of a learner that draws secure noise, and of nothing else."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakKeyDictionary

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.validate import expect
from hedgerow.engines.learner import Learner
from hedgerow.records.build import algorithm_record, choices_of
from hedgerow.records.provenance import code, secure_noise, versions
from hedgerow.records.schema import FILE, FORMAT, RunRecord, to_json

_recorded: WeakKeyDictionary[Learner, str] = WeakKeyDictionary()


def deployment_record(learner: Learner, title: str, folder: Path = Path()) -> RunRecord:
    """What a learner made by `Learner.private` guarantees, to be written into `folder`; one with seeded noise is refused."""
    expect(bool(title.strip()), "title", title, "to say what is deployed")
    noise = secure_noise(learner.source)
    name = ALGORITHMS.name_of(learner.spec)
    return RunRecord(
        format=FORMAT,
        title=title,
        run=str(folder),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=learner.round,
        stamp=None,
        noise=noise,
        code=code(),
        versions=versions(),
        algorithms=[
            algorithm_record(
                name, learner.algorithm, {"name": name, **choices_of(learner.spec)}, "real"
            )
        ],
    )


def record_deployment(learner: Learner, folder: str | Path, *, title: str) -> Path:
    """Write the record into a new folder, for `hedgerow statement FOLDER`; once for each learner.

    It covers the whole game, and says how many rounds were over when it was written: best none.
    """
    from hedgerow.studies.storage.folder import fresh_folder

    out = Path(folder)
    expect(
        learner not in _recorded,
        "folder",
        str(out),
        f"not to be a second record: this learner has one in {_recorded.get(learner)}",
    )
    expect(not out.exists(), "folder", str(out), "to be new, it exists")
    record = deployment_record(learner, title, out)
    with fresh_folder(out, out.name) as place:
        (place.path / FILE).write_text(
            json.dumps(to_json(record), indent=2, allow_nan=False), encoding="utf-8"
        )
    _recorded[learner] = str(out)
    return out
