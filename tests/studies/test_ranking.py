"""Which algorithm: the ranking for a setting, on the user's data, and what is said with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import hedgerow as hr
from hedgerow.environments.hard.lower_bounds import (
    coin_regret,
    consensus_regret,
    hidden_expert_regret,
)
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.choose.break_even import allowed, break_even
from hedgerow.studies.choose.candidates import Candidate
from hedgerow.studies.choose.ranking import ANYWAY, LOOKED, REACTING, Ranking, unavoidable
from hedgerow.studies.choose.ratios import ALL, as_ratios
from hedgerow.studies.config import Entry, StudyConfig, load_study
from hedgerow.studies.run import run_study
from support.command import Command
from support.paths import EXAMPLES

SMALL: dict[str, Any] = {"clients": 8, "experts": 4, "horizon": 48}
SETTING = hr.Setting(8, 4, 48)


@pytest.fixture(scope="module")
def law() -> Ranking:
    return hr.choose("law", **SMALL, seeds=2)


def test_the_rows_are_what_a_study_of_the_worst_stream_measures(law: Ranking) -> None:
    means = [row.expected.mean for row in law.private]
    assert means == sorted(means)
    streams = {
        "bernoulli": hr.Bernoulli(clients=8, experts=4, horizon=48),
        "gap_ladder": hr.GapLadder(clients=8, experts=4, horizon=48),
        "realizable": hr.Realizable(clients=8, experts=4, horizon=48),
    }
    row = next(row for row in law.private if row.label == "phased_selection")
    found = {
        name: hr.run(
            game, {"a": row.algorithm, "g": hr.Uniform(), "f": hr.FollowTheLeader()}, seeds=2
        )
        for name, game in streams.items()
    }
    assert row.stream == max(found, key=lambda name: found[name].regret("a").mean)
    worst = found[row.stream]
    assert row.expected.mean == pytest.approx(worst.regret("a").mean)
    above = [r.comparators["a random expert"] - r.comparators["best expert"] for r in worst.of("g")]
    assert row.guess == pytest.approx(np.mean(above))
    assert row.not_private <= worst.regret("f").mean
    assert row.price == row.expected.mean - row.not_private
    bound = row.algorithm.build(SETTING).claims.regret_bound
    assert bound is not None
    assert row.proven == bound.value


def test_the_budget_the_trust_and_the_talk_decide_who_is_there(law: Ranking) -> None:
    labels = {row.label for row in law.private}
    assert {"phased_selection", "random_prefix", "sparse_vector", "doubling"} <= labels
    assert not any("delta" in label for label in labels)
    assert {row.label for row in law.open} == {"follow_the_leader", "ada_hedge"}
    local = hr.choose("law", **SMALL, trust="local", delta=1e-6, seeds=1)
    assert {row.trust for row in local.private} == {"local"}
    assert any(row.label.startswith("walk_leader") for row in local.private)
    rare = hr.choose("never", **SMALL, every=6, epsilon=3.0, seeds=1)
    for row in rare.private:
        certificate = row.algorithm.build(SETTING).certificate
        assert certificate.public.curve.stated()[0] <= 3.0
    assert "sparse_vector, every=6" in {row.label for row in rare.private}
    assert not any(row.label.startswith("walk") for row in rare.private)


def test_lower_bounds_are_those_of_the_kind(law: Ranking) -> None:
    assert law.least == hidden_expert_regret(SETTING, 1.0)
    fixed = hr.choose("fixed", clients=2, experts=3, horizon=32, seeds=1)
    assert fixed.least == max(hidden_expert_regret(hr.Setting(2, 3, 32), 1.0), coin_regret(3, 32))
    assert all(row.proven is None or row.proven < 32 for row in fixed.private)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_from_how_many_clients_on_sharing_pays(law: Ranking, delta: float) -> None:
    """The numbers are those of the closed form of the proof, but for blocks that are cut to 1."""
    for d, horizon in ((64, 2**16), (16, 2**20)):
        blocks = [(2**k, min(2 ** (k + 1), horizon - 2 ** (k + 1) + 1)) for k in range(20)]
        per = sum(max(rounds, 0) / before for before, rounds in blocks)
        chance = sum(max(r, 0) * np.sqrt(np.log(d) / (2 * n)) for n, r in blocks)
        chance += np.sqrt(horizon * np.log(d) / 2)
        noises = [np.sqrt((d + 1) * (d + 2) / 3)]
        if delta:
            spec = hr.PhasedSelection(1.0, delta, trust="local", report="gaussian")
            noises.append(spec.build(hr.Setting(1, d, 8)).parameters["report_deviation"])
        shared = chance + min(noises) * np.sqrt(2 * np.log(d)) * per
        levels = chance + 2 * np.log(d) * per, coin_regret(d, horizon) - 1
        found = break_even(d, horizon, allowed(1.0, delta))
        for clients, level in zip((found.private, found.open), levels, strict=True):
            exact = (shared / level) ** 2
            assert abs(clients - exact) < max(0.25 * exact, 3.0)
    assert law.sharing is not None
    assert law.sharing == break_even(4, 48, allowed(1.0, trust="central"))
    assert law.to_json()["sharing_pays_from"]["open"] == law.sharing.open
    assert law.sharing.words() in law.lines()


def test_losses_that_react_are_played_by_several_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client uses up columns: there are experts enough, and the least regret is not 0."""
    short = {"consensus_columns": hr.ConsensusColumns(experts=8, horizon=3)}
    monkeypatch.setattr("hedgerow.studies.choose.ranking.chooser_streams", lambda: short)
    ranking = hr.choose("reacting", clients=2, epsilon=1.0, seeds=1)
    assert ranking.setting == hr.Setting(2, 14, 3)
    assert ranking.least == max(hidden_expert_regret(ranking.setting, 1.0), coin_regret(14, 3)) > 0


@pytest.mark.parametrize("experts", [2, 40])
def test_few_experts_have_few_columns(experts: int) -> None:
    """The bound for columns without end is a share of all rounds, which few experts do not show."""
    setting, coins = hr.Setting(1, experts, 2**13), coin_regret(experts, 2**13)
    assert unavoidable(REACTING, setting, 0.1, 0.0) == coins < 100
    assert consensus_regret(2**13, 0.1) > 2000


def test_changes_are_measured_against_the_best_sequence() -> None:
    ranking = hr.choose("changing", clients=10, experts=6, horizon=512, seeds=2)
    assert all(row.proven is None for row in ranking.private)  # bounds are about one best expert
    best = {row.label for row in ranking.private[:3]}
    assert best == {"watched_selection", "block_selection", "sparse_vector"}
    row = next(row for row in ranking.private if row.label == "phased_selection")
    assert row.stream.startswith("tracked_")
    game: Any = {"tracked_switching": hr.Switching, "tracked_drifting": hr.Drifting}[row.stream]
    environment = game(clients=10, experts=6, horizon=512)
    changes = environment.traits.changes
    study = run_study(
        StudyConfig(
            "x", environment, (Entry("a", row.algorithm),), 2, comparator_switches=(changes,)
        ),
        workers=1,
    )
    expected = [result.regret_with(changes) for result in study.results]
    assert row.expected.mean == pytest.approx(np.mean(expected))
    assert np.mean(expected) > study.regret("a").mean


def test_who_knows_nothing_gets_what_is_rarely_far_from_the_best() -> None:
    ranking = hr.choose("unknown", clients=10, experts=6, horizon=256, seeds=2)
    assert "ratio" in ranking.table()[0][1]
    assert "times that of the best private algorithm" in ranking.recommendation
    ratios = [row.expected.mean for row in ranking.private]
    assert ratios == sorted(ratios)
    assert ratios[0] >= 1
    assert all(row.worst.mean >= row.expected.mean for row in ranking.private)
    paid = {"a": (2.0, 30.0), "b": (8.0, 10.0)}
    found, _ = as_ratios(
        [Candidate(label, label, hr.Doubling(), "central", "") for label in paid],
        ("x", "y"),
        {
            (k, s): Estimate(v, 0.1, 2)
            for k, vs in paid.items()
            for s, v in zip("xy", vs, strict=True)
        },
        {"x": 8.0, "y": 40.0},
        least=4.0,
    )
    assert [found["a", name].mean for name in "xy"] == [1.0, 3.0]
    assert [found["b", name].mean for name in "xy"] == [2.0, 1.0]
    assert found["a", ALL].mean == pytest.approx(3**0.5)


def test_known_best_loss_makes_one_more_candidate() -> None:
    labels = [row.label for row in hr.choose("rarely", **SMALL, best_loss=3.0, seeds=1).private]
    assert "sparse_vector, best_loss=3" in labels
    assert "sparse_vector" in labels


def test_on_own_data_it_warns_and_leaves_out_who_does_not_fit(law: Ranking) -> None:
    losses = np.random.default_rng(0).random((40, 3, 4)) * [0.2, 1, 1, 1]
    losses[3, 1, 2] = np.nan
    ranking = hr.choose(hr.RecordedArray(losses, missing="absent"), delta=1e-6, seeds=2)
    assert ranking.looked
    assert LOOKED in ranking.lines()
    assert LOOKED not in law.lines()
    assert all(ANYWAY in one.lines() for one in (law, ranking))
    left_out = ranking.left_out["private_hedge, delta=1e-06"]
    assert "does not support sleeping experts (expert 2 has gaps)" in left_out
    best = ranking.best
    measured = hr.run(
        hr.RecordedArray(losses, missing="absent"), {"a": best.algorithm}, seeds=2
    ).regret("a")
    assert best.expected == measured
    assert f"{best.label}" in str(ranking)


def test_each_row_has_the_guess_on_its_own_worst_stream(law: Ranking) -> None:
    head, *body = law.table()
    assert head[2:5] == ["worst", "worst stream", "random expert"]
    guess = {row.stream: f"{row.guess:.2f}" for row in (*law.private, *law.open)}
    assert len(set(guess.values())) > 1
    assert [cells[4] for cells in body] == [guess[cells[3]] for cells in body]
    own = hr.choose(np.random.default_rng(0).random((8, 2, 2)), seeds=1).table()
    assert (own[0][2], own[-1][0]) == ("proven", "a random expert")


def test_guessing_is_called_guessing() -> None:
    hopeless = hr.choose("never", clients=1, experts=4, horizon=16, epsilon=1e-3, seeds=3)
    assert hopeless.best.guesses
    assert "clearly better than a random expert here" in hopeless.recommendation
    assert hopeless.question.startswith("If one expert is never wrong: 1 client, 4 experts")
    hopeful = hr.choose("never", **SMALL, epsilon=5.0, seeds=3)
    assert not hopeful.best.guesses
    first = hopeful.best  # the smallest mean, but not clearly: another may still be clearly better
    unsure = replace(first, label="unsure", expected=Estimate(first.expected.mean, 99.0, 3))
    lines = replace(hopeful, private=(unsure, first)).lines()
    assert "Not clearly better than a random expert: unsure." in lines
    assert "unsure" not in replace(hopeful, private=(first, unsure)).recommendation


def test_what_is_wrong_is_named() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"losses": "laws"}, "Unknown losses 'laws'; did you mean 'law'"),
        ({"trust": "nobody"}, "Expected trust='nobody' in"),
        ({"every": 0}, "Expected every=0"),
        ({"epsilon": -1.0}, "Expected epsilon=-1.0 > 0"),
        ({"losses": np.zeros((4, 2, 2)), "clients": 3}, "the data have a size"),
    )
    for options, message in cases:
        with pytest.raises(hr.InvalidValue, match=message):
            hr.choose(**options)


def test_the_command_prints_the_ranking(hedgerow: Command, tmp_path: Path) -> None:
    size = ("--clients", "4", "--experts", "3", "--horizon", "32", "--seeds", "1")
    document = hedgerow("choose", *size, "--losses", "never", "--json").document()
    assert document["setting"] == {"clients": 4, "experts": 3, "horizon": 32}
    assert document["rows"][0]["regret"] <= document["rows"][1]["regret"]
    rows = "".join(f"{t},{i},0.{t},0.5\n" for t in range(9) for i in range(2))
    (tmp_path / "a.csv").write_text("round,client,x,y\n" + rows)
    shown = " ".join(hedgerow("choose", str(tmp_path / "a.csv"), "--seeds", "1").out.split())
    assert "On your data: 2 clients, 2 experts, 9 rounds" in shown
    assert LOOKED in shown
    assert ANYWAY in shown
    (tmp_path / "b.csv").write_text("week,site,x\n1,a,0.5\n")
    named = hedgerow("choose", str(tmp_path / "b.csv")).err
    assert "Expected a column 'round'" in named
    assert "name it with --round COLUMN. For forecasts, add --target COLUMN" in named
    both = hedgerow("choose", str(tmp_path / "a.csv"), "--losses", "law").err
    assert "Give a file or --losses, not both" in both


def _correlation(one: list[float], other: list[float]) -> float:
    found: Any = spearmanr(one, other)
    return float(found.statistic)


def test_the_default_ranks_like_real_data() -> None:
    """On twelve stations the typical streams rank the algorithms better than the worst ones do."""
    study = load_study(EXAMPLES / "stations.toml")
    found = hr.choose(study.environment, seeds=8)
    measured = {row.label: row.expected.mean for row in found.private}
    guessed = hr.choose(clients=12, experts=5, horizon=120, seeds=4).private
    rows = [row for row in guessed if row.label in measured]
    truth = [measured[row.label] for row in rows]
    typical = _correlation([row.expected.mean for row in rows], truth)
    worst = _correlation([row.worst.mean for row in rows], truth)
    assert typical > 0.5 > worst


def test_a_recommendation_is_one_line_and_fits_the_data(hedgerow: Command) -> None:
    ranking = hr.choose(**SMALL, seeds=3)
    best, second = ranking.private[:2]
    assert ranking.recommendation.startswith(f"Take {best.label}")
    assert ranking.lines()[0] == ranking.recommendation
    steady = replace(second, label="steady", worst=Estimate(0.0, 0.0, 3))
    shaky = replace(best, worst=Estimate(9.0, 0.1, 3))
    text = replace(ranking, private=(shaky, steady)).recommendation
    assert "steady is safer if losses may change: regret 0, not 9" in text
    gaps = hr.choose("law", **SMALL, gaps=0.2, delta=1e-6, seeds=1)
    assert "20 % gaps" in gaps.question
    assert not any(row.label.startswith("running_leader") for row in gaps.private)
    assert any(label.startswith("running_leader") for label in gaps.left_out)
    points = " ".join(hedgerow("choose", str(EXAMPLES / "points.toml"), "--seeds", "1").out.split())
    assert "Take limited_updates" in points
    assert "every 50 rounds (not private)" in points
    study = load_study(EXAMPLES / "stations.toml")
    local = hr.choose(study.environment, entries=study.algorithms, trust="local", seeds=1)
    assert local.left_out["private"] == "it needs trust central."


def test_from_a_raw_file_with_gaps_to_a_named_recommendation(hedgerow: Command) -> None:
    """One command: which algorithm, and which expert it follows."""
    columns = ("--target", "measured", "--round", "date", "--client", "station")
    largest = ("--largest-error", "50")
    found = hedgerow("choose", str(EXAMPLES / "stations.csv"), *columns, *largest)
    text = " ".join(found.out.split())
    assert "Take phased_selection" in text
    assert "It follows north at the end." in text


def test_a_strange_file_is_questioned_with_the_options_that_help(
    hedgerow: Command, tmp_path: Path
) -> None:
    rows = [f"{t},{i},{-999 if t < 2 else t},{t + 1},{t},ok\n" for t in range(9) for i in range(2)]
    (tmp_path / "a.csv").write_text("round,client,seen,x,y,remark\n" + "".join(rows))
    file, target = str(tmp_path / "a.csv"), ("--target", "seen")
    largest, seeds = ("--largest-error", "9"), ("--seeds", "1")
    for refused in (
        hedgerow("choose", file, *target, *largest),
        hedgerow("combine", file, *target),
    ):
        assert refused.code == 2
        assert "Name the columns with forecasts: --models x,y" in refused.err
    assert "give --target too" in hedgerow("choose", file, "--models", "x,y").err
    for found in (
        hedgerow("choose", file, *target, *largest, "--models", "x,y", *seeds),
        hedgerow("combine", file, *target, "--models", "x,y", *seeds),
    ):
        text = " ".join(found.out.split())
        assert "Note: 4 targets are -999, which often means that a value is missing" in text
