"""Every attack on secure sums, with its outcome (`proofs/secure_sums.md`, docs/secure_sums.md).

A test whose name says "limit" shows what is not promised: that the attack works.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment import veil, wire
from hedgerow.deployment.client import check_helpers
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.helper_ledger import BOX, HelperKeys, HelperLedger, make_helper
from hedgerow.deployment.manifest import Manifest, ManifestRefused, rebuild
from hedgerow.deployment.masks import opened
from hedgerow.deployment.record import read_deployment
from hedgerow.deployment.server import DROPPED, StudyServer, Wait
from hedgerow.deployment.sums import Sums
from hedgerow.deployment.wire import Code, Refused
from support.command import Command
from support.masked import LOW_ORDER, World, far
from support.simulated import Faults


@pytest.fixture
def w(place: Path) -> Iterator[World]:
    made = World(place)
    yield made
    made.close()


def refused(work: Callable[..., Any], *given: Any, why: str | None = None) -> None:
    with pytest.raises(HedgerowError, match=why):
        work(*given)


def code(reply: Any) -> Code | None:
    """Why a request was refused; None: it was not."""
    if isinstance(reply, Wait) or reply[:1] != wire.REFUSAL:
        return None
    return wire.read_refusal(reply).code


def total(w: World, data: list[bytes]) -> np.ndarray:
    """What the server can compute from uploads once both helpers have answered their task."""
    exchange = w.upload(data[0]).exchange
    parts = [w.part(w.helper(h).answer(w.task(exchange, h, data)))[0] for h in (0, 1)]
    return opened([w.y(one) for one in data], parts)


# -- what is seen ----------------------------------------------------------------------------------


def test_the_server_opens_the_exact_sum_of_every_exchange(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums: list[np.ndarray] = []
    real = Sums.total

    def kept(self: Sums, uploads: Any, rounds: int) -> Any:
        found = real(self, uploads, rounds)
        sums.append(np.asarray(found.values) * 2**20)
        assert found.variance == pytest.approx(4 * self._masked.known["variance"])
        return found

    monkeypatch.setattr(Sums, "total", kept)
    w = World(place)
    data = []
    for exchange in range(1, 6):
        data.append(w.collect(exchange))
        want = sum(w.z(one) for one in data[-1])
        for name in w.names:
            w.study.help(name)
            w.study.help(name)
        assert (sums[exchange - 1] == want).all()
    assert w.finish() == []
    assert [w.helper(h).over for h in (0, 1)] == [True, True]
    w.close()


@pytest.mark.parametrize("honest", [0, 1, 2])
def test_the_server_with_all_helpers_but_one_sees_no_upload(place: Path, honest: int) -> None:
    w = World(place, helpers=3)
    data = w.collect(1)
    known = [w.mask(data[2], h) for h in range(3) if h != honest]
    for times in itertools.product(range(-1, 4), repeat=2):  # any small combination
        left = w.y(data[2])
        for n, mask in zip(times, known, strict=True):
            left = left - np.uint64(n % 2**64) * mask
        assert far(left)
    w.close()


def test_limit_the_server_with_all_helpers_sees_every_upload(w: World) -> None:
    data = w.collect(1)[2]
    assert not far(w.z(data).view(np.uint64))


def test_a_proxy_with_the_keys_of_all_helpers_sees_nothing(w: World) -> None:
    data = w.collect(1)
    up = w.upload(data[0])
    for h in (0, 1):
        sessions = veil.Sessions(w.helper(h)._sessions._opener, w.digest)
        refused(sessions.open, 1, 0, up.parts[-1], why="not sealed to this key")
    assert w.y(data[0]).tobytes() not in data[0]
    assert len({len(one) for one in data}) == 1  # sizes say nothing


def test_a_proxy_cannot_replace_a_body(w: World) -> None:
    """Everybody knows the key for sealing to the server, but the client signs what it has sent."""
    w.collect(1, (0, 1, 2))
    learner = w.study.learner(3)
    while not learner.client.ready:
        learner.client.advance()
    learner.predict()
    learner.observe(0, w.losses[0, 3])
    due = learner.client._release(1).message
    other = w.body(3, 1, np.zeros(3, np.uint64))
    assert code(w.take(due[: -64 - len(other)] + other + due[-64:])[0]) is Code.SIGNATURE
    assert w.server.missing == 1


# -- a server that does not follow the protocol ----------------------------------------------------


def test_tickets_that_the_server_has_made_or_changed(w: World) -> None:
    data, other = w.collect(1), bytes(32)
    answer = w.helper(0).answer
    own = w.upload(data[1])  # a seed that the server knows, signed with the server's own key
    made = wire.pack(
        replace(own, payload=b"".join((w.sealed(1, 1, 0, other), own.parts[1], own.parts[2]))),
        w.digest,
        w.key,
    )
    swapped = bytearray(w.task(1, 0, data))
    size, start = wire.Ticket.size(2), 1 + wire.TAG + wire.Task.form.size
    swapped[start + 2 * size - wire.SEALED_SEED : start + 2 * size] = w.sealed(1, 1, 0, other)
    task = wire.Task(0, 1, 4, bytes(swapped[start:-64]))
    for why, bad in (
        ("not signed by its client", w.task(1, 0, [data[0], made, *data[2:]])),
        ("not the one that its client signed", wire.pack(task, w.digest, w.key)),
        ("has 3 of 4 clients", w.task(1, 0, data[:3])),
        ("twice in the set", w.task(1, 0, [data[0], data[1], data[1], data[2]])),
        ("out of order", w.task(1, 0, data[::-1])),
        ("for another exchange", w.task(2, 0, data)),
        ("for another helper", w.task(1, 1, data)),
        ("wrong length", w.task(1, 0, data, count=3)),
        ("not signed by the server", w.task(1, 0, data, key=w.study.account(3).key)),
    ):
        refused(answer, bad, why=why)
    assert w.helper(0).exchange == 0  # nothing was burnt
    assert w.part(answer(w.task(1, 0, data)))[1] == ()


def test_a_ticket_of_a_client_that_is_not_on_the_roster(w: World) -> None:
    data = w.collect(1)
    ghost = wire.pack(replace(w.upload(data[3]), client=4), w.digest, w.study.account(3).key)
    task = w.task(1, 0, [*data[:3], ghost])
    refused(w.helper(0).answer, task, why="not that of a client of this study")


def test_one_set_for_each_exchange_also_after_a_restart(w: World) -> None:
    data = w.collect(1)
    task = w.task(1, 0, data)
    first = w.part(w.helper(0).answer(task))[0]
    seals = [
        w.sealed(3, 1, h, bytes([7]) * 32) for h in (0, 1)
    ]  # a false client signs a second one
    second = w.task(1, 0, [*data[:3], w.forge(3, data[3], seals, w.upload(data[3]).parts[-1])])
    for _ in range(2):
        refused(w.helper(0).answer, second, why="Another set was opened")
        assert (w.part(w.helper(0).answer(task))[0] == first).all()
        w.study.kill(w.names[0])


def test_two_helpers_with_two_sets_open_nothing(w: World) -> None:
    """The sets differ in a false client's own seal; then only its own mask differs."""
    data = w.collect(1)
    seals = [w.sealed(3, 1, h, bytes([7]) * 32) for h in (0, 1)]
    other = w.forge(3, data[3], seals, w.upload(data[3]).parts[-1])
    one = w.part(w.helper(0).answer(w.task(1, 0, data)))[0]
    two = w.part(w.helper(1).answer(w.task(1, 1, [*data[:3], other])))[0]
    left = opened([w.y(d) for d in data], [one, two])
    assert far(left)
    own = veil.mask(bytes([7]) * 32, 3) - w.mask(data[3], 1)  # what the false client knows
    assert ((left + own).view(np.int64) == sum(w.z(d) for d in data)).all()  # the sum, no more


def test_different_answers_for_different_clients(w: World) -> None:
    data = w.collect(1)
    seen = w.forge(
        2, data[2], w.upload(data[2]).parts[:2], w.upload(data[2]).parts[2], seen=b"x" * 32
    )
    task = w.task(1, 0, [*data[:2], seen, data[3]])
    refused(w.helper(0).answer, task, why="different answers")


def test_old_messages_in_a_later_exchange_and_in_another_study(w: World, tmp_path: Path) -> None:
    old = w.collect(1)
    for name in w.names * 2:
        w.study.help(name)
    new = w.collect(2)
    refused(w.helper(0).answer, w.task(2, 0, [old[0], *new[1:]]), why="for another exchange")
    refused(w.helper(0).answer, w.task(1, 0, new), why="for another exchange")
    up = w.upload(old[0])  # a false client signs an old seal and body of client 0 as its own
    copied = w.forge(3, new[3], up.parts[:2], up.parts[2])
    found, named = w.part(w.helper(0).answer(w.task(2, 0, [*new[:3], copied])))
    assert named == (3,)
    assert (found == sum(w.mask(d, 0) for d in new[:3])).all()
    other = World(tmp_path / "other")
    fresh = other.collect(1)
    moved = [old[0][:1] + other.digest[:8] + old[0][9:], *fresh[1:]]
    assert code(other.take(old[0])[0]) is Code.STUDY
    assert code(other.take(moved[0])[0]) is Code.SIGNATURE
    refused(other.helper(0).answer, other.task(1, 0, moved), why="not signed by its client")
    other.close()


def test_exchanges_do_not_go_back(w: World) -> None:
    data = w.collect(1)
    for exchange in (0, -1):
        bad = [wire.pack(replace(w.upload(d), exchange=exchange), w.digest, w.study.account(i).key)
               for i, d in enumerate(data)]  # fmt: skip
        refused(w.helper(0).answer, w.task(exchange, 0, bad), why="passed over")


def test_an_old_copy_of_the_server_asks_for_the_same_sum(w: World, tmp_path: Path) -> None:
    import shutil

    w.collect(1)
    copy = Path(shutil.copytree(w.study.place("server"), tmp_path / "old"))
    for name in w.names:
        w.study.help(name)
    opened_before = [w.helper(h).opened() for h in (0, 1)]
    w.study.restore("server", copy)
    assert w.finish() == []
    assert all(w.helper(h).opened()[1] == opened_before[h][1] for h in (0, 1))


# -- clients and helpers that do not follow the protocol -------------------------------------------


def test_a_copied_upload_does_not_count_twice(w: World) -> None:
    """Otherwise the sum would hold 2 z_0, under the noise that is meant for z_0."""
    data = w.collect(1)[:3]
    up = w.upload(data[0])
    copy = w.forge(3, data[1], up.parts[:2], w.body(3, 1, w.y(data[0])))
    both = [w.part(w.helper(h).answer(w.task(1, h, [*data, copy]))) for h in (0, 1)]
    assert [named for _, named in both] == [(3,), (3,)]
    every = [w.y(d) for d in (*data, copy)]
    assert far(opened(every, [part for part, _ in both]))


@pytest.mark.parametrize("kind", ["nonsense", "short seed", *map(str, range(len(LOW_ORDER)))])
def test_a_damaged_seal_spoils_one_sum_is_named_and_stops_nothing(w: World, kind: str) -> None:
    data = w.collect(1, (0, 1, 2))
    seals = [w.sealed(3, 1, h, bytes(32)) for h in (0, 1)]
    if kind == "nonsense":
        seals = [os.urandom(len(seals[0]))] * 2
    elif kind != "short seed":
        at = veil.LONGER - 16 - veil.CURVE
        seals = [one[:at] + LOW_ORDER[int(kind)] + one[at + 32 :] for one in seals]
    else:
        seals = [one[:-1] + bytes([one[-1] ^ 1]) for one in seals]
    bad = w.forge(3, data[0], seals, w.body(3, 1, np.zeros(3, np.uint64)))
    learner = w.study.learner(3)
    while not learner.client.greeted:
        learner.client.advance()
    assert isinstance(w.take(bad)[0], Wait)
    for name in w.names * 2:
        w.study.help(name)
    assert w.server.exchange == 1
    assert "could not open the seals of client-003 in exchange 1" in w.server.trouble
    assert w.server.damaged() == {1: ["client-003"]}
    w.server.close()
    w.study.server = None
    shared = read_deployment(w.study.place("server")).ledger.shared
    assert shared is not None
    assert shared.damaged == {"1": ["client-003"]}


def test_limit_false_values_spoil_the_sum_and_nobody_can_notice(w: World) -> None:
    data = w.collect(1)
    seeds = [bytes([5]) * 32, bytes([6]) * 32]
    seals = [w.sealed(3, 1, h, seeds[h]) for h in (0, 1)]
    lie = np.full(3, 2**62, np.uint64) + sum(veil.mask(seed, 3) for seed in seeds)
    false = w.forge(3, data[3], seals, w.body(3, 1, lie))
    found = total(w, [*data[:3], false])
    assert (found.view(np.int64) == sum(w.z(d) for d in data[:3]) + 2**62).all()
    whole = w.masked.total(w.server.algorithm, found, 4, 1)
    assert np.isfinite(whole.values).all()  # and the server goes on


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("body", {"body": b"nothing"}),
        ("too short", {"words": np.zeros(2, np.uint64)}),
        ("a seal too few", {"seals": 1}),
    ],
)
def test_uploads_that_no_sum_could_hold_are_refused_at_once(
    w: World, why: str, change: dict[str, Any]
) -> None:
    data = w.collect(1, (0, 1, 2))
    learner = w.study.learner(3)
    while not learner.client.greeted:
        learner.client.advance()
    seals = [w.sealed(3, 1, h, bytes(32)) for h in range(change.get("seals", 2))]
    body = change.get("body") or w.body(3, 1, change.get("words", np.zeros(3, np.uint64)))
    bad = w.forge(3, data[0], seals, body)
    assert code(w.take(bad)[0]) is Code.VALUE, why
    assert w.server.missing == 1


def test_parts_that_the_server_refuses(w: World) -> None:
    data = w.collect(1)
    seals = [w.sealed(3, 1, h, bytes([7]) * 32) for h in (0, 1)]
    other = w.task(1, 0, [*data[:3], w.forge(3, data[3], seals, w.upload(data[3]).parts[-1])])
    wrong = w.helper(0).answer(other)
    assert code(w.take(wrong)[0]) is Code.VALUE  # another set than the server's
    right = w.helper(1).answer(w.task(1, 1, data))
    part = wire.unpack(right, w.digest, wire.Part)
    key = w.helper(1).key
    for bad, why in (
        (replace(part, payload=bytes(len(part.payload))), Code.VALUE),
        (replace(part, count=1, payload=bytes([9, 0, 0, 0]) + part.payload), Code.FORM),
        (replace(part, helper=2), Code.SIGNATURE),
        (replace(part, exchange=7), Code.OLD_SERVER),
    ):
        assert code(w.take(wire.pack(bad, w.digest, key))[0]) is why
    assert code(w.take(wire.pack(part, w.digest, w.helper(0).key))[0]) is Code.SIGNATURE
    assert w.server.missing == 0
    assert w.server.exchange == 0
    assert isinstance(w.take(right)[0], Wait)


# -- old copies ------------------------------------------------------------------------------------


def test_old_copies_of_helpers_show_only_what_is_known(w: World, tmp_path: Path) -> None:
    data = w.collect(1)
    first = w.part(w.helper(0).answer(w.task(1, 0, data)))[0]
    seen = []
    for n in range(3):  # three helpers without any memory, and a false client's other seals
        seals = [w.sealed(3, 1, h, bytes([n]) * 32) for h in (0, 1)]
        evil = w.forge(3, data[3], seals, w.upload(data[3]).parts[-1])
        copy = w.copy(0, tmp_path / f"copy-{n}")
        copy._database.execute("DELETE FROM opened")
        copy.exchange = 0
        for fewer in (data[:3], data[1:]):
            refused(copy.answer, w.task(1, 0, fewer), why="has 3 of 4")
        found = w.part(copy.answer(w.task(1, 0, [*data[:3], evil])))[0]
        seen.append(found - veil.mask(bytes([n]) * 32, 3))
        copy.close()
    known = first - w.mask(data[3], 0)
    assert all((one == known).all() for one in seen)


def test_an_old_copy_of_a_client_is_refused_and_with_old_helpers_is_the_limit(
    w: World, tmp_path: Path
) -> None:
    import shutil

    w.collect(1, (0, 1))
    copy = Path(shutil.copytree(w.study._places["client-002"], tmp_path / "client"))
    data = w.collect(1)
    old = w.copy(0, tmp_path / "helper")
    first = data[2]
    w.part(w.helper(0).answer(w.task(1, 0, data)))
    w.study.restore(2, copy, whole=True)
    del w.study.watch.messages[2, 1]
    with pytest.raises(HedgerowError, match="restored copy"):
        w.collect(1, (2,))  # the server knows of the first one
    learner = w.study.learner(2)  # a server that lies lets it go on
    learner.client._greeted = True
    learner.client.advance()
    with pytest.raises(Refused, match="two messages for one release"):
        w.collect(1, (2,))
    second = w.study.watch.messages[2, 1]
    assert second != first
    assert far(w.y(first) - w.y(second))  # fresh seeds: no pad is used twice
    both = [data[0], data[1], second, data[3]]
    refused(w.helper(0).answer, w.task(1, 0, both), why="Another set was opened")
    a, b = (
        w.part(x)[0]
        for x in (w.helper(0).answer(w.task(1, 0, data)), old.answer(w.task(1, 0, both)))
    )
    shown = (w.y(first) - w.y(second)) - (a - b) - (w.mask(first, 1) - w.mask(second, 1))
    assert (shown.view(np.int64) == w.z(first) - w.z(second)).all()  # two shares, no value
    old.close()


# -- the study -------------------------------------------------------------------------------------


def weak(manifest: Manifest, **changes: Any) -> Manifest:
    return replace(manifest, **changes)


def test_weak_studies_are_refused_by_all_parties(w: World, tmp_path: Path) -> None:
    m, shared = w.manifest, dict(w.manifest.aggregation)
    helpers = {name: dict(keys) for name, keys in m.helpers.items()}
    one, two = m.helper_names
    cases: list[tuple[dict[str, Any], str]] = [
        ({"aggregation": {}}, "needs helpers"),
        ({"aggregation": {**shared, "helpers": {}}}, "at least one"),
        ({"aggregation": {**shared, "colluding": 0}}, "from 1 to 3"),
        ({"aggregation": {**shared, "colluding": 4}}, "from 1 to 3"),
        ({"aggregation": {**shared, "colluding": 2}}, "mechanisms.0"),
        ({"aggregation": {**shared, "least": 3}}, "to be 4, all clients"),
        ({"aggregation": {**shared, "least": 5}}, "from 1 to 4"),
        ({"aggregation": {**shared, "least": 3, "colluding": 3}, "closing": "drop"}, "from 1 to 2"),
        ({"aggregation": {**shared, "least": 3}, "closing": "drop"}, "mechanisms.0"),
        ({"aggregation": {**shared, "most": 3}}, "nothing else"),
        ({"choices": {**m.choices, "honest": 3}}, "Leave out honest"),
        ({"closing": "drop"}, "guarantees"),
        ({"closing": "drop", "roster": {**m.roster, "client-000": ""}}, "no open seats"),
        ({"closing": "fold"}, "does not support closing='fold'"),
        ({"seed": 1}, "Leave out the seed"),
        ({"sealing": {**m.sealing, "suite": "HPKE base, X25519"}}, "suite"),
        ({"sealing": {**m.sealing, "server": helpers[one]["seal"]}}, "same key"),
        ({"server": helpers[one]["sign"]}, "same key"),
        ({"roster": {**m.roster, "client-000": helpers[one]["sign"]}}, "same key"),
        ({"aggregation": {**shared, "helpers": {one: helpers[one], two: helpers[one]}}}, "same key"),
        ({"aggregation": {**shared, "helpers": {one: {**helpers[one], "seal": "00" * 1216}}}}, "sealed"),
        ({"aggregation": {**shared, "helpers": {one: {**helpers[one], "seal": "00"}}}}, "in its file"),
    ]  # fmt: skip
    for changes, why in cases:
        with pytest.raises(HedgerowError, match=why):
            rebuild(Manifest.read(weak(m, **changes).to_bytes()))
    with pytest.raises(HedgerowError, match="only trust='distributed' has helpers"):
        World(tmp_path / "x", trust="local")


def test_a_client_needs_a_helper_that_it_knows_from_elsewhere(w: World, tmp_path: Path) -> None:
    known = [HelperKeys(name, **keys) for name, keys in w.manifest.helpers.items()]
    check_helpers(w.manifest, known[:1])
    for given, why in (
        ([], "join with --helper FILE"),
        ([make_helper(tmp_path / "x", "h0")], "does not have the helper h0"),
        ([replace(known[0], seal=known[1].seal)], "does not have the helper h0"),
    ):
        with pytest.raises(ManifestRefused, match=why):
            check_helpers(w.manifest, given)
    words = "\n".join(w.manifest.words())
    assert all(one.fingerprint in words for one in known)
    assert "experimental: not yet reviewed by outside cryptographers" in words


def test_a_helper_needs_the_roster_and_its_own_keys(
    w: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, key = w.study.helper("h0").link, w.manifest.server
    make_helper(tmp_path / "new", "h0")
    with pytest.raises(ManifestRefused, match="not those of a helper"):
        StudyHelper.join(tmp_path / "new", link, server_key=key, roster=w.manifest.roster)
    place = w.study._places["h1"]
    for roster in (
        {**w.manifest.roster, "client-000": "00" * 32},
        {n: k for n, k in w.manifest.roster.items() if n != "client-001"},
    ):
        with pytest.raises(ManifestRefused, match="not those of your roster"):
            StudyHelper.join(place, link, server_key=key, roster=roster)
    w.study.helper("h1")
    w.study.kill("h1")
    other = replace(w.manifest, title="Another study with the same parties")
    reply = wire.pack_manifest(w.key.sign(other.signed_text), other.to_bytes())
    monkeypatch.setattr(link, "call", lambda request: reply)
    with pytest.raises(InvalidValue, match="belongs to another study"):
        StudyHelper.join(
            w.study._places["h1"],
            link,
            server_key=key,
            roster=other.roster,
        )


def test_the_key_of_a_helper_is_erased_at_the_end(w: World) -> None:
    assert w.finish() == []
    for h in (0, 1):
        folder = w.study._places[w.names[h]]
        assert w.helper(h).over
        assert not (folder / BOX).exists()
        w.study.kill(w.names[h])
        assert w.helper(h).over
        w.study.kill(w.names[h])
        ledger = HelperLedger(w.study._places[w.names[h]])
        assert len(ledger.opened()) == 5
        ledger.close()


# -- exchanges that close without some clients ------------------------------------------------------


@pytest.fixture
def drop(place: Path) -> Iterator[World]:
    """Of five clients, at least three are in a sum, and one may work with the server."""
    made = World(place, clients=5, closing="drop", least=3)
    made.learn()
    yield made
    made.close()


def test_a_sum_without_silent_clients_is_exact_and_has_enough_shares(drop: World) -> None:
    shared = drop.server.algorithm.certificate.mechanisms[0]
    assert (shared.honest, drop.masked.known["variance"]) == (2, shared.scale**2)
    data = drop.collect(1, (0, 2))
    assert not drop.server.close_exchange()  # too few
    data.insert(1, *drop.collect(1, (1,)))
    assert drop.server.awaited == []
    assert drop.server.close_exchange()
    assert not drop.server.close_exchange()  # once
    assert drop.server.exchange == 0
    seen = drop.sums()
    for name in drop.names * 2:
        drop.study.help(name)
    assert drop.server.exchange == 1
    ((values, variance),) = seen
    assert (values * 2**20 == sum(drop.z(one) for one in data)).all()
    assert variance == pytest.approx(3 * shared.scale**2)
    assert [code(drop.take(one)[0]) for one in data] == [None] * 3
    once = "never run from an old copy of their folder, or twice at the same time"
    assert once in "\n".join(drop.manifest.words())
    for found in drop.server.algorithm.certificate.guarantees:
        (rule,) = [one.meaning for one in found.assumes if one.name == "HELPER_LEDGERS"]
        assert "no helper runs from an old copy" in rule
        assert found.colluding == 1


def test_a_late_upload_is_in_no_sum_and_its_bytes_are_not_kept(
    drop: World, hedgerow: Command
) -> None:
    data = drop.collect(1, (0, 1, 2))
    assert drop.server.close_exchange()
    before = drop.server.task(0)
    late = drop.collect(1, (3,))[0]  # between set and sum
    assert drop.server.task(0) == before
    drop.study.kill("server")
    drop.learn()  # hellos
    assert drop.server.task(0) == before  # the set is in the ledger
    parts = []
    for h in (0, 1):
        parts.append(drop.helper(h).answer(before if h == 0 else drop.server.task(1)))
        drop.take(parts[-1])
    later = drop.collect(1, (4,))[0]  # after the sum
    assert drop.server.exchange == 1
    assert drop.server.uploads()[3, 1] == (wire.hash_of(late), DROPPED)
    kept = b"".join(f.read_bytes() for f in drop.study.folder.rglob("server.db*"))
    for one in (late, later):
        assert one not in kept
        for masks in ([p for p, _ in map(drop.part, parts)], []):
            assert far(opened([drop.y(one)], masks))
    more = [*data, late]
    refused(drop.helper(0).answer, drop.task(1, 0, more), why="Another set was opened")
    assert drop.finish() == []
    drop.study.close()
    server = drop.study.place("server")
    assert hedgerow("statement", str(server)).code == 0
    stated = " ".join(next(server.rglob("*.md")).read_text().split())
    for words in (
        "each over at least 3 of all 5 clients, each with the noise of at least 2 clients",
        "A helper must never run from an old copy of its folder, or twice at the same time",
        "2 clients may drop out of an exchange; helpers open no smaller sum",
        "EXPERIMENTAL: NOT YET REVIEWED BY OUTSIDE CRYPTOGRAPHERS",
    ):
        assert words in stated


def test_small_sets_and_second_sets_are_refused_by_helpers(drop: World) -> None:
    data = drop.collect(1)
    refused(drop.helper(0).answer, drop.task(1, 0, data[:2]), why="has 2 of 5 clients")
    one = drop.part(drop.helper(0).answer(drop.task(1, 0, data[:3])))[0]
    for other in (data[:4], data[1:4], data):
        refused(drop.helper(0).answer, drop.task(1, 0, other), why="Another set was opened")
    two = drop.part(drop.helper(1).answer(drop.task(1, 1, data[1:4])))[0]
    for some in itertools.chain.from_iterable(itertools.combinations(data, n) for n in range(1, 6)):
        assert far(opened([drop.y(d) for d in some], [one, two]))  # two helpers, two sets: nothing


def test_an_old_copy_of_the_server_cannot_choose_another_set(drop: World, tmp_path: Path) -> None:
    import shutil

    drop.collect(1, (0, 1, 2))
    copy = Path(shutil.copytree(drop.study.place("server"), tmp_path / "old"))
    assert drop.server.close_exchange()
    drop.study.help("h0")
    drop.study.restore("server", copy)
    while drop.server.missing > 1:  # one more than in the set that was opened
        drop.study._step(3, drop.losses)
    assert drop.server.close_exchange()
    refused(drop.study.help, "h0", why="opened another set")
    drop.study.kill("h0")
    refused(drop.study.help, "h0", why="Another set was opened")
    assert drop.server.exchange == 0


def test_limit_old_copies_of_all_honest_helpers_show_one_upload(
    drop: World, tmp_path: Path
) -> None:
    """`HELPER_LEDGERS`: with one of two helpers alone the difference stays masked."""
    data = drop.collect(1)
    old = [drop.copy(h, tmp_path / f"h{h}") for h in (0, 1)]
    parts = [drop.part(drop.helper(h).answer(drop.task(1, h, data)))[0] for h in (0, 1)]
    again = [drop.part(old[h].answer(drop.task(1, h, data[1:])))[0] for h in (0, 1)]
    for one in old:
        one.close()
    assert far(drop.y(data[0]) - (parts[0] - again[0]))
    shown = drop.y(data[0]) - sum(a - b for a, b in zip(parts, again, strict=True))
    assert (shown.view(np.int64) == drop.z(data[0])).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules_in_which_exchanges_close(place: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    rough = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.03, close=0.2)
    w = World(
        place, clients=5, horizon=8, closing="drop", least=3, chance=chance, faults=rough
    )  # fmt: skip
    assert w.finish() == []
    counts = [len(w.server.counted(exchange)) for exchange in range(1, w.server.exchange + 1)]
    assert len(counts) == 7
    assert 3 <= min(counts) < 5
    w.close()


# -- every byte, every death, every file -----------------------------------------------------------


def test_every_flipped_byte_is_refused(w: World) -> None:
    data = w.collect(1, (0, 1, 2))
    learner = w.study.learner(3)
    while (3, 1) not in w.study.watch.messages and learner.round < 1:
        w.study._step(3, w.losses, None, None)
    due = learner.client._release(1).message

    def flipped(one: bytes) -> Iterator[bytes]:
        for at in range(len(one)):
            yield one[:at] + bytes([one[at] ^ 1 << at % 8]) + one[at + 1 :]
        for end in (0, 1, 8, 9, 20, 100, len(one) - 1):
            yield one[:end]

    if w.server.missing:
        assert all(code(reply) for reply in w.take(*flipped(due)))
        assert w.server.missing == 1
        w.take(due)
    assert w.server.missing == 0
    task = w.task(1, 0, [*data, due])
    for bad in flipped(task):
        refused(w.helper(0).answer, bad)
    part = w.helper(0).answer(task)
    assert all(code(reply) for reply in w.take(*flipped(part)))
    assert len(w.server._sums.missing) == 2
    w.take(part)
    assert len(w.server._sums.missing) == 1


def test_every_signature_is_for_one_kind_of_message(w: World) -> None:
    data = w.collect(1)
    task = w.task(1, 0, data)
    part = w.helper(0).answer(task)
    fetch = wire.pack(wire.Fetch(0, 1), w.digest, w.helper(0).key)
    for one in (data[0], task, part, fetch):
        for kind in wire.KINDS:  # an Ask has the form of a Fetch
            other = kind + one[1:]
            signers = (
                w.manifest.server,
                *w.manifest.roster.values(),
                w.manifest.helpers["h0"]["sign"],
            )
            good = [key for key in signers if wire.signed(other, w.digest, key)]
            assert bool(good) is (kind == one[:1])


def test_every_signature_is_for_one_study(w: World) -> None:
    """A client has one key for all its studies."""
    data, other = w.collect(1), bytes(range(32))
    task = w.task(1, 0, data)
    keys = [w.manifest.roster[name] for name in w.manifest.clients]
    for one, key in ((data[0], keys[0]), (task, w.manifest.server)):
        assert wire.signed(one, w.digest, key)
        assert not wire.signed(one[:1] + other[:8] + one[9:], other, key)
        assert not wire.signed(one, w.digest[:8] + other[8:], key)
    ticket = wire.Ticket.of(data[0])[0]
    assert wire.Ticket.read(ticket, w.digest, 0, keys, 2).client == 0
    for study in (other, w.digest[:8] + other[8:]):
        refused(wire.Ticket.read, ticket, study, 0, keys, 2, why="not signed by its client")


def test_labels_of_seals_are_never_equal() -> None:
    """The client, the exchange and the study of a seal can never be read as another's."""
    studies, numbers = (bytes(32), bytes([1]) + bytes(31)), (0, 1, 2**32 - 1)
    found: list[bytes] = []
    for study, exchange, n in itertools.product(studies, (0, 1, 2**62 - 1), numbers):
        found += [veil.share_info(study, exchange, n)]
        found += [veil.text_info(study, exchange, n, h) for h in (None, *numbers)]
    secrets = [
        veil.session_info(s, n, h) for s in studies for n in numbers for h in (None, *numbers)
    ]
    assert len({*found, *secrets}) == len(found) + len(secrets) == 2 * 3 * 3 * 5 + 2 * 3 * 4
    assert {len(one[16:]) for one in found} == {44, 48}
    assert {len(one[16:]) for one in secrets} == {36, 40}


def test_masks_are_the_key_stream_of_aes_256_from_zero() -> None:
    """The first block of the zero key is a published answer; the others are made block by block."""
    assert veil.mask(bytes(32), 2).tobytes().hex() == "dc95c078a2408989ad48a21492842087"
    for key in (bytes(range(32)), bytes(31) + b"\1", b"\1" + bytes(31)):
        block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        want = block.update(b"".join(n.to_bytes(16, "big") for n in range(3)))
        assert veil.mask(key, 5).tobytes() == want[:40]


def test_no_seed_is_used_twice_and_none_is_in_a_file(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bytes] = []
    real = veil.mask
    monkeypatch.setattr(
        veil, "mask", lambda seed, width: used.append(bytes(seed)) or real(seed, width)
    )
    data = w.collect(1)
    assert len(used) == len(set(used)) == 8
    again = w.study.learner(0).client._release(1)
    assert again.message == data[0]
    w.study.kill(0)
    assert w.study.learner(0).client._release(1).message == data[0]
    assert len(used) == 8
    marked = [w.z(one) for one in data]
    under = [w.y(one) for one in data]
    for name in w.names * 2:
        w.study.help(name)
    assert w.server.exchange == 1
    w.study.close()
    kept = b"".join(f.read_bytes() for f in w.study.folder.rglob("*") if f.is_file())
    assert not any(seed in kept for seed in used)
    for one in (*marked, *under):
        assert one.tobytes() not in kept
        assert (one.view(np.int64) / 2**20).tobytes() not in kept
    box = [f for f in w.study.folder.rglob("server.db*") for d in data if d in f.read_bytes()]
    assert box == []  # the server has erased every upload


@pytest.mark.parametrize("seed", range(4))
def test_random_schedules_with_deaths_of_every_party(place: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    helpers, clients = int(chance.integers(1, 4)), int(chance.integers(2, 5))
    rough = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.03)
    w = World(place, clients=clients, helpers=helpers, horizon=8, chance=chance, faults=rough)
    assert w.finish() == []
    assert w.server.exchange == 7
    w.close()


POINTS = (
    *("helper join written", "helper join committed", "helper called"),
    *("helper open written", "helper open committed"),
    *("helper end written", "helper end committed"),
    *("server take written", "server take committed", "server take forgotten"),
    *("client release written", "client release committed"),
)


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_each_point(place: Path, point: str) -> None:
    chance = np.random.default_rng(5)
    faults = Faults(crash=0.2 if "client" in point else 0.6, only=point)
    w = World(place, chance=chance, faults=faults)
    assert w.finish() == []
    assert w.study.watch.deaths[point] > 0
    w.close()


@pytest.mark.long
def test_a_thousand_random_schedules(place: Path) -> None:
    deaths, openings = 0, 0
    for seed in range(100, 160):
        chance = np.random.default_rng(seed)
        rough = Faults(lose=0.1, repeat=0.1, delay=0.1, crash=0.05)
        w = World(place / str(seed), helpers=2, horizon=9, chance=chance, faults=rough)
        assert w.finish() == []
        deaths, openings = deaths + w.study.watch.deaths.total(), openings + w.server.exchange
        w.close()
    assert deaths >= 1000
    assert openings == 60 * 8


def test_an_absent_client_sends_its_share_of_noise_alone(place: Path) -> None:
    w = World(place, features=("absent clients",))
    data = []
    for client in range(4):
        learner = w.study.learner(client)
        while not learner.client.advance():
            pass
        learner.predict()
        learner.observe(0, None if client == 3 else w.losses[0, client])
        w.study._step(client, w.losses, None, None)
        data.append(w.study.watch.messages[client, 1])
    steps = 2.0**20 * np.sqrt(w.masked.known["variance"])
    sent = w.z(data[3])
    assert (sent != 0).all()
    assert (np.abs(sent) < 8 * steps).all()


def test_a_server_without_parts_waits_and_says_nothing(w: World) -> None:
    w.collect(1, (0, 1, 2))
    refused(w.server.close_exchange, why="waits for all clients")
    w.collect(1)
    assert isinstance(w.server, StudyServer)
    assert w.server.exchange == 0
    w.study.help("h0")
    w.study.help("h0")
    assert w.server.exchange == 0
    sums = w.server._sums
    assert sums is not None
    assert sums.missing == ["h1"]


def test_a_study_of_one_client_has_no_sum(place: Path) -> None:
    with pytest.raises(InvalidValue, match="from 1 to 0"):
        World(place, clients=1)
