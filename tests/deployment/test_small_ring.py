"""All masks over small rings: what server and coalition see shows one sum, or nothing (Claim 4).

Masks for helpers that work with the server are known and only shift what is seen, so they are left
out: of each honest client and honest helper there is one uniform mask.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

Set = tuple[int, ...]
Cell = tuple[int, int]
Inputs = frozenset[tuple[int, ...]]


def alike(
    ring: int,
    clients: int,
    helpers: int,
    answers: list[tuple[int, Set]],
    tied: dict[Cell, Cell] | None = None,
) -> Inputs:
    """The inputs whose view is that of zeros: uploads under masks, and each answered sum of masks.

    The views of all masks are counted, not derived. They must be uniform on a group; inputs with the
    same view then differ by one of these. `tied` are masks that are another one, as a bug.
    """
    cells = list(itertools.product(range(clients), range(helpers)))
    place = {cell: at for at, cell in enumerate(cells)}
    where = {cell: place[(tied or {}).get(cell, cell)] for cell in cells}
    masks = np.array(list(itertools.product(range(ring), repeat=len(cells))), np.int64)
    rows = [sum(masks[:, where[i, a]] for a in range(helpers)) for i in range(clients)]
    rows += [sum(masks[:, where[i, a]] for i in chosen) for a, chosen in answers]
    views = Counter(map(tuple, (np.stack(rows, axis=1) % ring).tolist()))
    assert len(set(views.values())) == 1
    quiet = (0,) * len(answers)
    return frozenset(view[:clients] for view in views if view[clients:] == quiet)


def keeping(ring: int, clients: int, sums: list[Set]) -> Inputs:
    """The inputs with the same sums over these sets as zeros."""
    every = itertools.product(range(ring), repeat=clients)
    return frozenset(x for x in every if all(sum(x[i] for i in s) % ring == 0 for s in sums))


def subsets(clients: int) -> list[Set]:
    sizes = range(1, clients + 1)
    return [chosen for n in sizes for chosen in itertools.combinations(range(clients), n)]


SIZES = [(2, 2, 2), (4, 2, 2), (2, 3, 2), (3, 3, 2), (2, 3, 3), (4, 3, 1), (3, 2, 3), (2, 4, 2)]


@pytest.mark.parametrize(("ring", "clients", "helpers"), SIZES)
def test_every_schedule_shows_one_sum_or_nothing(ring: int, clients: int, helpers: int) -> None:
    for picked in itertools.product([None, *subsets(clients)], repeat=helpers):
        answers = [(a, chosen) for a, chosen in enumerate(picked) if chosen is not None]
        same = None not in picked and len(set(picked)) == 1
        shown = [picked[0]] if same and picked[0] is not None else []
        assert alike(ring, clients, helpers, answers) == keeping(ring, clients, shown)


ALL = (0, 1, 2)


@pytest.mark.parametrize(
    ("shown", "helpers", "answers"),
    [
        ([ALL, (0, 1)], 1, [(0, ALL), (0, (0, 1))]),
        ([ALL], 2, [(0, ALL), (0, (0, 1)), (1, ALL)]),
        ([ALL, (0, 1)], 2, [(0, ALL), (0, (0, 1)), (1, ALL), (1, (0, 1))]),
        ([ALL], 2, [(0, ALL), (0, ALL), (1, ALL), (1, ALL)]),
    ],
    ids=["one helper twice", "one of two twice", "both twice", "the same set again"],
)
def test_a_helper_that_answers_twice(
    shown: list[Set], helpers: int, answers: list[tuple[int, Set]]
) -> None:
    """A second set of every honest helper shows a second sum; the same set again shows nothing."""
    assert alike(4, 3, helpers, answers) == keeping(4, 3, shown)


def test_broken_rules_leak_as_predicted() -> None:
    twice = alike(4, 3, 1, [(0, (0, 0, 1))])  # no check that a client is there once
    assert all((2 * x[0] + x[1]) % 4 == 0 for x in twice)
    forked = alike(4, 4, 1, [(0, (0, 1, 2)), (0, (0, 1, 3))])  # client 2 has two uploads, 2 and 3
    assert all((x[2] - x[3]) % 4 == 0 for x in forked)
    one_seed = {(i, 1): (i, 0) for i in range(3)}  # one seed for both helpers: one answer is enough
    assert alike(3, 3, 2, [(0, ALL)], one_seed) == keeping(3, 3, [ALL])
    assert alike(3, 3, 2, [(0, ALL)]) == keeping(3, 3, [])
