"""What the audits of several algorithms share: another server in the same algorithm, and streams for servers that answer queries."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

BELOWS = 2000  # queries of the quiet stream

Sent = tuple[tuple[CurrentExpert, ...], ...]
Streams = tuple[np.ndarray, np.ndarray, Sent]
AnyServer = TypeVar("AnyServer", bound=Any)


def with_server(algorithm: Algorithm, server: Any) -> Algorithm:
    """The algorithm with another server, and its certificate left as it is."""
    return replace(
        algorithm, server=server, advance=server.advance, log_likelihood=server.log_likelihood
    )


def with_curve(algorithm: Algorithm, curve: PrivacyCurve) -> Algorithm:
    """The algorithm as it is, promising another curve to whoever is promised anything."""
    certificate = algorithm.certificate
    guarantees = tuple(
        replace(given, curve=curve) if given.protects else given for given in certificate.guarantees
    )
    return replace(algorithm, certificate=replace(certificate, guarantees=guarantees))


def with_bug(server: AnyServer, bug: type) -> AnyServer:
    """The same server, in front of whose methods stand those of the bug."""
    kind: Any = type(bug.__name__, (bug, type(server)), {})
    return kind(**{part.name: getattr(server, part.name) for part in fields(server)})


def peer_curve(algorithm: Algorithm) -> PrivacyCurve:
    return algorithm.certificate.guarantee(Observer.PEER).curve


def half_selection(server: AnyServer) -> AnyServer:
    """The bug: half the noise in every choice."""
    return replace(server, selection=server.selection.scaled(0.5))


def telling(setting: Setting, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """One datum that only one world's expert 0 likes, then as many rounds in which drawing that expert is telling: it is a bad choice."""
    first = np.zeros((draws + 1, setting.clients, setting.experts))
    first[1:, :, 0] = 1.0
    second = first.copy()
    first[0, 0], second[0, 0] = 1.0, 0.0
    first[0, 0, 0], second[0, 0, 0] = 0.0, 1.0
    return first, second


def quiet(setting: Setting, threshold: float) -> Streams:
    """No switch in `BELOWS` queries that stand close to the threshold, all moved by one datum."""
    level = int(threshold)
    first = np.zeros((level + BELOWS + 1, setting.clients, setting.experts))
    first[1 : level + 1] = 1.0
    second = first.copy()
    second[0, 0] = 1.0
    return first, second, (tuple(CurrentExpert(1, 0, 0) for _ in first),)
