"""The error for a missing data file names the folder of the study file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.core.errors import MissingData
from hedgerow.environments.recorded.data import beside, find


def test_a_missing_file_is_reported_beside_the_study_file(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="Put it there") as error:
        find(beside("missing.csv", tmp_path), here=True)
    assert f"not found at {tmp_path / 'missing.csv'}" in str(error.value)
