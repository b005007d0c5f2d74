"""The live page of a study at its server. It shows only what PUBLIC and PEER see anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.pages.html import (
    Html,
    bullets,
    code,
    element,
    joined,
    page,
    part,
    scroll,
    section,
    swatch,
    table,
    terms,
)

COLOURS = ("#0b6e4f", "#c2571a", "#3b5b92", "#8a3d6e", "#7a7a1f", "#4f8a8b")
LAST = 10  # changes of what is followed that are listed
SHOWN = 100  # clients in the table; those that matter most come first
STATES = {
    "out": ("taken out", "the operator has ended its part for good"),
    "forked": ("refused", "it signed two messages for one release"),
    "late": ("late", "the open exchange waits for its upload"),
    "expected": ("not joined", ""),
    "joined": ("joined", "not playing yet, or not since the server started"),
    "present": ("present", ""),
    "done": ("done", ""),
}
"""The state of a client in a word, and what it means; those that need attention come first."""
HIDDEN = (
    "Uploads, sums, thresholds and losses: the server may hold some of them, but none is public.",
    "Regret: it depends on losses. Each client can compute its own regret.",
    "Budgets: the page of each client shows the budget of its data set.",
)


def state_of(client: Mapping[str, Any]) -> str:
    """The state of a client in one word: the most important one.

    >>> state_of({"joined": True, "present": True, "late": False})
    'present'
    """
    order = ("out", "forked", "done", "late", "present", "joined")
    return next((state for state in order if client.get(state)), "expected")


def parts(public: Mapping[str, Any]) -> dict[str, Html]:
    """The parts of the page that change, by name."""
    return {
        "state": _state(public),
        "now": _now(public),
        **({} if not public.get("followed") else {"followed": _followed(public)}),
        **({} if public.get("weights") is None else {"weights": _weights(public["weights"])}),
        "clients": _clients(public["clients"]),
        "chain": _chain(public),
    }


def study_page(public: Mapping[str, Any]) -> bytes:
    """The whole page.

    Parameters
    ----------
    public
        What `StudyServer.public` returns.
    """
    found = parts(public)
    header = joined(
        element("p", f"Hedgerow study, {public['algorithm']}", class_="quiet"),
        element("h1", public["title"]),
    )
    certificate = element("a", "the whole certificate", href="certificate")
    manifest = element("a", "the manifest", href="manifest.json")
    main = joined(
        part("state", found["state"]),
        ""
        if "followed" not in found
        else section("What is followed", part("followed", found["followed"]), name="followed"),
        ""
        if "weights" not in found
        else section("Weights of the forecasts", part("weights", found["weights"]), name="weights"),
        section("Now", part("now", found["now"]), name="now"),
        section(
            "Clients",
            scroll(part("clients", found["clients"]), "List of clients"),
            name="clients",
        ),
        section(
            "What each observer can learn",
            bullets(public["certificate"]),
            element("p", "See ", certificate, ", with proofs and assumptions, and ", manifest, "."),
            name="certificate",
        ),
        section(
            "Logs",
            element(
                "details", element("summary", "Entries and heads"), part("chain", found["chain"])
            ),
            name="chain",
        ),
        section("Not shown here", bullets(HIDDEN), name="hidden"),
    )
    footer = element("p", f"Study {public['study']}")
    return page(public["title"], header, main, footer, {"events": "events"})


def _state(public: Mapping[str, Any]) -> Html:
    """One line on where the study stands, and what an operator must know."""
    late = [client["name"] for client in public["clients"] if state_of(client) == "late"]
    missing = [c["name"] for c in public["clients"] if state_of(c) == "expected"]
    helpers = [name for name, awaited in public["helpers"].items() if awaited]
    if public["over"]:
        text = "The study is over: every client has played its last round."
    elif missing:
        text = f"Waiting for {_names(missing)} to join."
    elif late:
        text = f"Exchange {public['exchange'] + 1} is open; {_names(late)} {_is(late)} late."
    elif helpers:
        text = f"All clients have uploaded; exchange {public['exchange'] + 1} needs the "
        text += f"helper{'s' * (len(helpers) > 1)} {_names(helpers)}."
    elif not any(client["present"] or client["done"] for client in public["clients"]):
        text = "All clients have joined. None of them is here now."
    else:
        text = "The study is running."
    notes = [element("p", text)]
    if public["stuck"] is not None:
        stuck = f"No exchange is answered now: {public['stuck']}."
        notes.append(element("p", stuck, class_="note loud"))
    if not public["private"]:
        seeded = "Not private: the noise of this study comes from a seed."
        notes.append(element("p", seeded, class_="note loud"))
    if public["trouble"] is not None:
        notes.append(element("p", f"Trouble: {public['trouble']}.", class_="note loud"))
    return joined(*notes)


def _names(names: list[str]) -> str:
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _now(public: Mapping[str, Any]) -> Html:
    horizon = public["horizon"]
    done = horizon if public["over"] and horizon is not None else public["round"]
    rounds: object = f"{done}"
    if horizon is not None:
        bar = element("progress", value=done, max=horizon, aria_label="rounds")
        rounds = joined(f"{done} of {horizon}", bar)
    following, left = public["next_upload_after_rounds"], public["switches_left"]
    shown = public.get("followed") or public.get("weights")  # above, by name
    kind = "Played now" if public["play"] == "a point" else "Expert followed"
    return terms(
        [
            ("Rounds played" if public["over"] else "Rounds before the latest exchange", rounds),
            (
                "Complete exchanges",
                joined(
                    public["exchange"],
                    element(
                        "small",
                        "no further one"
                        if following is None
                        else f"the next one after {following} more round{'s' * (following != 1)}",
                    ),
                ),
            ),
            *([] if shown else [(kind, _play(public["play"]))]),
            *([] if left is None else [("Switches left", left)]),
            ("If a client is silent", rule_of(public["closing"]).words),
        ]
    )


def _followed(public: Mapping[str, Any]) -> Html:
    """Who is followed now and since when, a strip of all rounds, and the last changes."""
    changes: list[tuple[int, str]] = public["followed"]
    since, name = changes[-1]
    ends = [*(start for start, _ in changes[1:]), max(public["round"], since + 1)]
    whole = public["horizon"] or ends[-1]
    names = list(dict.fromkeys(who for _, who in changes))
    bars = [
        element(
            "rect",
            x=f"{600 * start / whole:.2f}",
            y=0,
            width=f"{600 * (end - start) / whole:.2f}",
            height=24,
            fill=COLOURS[names.index(who) % len(COLOURS)],
        )
        for (start, who), end in zip(changes, ends, strict=True)
    ]
    strip = element(
        "svg",
        element("rect", x=0, y=0, width=600, height=24, fill="#e4e8e6"),
        *bars,
        viewBox="0 0 600 24",
        role="img",
        aria_label=f"who was followed in which of {whole} rounds",
    )
    verb = "was followed to the end" if public["over"] else "is followed now"
    text = element("p", element("strong", name), f" {verb}, since round {since}.")
    rows = [
        (joined(swatch(COLOURS[names.index(who) % len(COLOURS)]), who), start)
        for start, who in changes[: -LAST - 1 : -1]
    ]
    more = len(changes) - len(rows)
    number = len(changes) - 1
    caption = f"{number or 'no'} change{'s' * (number != 1)}"
    caption += f"; the last {LAST} are shown" if more else ""
    return joined(text, strip, table(caption, ("expert", "from round"), rows))


def _weights(weights: Mapping[str, float]) -> Html:
    """The weights by name, the largest first."""
    ordered = sorted(weights.items(), key=lambda item: -item[1])
    rest = len(ordered) - SHOWN
    caption = f"{len(ordered)} forecasts" + (f"; the first {SHOWN} are shown" if rest > 0 else "")
    rows = [
        (
            name,
            joined(
                f"{100 * weight:.1f} %",
                element(
                    "meter", value=f"{weight:.4f}", min=0, max=1, aria_label=f"weight of {name}"
                ),
            ),
        )
        for name, weight in ordered[:SHOWN]
    ]
    return table(caption, ("forecast", "weight"), rows)


def _play(play: Any) -> object:
    if play is None:
        return "differs between clients"
    if isinstance(play, str):
        return play
    return joined(play, element("small", "experts are counted from 0"))


def _clients(clients: list[dict[str, Any]]) -> Html:
    order = list(STATES)
    ranked = sorted(clients, key=lambda client: order.index(state_of(client)))
    counts = Counter(map(state_of, clients))
    listed = ", ".join(f"{counts[state]} {STATES[state][0]}" for state in order if counts[state])
    rest = len(ranked) - SHOWN
    caption = f"{len(clients)} clients: {listed}" if len(clients) > 1 else f"1 client: {listed}"
    if rest > 0:
        caption += f"; the first {SHOWN} are shown"
    return table(caption, ("client", "state"), map(_row, ranked[:SHOWN]))


def _row(client: dict[str, Any]) -> tuple[object, ...]:
    state = state_of(client)
    word, meaning = STATES[state]
    return (
        client["name"],
        joined(
            element("span", word, class_=f"state {state}"),
            element("span", f" ({meaning})", class_="quiet") if meaning else "",
        ),
    )


def _chain(public: Mapping[str, Any]) -> Html:
    heads = [("server", public["entries"], code(public["head"]))]
    heads += [
        (client["name"], client["entries"], code(client["head"]))
        for client in public["clients"][:SHOWN]
        if client["head"] is not None
    ]
    how = (
        "The hash of each entry covers all entries before it. Write these heads down from time to "
        "time: if a log is changed later, its head no longer fits."
    )
    return joined(
        scroll(table("Logs", ("log of", "entries", "head"), heads), "Logs"),
        element("p", how, class_="quiet"),
    )
