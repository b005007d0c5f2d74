"""The built pages: no warning, nothing loaded from elsewhere, anchors as certificates cite them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.algorithms.registry import variants
from support.paths import ROOT
from support.settings import setting_for

LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=\"([^\"]+)\"|<link\b(?![^>]*rel=\"(?:canonical|author)\")[^>]*?href=\"([^\"]+)\""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-n",
        "-q",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(out),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.long
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        found = [src or href for src, href in LOADED.findall(page.read_text(encoding="utf-8"))]
        assert found
        assert [target for target in found if re.match(r"(https?:)?//", target)] == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(
            r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")
        ), sheet.name


@pytest.mark.long
@pytest.mark.parametrize("name", variants())
def test_every_cited_proof_has_its_anchor(site: Path, name: str) -> None:
    spec = variants()[name]
    algorithm = spec.build(setting_for(spec, 3, 4, 20))
    proofs = {
        guarantee.proof
        for guarantee in algorithm.certificate.guarantees
        if guarantee.proof is not None
    }
    proofs |= (
        set() if algorithm.claims.regret_bound is None else {algorithm.claims.regret_bound.proof}
    )
    for proof in proofs:
        page = site / "proofs" / proof.file.replace(".md", ".html")
        assert f'id="{proof.anchor}"' in page.read_text(encoding="utf-8"), proof.words()
