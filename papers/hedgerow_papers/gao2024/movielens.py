"""MovieLens-1M as a game: users are rounds, and film genres are experts.

The data come from the official files `ml-1m/ratings.dat` and `ml-1m/movies.dat` (GroupLens,
Latin-1, fields separated by `::`), or from a table of the same sums and counts,
`movielens1m/user_genre.npz`. The data may not be redistributed and are never downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal
from zipfile import BadZipFile

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, fingerprint_of
from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow.core.lattice import Array, Units, round_to_lattice
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.recorded.data import find_any

OFFICIAL, DERIVED = "ml-1m/ratings.dat", "movielens1m/user_genre.npz"
SOURCE = (
    "https://grouplens.org/datasets/movielens/1m/ "
    "(unpack ml-1m.zip; movies.dat must be in the same folder as ratings.dat)"
)
GENRES = (
    *(
        "Action",
        "Adventure",
        "Animation",
        "Children's",
        "Comedy",
        "Crime",
        "Documentary",
        "Drama",
        "Fantasy",
    ),
    *(
        "Film-Noir",
        "Horror",
        "Musical",
        "Mystery",
        "Romance",
        "Sci-Fi",
        "Thriller",
        "War",
        "Western",
    ),
)
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True, eq=False)
class GenreRatings:
    """The sum and the count of ratings for every user (by number) and genre.

    A film counts for each of its genres.
    """

    sums: Units
    counts: Units

    def means(self, unrated: str) -> Array:
        """Return mean ratings.

        A genre that a user never rated counts as 0, or as the user's mean over the rated genres.
        """
        rated = self.counts > 0
        means = np.where(rated, self.sums / np.maximum(self.counts, 1), 0.0)
        if unrated == "user_mean":
            own = means.sum(axis=1, keepdims=True) / np.maximum(rated.sum(axis=1, keepdims=True), 1)
            means = np.where(rated, means, own)
        return means


@dataclass(frozen=True, kw_only=True)
class MovieLensGenres(Environment):
    """MovieLens-1M ratings: users are rounds, genres are experts, the favourite never loses.

    Let r(u, g) be the mean rating that user u gave to genre g, and g* the genre with the highest
    mean over all users. Genre g costs max(0, r(u, g*) - r(u, g)), divided by its largest possible
    value, so that losses lie in [0, 1].

    Parameters
    ----------
    clients, horizon
        The number of clients and rounds. 10 clients and 604 rounds use all 6040 users.
    unrated
        How a genre counts that a user never rated: `"zero"` as 0 (losses are divided by 5),
        `"user_mean"` as the user's mean rating (losses are divided by 4).
    shuffled
        True: the seed shuffles the users. False: round t of client i is user t * clients + i.

    Examples
    --------
    >>> MovieLensGenres().setting
    Setting(clients=10, experts=18, horizon=604, deciders=None)

    References
    ----------
    Gao et al. 2024, appendix G.
    """

    clients: int = 10
    horizon: int = 604
    unrated: Literal["zero", "user_mean"] = "zero"
    shuffled: bool = True

    def __post_init__(self) -> None:
        _ = self.setting
        if self.unrated not in ("zero", "user_mean"):
            raise InvalidValue(f"Expected unrated={self.unrated!r} in ('zero', 'user_mean').")

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, len(GENRES), self.horizon)

    @property
    def expert_names(self) -> tuple[str, ...]:
        return GENRES

    def fingerprint(self) -> str:
        return fingerprint_of(load(self.unrated), repr(self))

    def start(self, seed: int) -> tuple[Array, int]:
        losses = load(self.unrated)
        wanted = self.clients * self.horizon
        if wanted > len(losses):
            raise InvalidValue(
                f"Expected clients * horizon={wanted!r} <= {len(losses)}, the number of users."
            )
        order = (
            generator(seed, 1).permutation(len(losses)) if self.shuffled else np.arange(len(losses))
        )
        return losses[order[:wanted]].reshape(self.horizon, self.clients, len(GENRES)), 0

    def block(
        self, state: tuple[Array, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[Array, int]]:
        losses, at = state
        return Block.of(losses[at : at + rounds]), (losses, at + rounds)


def user_losses(ratings: GenreRatings, unrated: str) -> Array:
    """Return the loss of each genre for each user, (users, genres), on the lattice."""
    means = ratings.means(unrated)
    best = int(means.mean(axis=0).argmax())
    span = HIGHEST if unrated == "zero" else HIGHEST - LOWEST
    return round_to_lattice(np.maximum(means[:, best : best + 1] - means, 0.0) / span)


def locate() -> Path:
    """Return the path of the ratings: the official file, or the derived table."""
    return find_any((OFFICIAL, DERIVED), SOURCE)


def load(unrated: str) -> Array:
    """Return the losses of all users, (users, genres).

    A file is read once in a process, and again when it has changed.
    """
    path = locate()
    return _losses(path, path.stat().st_mtime_ns, unrated)


@lru_cache(maxsize=4)
def _losses(path: Path, changed: int, unrated: str) -> Array:
    return user_losses(
        read_derived(path) if path.suffix == ".npz" else read_official(path), unrated
    )


def read_derived(path: Path) -> GenreRatings:
    """Read a NumPy archive with `rating_sum`, `rating_count` (users, genres) and `genres`."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            sums, counts, genres = (
                archive[name] for name in ("rating_sum", "rating_count", "genres")
            )
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise HedgerowError(f"Cannot read {path}: {str(error).splitlines()[0]}") from error
    if tuple(genres) != GENRES:
        raise InvalidValue(
            f"Expected the 18 genres {', '.join(GENRES)} in {path}, "
            f"got {', '.join(map(str, genres))}."
        )
    for name, table in (("rating_sum", sums), ("rating_count", counts)):
        if table.shape != (len(counts), len(GENRES)) or table.dtype.kind not in "iu":
            found = f"{table.dtype} of shape {table.shape}"
            raise InvalidValue(
                f"Expected {name} in {path} to be whole numbers of shape "
                f"(users, {len(GENRES)}), got {found}."
            )
    bad = np.argwhere((counts < 0) | (sums < LOWEST * counts) | (sums > HIGHEST * counts))
    if len(bad):
        user, genre = (int(i) for i in bad[0])
        place = f"row {user}, {GENRES[genre]}"
        raise InvalidValue(f"Expected ratings in [{LOWEST}, {HIGHEST}] in {path} ({place}).")
    return GenreRatings(sums.astype(np.int64), counts.astype(np.int64))


def read_official(path: Path) -> GenreRatings:
    """Read `ratings.dat` and the `movies.dat` beside it; errors name the first broken line."""
    films = path.with_name("movies.dat")
    if not films.is_file():
        raise MissingData(f"Data file {films} not found. Get it from {SOURCE}.")
    genres = _read_films(films)
    row_of = {film: row for row, film in enumerate(genres)}
    rows: list[tuple[int, int, int]] = []
    for number, line in enumerate(_lines(path), start=1):
        user, film, rating = _rating(line, path, number)
        if film not in row_of:
            raise _broken(path, number, f"the film of this line is not in {films.name}")
        rows.append((user, row_of[film], rating))
    if not rows:
        raise InvalidValue(f"Expected at least one rating in {path}.")
    return _add_up(np.array(rows), np.array(list(genres.values()), np.int64), path)


def _add_up(rows: Units, genres: Units, path: Path) -> GenreRatings:
    _, user = np.unique(rows[:, 0], return_inverse=True)
    pair = user * len(genres) + rows[:, 1]
    order = np.argsort(pair, kind="stable")
    repeated = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(repeated):
        raise _broken(
            path, int(order[repeated + 1].min()) + 1, "this user rated this film in an earlier line"
        )
    sums = np.zeros((int(user.max()) + 1, len(GENRES)), np.int64)
    counts = np.zeros_like(sums)
    np.add.at(counts, user, genres[rows[:, 1]])
    np.add.at(sums, user, genres[rows[:, 1]] * rows[:, 2:])
    return GenreRatings(sums, counts)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="latin-1").splitlines()
    except OSError as error:
        raise HedgerowError(f"Cannot read {path}: {error.strerror}.") from error


def _broken(path: Path, number: int, what: str) -> InvalidValue:
    return InvalidValue(f"{path}, line {number}: {what}.")


def _number(text: str, name: str, path: Path, line: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _broken(path, line, f"expected {name} to be a whole number")
    return int(text)


def _rating(line: str, path: Path, number: int) -> tuple[int, int, int]:
    """Parse `UserID::MovieID::Rating::Timestamp`."""
    parts = line.split("::")
    if len(parts) != 4:
        raise _broken(path, number, "expected UserID::MovieID::Rating::Timestamp")
    names = ("UserID", "MovieID", "Rating", "Timestamp")
    user, film, rating, _ = (
        _number(part, name, path, number) for part, name in zip(parts, names, strict=True)
    )
    if not LOWEST <= rating <= HIGHEST:
        raise _broken(path, number, f"expected Rating in [{LOWEST}, {HIGHEST}]")
    return user, film, rating


def _read_films(path: Path) -> dict[int, list[int]]:
    """Parse lines `MovieID::Title::Genre|Genre`; return 18 zeros and ones for each film."""
    films: dict[int, list[int]] = {}
    for number, line in enumerate(_lines(path), start=1):
        parts = line.split("::")
        if len(parts) < 3:
            raise _broken(path, number, "expected MovieID::Title::Genre|Genre")
        film = _number(parts[0], "MovieID", path, number)
        if film in films:
            raise _broken(path, number, f"film {film} is already in an earlier line")
        named = parts[-1].split("|")
        for genre in named:
            if genre not in GENRES:
                raise _broken(
                    path, number, f"expected Genre={genre!r} to be one of {', '.join(GENRES)}"
                )
        films[film] = [int(genre in named) for genre in GENRES]
    return films
