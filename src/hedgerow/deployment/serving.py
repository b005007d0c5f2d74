"""From a configuration to a study that can be served: opened if it exists, made if it is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.config import ServeConfig, ServerOptions
from hedgerow.deployment.desk import Limits
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import NoStudy, public_keys
from hedgerow.deployment.wire import LONGEST
from hedgerow.engines.simulate import traffic_of
from hedgerow.records.plain import first_difference

SMALLEST_BODY = 2**18  # bytes


def open_study(config: ServeConfig, options: ServerOptions, seed: int | None = None) -> StudyServer:
    """The study in the server's folder; refused if the file says something else by now."""
    folder = Path(options.folder)
    keys = public_keys(folder)
    try:
        study = StudyServer(folder, options.anchor)
    except NoStudy:
        return StudyServer.create(folder, config.manifest(keys, seed), options.anchor)
    manifest = config.manifest(keys, study.manifest.seed)
    if study.manifest.digest != manifest.digest:
        study.close()
        found = first_difference(_table(study.manifest), _table(manifest))
        place = "another value" if found is None else f"{found[0]} = {found[1]}, now {found[2]}"
        raise InvalidValue(
            f"The study in {folder} was begun with {place}. A study cannot be changed. "
            "Restore the file, or start a new study with another --folder."
        )
    return study


def _table(manifest: Manifest) -> dict[str, Any]:
    """What a person chose; all else follows from it."""
    table = json.loads(manifest.to_bytes())
    return {key: value for key, value in table.items() if key != "resolved"}


def limits_of(study: StudyServer, options: ServerOptions) -> Limits:
    """What the server accepts: messages as long as those of the algorithm, with room to spare."""
    upload = traffic_of(study.algorithm).upload_bytes
    clients = len(study.manifest.roster)
    return Limits(
        body=min(LONGEST, max(SMALLEST_BODY, 16 * upload)),
        wait=options.wait,
        slow=options.slow,
        lane=options.lane,
        queue=max(options.queue, 4 * clients),
        connections=options.connections or 64 + 4 * clients,
        close_after=options.close_after,
    )
