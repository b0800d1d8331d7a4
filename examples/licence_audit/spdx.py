"""Licence names as SPDX expressions: recognised from what packages really say, and judged by lists of identifiers.

What packages say, from the clearest to the vaguest: `License-Expression` (PEP 639), a `License` field that is an
expression already, trove classifiers, a `License` field in somebody's own words, and the text of a licence file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = [
    "CLASSIFIERS",
    "from_classifiers",
    "from_text",
    "from_words",
    "identifiers",
    "judge",
    "licence_of",
    "parse",
]

CLASSIFIERS = {
    "Academic Free License (AFL)": "AFL-3.0",
    "Apache Software License": "Apache-2.0",
    "Artistic License": "Artistic-2.0",
    "BSD License": "LicenseRef-BSD",
    "Blue Oak Model License (BlueOak-1.0.0)": "BlueOak-1.0.0",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "Eclipse Public License 1.0 (EPL-1.0)": "EPL-1.0",
    "Eclipse Public License 2.0 (EPL-2.0)": "EPL-2.0",
    "European Union Public Licence 1.2 (EUPL 1.2)": "EUPL-1.2",
    "GNU Affero General Public License v3": "AGPL-3.0-only",
    "GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0-or-later",
    "GNU General Public License (GPL)": "LicenseRef-GPL",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.0-only",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.0-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "GNU Library or Lesser General Public License (LGPL)": "LicenseRef-LGPL",
    "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Other/Proprietary License": "LicenseRef-Proprietary",
    "Public Domain": "LicenseRef-Public-Domain",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Universal Permissive License (UPL)": "UPL-1.0",
    "Zero-Clause BSD (0BSD)": "0BSD",
    "Zope Public License": "ZPL-2.1",
    "zlib/libpng License": "Zlib",
}
"""Last part of a `License ::` classifier -> SPDX identifier; `LicenseRef-…` where the classifier names no version."""

WORDS = {
    "0bsd": "0BSD",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd": "LicenseRef-BSD",
    "bsd license": "LicenseRef-BSD",
    "bsd 2-clause": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "2-clause bsd": "BSD-2-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "new bsd license": "BSD-3-Clause",
    "simplified bsd": "BSD-2-Clause",
    "gpl": "LicenseRef-GPL",
    "gplv2": "GPL-2.0-only",
    "gplv2+": "GPL-2.0-or-later",
    "gplv3": "GPL-3.0-only",
    "gplv3+": "GPL-3.0-or-later",
    "gnu gpl": "LicenseRef-GPL",
    "gnu lgpl": "LicenseRef-LGPL",
    "lgpl": "LicenseRef-LGPL",
    "lgpl v3": "LGPL-3.0-only",
    "lgplv3": "LGPL-3.0-only",
    "lgplv3+": "LGPL-3.0-or-later",
    "isc": "ISC",
    "isc license": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "the mit license": "MIT",
    "expat": "MIT",
    "expat (mit/x11": "MIT",
    "mozilla public license 2.0": "MPL-2.0",
    "mpl 2.0": "MPL-2.0",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "psf license": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "public domain": "LicenseRef-Public-Domain",
    "unlicense": "Unlicense",
    "the unlicense": "Unlicense",
    "wtfpl": "WTFPL",
    "zlib": "Zlib",
    "zpl 2.1": "ZPL-2.1",
}
"""A `License` field in its authors' words, in small letters, without commas and without marks at the ends."""

PHRASES = {
    "apache license version 2.0": "Apache-2.0",
    "creative commons legal code cc0 1.0 universal": "CC0-1.0",
    "gnu affero general public license version 3": "AGPL-3.0-only",
    "gnu general public license version 2": "GPL-2.0-only",
    "gnu general public license version 3": "GPL-3.0-only",
    "gnu lesser general public license version 2.1": "LGPL-2.1-only",
    "gnu lesser general public license version 3": "LGPL-3.0-only",
    "mozilla public license v. 2.0": "MPL-2.0",
    "mozilla public license version 2.0": "MPL-2.0",
    "permission is hereby granted free of charge to any person obtaining a copy": "MIT-0",
    "permission to use copy modify and distribute this software for any purpose with or without fee": "ISC",
    "permission to use copy modify and or distribute this software for any purpose with or without fee": "ISC",
    "python software foundation license version 2": "PSF-2.0",
    "redistributions in binary form must reproduce the above copyright notice": "BSD-2-Clause",
    "this is free and unencumbered software released into the public domain": "Unlicense",
}
"""A phrase of a licence's text -> identifier. The first one in a text counts: later ones are often mere mentions."""

LONGER = {
    "BSD-2-Clause": (r"(neither the names? of|names? of (its|the) contributors may not)", "BSD-3-Clause"),
    "MIT-0": (r"permission notice( including the next paragraph)? shall be included", "MIT"),
}
"""Identifier -> what a longer sibling of that licence says in addition, and its identifier."""

TOKEN = re.compile(r"\s*(?:(?P<mark>[()])|(?P<word>[A-Za-z0-9][A-Za-z0-9.+-]*))")
RANK = ("allowed", "review", "denied")

Expression = str | tuple[str, "Expression", "Expression"]
"""`"MIT"`, or `("OR", "MIT", "Apache-2.0")`; `GPL-2.0-only WITH Classpath-exception-2.0` is one identifier."""


def parse(text: str) -> Expression | None:
    """An SPDX expression as a tree; None where the text is none."""
    tokens = _tokens(text)
    if not tokens:
        return None
    try:
        tree = _either(tokens)
    except (IndexError, ValueError):
        return None
    return None if tokens else tree


def _tokens(text: str) -> list[str]:
    """The words and brackets of an expression, first one last; [] where other characters are in it."""
    found = [m["mark"] or m["word"] for m in TOKEN.finditer(text)]
    return found[::-1] if "".join(found) == "".join(text.split()) else []


def _either(tokens: list[str]) -> Expression:
    left = _both(tokens)
    while tokens and tokens[-1].upper() == "OR":
        tokens.pop()
        left = ("OR", left, _both(tokens))
    return left


def _both(tokens: list[str]) -> Expression:
    left = _one(tokens)
    while tokens and tokens[-1].upper() == "AND":
        tokens.pop()
        left = ("AND", left, _one(tokens))
    return left


def _one(tokens: list[str]) -> Expression:
    word = tokens.pop()
    if word == "(":
        inner = _either(tokens)
        if tokens.pop() != ")":
            raise ValueError("a bracket is open")
        return inner
    if word == ")" or word.upper() in ("AND", "OR", "WITH"):
        raise ValueError("an identifier is missing")
    if tokens and tokens[-1].upper() == "WITH":
        tokens.pop()
        return f"{word} WITH {tokens.pop()}"
    return word


def identifiers(tree: Expression) -> list[str]:
    """Every identifier in an expression, in order."""
    return [tree] if isinstance(tree, str) else [*identifiers(tree[1]), *identifiers(tree[2])]


def from_words(text: str) -> str | None:
    """The SPDX expression that a short `License` field means."""
    plain = re.sub(r"\s+", " ", text.lower().replace(",", " ").replace("_", "-")).strip(" .()")
    if plain in WORDS:
        return WORDS[plain]
    tree = parse(text)
    known = {*WORDS.values(), *CLASSIFIERS.values()}
    return text.strip() if tree is not None and set(identifiers(tree)) <= known else None


def from_classifiers(classifiers: list[str]) -> str | None:
    """The SPDX expression of all licence classifiers together.

    Classifiers cannot say whether a user may choose, so several are joined with AND: the careful reading.
    """
    last = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")]
    found = sorted({CLASSIFIERS[c] for c in last if c in CLASSIFIERS})
    return " AND ".join(found) or None


def from_text(text: str) -> str | None:
    """The identifier of the licence whose text this is."""
    plain = re.sub(r"[^a-z0-9.]+", " ", text.lower())
    places = {
        place: identifier for phrase, identifier in PHRASES.items() if (place := plain.find(phrase)) >= 0
    }
    if not places:
        return None
    found = places[min(places)]
    addition, longer = LONGER.get(found, ("$^", ""))
    return longer if re.search(addition, plain) else found


def licence_of(
    *, expression: str, licence: str, classifiers: list[str], texts: list[str]
) -> tuple[str, str] | None:
    """The SPDX expression that all of a package's statements come to, and which statement decided; None without any.

    `texts` are identifiers recognised in licence files. The clearest statement counts; where it names a family but
    no version (`BSD`), a vaguer one that names a member of the family (a BSD text) is more exact.
    """
    statements = {
        "License-Expression": expression if parse(expression) else None,
        "License": from_words(licence),
        "classifier": from_classifiers(classifiers),
        "License text": from_text(licence),
        "licence file": " AND ".join(sorted({text for text in texts if text})),
    }
    found = [(spdx, basis) for basis, spdx in statements.items() if spdx]
    if not found:
        return None
    family = found[0][0].removeprefix("LicenseRef-") + "-"
    exact = [pair for pair in found[1:] if pair[0].startswith(family)]
    return exact[0] if exact and found[0][0].startswith("LicenseRef-") else found[0]


def judge(tree: Expression, lists: Mapping[str, list[str]], *, otherwise: str) -> str:
    """`allowed`, `review` or `denied`: the best of what OR offers, the worst of what AND demands."""
    if isinstance(tree, str):
        return next((verdict for verdict in RANK if tree in lists.get(verdict, [])), otherwise)
    choose = min if tree[0] == "OR" else max
    return choose((judge(part, lists, otherwise=otherwise) for part in tree[1:]), key=RANK.index)
