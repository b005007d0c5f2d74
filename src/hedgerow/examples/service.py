"""An application at one client of a study: every day it asks which model to follow.

Before, once: `hedgerow client init`, `hedgerow client join` (see `hedgerow client --help`). Then

    python examples/service.py NAME

starts `hedgerow client run` for the data set NAME and talks to it in JSON lines. It can be stopped
and started at any time: it goes on with the round that the client names, nothing is sent twice, and
losses that are reported twice are counted once.
"""

import json
import subprocess
import sys

if len(sys.argv) != 2:
    sys.exit("Name the data set: python examples/service.py NAME")

client = subprocess.Popen(
    [sys.executable, "-m", "hedgerow", "client", "run", "--data", sys.argv[1]],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)


def ask(request: dict) -> dict:
    """Send one line, read one line."""
    assert client.stdin
    assert client.stdout
    client.stdin.write(json.dumps(request) + "\n")
    client.stdin.flush()
    reply = json.loads(client.stdout.readline() or '{"error": "the client has stopped"}')
    if "error" in reply:
        sys.exit(reply["error"])
    return reply


def losses_of_today(round_number: int, experts: int) -> list[float]:
    """The loss of each model today, in [0, 1]. Replace this by your own data."""
    return [((round_number + model) % 7) / 7 for model in range(experts)]


try:
    experts = ask({"do": "status"})["experts"]
    while not (play := ask({"do": "predict"}))["over"]:
        # ... use the model; at the end of the day its loss and those of the others are known ...
        losses = losses_of_today(play["round"], experts)
        ask({"do": "observe", "round": play["round"], "losses": losses})
    client.communicate()
except KeyboardInterrupt:  # the client says where it stopped
    sys.exit(130)
