"""Processes that start at once: forked from one that has imported everything, to be killed at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from support.paths import ROOT
from support.waiting import PATIENCE, until

PRELOADED = ("hedgerow.deployment.http_server", "support.parties")


class Zygote:
    """Starts `module:function(*arguments)` in new processes, and knows how they ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.running: set[int] = set()
        self.ended: dict[int, int] = {}

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, what: str, *arguments: Any, errors: Path) -> int:
        """The number of a new process, which writes what it prints to `errors`."""
        pid = self._ask({"call": what, "arguments": arguments, "errors": str(errors)})
        self.running.add(pid)
        return pid

    def reap(self) -> dict[int, int]:
        """The exit codes of processes that have ended since the last call; -9 means killed."""
        ended = {int(pid): code for pid, code in self._ask({"reap": True}).items()}
        self.running -= set(ended)
        self.ended |= ended
        return ended

    def kill(self, pid: int) -> None:
        """End a process as a loss of power does, and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def wait(self, pid: int, seconds: float = PATIENCE) -> int:
        """The exit code of a process."""
        until(lambda: pid in self.ended or pid in self.reap(), f"the end of process {pid}", seconds)
        return self.ended[pid]


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A process to fork from; what it started ends with it."""
    place = [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "support.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, place))},
    )
    found = Zygote(process)
    try:
        yield found
    finally:
        found.reap()
        for pid in set(found.running):
            found.kill(pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def main() -> None:
    """Fork on request."""
    for name in PRELOADED:
        import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "reap" in request:
            answer: Any = _reap()
        else:
            answer = os.fork()
            if not answer:
                _child(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _reap() -> dict[int, int]:
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _child(request: dict[str, Any]) -> None:
    code = 1
    try:
        errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, to in ((0, nothing), (1, errors), (2, errors)):
            os.dup2(to, number)
        module, _, function = request["call"].partition(":")
        code = getattr(import_module(module), function)(*request["arguments"]) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
