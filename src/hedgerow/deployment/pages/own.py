"""The page of one client, on its own machine: its budget, its study, and what stays here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np

from hedgerow.core.errors import HedgerowError
from hedgerow.core.lattice import from_units
from hedgerow.core.layout import UnitVector
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.pages.html import (
    Html,
    bullets,
    code,
    element,
    joined,
    mark,
    page,
    part,
    scroll,
    section,
    table,
    terms,
)
from hedgerow.privacy.budget import amount

ROWS = 10  # rounds and releases that are shown
NUMBERS = 12  # numbers of one value
STAYS, LEFT = mark("stays here", "stays"), mark("has left", "left")
Made = tuple[str, bytes]
"""The media type and the bytes of a page."""


def client_pages(client: StudyClient) -> dict[str, Callable[[], Made]]:
    """The pages of a client by path, for `Port.pages`.

    Parameters
    ----------
    client
        The client's state machine; it is only read.

    Examples
    --------
    >>> import tempfile
    >>> from hedgerow.deployment.simulated import small_study
    >>> study = small_study(tempfile.mkdtemp(), clients=1, experts=3, horizon=4, seed=None)
    >>> media, body = client_pages(study.learner(0).client)["/"]()
    >>> media, b"epsilon = 1 of 10" in body
    ('text/html; charset=utf-8', True)
    >>> study.close()
    """

    def whole() -> Made:
        return "text/html; charset=utf-8", client_page(client)

    def news() -> Made:
        return "application/json", json.dumps(parts(client)).encode()

    return {"/": whole, "/parts": news}


def parts(client: StudyClient) -> dict[str, Html]:
    """The parts of the page that change, by name."""
    try:
        return {
            "account": _account(client.account),
            "now": _now(client),
            "rounds": _rounds(client),
            "releases": _releases(client),
            "held": _held(client.state),
        }
    except HedgerowError as error:
        return {"now": element("p", f"The client has stopped: {error}", class_="note loud")}


def client_page(client: StudyClient) -> bytes:
    """The whole page."""
    found, manifest = parts(client), client.manifest
    where = (
        "This page is shown on this machine only. What is marked “stays here” is sent to nobody; "
        "what is marked “has left” was sent to the server."
    )
    header = joined(
        element("p", f"Hedgerow client {client.name}", class_="quiet"),
        element("h1", manifest.title),
        element("p", where),
        "" if manifest.private else element("p", manifest.words()[-1], class_="note loud"),
    )
    main = joined(
        section("This study", _place("now", found), name="now"),
        section(joined("Budget of the data set ", STAYS), _place("account", found), name="account"),
        section(
            "What each observer can learn from this study",
            bullets(one.plain_words() for one in client.algorithm.certificate.guarantees),
            name="certificate",
        ),
        section(joined("Releases ", LEFT), _place("releases", found), name="releases"),
        section(joined("Rounds ", STAYS), _place("rounds", found), name="rounds"),
        section(
            joined("Raw values ", STAYS),
            element(
                "p",
                "What the algorithm keeps between rounds. It is computed from your losses, without "
                "protection.",
            ),
            _place("held", found),
            name="held",
        ),
    )
    footer = element("p", f"Study {manifest.digest.hex()}; server {manifest.server}")
    return page(f"{client.name}: {manifest.title}", header, main, footer, {"poll": "/parts"})


def _place(name: str, found: dict[str, Html]) -> Html:
    return scroll(part(name, found.get(name, "")), f"Contents of {name}")


def _account(account: Account) -> Html:
    spent = account.filter
    used = float(amount(spent.odometer.units) / amount(spent.capacity)) if spent.capacity else 0.0
    meter = element(
        "meter",
        value=f"{used:.4f}",
        min=0,
        low=0.75,
        high=0.999,
        optimum=0,
        max=1,
        aria_label="budget spent",
    )
    rows = [
        (charge.title, charge.time.replace("T", " "), charge.words, code(charge.study.hex()[:16]))
        for charge in account.charges()
    ]
    return joined(
        terms(
            [
                ("Data set", account.name),
                ("Whose secret the budget is for", account.unit.words()),
                (
                    "Spent by all studies",
                    joined(
                        account.spent_words(),
                        meter,
                        " full: no further study fits" if used >= 1 else "",
                    ),
                ),
            ]
        ),
        table("What was charged", ("study", "joined", "cost", "digest"), rows)
        if rows
        else element("p", "Nothing has been charged."),
    )


def _now(client: StudyClient) -> Html:
    horizon = client.algorithm.setting.horizon
    bar: object = ""
    if horizon is not None:
        bar = element("progress", value=client.round, max=horizon, aria_label="rounds")
    left = client.remaining
    following = f"after {left} more round{'s' * (left != 1)}" if left else "before the next round"
    if left is None or client.over:
        following = "none"
    return terms(
        [
            (
                "Rounds played",
                joined(client.round, "" if horizon is None else f" of {horizon}", bar),
            ),
            ("Last play", _play(client, client.last_play)),
            ("Exchanges", max(0, client.exchange)),
            ("Next exchange", following),
            ("Entries in the log", client.chain.count),
            ("Head of the log", code(client.chain.head.hex())),
            ("Public key, which the server knows", code(client.account.public_key)),
        ]
    )


def _rounds(client: StudyClient) -> Html:
    rows = [
        (number, _play(client, play), code(found.hex()[:16]))
        for number, play, found in client.recent_rounds(ROWS)
    ]
    caption = f"At most the last {ROWS} rounds; of losses, only hashes are kept"
    return table(caption, ("round", "play", "hash of the losses"), rows)


def _releases(client: StudyClient) -> Html:
    rows = [
        (exchange, "answered" if done else "not answered yet", code(found.hex()[:16]))
        for exchange, found, done in client.recent_releases(ROWS)
    ]
    if not rows:
        return element("p", "Nothing has left this client yet.")
    caption = f"At most the last {ROWS} uploads to the server; each was made once"
    return table(caption, ("exchange", "state", "hash of the message"), rows)


def _held(state: Any) -> Html:
    if not is_dataclass(state):
        return element("p", "The algorithm keeps nothing.")
    kinds, rows = get_type_hints(type(state), include_extras=True), []
    for field in fields(state):
        value = getattr(state, field.name)
        units = kinds[field.name] == UnitVector
        rows.append((field.name, code(_value(from_units(value) if units else value))))
    return table("State of the algorithm", ("name", "value"), rows)


def _play(client: StudyClient, play: Any) -> str:
    """A play: the expert by name, if experts have names."""
    names = client.manifest.setting.get("names")
    return names[int(play)] if names and np.ndim(play) == 0 and play is not None else _value(play)


def _value(value: Any) -> str:
    """A play or a raw value in short."""
    if value is None:
        return "none"
    try:
        array = np.asarray(value, float).ravel()
    except (TypeError, ValueError):
        return str(value)[:200]
    shown = ", ".join(f"{number:.6g}" for number in array[:NUMBERS])
    rest = array.size - NUMBERS
    return shown + (f", and {rest} more" if rest > 0 else "")
