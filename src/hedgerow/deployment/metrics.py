"""What `/metrics` shows at a server and at a client, in the text format of Prometheus.

Only what is public, and what concerns the machine: times are rounded or counted in wide buckets, so
that they do not show how long single messages took.
"""

from __future__ import annotations

import shutil
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.deployment.manifest import PROTOCOL
from hedgerow.deployment.pages.study import state_of
from hedgerow.version import __version__

if TYPE_CHECKING:
    from hedgerow.deployment.desk import Desk
    from hedgerow.deployment.learner import ClientLearner

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.01, 0.05, 0.25, 1.0, 5.0)
"""Seconds, the upper ends of the buckets of a histogram."""
Family = tuple[str, str, str, Mapping[str, float]]
"""Name, type, help, and the values by their labels."""


class Histogram:
    """How long something took, in wide buckets.

    >>> found = Histogram()
    >>> found.add(0.02)
    >>> found.rows()['_bucket{le="0.05"}'], found.rows()['_count']
    (1, 1)
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def rows(self) -> dict[str, float]:
        """The rows of the histogram by what follows its name."""
        found: dict[str, float] = {}
        below = 0
        for end, count in zip((*map(str, BUCKETS), "+Inf"), self._counts, strict=True):
            below += count
            found[f'_bucket{{le="{end}"}}'] = below
        return {**found, "_sum": round(self._sum, 1), "_count": below}


def written(families: list[Family]) -> str:
    """The families as text."""
    lines = []
    for name, kind, text, values in families:
        lines += [f"# HELP hedgerow_{name} {text}", f"# TYPE hedgerow_{name} {kind}"]
        lines += [f"hedgerow_{name}{label} {value:.15g}" for label, value in values.items()]
    return "\n".join(lines)


def labelled(name: str, counts: Mapping[Any, int]) -> dict[str, float]:
    """Values by one label."""
    return {f'{{{name}="{key}"}}': count for key, count in sorted(counts.items())}


def of_process(folder: Path, ledger: str) -> list[Family]:
    """What servers and clients both show: version, processor time, and room on the disk."""
    files = [folder / f"{ledger}{end}" for end in ("", "-wal")]
    size = sum(file.stat().st_size for file in files if file.exists())
    build = f'{{version="{__version__}",protocol="{PROTOCOL}"}}'
    return [
        ("build_info", "gauge", "Version and protocol.", {build: 1}),
        ("cpu_seconds_total", "counter", "Processor time.", {"": round(time.process_time(), 1)}),
        ("ledger_bytes", "gauge", "Size of the ledger.", {"": size}),
        (
            "disk_free_bytes",
            "gauge",
            "Room on the disk of the ledger.",
            {"": shutil.disk_usage(folder).free},
        ),
    ]


async def of_server(desk: Desk) -> str:
    """The metrics of a server."""
    public, counts = await desk.public(), desk.counts
    states = Counter(state_of(client) for client in public["clients"])
    families: list[Family] = [
        ("exchange", "gauge", "Number of the last complete exchange.", {"": public["exchange"]}),
        ("clients", "gauge", "Clients by state.", labelled("state", states)),
        ("replies_total", "counter", "HTTP replies.", labelled("status", counts.replies)),
        ("refusals_total", "counter", "Refused messages.", labelled("code", counts.refusals)),
        ("requests_total", "counter", "Messages given to the study.", {"": counts.requests}),
        ("batches_total", "counter", "Batches of messages.", {"": counts.batches}),
        ("received_bytes_total", "counter", "Bytes of messages.", {"": counts.bytes_in}),
        ("sent_bytes_total", "counter", "Bytes of replies.", {"": counts.bytes_out}),
        ("queued", "gauge", "Messages that wait to be taken.", {"": desk.queued}),
        ("waiting", "gauge", "Clients that wait for an exchange.", {"": desk.waiting}),
        (
            "writer_seconds_total",
            "counter",
            "Processor time of the study.",
            {"": round(counts.seconds, 1)},
        ),
        (
            "batch_seconds",
            "histogram",
            "Time to take a batch and to have it on disk.",
            counts.batch_seconds.rows(),
        ),
        ("ready", "gauge", "Whether messages are taken.", {"": int(desk.ready)}),
        ("over", "gauge", "Whether all clients are done.", {"": int(public["over"])}),
        ("trouble", "gauge", "Whether a person must look.", {"": int(desk.trouble is not None)}),
        ("stuck", "gauge", "Whether no exchange is answered.", {"": int(desk.stuck is not None)}),
        ("old_ledger", "gauge", "Whether the ledger is an old copy.", {"": int(desk.old)}),
    ]
    if public["helpers"]:
        name, text = "helper_awaited", "Whether the open exchange needs the sum of a helper."
        families.append((name, "gauge", text, labelled("helper", public["helpers"])))
    if desk.exchanged is not None:
        name, text = "last_exchange_timestamp_seconds", "When an exchange was last answered."
        families.append((name, "gauge", text, {"": round(desk.exchanged)}))
    if desk.expires is not None:
        name, text = "certificate_expiry_timestamp_seconds", "When the TLS certificate expires."
        families.append((name, "gauge", text, {"": desk.expires.timestamp()}))
    return written([*families, *of_process(*desk.ledger)])


def of_client(learner: ClientLearner) -> str:
    """The metrics of a client; they show no play and no record."""
    client = learner.client
    families: list[Family] = [
        ("client_round", "gauge", "Rounds that are finished.", {"": client.round}),
        ("client_exchange", "gauge", "Last exchange whose answer came.", {"": client.exchange}),
        ("client_over", "gauge", "Whether the game is over.", {"": int(client.over)}),
        ("client_greeted", "gauge", "Whether the server knows us.", {"": int(client.greeted)}),
    ]
    answered = getattr(client.link, "answered", None)
    if answered is not None:
        name, text = "client_last_answer_timestamp_seconds", "When the server last answered."
        families.append((name, "gauge", text, {"": round(answered)}))
    return written([*families, *of_process(client.folder, "study.db")])
