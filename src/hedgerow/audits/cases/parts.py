"""Shared parts of audit cases: replaced servers and curves, and streams for query-based servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.sparse_vector.columns import Column
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.audits.case import WHOLE, AuditCase, Verdict
from hedgerow.audits.cases.releases import quiet
from hedgerow.audits.drawn import CUT
from hedgerow.contracts.recording import all_paths
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.messages import encode
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.broadcasts import broadcasts_of

ONE_RUN = "a loss vector of one run"
DRAWN = "a fifth less noise drawn than in the likelihood"  # the bug of `quiet_selection`
BELOWS = 2000  # queries of the stream `many_belows`

Sent = tuple[tuple[CurrentExpert, ...], ...]
Streams = tuple[np.ndarray, np.ndarray, Sent]
AnyServer = TypeVar("AnyServer", bound=Any)


def with_server(algorithm: Algorithm, server: Any) -> Algorithm:
    """The algorithm with another server and the same certificate."""
    return replace(
        algorithm,
        server=server,
        shortcuts=replace(algorithm.shortcuts, advance=server.advance),
        claims=replace(algorithm.claims, log_likelihood=server.log_likelihood),
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


def less_selection(server: AnyServer) -> AnyServer:
    """The bug: four fifths of the noise in every choice."""
    return replace(server, selection=server.selection.scaled(CUT))


def quiet_selection(server: AnyServer) -> AnyServer:
    """The bug: choices are drawn with a fifth less noise than their likelihood says."""
    return replace(server, selection=quiet(server.selection))


def all_transcripts(algorithm: Algorithm, losses: np.ndarray) -> tuple[tuple[Any, ...], ...]:
    """All broadcasts that a run on these losses can send; each once."""
    experts = algorithm.setting.experts
    paths = all_paths(experts, lambda noise: broadcasts_of(algorithm, losses, noise))
    return tuple({tuple(map(encode, sent)): tuple(sent) for sent in paths}.values())


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


def in_every_round(algorithm: Algorithm) -> Selector:
    """The server with an exchange before every round; the schedule does not affect the cost."""
    assert isinstance(algorithm.server, Selector)
    return replace(algorithm.server, schedule=Schedule(1))


def of_whole_and_run(
    algorithm: Algorithm,
    server: Selector,
    certified: PrivacyCurve,
    streams: tuple[Streams, Streams],
    claim: str,
    parameters: Mapping[str, Any],
) -> tuple[AuditCase, AuditCase]:
    """Two cases that hold: the whole game, and the answers "below" of one run (`claim`).

    `streams` nearly attain the curve of the game (`certified`), and that of the answers.
    """
    audited, (worst, belows) = with_server(algorithm, server), streams
    answers = AuditCase("many belows", claim, audited, server.sparse.curve, *belows)
    whole = AuditCase("worst transcript", WHOLE, audited, certified, *worst)
    return replace(whole, parameters=parameters), replace(answers, parameters=parameters)


def of_run(
    whole: AuditCase,
    name: str,
    server: Selector,
    streams: Streams,
    column: Column,
    expected: Verdict = "violated",
) -> AuditCase:
    """A case of a loss vector of one run, compared with what its own column costs.

    With delta > 0 columns have different pure costs. The dearest is that of the whole game.
    """
    assert isinstance(whole.algorithm.server, RecencySelector)
    curve = column.curve(whole.algorithm.server.weights.rate)
    first, second, sent = streams
    case = whole.caught(name, with_server(whole.algorithm, server), first=first, second=second)
    case = replace(case, transcripts=sent, expected=expected)
    if curve.epsilon(0.0) >= whole.certified.epsilon(0.0) * (1 - 1e-9):
        return case
    return replace(case, claim=ONE_RUN, certified=curve)
