"""What works without the libraries that only some users need, and what is said where one is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hedgerow.core.extras import EXTRAS
from support.paths import EXAMPLES, ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = (
    *("cryptography", "nacl", "tomli_w", "yaml", "matplotlib", "pyarrow"),
    *("starlette", "uvicorn", "h11", "jax", "flwr"),
)
BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""
MAIN = "from hedgerow.cli.main import main; sys.argv[0] = 'hedgerow'; main()"
COMMANDS = {
    ("run", str(EXAMPLES / "study.toml")): "runs",
    ("demo",): "runs",
    ("statement", "run"): "plots",
    ("compare", "one", "other"): "runs",
    ("serve", str(EXAMPLES / "serve.toml"), "--folder", "server"): "deploy",
    ("client", "init", "--data", "north", "--budget", "2.0", "--unit", "event"): "secure",
    ("certify", "sparse_vector"): None,
    ("list", "algorithms"): None,
    ("choose", "--help"): None,
}


FORKED = (
    BLOCKED
    + """
import json, os, traceback
import numpy, scipy.stats, hedgerow, hedgerow.cli.main
hedgerow.SparseVector
for line in sys.stdin:
    code, arguments, folder = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(os.open(str(number), os.O_CREAT | os.O_WRONLY), number)
        sys.argv, status = ["-c", *arguments], 1
        try:
            exec(code, {"__name__": "__main__", "sys": sys})
            status = 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Code in a new process without the libraries: forked from one that has started without them."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def forked(code: str, folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
            print(json.dumps([code, given, str(folder)]), file=asked, flush=True)
            status = int(answered.readline())
            out, err = ((folder / name).read_text(encoding="utf-8") for name in "12")
            return subprocess.CompletedProcess(code, status, out, err)

        yield forked
        asked.close()


def _advice(extra: str) -> str:
    text = re.escape(f'. Run `pip install "hedgerow[{extra}]"`.')
    return re.escape(EXTRAS[extra]) + r" the library \w+, which is not installed" + text


def test_the_example_of_the_readme_needs_no_extra_until_it_draws(tmp_path: Path, run: Run) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example, _, expected = text.partition("```python\n")[2].partition("```")
    output = expected.partition("```text\n")[2].partition("```")[0]
    *lines, plot = example.strip().splitlines()
    assert ".plot(" in plot
    tried = (f"try: {plot}", "except hr.Unsupported as error: print(error, file=sys.stderr)")
    done = run("\n".join((*lines, *tried)), tmp_path)
    assert done.stdout == output
    assert re.fullmatch(_advice("plots"), done.stderr.strip()), done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("hr.SecureNoise()", "secure"),
        ("hr.Recorded('losses.csv').setting", "runs"),
        ("hr.compare(['one', 'other'])", "runs"),
        ("from hedgerow.statement.picture import draw_statement", "plots"),
        ("from hedgerow.statement.registry import registry_yaml", "statement"),
        (
            "from hedgerow.studies.storage.keys import signed_by; signed_by('00' * 32, b'0' * 64, b'')",
            "secure",
        ),
        ("from hedgerow.deployment.keys import load_or_make; load_or_make('key.pem')", "secure"),
        ("from hedgerow.deployment.http_server import serve", "deploy"),
        ("from hedgerow.deployment.pages.live import live_page", "deploy"),
        ("from hedgerow.core.extras import need_jax; need_jax()", "learning"),
        ("from hedgerow.deployment.flower import need_flower; need_flower('flwr.app')", "flower"),
    ],
)
def test_a_missing_library_is_named_with_what_to_install(
    code: str, extra: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "losses.csv").write_text("round,client,expert,loss\n")
    done = run(
        f"import hedgerow as hr\nfrom hedgerow.core.errors import NotInstalled\n"
        f"try:\n    {code}\nexcept NotInstalled as error:\n    print(error)",
        tmp_path,
    )
    assert re.fullmatch(_advice(extra), done.stdout.strip()), done.stderr


@pytest.mark.parametrize(("command", "extra"), COMMANDS.items())
def test_a_command_without_its_libraries_says_what_to_install(
    command: tuple[str, ...], extra: str | None, tmp_path: Path, run: Run
) -> None:
    done = run(MAIN, tmp_path, *command)
    if extra is None:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode != 0
        assert re.fullmatch("Error: " + _advice(extra), " ".join(done.stderr.split())), done.stderr


def test_every_extra_has_words_and_all_has_every_extra_but_large_ones() -> None:
    extras = PYPROJECT["optional-dependencies"]
    assert {*extras} == {*EXTRAS, "all"}

    def libraries(names: list[str]) -> set[str]:
        inner = [re.fullmatch(r"hedgerow\[(.*)\]", name) for name in names]
        own = {name for name, found in zip(names, inner, strict=True) if found is None}
        deeper = [extra for found in inner if found for extra in found[1].split(",")]
        return own.union(*(libraries(extras[extra]) for extra in deeper))

    wanted = {extra: libraries(names) for extra, names in extras.items()}
    large = ("flower", "dask", "ray")
    assert wanted["all"] == set().union(*(wanted[e] for e in extras if e not in ("all", *large)))
    mandatory = {re.split("[<>=]", name)[0] for name in PYPROJECT["dependencies"]}
    optional = {re.split("[<>=]", name)[0] for name in set().union(*wanted.values())}
    assert not mandatory & optional
