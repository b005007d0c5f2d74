"""`hr.combine` and `hedgerow combine`: rows, intervals, files, pictures and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.studies.combine import AT_HOME, PLAIN, PRIVATE, block_interval
from support.command import Command

ALONE, TOGETHER = "alone, not private", "together, not private"
WIDE = """date,place,a,b,c,seen
2026-01-03,Ohio,1,3,,2.5
2026-01-03,Iowa,4,5,6,5.5
2026-01-10,Iowa,4,5,7,
2026-01-10,Ohio,2,3,4,3.5
2026-01-17,Ohio,2,2,2,1
"""
COLUMNS = {"round": "date", "client": "place", "target": "seen"}


def _file(folder: Path, text: str = WIDE) -> Path:
    path = folder / "forecasts.csv"
    path.write_text(text, encoding="utf-8")
    return path


def _drawn(rng: Any, rounds: int, clients: int, errors: Any) -> hr.ForecastTable:
    """Targets, and forecasts with errors (clients or 1, models)."""
    target = rng.normal(size=(rounds, clients)) * 3
    noise = rng.normal(size=(rounds, clients, np.shape(errors)[-1])) * errors
    return hr.ForecastTable(target[..., None] + noise, target)


def test_flu_is_as_published() -> None:
    """The figures of the plan, by hand: nothing here depends on noise but the private rows."""
    found = hr.combine(hr.FluSight().combination, cut_off=1.0, seeds=20)
    losses = {way.name: way.loss.mean for way in found.ways}
    assert losses[PLAIN] == pytest.approx(15.724, abs=0.001)
    assert losses["median"] == pytest.approx(15.61, abs=0.006)
    assert losses["trimmed mean"] == pytest.approx(15.58, abs=0.006)
    assert losses["best single model, in hindsight"] == pytest.approx(15.48, abs=0.006)
    assert losses["best combination, in hindsight"] == pytest.approx(14.99, abs=0.006)
    assert losses[TOGETHER] < losses[PRIVATE] < losses[PLAIN]
    assert losses[PRIVATE] < 15.5
    assert losses[AT_HOME] < losses[ALONE]
    private = found[PRIVATE]
    assert private.loss.high < losses[PLAIN]
    assert private.low < 0 < private.gain < private.high  # other weeks may show nothing
    assert found["best single model, in hindsight"].low < 0
    assert found.weights.shape == (56, 12)
    assert found.weights.sum(axis=1) == pytest.approx(np.ones(56))
    assert "forecasts are public" in str(found)


def test_plays_that_are_published_are_the_same_for_all() -> None:
    """Without private plays nobody mixes in an own learner, and the certificate covers plays."""
    table = _drawn(np.random.default_rng(8), 30, 5, np.array([[0.5, 3.0, 3.0]]))
    at_home, published = (hr.combine(table, seeds=2, published=shown) for shown in (False, True))
    assert [way.name for way in at_home.ways if way not in published.ways] == [AT_HOME]
    assert at_home[PRIVATE] == published[PRIVATE]
    assert "plays" in published.certificate.public.words()
    assert "plays" not in str(at_home.certificate)


def test_files_of_both_forms_say_the_same(tmp_path: Path) -> None:
    wide = hr.ForecastTable.read(_file(tmp_path), **COLUMNS)
    assert (wide.models, wide.clients) == (("a", "b", "c"), ("Iowa", "Ohio"))
    assert wide.rounds == ("2026-01-03", "2026-01-10", "2026-01-17")
    assert np.isnan(wide.forecasts[0, 1, 2])
    assert wide.present.tolist() == [[True, True], [False, True], [False, True]]
    assert wide.median[0].tolist() == [5.0, 2.0]
    rows = ["date,place,model,value,seen"]
    for line in WIDE.splitlines()[1:]:
        date, place, *values, seen = line.split(",")
        rows += [f"{date},{place},{m},{v},{seen}" for m, v in zip("abc", values, strict=True) if v]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(rows[:1] + rows[:0:-1]), encoding="utf-8")
    long = hr.ForecastTable.read(path, model="model", forecast="value", **COLUMNS)
    assert np.array_equal(long.forecasts, wide.forecasts, equal_nan=True)
    assert np.array_equal(long.targets, wide.targets, equal_nan=True)
    found = [str(hr.combine(table, seeds=2)) for table in (wide, long)]
    assert found[0] == found[1]
    assert "1 missing forecasts" in found[0]


def test_other_losses_and_late_targets() -> None:
    rng = np.random.default_rng(3)
    table = _drawn(rng, 60, 20, np.array([[0.5, 3.0, 3.0]]))
    several: list[Any] = [{"loss": "pinball", "quantile": 0.9}, {"loss": "squared"}, {"late": 3}]
    for choices in several:
        found = hr.combine(table, seeds=3, **choices)
        assert found[PRIVATE].loss.mean < found[PLAIN].loss.mean
        late = "late" in choices
        assert ("PUBLIC_DELAYS" in str(found)) is late
    scaled = hr.ForecastTable(table.forecasts, table.targets, 3.0)
    assert "loss in %" in str(hr.combine(scaled, seeds=1))
    assert "loss in %" not in str(hr.combine(table, seeds=1))


def test_a_model_that_repeats_targets_is_named() -> None:
    rng = np.random.default_rng(4)
    table = _drawn(rng, 20, 3, np.array([[0.5, 3.0]]))
    forecasts = np.concatenate([table.forecasts, np.roll(table.targets, 1, axis=0)[..., None]], -1)
    found = hr.combine(
        hr.ForecastTable(forecasts, table.targets, models=("a", "b", "lag")), seeds=1
    )
    assert [note for note in found.notes if "lag repeats the last target" in note]
    assert not [note for note in hr.combine(table, seeds=1).notes if "repeats" in note]


def test_constant_forecasts_teach_nothing() -> None:
    table = hr.ForecastTable(np.ones((6, 2, 3)), np.arange(12.0).reshape(6, 2))
    found = hr.combine(table, seeds=2)
    assert len({round(way.loss.mean, 9) for way in found.ways}) == 1
    assert any("nothing to learn" in note for note in found.notes)


@pytest.mark.parametrize("rounds", [20, 120])
def test_intervals_of_blocks_cover_the_mean(rounds: int) -> None:
    """Correlated rounds: blocks cover, single rounds would be too sure."""
    rng, inside, narrow = np.random.default_rng(5), 0, 0
    for _ in range(80):
        noise = np.convolve(rng.normal(size=rounds + 2), np.ones(3), mode="valid")
        low, high = block_interval(noise[None], np.ones(rounds), draws=400)
        inside += low <= 0 <= high
        narrow += abs(noise.mean()) <= 1.96 * noise.std() / np.sqrt(rounds)
    assert inside >= 68
    assert narrow < inside - 8


def test_intervals_cover_the_noise_of_a_run() -> None:
    """Rounds are alike and runs are not, so the whole interval is that of a run."""
    apart = np.random.default_rng(6).normal(size=(200, 1))
    low, high = block_interval(np.repeat(apart, 50, axis=1), np.ones(50))
    assert (low, high) == (pytest.approx(-2.1, abs=0.4), pytest.approx(2.1, abs=0.4))
    assert block_interval(np.zeros((2, 50)), np.ones(50)) == (0.0, 0.0)


def test_few_rounds_are_noted() -> None:
    rng, errors = np.random.default_rng(7), np.array([[0.5, 3.0]])
    short, long = (str(hr.combine(_drawn(rng, n, 3, errors), seeds=1)) for n in (29, 30))
    assert "29 rounds are few" in short
    assert "few" not in long


def test_a_file_is_read_first() -> None:
    with pytest.raises(InvalidValue, match=r"hr\.ForecastTable\.read"):
        hr.combine("forecasts.csv")  # pyright: ignore[reportArgumentType]


def test_the_picture_names_models(tmp_path: Path) -> None:
    table = _drawn(np.random.default_rng(6), 12, 4, np.linspace(0.5, 3.0, 11)[None])
    path = tmp_path / "weights.png"
    hr.combine(table, seeds=1).plot(path)
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"targets": [[np.inf, 1.0]]}, "finite"),
        ({"targets": [[np.nan, np.nan]]}, "No target is known"),
        ({"forecasts": [[[np.nan, np.nan], [np.nan, np.nan]]]}, "No model has a forecast in round"),
        ({"forecasts": [[[1.0], [2.0]]]}, "at least 2 models"),
        ({"forecasts": [[[np.inf, 1.0], [2.0, 3.0]]]}, "finite"),
        ({"scale": np.inf}, "finite scale > 0"),
        ({"scale": 0.0}, "scale > 0"),
        ({"scale": -1.0}, "scale > 0"),
        ({"scale": np.zeros((1, 2))}, "scale > 0"),
        ({"scale": np.ones(3)}, "scale of shape"),
        ({"models": ("a", "a")}, "different"),
        ({"models": ("a",)}, "names for 2 models"),
        ({"targets": [[1.0]]}, "shape"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, Any], text: str) -> None:
    good: dict[str, Any] = {"forecasts": [[[1.0, 2.0], [2.0, 3.0]]], "targets": [[1.0, 2.0]]}
    hr.ForecastTable(**good)
    with pytest.raises(InvalidValue, match=text):
        hr.ForecastTable(**{**good, **change})


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"loss": "pinball", "quantile": 1.0}, "quantile"),
        ({"loss": "pinball", "quantile": 0.0}, "quantile"),
        ({"quantile": 0.9}, "only with loss='pinball'"),
        ({"loss": "cubic"}, "loss"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"seeds": 0}, "seeds"),
        ({"late": -1}, "late"),
        ({"cut_off": 0.0}, "cut_off"),
        ({"largest_error": 0.0}, "largest_error"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], text: str) -> None:
    table = hr.ForecastTable(np.array([[[1.0, 2.0]], [[2.0, 3.0]]]), np.array([[1.0], [2.0]]))
    with pytest.raises(HedgerowError, match=text):
        hr.combine(table, **choices)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            WIDE + "2026-01-17,Ohio,2,2,2,1\n",
            "repeats the round and the client",
        ),  # one target twice
        (WIDE.replace("5.5", "inf"), "finite"),
        (WIDE.replace("seen", "other"), "column 'seen'"),
        (WIDE.replace("5.5", "many"), "Expected numbers in column 'seen'"),
        ("date,place,a,seen\n2026-01-03,Ohio,1,2\n", "at least 2 models"),
        ("date,place,a,b,seen\n", "at least one row"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HedgerowError, match=message):
        hr.ForecastTable.read(_file(tmp_path, text), **COLUMNS)


def test_long_files_have_one_forecast_and_one_target_each(tmp_path: Path) -> None:
    head, first = "date,place,model,forecast,seen", "2026-01-03,Ohio,a,1,2"
    for second, message in (
        (first, "a second forecast of the same model"),
        ("2026-01-03,Ohio,b,1,3", "another 'seen'"),
        ("2026-01-03,Ohio,,1,2", "does not name its model"),
    ):
        path = _file(tmp_path, "\n".join([head, first, second]))
        with pytest.raises(HedgerowError, match=message):
            hr.ForecastTable.read(path, model="model", **COLUMNS)


def test_the_command_prints_rows_and_the_certificate(hedgerow: Command, tmp_path: Path) -> None:
    path = _file(tmp_path)
    given = ("--client", "place", "--round", "date", "--target", "seen", "--seeds", "2")
    picture = tmp_path / "weights.png"
    shown = hedgerow("combine", str(path), *given, "--out", str(picture))
    assert (shown.code, picture.exists()) == (0, True)
    words = " ".join(shown.out.split())
    assert "3 models, 2 clients, 3 rounds" in words
    assert "one target of one client in one round (forecasts are public)" in words
    assert hedgerow("combine", str(path), *given, "--out", str(picture)).code == 2
    document = hedgerow(
        "combine", str(path), *given, "--loss", "pinball", "--quantile", "0.9", "--json"
    ).document()
    assert document["ways"][0]["name"] == PLAIN
    assert document["weights"].keys() == {"a", "b", "c"}
    refused = hedgerow("combine", str(path), *given, "--loss", "pinball", "--quantile", "2")
    assert (refused.code, "quantile" in refused.err) == (2, True)
    assert "scale > 0" in hedgerow("combine", str(path), *given, "--scale", "0").err
