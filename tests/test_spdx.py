"""The licence audit reads what packages say about their licence as a careful person would."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from rooms import ROOT

_spec = importlib.util.spec_from_file_location("spdx", ROOT / "examples" / "licence_audit" / "spdx.py")
assert _spec is not None
assert _spec.loader is not None
spdx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(spdx)
sys.modules.pop("spdx", None)

MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software ... "
BSD = "Redistributions in binary form must reproduce the above copyright notice, this list of conditions ... "
LISTS = {"allowed": ["MIT", "ISC"], "review": ["MPL-2.0"], "denied": ["AGPL-3.0-only"]}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("MIT", "MIT"),
        ("MIT OR Apache-2.0", ("OR", "MIT", "Apache-2.0")),
        ("MIT or ISC and Zlib", ("OR", "MIT", ("AND", "ISC", "Zlib"))),
        ("(MIT OR ISC) AND Zlib", ("AND", ("OR", "MIT", "ISC"), "Zlib")),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("GPL-2.0+", "GPL-2.0+"),
    ],
)
def test_an_expression_is_read_as_spdx_says(text: str, tree: object) -> None:
    """AND binds closer than OR, brackets closer than both, and WITH belongs to its licence."""
    assert spdx.parse(text) == tree


@pytest.mark.parametrize(
    "text", ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "see LICENSE", "MIT; ISC", "()"]
)
def test_what_is_no_expression_is_none(text: str) -> None:
    """Words that are not SPDX are not taken for a licence."""
    assert spdx.parse(text) is None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("MIT", "allowed"),
        ("MIT OR AGPL-3.0-only", "allowed"),
        ("MIT AND AGPL-3.0-only", "denied"),
        ("MIT AND MPL-2.0", "review"),
        ("(MIT OR AGPL-3.0-only) AND ISC", "allowed"),
        ("Unheard-Of", "review"),
    ],
)
def test_or_is_as_good_as_its_best_and_and_as_bad_as_its_worst(text: str, verdict: str) -> None:
    """Whoever may choose chooses what is allowed; whoever must keep both is bound by the worse."""
    assert spdx.judge(spdx.parse(text), LISTS, otherwise="review") == verdict


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"expression": "MIT", "licence": "BSD"}, ("MIT", "License-Expression")),
        ({"licence": "Apache License, Version 2.0"}, ("Apache-2.0", "License")),
        ({"licence": "MIT OR Apache-2.0"}, ("MIT OR Apache-2.0", "License")),
        ({"licence": "see LICENSE file"}, None),
        ({"licence": "UNKNOWN", "classifiers": ["License :: OSI Approved :: MIT License"]}, ("MIT", "classifier")),
        ({"classifiers": ["License :: OSI Approved"]}, None),
        ({"classifiers": ["License :: OSI Approved :: MIT License", "License :: Public Domain"]},
         ("LicenseRef-Public-Domain AND MIT", "classifier")),
        ({"licence": "BSD", "texts": ["BSD-3-Clause"]}, ("BSD-3-Clause", "licence file")),
        ({"licence": "MIT", "texts": ["MIT-0"]}, ("MIT", "License")),
        ({"licence": MIT + "and this permission notice shall be included"}, ("MIT", "License text")),
        ({"texts": ["ISC", ""]}, ("ISC", "licence file")),
        ({}, None),
    ],
)  # fmt: skip
def test_the_clearest_statement_of_a_package_counts(said: dict[str, object], found: object) -> None:
    """From License-Expression down to the text of a licence file; a vague family is made exact by a member of it."""
    nothing: dict[str, object] = {"expression": "", "licence": "", "classifiers": [], "texts": []}
    assert spdx.licence_of(**(nothing | said)) == found


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        (MIT + "this permission notice shall be included in all copies", "MIT"),
        (MIT, "MIT-0"),
        (BSD, "BSD-2-Clause"),
        (BSD + "Neither the name of the author", "BSD-3-Clause"),
        ("Mozilla Public License Version 2.0 ... GNU General Public License, Version 2", "MPL-2.0"),
        ("All rights reserved.", None),
    ],
)
def test_a_licence_is_known_by_its_text(text: str, identifier: str | None) -> None:
    """Shorter licences are told from longer siblings, and a licence from another that it mentions."""
    assert spdx.from_text(text) == identifier
