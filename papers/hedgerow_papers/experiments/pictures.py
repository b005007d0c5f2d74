"""File names of the pictures of experiments, and the footer below each picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hedgerow.records.schema import STAMP
from hedgerow.studies.config import StudyConfig
from hedgerow_papers.experiments.experiment import Studies

FEW = 4
BARS = "bars: 95 % confidence of the mean"


def sibling(path: Path, name: str) -> Path:
    """The path of another picture beside the main one.

    >>> sibling(Path("runs/x/my-speedup.png"), "pure").name
    'my-speedup-pure.png'
    """
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def pictures(folder: Path, id: str) -> list[Path]:
    """All pictures of an experiment in its folder, the main one first."""
    main = folder / f"{id}.png"
    return [
        *([main] if main.is_file() else []),
        *sorted(file for file in folder.glob(f"{id}-*.png") if file.is_file()),
    ]


def is_quick(done: Studies, studies: Callable[[bool], Mapping[str, StudyConfig]]) -> bool:
    """Whether any study has fewer seeds than in the full form of the experiment."""
    full = studies(False)
    return any(study.config.seeds < full[name].seeds for name, study in done.items())


def footer(
    done: Studies,
    studies: Callable[[bool], Mapping[str, StudyConfig]],
    bars: str = BARS,
    shown: str = "means over",
) -> str:
    """The footer of a picture of the studies `done`.

    It says how many seeds there are and what is shown of them, what the bars are, that this is a
    simulation, and whether it is the quick form.
    """
    quick = "; quick form: smaller than the full one, not judged" if is_quick(done, studies) else ""
    return f"{shown} {_seeds(done)}; {bars}; {STAMP}{quick}"


def _seeds(done: Studies) -> str:
    """The number of seeds, per study if the numbers differ and there are few studies."""
    counts = {name: study.config.seeds for name, study in done.items()}
    least, most = min(counts.values()), max(counts.values())
    if least == most:
        return f"{most} seed{'' if most == 1 else 's'}"
    if len(counts) > FEW:
        return f"{least} to {most} seeds"
    return f"{', '.join(f'{count} ({name})' for name, count in counts.items())} seeds"
