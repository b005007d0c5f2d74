"""Receipts: a path proves what an answer counts of one client, and nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import wire
from hedgerow.deployment.receipts import NOT_COUNTED, SIZE, Receipts, root_of
from hedgerow.deployment.server_ledger import ServerLedger
from support.simulated import small_study


@pytest.mark.parametrize("clients", [*range(1, 18), 33])
def test_a_path_proves_one_upload_of_one_client(clients: int) -> None:
    counted = [bytes([client + 1]) * SIZE for client in range(clients)]
    counted[clients // 2] = NOT_COUNTED
    tree = Receipts(counted)
    for client, found in enumerate(counted):
        path = tree.path(client)
        assert len(path) <= SIZE * max(0, clients - 1).bit_length()
        assert root_of(path, client, clients, found) == tree.root
        others = [other for other in (*counted, bytes([255]) * SIZE) if other != found]
        wrong = [(path, client, clients, other) for other in others]
        wrong += [(path + bytes(SIZE), client, clients, found)]
        wrong += [(path[:at], client, clients, found) for at in range(0, len(path), SIZE)]
        wrong += [(path, other, clients, found) for other in range(clients) if other != client]
        assert all(root_of(*one) != tree.root for one in wrong)
    moved = Receipts([counted[-1], *counted[:-1]])
    assert clients == 1 or moved.root != tree.root


def test_a_leaf_is_never_a_node() -> None:
    """The two hashes under a root are no leaf of a smaller tree."""
    tree = Receipts([bytes([1]) * SIZE, bytes([2]) * SIZE])
    (left, right), _ = tree._rows
    assert all(Receipts([one]).root != tree.root for one in (left + right, left, right))


def test_the_ledger_of_a_server_shows_what_every_answer_counts(place: Path) -> None:
    study = small_study(place, clients=3, experts=3, horizon=8, seed=3)
    study.play(np.zeros((8, 3, 3)))
    exchanges = study.running_server().exchange
    answer = wire.unpack(
        study.running_server().answer(1) or b"", study.manifest.digest, wire.Answer
    )
    study.close()
    ledger = ServerLedger(study.place("server"))
    ledger.check()
    assert ledger.receipts(1).root == answer.root
    ledger.close()
    assert exchanges > 1
    database = sqlite3.connect(study.place("server") / "server.db")
    database.execute("UPDATE upload SET counted = -1 WHERE exchange = 1 AND client = 2")
    database.commit()
    database.close()
    ledger = ServerLedger(study.place("server"))
    with pytest.raises(InvalidValue, match=r"Answer 1 .* counts other uploads than the ledger"):
        ledger.check()
    ledger.close()
