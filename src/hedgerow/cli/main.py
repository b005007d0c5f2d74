"""The entry point of the `hedgerow` command: it imports the rest only once Ctrl-C is looked after."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
STOPPED = "Interrupted; nothing was written."


def main() -> None:
    """Turns every foreseen error into one line and an exit code."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        from hedgerow.cli.app import guarded
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)
    sys.exit(guarded("--debug" in sys.argv))


def _terminate(number: int, frame: object) -> None:
    """Being told to end is like Ctrl-C: nothing half-written is left. Once is enough: `timeout` says it twice."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
