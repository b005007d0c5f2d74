"""A study as plain values, and those as one self-contained page for people.

The page has no script and loads nothing. Letters are HTML, not part of pictures, so they keep their
size on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import floor, isfinite, log10
from typing import Any

import numpy as np

from hedgerow.core.text import escape
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import cells, estimate_json, finite, printed_columns, summary_json
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import ALONE
from hedgerow.studies.study import Study

COLOURS = ("#0b6e4f", "#30638e", "#c9861a", "#d1495b", "#6d597a", "#43aa8b", "#7f5539", "#014f86")
GREYS = ("#5c677d", "#9aa3ad", "#212529", "#adb5bd")
MOST_CLIENTS = 60  # that have a panel each
MOST_EXPERTS = 8  # that have a colour each
MOST_WEIGHTS = 30  # of a model that are shown
NO_PICTURE = "No regret was measured here, because nobody can certify the best point."


def comparator_table(study: Study) -> list[dict[str, Any]]:
    """The losses of the comparators: one table per stream, with the labels that played on it."""
    return [
        {
            "stream": name,
            "labels": list(stream.algorithms),
            "losses": {
                what: estimate_json(estimate) for what, estimate in stream.comparators.items()
            },
        }
        for name, stream in study.streams().items()
    ]


def study_summary(study: Study) -> dict[str, Any]:
    """The figures and notes of a study as plain values, as `summary.json` holds them."""
    rows = study.summary()
    columns = printed_columns(rows, study.meanings())
    heads = [column.heading for column in columns]
    game = study.config.environment
    setting = game.setting
    label = study.config.algorithms[0].label
    cases = [one.rounds for one in study.clients_of(label)]
    return {
        "title": study.config.title,
        "stamp": STAMP,
        "game": {
            "name": type(game).__name__,
            "clients": setting.clients,
            "experts": setting.experts,
            "rounds": setting.rounds,
            "seeds": study.config.seeds,
            "first_seed": study.config.first_seed,
            "unit": game.unit,
            "cases": float(np.mean(cases)) if cases else setting.rounds,
        },
        "summary": summary_json(rows),
        "table": [["", *heads], *([row.label, *cells(row, columns)] for row in rows)],
        "comparators": comparator_table(study),
        "followed": {label: _followed(study, label) for label in study.algorithms},
        "segments": study.segment_table(),
        "notes": study.notes(),
        "data_notes": study.data_notes(),
        "together": study.together_words(),
        "promises": {
            label: [one.plain_words() for one in algorithm.certificate.guarantees]
            for label, algorithm in study.algorithms.items()
        },
    }


def regret_curves(study: Study) -> dict[str, list[list[float]]]:
    """For each label the rounds, and the mean regret with the ends of its 95 % band."""
    return {
        label: regret_band([one.regret for one in study.of(label)], study.of(label)[0].rounds)
        for label in study.algorithms
    }


def regret_band(curves: Sequence[Any], rounds: Any) -> list[list[float]]:
    """Rows of round, mean, low and high of several curves; a single curve has no width."""
    values = np.asarray(curves, float).T
    found = []
    for when, column in zip(rounds, values, strict=True):
        estimate = Estimate.of(column)
        half = estimate.half_width if isfinite(estimate.half_width) else 0.0
        found.append([float(when), estimate.mean, estimate.mean - half, estimate.mean + half])
    return found


def _followed(study: Study, label: str) -> dict[str, Any] | None:
    """Who followed what with one label, as plain values."""
    found = study.followed(label)
    if found is None:
        return None
    clients = [
        {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in map(asdict, study.clients_of(label))
    ]
    return {**asdict(found), "cells": found.cells(), "clients": clients}


def report_fragment(summary: Mapping[str, Any], curves: Mapping[str, Any]) -> str:
    """The report without the frame of a page, as notebooks show it."""
    colours = _colours(summary)
    parts = [
        _heading(summary),
        _section("Regret over time", _regret(curves, colours)),
        _section("Who followed what", _following(summary)),
        _section("Results", _table(summary["table"])),
        _section("Where the best expert changes", _segments(summary, colours)),
        _section("What else could have been followed", _comparators(summary)),
        _section("Clients", _clients(summary, colours)),
        _section("Notes", _bullets(_notes(summary))),
        _section("What each observer can learn", _certificates(summary)),
    ]
    return f'<style>{STYLE}</style><div class="hedgerow">{"".join(filter(None, parts))}</div>'


def report_page(
    summary: Mapping[str, Any], curves: Mapping[str, Any], repeat: Iterable[str]
) -> str:
    """The report as one page, with the commands that repeat the run."""
    commands = "".join(f"<pre>{escape(line)}</pre>" for line in repeat)
    body = report_fragment(summary, curves).removesuffix("</div>")
    return _framed(summary["title"], f"{body}{_section('How to repeat it', commands)}</div>")


def page_of_runs(title: str, runs: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """A page that lists runs: the link to the page of each, its title, and lines about it."""
    rows = "".join(
        f'<li><a href="{escape(link)}">{escape(name)}</a>{_bullets(lines)}</li>'
        for link, name, lines in runs
    )
    body = f'<style>{STYLE}</style><div class="hedgerow"><h1>{escape(title)}</h1><ul>{rows}</ul>'
    return _framed(title, f"{body}</div>")


def _framed(title: str, body: str) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title></head><body>{body}</body></html>"
    )


def _section(heading: str, inside: str) -> str:
    return f"<section><h2>{heading}</h2>{inside}</section>" if inside else ""


def _bullets(lines: Iterable[str]) -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{found}</ul>" if found else ""


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:.{digits}g}"


def _protects(summary: Mapping[str, Any], label: str) -> bool:
    return any("times likelier" in line for line in summary["promises"][label])


def _colours(summary: Mapping[str, Any]) -> dict[str, str]:
    """A colour for each label: grey where nobody is protected."""
    labels = list(summary["promises"])
    private = [label for label in labels if _protects(summary, label)]
    others = [label for label in labels if label not in private]
    return {
        label: palette[at % len(palette)]
        for some, palette in ((private, COLOURS), (others, GREYS))
        for at, label in enumerate(some)
    }


def _heading(summary: Mapping[str, Any]) -> str:
    game = summary["game"]
    sizes = ", ".join(f"{game[name]:,} {name}" for name in ("clients", "experts", "rounds"))
    seeds = f"{game['seeds']} seed{'s' if game['seeds'] > 1 else ''}"
    lines = [line for label in summary["followed"] for line in _answer(summary, label)]
    return (
        f"<h1>{escape(summary['title'])}</h1>"
        f'<p class="quiet">{escape(game["name"])}: {sizes}; {seeds}. '
        f"{escape(summary['stamp'])}.</p>"
        f"{_bullets(lines)}"
    )


def _answer(summary: Mapping[str, Any], label: str) -> list[str]:
    """What the study found, in a sentence for each label that is played together."""
    found = summary["followed"][label]
    if found is None or label.endswith(ALONE):
        return []
    end, often, best = found["cells"]
    if found.get("weights"):
        return [f"{label} has these weights at the end: {end}."]
    if found["best"] is None and found["found"] is not None:
        rounds, last = (f"{100 * share:.0f} %" for share in found["found"])
        return [
            f"{label}: {last} of clients follow the best expert at the end; in all rounds {rounds}."
        ]
    known = "" if found["best"] is None else f" Best in hindsight: {best}."
    return [f"{label} follows {end} at the end; in all rounds {often}.{known}"]


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers from low to high.

    >>> _ticks(0.0, 9.0), _ticks(0.0, 0.7)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.2, 0.4, 0.6])
    """
    span = (high - low) or 1.0
    size = 10.0 ** floor(log10(span / 4))
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= 5)
    first = -(-low // step)
    count = int((high - first * step) // step) + 1
    return [round((first + at) * step, 12) for at in range(count)]


def _regret(curves: Mapping[str, Any], colours: Mapping[str, str]) -> str:
    """The mean regret of every label over the rounds, with its band."""
    known = {
        label: np.array([[0.0, 0.0, 0.0, 0.0], *rows])
        for label, rows in curves.items()
        if np.isfinite(np.array(rows, float)).all()
    }
    if not known:
        return f"<p>{NO_PICTURE}</p>"
    last = max(rows[-1, 0] for rows in known.values())
    low = min(0.0, *(rows[:, 2].min() for rows in known.values()))
    high = max(*(rows[:, 3].max() for rows in known.values()), low + 1e-9)

    def path(xs: Any, ys: Any) -> str:
        return " ".join(
            f"{100 * x / last:.2f},{100 * (high - y) / (high - low):.2f}"
            for x, y in zip(xs, ys, strict=True)
        )

    drawn, names = [], []
    for label, rows in known.items():
        colour, dash = colours[label], ' stroke-dasharray="6 4"' if label.endswith(ALONE) else ""
        edge = path([*rows[:, 0], *rows[::-1, 0]], [*rows[:, 3], *rows[::-1, 2]])
        drawn.append(f'<polygon points="{edge}" fill="{colour}" opacity="0.15"/>')
        drawn.append(
            f'<polyline points="{path(rows[:, 0], rows[:, 1])}" fill="none" stroke="{colour}" '
            f'stroke-width="2" vector-effect="non-scaling-stroke"{dash}/>'
        )
        style = "dashed" if dash else "solid"
        names.append(
            f'<li><i style="border-top: 3px {style} {colour}"></i> {escape(label)} '
            f"<b>{_number(float(rows[-1, 1]))}</b></li>"
        )
    ys = "".join(
        f'<span style="bottom: {100 * (tick - low) / (high - low):.2f}%">{tick:g}</span>'
        for tick in _ticks(low, high)
    )
    xs = "".join(
        f'<span style="left: {100 * tick / last:.2f}%">{tick:,.0f}</span>'
        for tick in _ticks(0.0, last)
    )
    return (
        f'<div class="plot" role="img" aria-label="Regret over time"><div class="y">{ys}</div>'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">'
        f'{"".join(drawn)}</svg><div class="x">{xs}</div></div>'
        f'<ul class="key">{"".join(names)}</ul>'
        '<p class="quiet">Loss above that of the best in hindsight, by round; mean over clients '
        "and seeds, with a 95 % band. Dashed: every client by itself. Grey: not private.</p>"
    )


def _following(summary: Mapping[str, Any]) -> str:
    """A bar for each label: its parts are the shares of the experts."""
    found = {label: one for label, one in summary["followed"].items() if one is not None}
    if not found:
        return ""
    by_name = {
        label: one
        for label, one in found.items()
        if one["cells"][2] != "differs by seed" and not one.get("weights")
    }
    total: dict[str, float] = {}
    for one in by_name.values():
        for name, share in one["share"].items():
            total[name] = total.get(name, 0.0) + share
    largest = sorted(total, key=lambda name: -total[name])[:MOST_EXPERTS]
    shades = dict(zip(largest, COLOURS, strict=False))
    bars = []
    for label, one in by_name.items():
        for when, shares in (("at the end", one["at_end"]), ("in all rounds", one["share"])):
            parts = "".join(
                f'<i style="width: {100 * shares[name]:.2f}%; background: {shades[name]}" '
                f'title="{escape(name)} {100 * shares[name]:.0f} %"></i>'
                for name in largest
                if shares[name] > 0
            )
            bars.append(
                f'<div class="row"><span>{escape(label)}, {when}</span><div class="bar">{parts}'
                "</div></div>"
            )
    key = "".join(
        f'<li><i style="border-top: 10px solid {shade}"></i> {escape(name)}</li>'
        for name, shade in shades.items()
    )
    lines = [["", "at the end", "in all rounds", "best in hindsight"]]
    lines += [[label, *one["cells"]] for label, one in found.items()]
    shown = f'<ul class="key">{key}</ul>{_table(lines, numbers=False)}'
    return f"{''.join(bars)}{shown}{_weights(found)}"


def _weights(found: Mapping[str, Any]) -> str:
    """The largest weights of models at the end, by feature."""
    models = {label: one["at_end"] for label, one in found.items() if one.get("weights")}
    if not models:
        return ""
    names = list(next(iter(models.values())))[:MOST_WEIGHTS]
    lines = [["weight at the end", *models]]
    lines += [[name, *(f"{one[name]:+.4g}" for one in models.values())] for name in names]
    return _table(lines)


def _segments(summary: Mapping[str, Any], colours: Mapping[str, str]) -> str:
    """The regret in each segment of the best sequence of experts, as bars; absent in old runs."""
    lines = summary.get("segments")
    if not lines:
        return ""
    (_, *labels), *rows, total = lines
    most = max(1e-9, *(float(cell) for row in rows for cell in row[1:]))
    panels = []
    for name, *cells_ in rows:
        bars = "".join(
            f'<div class="row"><span>{escape(label)}</span><div class="bar">'
            f'<i style="width: {max(0.0, 100 * float(cell) / most):.1f}%; '
            f'background: {colours[label]}"></i></div><span>{cell}</span></div>'
            for label, cell in zip(labels, cells_, strict=True)
        )
        panels.append(f'<div class="client"><h3>{escape(name)}</h3>{bars}</div>')
    words = (
        '<p class="quiet">Regret in each segment of the best sequence of experts, mean over seeds; '
        "below 0: less was lost than by its expert.</p>"
    )
    return f'{words}<div class="clients">{"".join(panels)}</div>{_table([lines[0], total])}'


def _table(lines: Sequence[Sequence[str]], numbers: bool = True) -> str:
    head, *rows = lines
    kind = "" if numbers else ' class="words"'
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>"
        + "".join(
            f'<td data-head="{escape(name)}">{escape(cell)}</td>'
            for name, cell in zip(head[1:], row[1:], strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table{kind}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _comparators(summary: Mapping[str, Any]) -> str:
    """The mean loss of every algorithm and comparator in a round, in the user's units."""
    game = summary["game"]
    unit = game["unit"] / game["cases"]
    losses = {row["label"]: row["loss"]["mean"] for row in summary["summary"]}
    streams = [one for one in summary["comparators"] if one["losses"]]
    beside = [{name: loss["mean"] for name, loss in one["losses"].items()} for one in streams]
    heading = "loss in a round" + ("" if game["unit"] == 1 else ", in the unit of the target")
    if len(streams) > 1 and all(len(one["labels"]) == 1 for one in streams):
        names = list(dict.fromkeys(name for one in beside for name in one))
        lines = [["", heading, *names]]
        for stream, others in zip(streams, beside, strict=True):
            (label,) = stream["labels"]
            paid = [losses[label], *(others.get(name) for name in names)]
            lines.append([label, *(_number(loss and loss * unit, 4) for loss in paid)])
        return _table(lines)
    found = []
    for stream, others in zip(streams, beside, strict=True):
        rows = {**{label: losses[label] for label in stream["labels"]}, **others}
        ordered = sorted(rows.items(), key=lambda row: row[1])
        name = f"<h3>{escape(stream['stream'])}</h3>" if stream["stream"] else ""
        lines = [[who, _number(loss * unit, 4)] for who, loss in ordered]
        found.append(name + _table([["", heading], *lines]))
    return "".join(found)


def _clients(summary: Mapping[str, Any], colours: Mapping[str, str]) -> str:
    """A panel for each client: its loss with every algorithm, and whom it follows."""
    found = {label: one["clients"] for label, one in summary["followed"].items() if one}
    found = {label: rows for label, rows in found.items() if rows}
    if not found:
        return ""
    most = max(row["loss"] or 0.0 for rows in found.values() for row in rows) or 1.0
    names = [row["client"] for row in next(iter(found.values()))]
    panels = []
    for at, name in enumerate(names):
        lines = []
        for label, rows in found.items():
            if at >= len(rows):
                continue
            row = rows[at]
            gain = "" if row["gain"] is None else f", gain over alone {row['gain']:+.3g}"
            whom = f"<small>follows {escape(row['follows'])}</small>" if row["follows"] else ""
            width = max(0.0, 100 * (row["loss"] or 0.0) / most)
            lines.append(
                f'<div class="row"><span>{escape(label)}</span><div class="bar">'
                f'<i style="width: {width:.1f}%; background: {colours[label]}"></i></div>'
                f"<span>{_number(row['loss'])}{gain} {whom}</span></div>"
            )
        own = next(iter(found.values()))[at]
        best = f"; best for it: {escape(own['best'])}" if own["best"] else ""
        panels.append(f'<div class="client"><h3>{escape(name)}{best}</h3>{"".join(lines)}</div>')
    shown = f'<div class="clients">{"".join(panels[:MOST_CLIENTS])}</div>'
    if len(panels) > MOST_CLIENTS:
        rest = "".join(panels[MOST_CLIENTS:])
        more = f"{len(panels) - MOST_CLIENTS} more clients"
        shown += f'<details><summary>{more}</summary><div class="clients">{rest}</div></details>'
    together = _bullets(summary["together"])
    return f'{together}<p class="quiet">Loss in a round, mean over seeds.</p>{shown}'


def _notes(summary: Mapping[str, Any]) -> list[str]:
    found: dict[str, list[str]] = {}
    for label, notes in summary["notes"].items():
        for note in notes:
            found.setdefault(note, []).append(label)
    lines = [f"{'; '.join(labels)}: {note}." for note, labels in found.items()]
    return [*lines, *(f"{note}." for note in summary["data_notes"])]


def _certificates(summary: Mapping[str, Any]) -> str:
    found: dict[tuple[str, ...], list[str]] = {}
    for label, lines in summary["promises"].items():
        found.setdefault(tuple(lines), []).append(label)
    return "".join(
        f"<h3>{escape('; '.join(labels))}</h3>{_bullets(lines)}" for lines, labels in found.items()
    )


STYLE = """
.hedgerow { max-width: 70rem; margin: 0 auto; padding: 1rem; background: #fff; color: #1c2421;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere; }
.hedgerow * { box-sizing: border-box; }
.hedgerow h1 { font-size: 1.6em; line-height: 1.2; margin: 0.2em 0; }
.hedgerow h2 { font-size: 1.15em; margin: 0 0 0.6em; color: #0b6e4f; }
.hedgerow h3 { font-size: 1em; margin: 0.4em 0; }
.hedgerow section { border-top: 1px solid #cfd8d4; padding: 1em 0; }
.hedgerow .quiet, .hedgerow small { color: #4d5a55; font-size: 0.9em; }
.hedgerow .plot { position: relative; height: 20rem; margin: 1rem 1rem 2rem 3.2rem; }
.hedgerow .plot svg { width: 100%; height: 100%; border: solid #cfd8d4; border-width: 0 0 1px 1px;
  overflow: visible; }
.hedgerow .plot span { position: absolute; white-space: nowrap; font-size: 0.85em; color: #4d5a55; }
.hedgerow .y span { right: calc(100% + 0.4rem); transform: translateY(50%); }
.hedgerow .x span { top: calc(100% + 0.3rem); transform: translateX(-50%); }
.hedgerow .key { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; padding: 0; }
.hedgerow .key i { display: inline-block; width: 1.4rem; vertical-align: middle; }
.hedgerow .row { display: grid; grid-template-columns: 16rem 1fr; gap: 0.2rem 0.8rem;
  align-items: center; margin: 0.2rem 0; }
.hedgerow .bar { display: flex; height: 1.1rem; background: #eef2f0; }
.hedgerow .bar i { display: block; height: 100%; }
.hedgerow .clients { display: grid; gap: 0.8rem;
  grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); }
.hedgerow .client { background: #f3f7f5; border-radius: 0.4rem; padding: 0.5rem 0.8rem; }
.hedgerow .client .row { grid-template-columns: 1fr; }
.hedgerow .client .bar { background: #dde5e1; height: 0.6rem; }
.hedgerow table { border-collapse: collapse; width: 100%; }
.hedgerow th, .hedgerow td { text-align: right; padding: 0.35rem 0 0.35rem 0.8rem;
  border-bottom: 1px solid #cfd8d4; vertical-align: top; font-weight: 400; background: none; }
.hedgerow th:first-child, .hedgerow .words th, .hedgerow .words td { text-align: left;
  padding: 0.35rem 0.8rem 0.35rem 0; }
.hedgerow thead th { color: #4d5a55; font-weight: 600; font-size: 0.9em; }
.hedgerow pre { background: #f3f7f5; padding: 0.6rem 0.8rem; white-space: pre-wrap; }
@media (max-width: 45rem) {
  .hedgerow { padding: 0.6rem; }
  .hedgerow .row, .hedgerow .clients { grid-template-columns: 1fr; }
  .hedgerow thead { display: none; }
  .hedgerow table, .hedgerow tbody, .hedgerow tr, .hedgerow th, .hedgerow td { display: block;
    text-align: left; padding: 0.1rem 0; border: 0; }
  .hedgerow tr { border-bottom: 1px solid #cfd8d4; padding: 0.4rem 0; }
  .hedgerow tbody th { font-weight: 600; }
  .hedgerow [data-head]::before { content: attr(data-head) ": "; color: #4d5a55; }
}
"""
