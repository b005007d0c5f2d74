"""Make the compact table of CDC FluSight forecasts that ships with the package.

    python tools/flusight_table.py DATA/flusight src/hedgerow/examples/flusight.npz

The folder holds `median_forecasts.parquet` (model, forecast_date, horizon, target_end_date,
location, value) and `truth_weekly.csv.gz` (date, location, location_name, value). The table keeps
the forecasts for one week ahead, of the states, of models whose licence allows it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv, parquet

WEEKS_AHEAD = 1
WHOLE_COUNTRY = "US"
TENTHS, MISSING = 10, np.iinfo(np.uint16).max
# From the metadata of the models in the repository below, at commit c42804d2.
MIT = (
    "JHUAPL-Gecko",
    "JHU_IDD-CovidSP",
    "PSI-DICE",
    "SGroup-RandomForest",
    "SGroup-SIkJalpha",
    "UGA_flucast-OKeeffe",
    "UT_FluCast-Voltaire",
)
NOT_FREE = ("MOBS-GLEAM_FLUH",)  # "license: other", without a text
ABOUT = (
    "Forecasts of weekly hospital admissions with influenza in the United States, seasons 2021-22 "
    "and 2022-23, and the admissions reported afterwards. Source: CDC FluSight, "
    "https://github.com/cdcepi/Flusight-forecast-data, and the teams named in `models`. "
    "Licence: CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); where `licences` says MIT, "
    "the MIT licence, whose text is in `mit`. Changed: only medians for one week ahead, only "
    "states, rounded to tenths of an admission; models without a free licence are left out."
)
MIT_TEXT = (
    "Copyright (c) 2020 The Johns Hopkins University Applied Physics Laboratory LLC "
    "(JHUAPL-Gecko); Copyright 2022 Predictive Science Incorporated (PSI-DICE); of the others, the "
    "teams named in `models`. Permission is hereby granted, free of charge, to any person "
    'obtaining a copy of this software, data, and associated documentation files (the "Software"), '
    "to deal in the Software without restriction, including without limitation the rights to use, "
    "copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and "
    "to permit persons to whom the Software is furnished to do so, subject to the following "
    "conditions: The above copyright notice and this permission notice shall be "
    "included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "
    '"AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE '
    "WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO "
    "EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER "
    "LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN "
    "CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."
)


def table(folder: Path) -> dict[str, Any]:
    """The arrays of the table, by name.

    `forecasts` (weeks, locations, models) are in tenths of an admission, with 65535 where there is
    none; `truth` (weeks, locations) are the reported admissions.
    """
    columns = parquet.read_table(folder / "median_forecasts.parquet")
    made = {name: columns[name].to_numpy() for name in columns.column_names}
    kept = (
        (made["horizon"] == WEEKS_AHEAD)
        & (made["location"] != WHOLE_COUNTRY)
        & ~np.isin(made["model"].astype(str), NOT_FREE)
    )
    weeks, week = np.unique(made["target_end_date"][kept].astype("M8[D]"), return_inverse=True)
    places, place = np.unique(made["location"][kept].astype(str), return_inverse=True)
    models, model = np.unique(made["model"][kept].astype(str), return_inverse=True)
    tenths = np.rint(made["value"][kept].astype(float) * TENTHS)
    assert tenths.min() >= 0
    assert tenths.max() < MISSING
    forecasts = np.full((len(weeks), len(places), len(models)), MISSING, np.uint16)
    forecasts[week, place, model] = tenths
    assert (forecasts != MISSING).sum() == kept.sum(), "a forecast is given twice"
    truth, names = _truth(folder / "truth_weekly.csv.gz", weeks, places)
    return {
        "about": np.array(ABOUT),
        "mit": np.array(MIT_TEXT),
        "weeks": weeks.astype("U10"),
        "locations": names,
        "models": models,
        "licences": np.where(np.isin(models, MIT), "MIT", "CC BY 4.0"),
        "forecasts": forecasts,
        "truth": truth,
    }


def _truth(file: Path, weeks: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reported admissions (weeks, locations), and the names of the locations."""
    kinds = csv.ConvertOptions(column_types={"location": "string"})
    columns = csv.read_csv(file, convert_options=kinds)
    read = {name: columns[name].to_numpy() for name in columns.column_names}
    date, place = read["date"].astype("M8[D]"), read["location"].astype(str)
    kept = np.isin(date, weeks) & np.isin(place, places)
    truth = np.full((len(weeks), len(places)), MISSING, np.uint16)
    at = np.searchsorted(places, place[kept])
    truth[np.searchsorted(weeks, date[kept]), at] = read["value"][kept]
    assert (truth != MISSING).all(), "a week has no reported number"
    names = np.empty(len(places), object)
    names[at] = read["location_name"][kept]
    return truth, names.astype(str)


def main() -> int:
    if len(sys.argv) != 3:
        print("Usage: python tools/flusight_table.py FOLDER TABLE.npz")
        return 2
    folder, out = map(Path, sys.argv[1:])
    np.savez_compressed(out, **table(folder))
    print(f"{out}: {out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
