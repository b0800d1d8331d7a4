"""What the documentation shows is what happens: every page is run, and its generated parts are current."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import generate
import pytest
from support.local_models import SMALL, fetched
from support.pages import blocks

PAGES = {str(page.relative_to(generate.HERE.parent)): page for page in generate.pages()}
RUNNER = Path(__file__).parent / "support" / "pages.py"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    """Every Python block and every marked command of a page runs, in an empty folder, without a warning."""
    if not any(block.language == "python" or block.mark for block in blocks(PAGES[name].read_text())):
        pytest.skip("nothing on this page runs")
    model = {}
    if "FOREPLAN_MODEL" in PAGES[name].read_text():
        try:
            model = {"FOREPLAN_MODEL": str(fetched(SMALL))}
        except ImportError as error:
            pytest.skip(f"no local model: {error}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "COLUMNS": "110", "NO_COLOR": "1", **model}
    command = [sys.executable, "-P", "-W", "error", str(RUNNER), str(PAGES[name])]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_would_write(name: str) -> None:
    """The generated parts of a page are current (`make docs` makes them so)."""
    text = PAGES[name].read_text()
    assert generate.rendered(text) == text


@pytest.mark.parametrize("name", PAGES)
def test_a_link_within_the_repository_leads_somewhere(name: str) -> None:
    """A page links only to files that are there."""
    page = PAGES[name]
    targets = [
        t for t in generate.links(page.read_text()) if not t.startswith(("http:", "https:", "mailto:"))
    ]
    assert [t for t in targets if not (page.parent / t).exists()] == []
