"""Choices of parameters that take time are kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.sparse_vector import tuning


def test_a_choice_is_searched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEDGEROW_CACHE", str(tmp_path))
    frame: dict[str, Any] = {"clients": 2, "experts": 4, "horizon": 30, "every": 2}
    frame |= {"best_loss": 0.5, "epsilon": 2.0, "delta": 1e-6}
    searched: list[dict[str, Any]] = []

    def counting(**given: Any) -> tuning.Choice:
        searched.append(given)
        regrets = ((name, 0.1 * i) for i, name in enumerate(tuning.STREAM_NAMES))
        return tuning.Choice(3, 5.5, 0.25, tuple(regrets))

    choose = tuning.choose.__wrapped__  # without the cache in memory
    monkeypatch.setattr(tuning, "search", counting)
    first, again = choose(**frame), choose(**frame)
    assert first == again == counting()
    assert searched == [frame, {}]
    choose(**{**frame, "epsilon": 2.5})
    assert len(searched) == 3, "another question"
    for file in tmp_path.glob("*.table"):
        file.write_bytes(file.read_bytes()[:-8])
    assert choose(**frame) == first
    assert len(searched) == 4, "a damaged file does not count"
