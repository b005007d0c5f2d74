"""The entry point of the `hedgerow` command. It handles Ctrl-C before it imports the rest."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
STOPPED = "Interrupted. Nothing was written."


def main() -> None:
    """Run the command. Every foreseen error becomes one line and an exit code."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        from hedgerow.cli.app import guarded
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)
    sys.exit(guarded("--debug" in sys.argv))


def _terminate(number: int, frame: object) -> None:
    """Treat SIGTERM like Ctrl-C, so that nothing half-written is left.

    Further signals are ignored, because `timeout` sends two.
    """
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
