"""Write the generated parts of the documentation: `python docs/generate.py [--check] [PAGE ...]`.

A page names the function that writes a part of it, and the part is kept between two comments:

    <!-- generated: foreplan.policies.expressions:language_table -->
    (whatever the function returned, as Markdown)
    <!-- end -->

Modules beside this file can be named too. With --check nothing is written: the stale pages are named, and the
exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path

__all__ = ["links", "pages", "rendered"]

HERE = Path(__file__).resolve().parent
PART = re.compile(
    r"(?P<start><!-- generated: (?P<module>[\w.]+):(?P<function>\w+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")


def pages() -> list[Path]:
    """Every page of the documentation, README included."""
    return [*sorted(HERE.rglob("*.md")), HERE.parent / "README.md"]


def rendered(text: str) -> str:
    """The page with each generated part written anew."""
    return PART.sub(_part, text)


def links(text: str) -> list[str]:
    """The targets of a page's links, without their fragments."""
    return LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def _part(match: re.Match[str]) -> str:
    function = getattr(importlib.import_module(match["module"]), match["function"])
    return f"{match['start']}{str(function()).strip()}\n{match['end']}"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages; 0 if all of them are, or now are, current."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("pages", nargs="*", type=Path, help="the pages; all of them if none is named")
    options = parser.parse_args(arguments)
    stale = [page for page in options.pages or pages() if _refresh(page, write=not options.check)]
    for page in stale:
        print(f"{page}: {'is stale; run `make docs`' if options.check else 'written'}")
    return 1 if stale and options.check else 0


def _refresh(page: Path, *, write: bool) -> bool:
    """Whether the page differed."""
    before = page.read_text(encoding="utf-8")
    after = rendered(before)
    if write and after != before:
        page.write_text(after, encoding="utf-8")
    return after != before


if __name__ == "__main__":
    sys.exit(main())
