"""The command line in a test: what it answers, and a study and a plugin for it to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

STUDY = """
title = "A study"
seeds = 2
[environment]
name = "realizable"
clients = 2
experts = 4
horizon = 30
[[algorithms]]
name = "sparse_vector"
label = "private"
epsilon = 5.0
[[algorithms]]
name = "hedge"
every = 4
"""
PLUGIN = """
import hedgerow
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.core.errors import HedgerowError
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.experiments.experiment import Check, Experiment, Verdict
def studies(quick):
    environment = hedgerow.Bernoulli(clients=2, experts=3, horizon=20)
    return {"only": StudyConfig("x", environment, (Entry("u", Uniform()),), seeds=2)}
def judge_by(limit):
    def judge(done):
        if limit is None:
            raise HedgerowError("the judge is ill")
        return Verdict("as printed", (Check("u/regret", done["only"].regret("u").mean, "<=", limit, 1.5),), "a note")
    return judge
def draw(done, path):
    done["only"].plot(path)
def add(id, limit, data=()):
    hedgerow.EXPERIMENTS.add(id, Experiment(id, "title of " + id, "claim", studies, judge_by(limit), draw, data))
add("good", 1e9)
add("impossible", -1.0)
add("ill", None)
add("needs-data", 1e9, (("absent.csv", "https://example.org/absent"),))
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def document(self) -> Any:
        """Standard output as one JSON document without NaN and Infinity."""
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


Command = Callable[..., Answer]
