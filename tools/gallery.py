"""Store the pictures that the gallery of the documentation shows, `docs/gallery/ID.png`.

Runs `hedgerow gallery --quick`, reuses its results in `runs/`, and keeps the main picture of every
experiment, with few colours. It needs the data of all experiments.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from hedgerow.experiments.gallery import exhibits
from hedgerow.experiments.registry import EXPERIMENTS

OUT = Path(__file__).parent.parent / "docs" / "gallery"
WIDTH, COLOURS = 1100, 48


def small(picture: bytes) -> Image.Image:
    """A picture at most `WIDTH` wide, with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
    return image.quantize(COLOURS, dither=Image.Dither.NONE)


def main() -> int:
    found = exhibits(dict(EXPERIMENTS.items()), quick=True, workers=None)
    missing = [one.id for one in found if not one.pictures]
    if missing:
        sys.stderr.write(f"no picture of {', '.join(missing)}: {found[0].outcome}\n")
        return 1
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*.png"):
        old.unlink()
    for one in found:
        small(one.pictures[0]).save(OUT / f"{one.id}.png", optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
