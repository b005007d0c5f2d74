"""Bounds on attacks on a person with several records, from bounds on attacks on one record.

The proof is `proofs/mechanisms.md#curves`, Groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.validate import at_least

Corner = tuple[float, float]  # false alarms, detections


def group_attacks(corners: Sequence[Corner], records: int) -> list[Corner]:
    """The corners of a polygon that bounds every attack on `records` records.

    `corners` are those of such a polygon for one record. The polygon g from (0, g(0)) to (1, 1) is
    concave and does not fall. For k records it is g(g(...g(alarms))), k times. This is again
    concave and piecewise linear, with a corner wherever an inner value meets a corner of g.

    >>> randomised_response = [(0.0, 0.0), (0.25, 0.75), (1.0, 1.0)]
    >>> [(round(a, 4), round(found, 4)) for a, found in group_attacks(randomised_response, 2)]
    [(0.0, 0.0), (0.0833, 0.75), (0.25, 0.9167), (1.0, 1.0)]
    """
    at_least("records", records, 1)
    alarms, found = np.asarray(corners, float).T
    rising = np.concatenate([[True], np.diff(found) > 0])  # where g can be inverted
    after = [alarms]  # detections at the corners, for 0, 1, ... records
    for _ in range(records):
        after.append(np.interp(after[-1], alarms, found))
    grown, before, ends = set(), alarms, np.arange(len(alarms))
    for step in range(records):
        grown.update(zip(before.tolist(), after[records - step][ends].tolist(), strict=True))
        reached = before >= found[0]  # lower values are detected without any false alarm
        before, ends = np.interp(before[reached], found[rising], alarms[rising]), ends[reached]
    return sorted(grown)
