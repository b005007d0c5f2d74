"""Shared parts of audit cases: replaced servers and curves, and streams for query-based servers."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

BELOWS = 2000  # queries of the stream `many_belows`

Sent = tuple[tuple[CurrentExpert, ...], ...]
Streams = tuple[np.ndarray, np.ndarray, Sent]
AnyServer = TypeVar("AnyServer", bound=Any)


def with_server(algorithm: Algorithm, server: Any) -> Algorithm:
    """The algorithm with another server and the same certificate."""
    return replace(
        algorithm, server=server, advance=server.advance, log_likelihood=server.log_likelihood
    )


def with_curve(algorithm: Algorithm, curve: PrivacyCurve) -> Algorithm:
    """The same algorithm with another curve in every guarantee that promises protection."""
    certificate = algorithm.certificate
    guarantees = tuple(
        replace(given, curve=curve) if given.protects else given for given in certificate.guarantees
    )
    return replace(algorithm, certificate=replace(certificate, guarantees=guarantees))


def with_bug(server: AnyServer, bug: type) -> AnyServer:
    """A copy of the server in which the methods of the class `bug` take precedence."""
    kind: Any = type(bug.__name__, (bug, type(server)), {})
    return kind(**{part.name: getattr(server, part.name) for part in fields(server)})


def peer_curve(algorithm: Algorithm) -> PrivacyCurve:
    """The curve that the certificate promises about the peer."""
    return algorithm.certificate.guarantee(Observer.PEER).curve


def half_selection(server: AnyServer) -> AnyServer:
    """The bug: half of the noise in every choice."""
    return replace(server, selection=server.selection.scaled(0.5))


def favour_expert_0(setting: Setting, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """One datum that favours expert 0 in one world only, then `draws` rounds in which it loses.

    Expert 0 is then a bad choice, so drawing it reveals much about the datum.
    """
    first = np.zeros((draws + 1, setting.clients, setting.experts))
    first[1:, :, 0] = 1.0
    second = first.copy()
    first[0, 0], second[0, 0] = 1.0, 0.0
    first[0, 0, 0], second[0, 0, 0] = 0.0, 1.0
    return first, second


def many_belows(setting: Setting, threshold: float) -> Streams:
    """No switch in `BELOWS` queries close to the threshold, all of them changed by one datum."""
    level = int(threshold)
    first = np.zeros((level + BELOWS + 1, setting.clients, setting.experts))
    first[1 : level + 1] = 1.0
    second = first.copy()
    second[0, 0] = 1.0
    return first, second, (tuple(CurrentExpert(1, 0, 0) for _ in first),)
