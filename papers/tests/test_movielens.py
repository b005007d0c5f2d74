"""MovieLens-1M: the official files and the derived table give the same game, and every broken line
is named.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow.core.lattice import round_to_lattice
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.gao2024.figure6 import EXPERIMENT
from hedgerow_papers.gao2024.movielens import (
    DERIVED,
    GENRES,
    MovieLensGenres,
    load,
    read_derived,
    read_official,
    user_losses,
)

FILMS = "1::Toy Story (1995)::Animation|Children's|Comedy\n7::Misérables, Les (1995)::Drama|Musical\n9::A :: B (1990)::Drama\n"
RATINGS = "5::1::4::978300760\n5::7::5::978302109\n2::9::3::978301968\n2::7::4::978300275\n"
REAL = Path(os.environ.get("HEDGEROW_DATA", "../shared/data")) / DERIVED


def _official(folder: Path, ratings: str = RATINGS, films: str = FILMS) -> Path:
    (folder / "ml-1m").mkdir(exist_ok=True)
    (folder / "ml-1m/movies.dat").write_text(films, encoding="latin-1")
    (folder / "ml-1m/ratings.dat").write_text(ratings, encoding="latin-1")
    return folder / "ml-1m/ratings.dat"


def _derived(
    folder: Path, sums: np.ndarray, counts: np.ndarray, genres: tuple[str, ...] = GENRES
) -> Path:
    (folder / DERIVED).parent.mkdir(parents=True, exist_ok=True)
    np.savez(folder / DERIVED, rating_sum=sums, rating_count=counts, genres=np.array(genres))
    return folder / DERIVED


def _at(*places: tuple[str, float]) -> np.ndarray:
    row = np.zeros(len(GENRES))
    for genre, value in places:
        row[GENRES.index(genre)] = value
    return row


def test_the_official_files_are_added_up_by_user_and_genre(tmp_path: Path) -> None:
    read = read_official(_official(tmp_path))
    assert np.array_equal(
        read.counts, [_at(("Drama", 2), ("Musical", 1)), _at(*((g, 1) for g in _FIVE))]
    )
    expected = [
        _at(("Drama", 7), ("Musical", 4)),
        _at(*((g, 4) for g in _FIVE[:3]), ("Drama", 5), ("Musical", 5)),
    ]
    assert np.array_equal(read.sums, expected)


_FIVE = ("Animation", "Children's", "Comedy", "Drama", "Musical")


def test_losses_are_what_a_genre_is_liked_less_than_the_favourite(tmp_path: Path) -> None:
    """Means: Drama 3.5 and 5 (the favourite as 4.25 on average), Musical 4 and 5 (4.5, the
    favourite).
    """
    read = read_official(_official(tmp_path))
    zero = [_at(*((g, 0.8) for g in GENRES if g != "Musical"))] * 2
    zero[0] = np.where(np.array(GENRES) == "Drama", 0.1, zero[0])
    zero[1] = _at(*((g, 1.0) for g in GENRES if g not in _FIVE), *((g, 0.2) for g in _FIVE[:3]))
    assert np.array_equal(user_losses(read, "zero"), round_to_lattice(np.array(zero)))
    filled = user_losses(read, "user_mean")  # unrated genres count as 3.75 and 4.4
    first = _at(*((g, 0.25 / 4) for g in GENRES if g != "Musical")) + _at(("Drama", 0.25 / 4))
    assert np.array_equal(filled[0], round_to_lattice(first))
    assert filled[1, 0] == round_to_lattice(0.6 / 4)


BROKEN = {
    "too few fields": (
        "5::1::4\n",
        FILMS,
        "ratings.dat, line 1: expected UserID::MovieID::Rating::Timestamp.",
    ),
    "wrong separator": (RATINGS + "5,9,4,9\n", FILMS, "ratings.dat, line 5: expected UserID"),
    "empty line": ("5::1::4::9\n\n5::7::4::9\n", FILMS, "ratings.dat, line 2: expected UserID"),
    "no number": (
        "5::1::4::9\nx::7::5::9\n",
        FILMS,
        "ratings.dat, line 2: expected UserID to be a whole number",
    ),
    "half a star": (
        "5::1::3.5::9\n",
        FILMS,
        "ratings.dat, line 1: expected Rating to be a whole number",
    ),
    "too high": ("5::1::6::9\n", FILMS, r"ratings.dat, line 1: expected Rating in \[1, 5\]"),
    "too low": ("5::1::0::9\n", FILMS, r"ratings.dat, line 1: expected Rating in \[1, 5\]"),
    "unknown film": (
        "5::1::4::9\n5::8::4::9\n",
        FILMS,
        "ratings.dat, line 2: the film of this line is not in movies.dat",
    ),
    "rated twice": (
        "5::1::4::9\n2::1::4::9\n5::1::3::9\n",
        FILMS,
        "ratings.dat, line 3: this user rated this film",
    ),
    "no ratings": ("", FILMS, "Expected at least one rating in .*ratings.dat"),
    "film without genre": (
        RATINGS,
        "1::Toy Story (1995)\n",
        "movies.dat, line 1: expected MovieID::Title::Genre",
    ),
    "unknown genre": (
        RATINGS,
        FILMS + "10::X::Drama|Noir\n",
        "movies.dat, line 4: expected Genre='Noir' to be one of Action",
    ),
    "film twice": (
        RATINGS,
        FILMS + "7::X::Drama\n",
        "movies.dat, line 4: film 7 is already in an earlier line",
    ),
    "no film number": (
        RATINGS,
        "one::X::Drama\n",
        "movies.dat, line 1: expected MovieID to be a whole number",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_is_named(tmp_path: Path, name: str) -> None:
    ratings, films, message = BROKEN[name]
    with pytest.raises(InvalidValue, match=message):
        read_official(_official(tmp_path, ratings, films))


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    good = np.zeros((3, 18), np.int64)
    one = np.where(np.arange(54).reshape(3, 18) == 22, 1, 0)
    with pytest.raises(InvalidValue, match=r"\(row 1, Comedy\)"):
        read_derived(_derived(tmp_path, 6 * one, one))
    with pytest.raises(InvalidValue, match=r"shape \(users, 18\)"):
        read_derived(_derived(tmp_path, good[:, :17], good[:, :17]))
    with pytest.raises(InvalidValue, match="18 genres"):
        read_derived(_derived(tmp_path, good, good, (*GENRES[:17], "Noir")))
    (tmp_path / DERIVED).write_bytes(b"not an archive")
    with pytest.raises(HedgerowError, match=r"Cannot read .*user_genre\.npz"):
        read_derived(tmp_path / DERIVED)
    np.savez(tmp_path / DERIVED, rating_sum=good)
    with pytest.raises(HedgerowError, match=r"Cannot read .*rating_count"):
        read_derived(tmp_path / DERIVED)


def test_missing_data_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    outcome = reproduce(EXPERIMENT, quick=True, out=tmp_path / "x", workers=1)
    assert outcome.status == "no-data"
    assert str(tmp_path / "ml-1m/ratings.dat") in outcome.message
    assert "https://grouplens.org" in outcome.message
    assert list(tmp_path.iterdir()) == []
    _official(tmp_path).with_name("movies.dat").unlink()
    with pytest.raises(MissingData, match=r"movies\.dat not found"):
        MovieLensGenres().start(0)


# The game, on ratings made up for 6040 users


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Official files: one film for each genre, Drama the favourite; every user rates Drama and five
    others.
    """
    rng = np.random.default_rng(0)
    films = "".join(f"{i + 1}::Film {i} (1999)::{genre}\n" for i, genre in enumerate(GENRES))
    drama, lines = GENRES.index("Drama"), []
    for user in range(1, 6041):
        for film in {drama, *rng.permutation(18)[:5].tolist()}:
            stars = 5 if film == drama else int(rng.integers(1, 6))
            lines.append(f"{user}::{film + 1}::{stars}::978300000\n")
    _official(tmp_path, "".join(lines), films)
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    return tmp_path


def test_every_user_is_one_round_of_one_client(made_up: Path) -> None:
    everyone = load("zero")
    in_order = MovieLensGenres(shuffled=False)
    block, _ = in_order.block(in_order.start(0), 604, None)
    assert np.array_equal(block.losses.reshape(6040, 18), everyone)
    shuffled = [MovieLensGenres().start(seed)[0].reshape(6040, 18) for seed in (0, 0, 1)]
    assert np.array_equal(shuffled[0], shuffled[1])
    assert not np.array_equal(shuffled[0], shuffled[2])
    for losses in shuffled:
        assert np.array_equal(np.sort(losses, axis=0), np.sort(everyone, axis=0))
    assert (everyone[:, GENRES.index("Drama")] == 0).all()
    assert everyone.max() == 1.0
    with pytest.raises(InvalidValue, match="clients \\* horizon=6050 <= 6040"):
        MovieLensGenres(clients=10, horizon=605).start(0)
    _derived(made_up, np.zeros((1, 18), np.int64), np.zeros((1, 18), np.int64))
    assert len(load("zero")) == 6040  # the official file comes first


def test_blocks_do_not_change_the_game(made_up: Path) -> None:
    environment = MovieLensGenres(clients=4, horizon=50, unrated="user_mean")
    whole, _ = environment.block(environment.start(3), 50, None)
    state, pieces = environment.start(3), []
    for rounds in (1, 7, 30, 12):
        block, state = environment.block(state, rounds, None)
        pieces.append(block.losses)
    assert np.array_equal(np.concatenate(pieces), whole.losses)


def test_a_changed_file_is_read_again(made_up: Path) -> None:
    before = load("zero")
    path = _official(made_up)
    os.utime(path, ns=(1, 1))
    assert load("zero").shape != before.shape


@pytest.mark.long
def test_the_quick_figure_runs_on_the_official_files(made_up: Path, tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=True, out=tmp_path / "figure6", workers=1)
    assert outcome.status == "quick", outcome.message
    assert outcome.verdict is not None
    checks = {check.name: check for check in outcome.verdict.checks}
    assert checks["certified/N=1/times-below-single-player"].limit == 5.0
    assert checks["published/m=10/N=1/below-single-player"].passed
    assert "really costs epsilon = 37.5" in outcome.message
    assert (tmp_path / "figure6/gao2024-figure6.png").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
def test_figure_6_reproduces(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=False, out=tmp_path / "figure6", workers=2)
    assert outcome.verdict is not None
    assert outcome.verdict.holds == "with other constants"
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}")
def test_the_derived_table_is_movielens(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_derived(REAL)
    assert read.counts.shape == (6040, 18)
    assert (read.counts == 0).mean() == pytest.approx(0.136, abs=0.0005)
    losses = user_losses(read, "zero")
    assert np.flatnonzero(losses.sum(axis=0) == 0).tolist() == [GENRES.index("Drama")]
    assert 0 < losses.mean() < 0.5
