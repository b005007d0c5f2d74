"""The provenance of a run: versions, a hash of the code, the commit and the noise."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import NoiseSource
from hedgerow.core.registry import installed_plugins, loaded_plugins, named_libraries
from hedgerow.core.validate import one_of
from hedgerow.privacy.secure.source import require_secure
from hedgerow.version import __version__

PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("numpy", "scipy", "dp-accounting", "cryptography", "mpmath")
OPTIONAL = ("jax", "jaxlib")  # listed if installed: some results depend on them
SEEDED, SECURE = "seeded", "operating system"


@dataclass(frozen=True)
class Code:
    """The code of a run.

    Parameters
    ----------
    sha256
        A hash of the names and contents of all Python files of the package.
    files
        The number of these files.
    commit
        The commit that is checked out; None if the package is not a checkout.
    changed
        Whether the files differ from the commit.
    plugins
        The hash of each plugin, by file name, and of each installed plugin package by its name.
    """

    sha256: str
    files: int
    commit: str | None
    changed: bool | None
    plugins: dict[str, str]


@dataclass(frozen=True)
class NoiseRecord:
    """Where the randomness came from. Only `secure` noise protects data."""

    source: str
    secure: bool
    words: str

    def __post_init__(self) -> None:
        one_of(self, source=(SEEDED, SECURE))
        if self.secure is not (self.source == SECURE):
            raise InvalidValue(
                f"Expected secure={self.secure!r} to agree with the source {self.source!r}."
            )


def hash_of(folder: Path) -> tuple[str, int]:
    """A hash of the names and contents of all Python files below a folder, and their number."""
    total = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for file in files:
        content = file.read_bytes()
        total.update(f"{file.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest(), len(files)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(PACKAGE), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@lru_cache(maxsize=1)
def _sources() -> tuple[str, int, str | None, bool | None]:
    """Hash, number, commit and changes of the sources; found once, as they are imported once."""
    sha256, files = hash_of(PACKAGE)
    tracked = _git("ls-files", "--error-unmatch", "__init__.py") is not None
    commit = _git("rev-parse", "HEAD") if tracked else None
    changed = None if commit is None else _git("status", "--porcelain", "--", ".") != ""
    return sha256, files, commit, changed


def code_provenance() -> Code:
    """The installed sources, with their commit if they are a checkout."""
    plugins = {
        Path(file).name: hashlib.sha256(Path(file).read_bytes()).hexdigest()
        for file in loaded_plugins()
    }
    return Code(*_sources(), {**_installed(), **plugins})


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """A hash of the Python files of each installed plugin; they are not imported for it."""
    found = {}
    for name in installed_plugins():
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found[name] = hash_of(Path(spec.submodule_search_locations[0]))[0]
        elif spec is not None and spec.origin is not None:
            found[name] = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return found


@lru_cache(maxsize=64)
def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def library_versions() -> dict[str, str]:
    """The versions of Python, of this package and of the libraries that results depend on.

    Optional libraries are listed if they are installed; plugins name theirs with `depends_on`.
    """
    optional = (library for library in OPTIONAL if find_spec(library) is not None)
    found = {"python": platform.python_version(), "hedgerow": __version__}
    for library in dict.fromkeys((*LIBRARIES, *optional, *named_libraries())):
        found[library] = _version(library)
    return found


def seeded_noise(first: int, count: int) -> NoiseRecord:
    """The noise of a simulation."""
    seeds = f"seed {first}" if count == 1 else f"seeds {first} to {first + count - 1}"
    return NoiseRecord(
        SEEDED,
        False,
        f"pseudo-random numbers from public seeds ({seeds}): "
        "a person who knows a seed can remove the noise",
    )


def secure_noise(source: NoiseSource) -> NoiseRecord:
    """The noise of a deployment; any other source is refused."""
    try:
        require_secure(source)
    except InvalidValue as error:
        remedy = (
            "Make the learner with Learner.private(..., source=SecureNoise()), "
            "from hedgerow.privacy."
        )
        raise InvalidValue(f"{error} {remedy}") from error
    text = (
        "exact whole numbers, drawn with AES-256 in counter mode under a key from the operating "
        "system; no seed, no number used twice"
    )
    return NoiseRecord(SECURE, True, text)
