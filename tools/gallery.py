"""Store the pictures that the gallery of the documentation shows, `docs/gallery/ID.png`.

`python tools/gallery.py [ID ...]` runs what `hedgerow gallery --quick` does, reuses its results in
`runs/`, and keeps the main picture of each named experiment, with few colours. Without a name it
draws all of them, which needs the data of all.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from hedgerow.core.registry import EXPERIMENTS
from hedgerow_papers.experiments.gallery import exhibits

OUT = Path(__file__).parent.parent / "docs" / "gallery"
WIDTH, COLOURS = 1100, 48


def small(picture: bytes) -> Image.Image:
    """A picture at most `WIDTH` wide, with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
    return image.quantize(COLOURS, dither=Image.Dither.NONE)


def main() -> int:
    names = sys.argv[1:] or list(EXPERIMENTS)
    found = exhibits({name: EXPERIMENTS[name] for name in names}, quick=True, workers=None)
    missing = [f"{one.id}: {one.outcome['message']}" for one in found if not one.pictures]
    if missing:
        sys.stderr.write("\n".join(["no picture", *missing, ""]))
        return 1
    for old in OUT.glob("*.png"):
        if old.stem not in EXPERIMENTS:
            old.unlink()
    for one in found:
        small(one.pictures[0]).save(OUT / f"{one.id}.png", optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
