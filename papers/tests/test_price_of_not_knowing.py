"""The price of not knowing: ratios to the best specialist, and a verdict that can fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow_papers.ours import price_of_not_knowing as price


def done(watched: float, misled: float = 3.0) -> dict[str, Any]:
    """Studies in which every specialist has the regret 20, but one of them 10."""

    def study(stream: str, changes: int, config: Any) -> Any:
        def of(name: str) -> list[Any]:
            paid = 10.0 if name == "doubling, central" else 20.0
            if name == "watched_selection, central":
                paid = 10.0 * (misled if stream in price.MISLEADING else watched)

            def regret_with(compared: int) -> float:
                assert compared == changes
                return paid

            return [SimpleNamespace(regret_with=regret_with, loss=[paid])]

        return SimpleNamespace(of=of, config=config)

    configs = price.studies(False)
    found = {
        price.study_name(size, stream): (stream, changes)
        for size in price.SIZES
        for stream, (_, changes) in price.streams(size).items()
    }
    return {name: study(*found.get(name, (name, 0)), config) for name, config in configs.items()}


def test_the_verdict_follows_the_ratios() -> None:
    good, bad = (price.judge(done(watched)) for watched in (0.5, 20.0))
    assert all(check.passed for check in good.checks)
    assert not any(check.passed for check in bad.checks)
    (row,) = (row for row in good.tables[0].rows if row[1] == "watched_selection")
    shown = dict(zip(good.tables[0].columns, row, strict=True))
    assert [shown[key] for key in ("worst", "worst if misled")] == ["0.5", "3"]
    reached = [[row[0] for row in each.tables[1].rows if row[-1] == "yes"] for each in (good, bad)]
    assert reached == [list(price.LIMITS), []]
    assert "misses: none" in good.message
    assert "misses: worst 20, not 10; geometric mean 20, not 1.5" in bad.message


def test_a_specialist_is_never_better_than_the_best_one() -> None:
    found = price.ratios(done(0.5), "central")
    assert len(found) == len(price.SIZES) * len(price.streams(price.SIZES[0]))
    for row in found.values():
        specialists = [value for name, value in row.items() if name != "watched_selection"]
        assert min(specialists) == pytest.approx(1.0)


def test_the_worst_stream_and_95_per_cent_are_of_streams_that_are_judged() -> None:
    size = price.SIZES[0]
    found = {(size, str(ratio)): {"a": float(ratio)} for ratio in range(1, 102)}
    set_apart = {(size, "sawtooth"): {"a": 500.0}, (size, "alternate"): {"a": 200.0}}
    shown = price.summary(found | set_apart, "a")
    assert [shown[key] for key in ("worst", "95 %", "worst if misled")] == [101.0, 96.0, 500.0]
