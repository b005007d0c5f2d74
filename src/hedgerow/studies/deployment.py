"""The privacy record of a deployment. Only a learner that draws secure noise gets one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakKeyDictionary

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import InvalidValue
from hedgerow.core.text import one_line
from hedgerow.engines.learner import Learner
from hedgerow.records.build import algorithm_record, choices_of
from hedgerow.records.plain import json_text
from hedgerow.records.provenance import code_provenance, library_versions, secure_noise
from hedgerow.records.schema import FILE, FORMAT, RunRecord, record_to_json

_recorded: WeakKeyDictionary[Learner, str] = WeakKeyDictionary()


def deployment_record(learner: Learner, title: str, folder: Path = Path()) -> RunRecord:
    """The record of a learner made by `Learner.private`, to be written into `folder`.

    A learner with seeded noise is refused.
    """
    named = bool(title.strip()) and one_line(title) == title
    if not named:
        raise InvalidValue(f"Expected title={title!r} to say what is deployed, in one line.")
    noise = secure_noise(learner.source)
    name = ALGORITHMS.name_of(learner.spec)
    gaps = {name: True for name in ("absent", "sleeping") if getattr(learner, name)}
    return RunRecord(
        format=FORMAT,
        title=title,
        run=str(folder),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=learner.round,
        stamp=None,
        noise=noise,
        code=code_provenance(),
        versions=library_versions(),
        algorithms=[
            algorithm_record(
                name, learner.algorithm, {"name": name, **choices_of(learner.spec), **gaps}, "real"
            )
        ],
    )


def record_deployment(learner: Learner, folder: str | Path, *, title: str) -> Path:
    """Write the privacy record of a deployed learner into a new folder, for `hedgerow statement`.

    The record covers the whole game. It also says how many rounds were over when it was written, so
    write it before the first round. A learner is recorded once.

    Parameters
    ----------
    learner
        A learner made by `Learner.private`, which draws secure noise. Any other is refused.
    folder
        The folder to create; it must not exist.
    title
        What is deployed, in a few words; not empty.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> import hedgerow as hr
    >>> from hedgerow.privacy import SecureNoise
    >>> game = {"clients": 2, "experts": 3, "horizon": 100}
    >>> learner = hr.Learner.private(hr.SparseVector(epsilon=1.0), **game, source=SecureNoise())
    >>> folder = tempfile.mkdtemp() + "/ward-3"
    >>> folder = hr.record_deployment(learner, folder, title="Ward 3")
    >>> sorted(file.name for file in folder.iterdir())
    ['digest.json', 'privacy.json']
    """
    from hedgerow.studies.storage.digest import write_digest
    from hedgerow.studies.storage.folder import fresh_folder
    from hedgerow.studies.storage.place import check_new

    out = Path(folder)
    if learner in _recorded:
        raise InvalidValue(
            f"This learner already has a record in {_recorded[learner]}. "
            "Use that record, or make a new learner."
        )
    check_new(out, "")
    record = deployment_record(learner, title, out)
    with fresh_folder(out, out.name) as place:
        (place.path / FILE).write_text(json_text(record_to_json(record)), encoding="utf-8")
        write_digest(place.path)
    _recorded[learner] = str(out)
    return out
