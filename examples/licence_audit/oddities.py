"""A few packages as one finds them, for the demonstration: what needs another reader, and what says nothing.

Real environments hold such packages, but not every one does; the demonstration should show the same on each.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["install"]

LATIN_1 = """\
Metadata-Version: 1.1
Name: gruesse
Version: 0.9
Author: Jörg Müller
License: BSD
Classifier: License :: OSI Approved :: BSD License
""".encode("latin-1")
"""Written by a tool of the time before metadata had to be UTF-8: `importlib.metadata` cannot decode it."""

OLD = b"""\
Metadata-Version: 1.0
Name: oldtimer
Version: 0.1
License: MIT
"""
"""An `.egg-info` that is a file, as distutils left them."""

SILENT = b"""\
Metadata-Version: 2.1
Name: silent
Version: 3.0
"""
"""Says nothing about its licence, anywhere."""

FILE_ONLY = b"""\
Metadata-Version: 2.1
Name: fileonly
Version: 1.4
License-File: LICENSE
"""
"""Says it only in the text of its licence file."""

ISC = b"""\
Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.
"""


def install(folder: Path) -> None:
    """Lay the metadata of the odd packages into a folder, as an installation would."""
    files = {
        "fileonly-1.4.dist-info/METADATA": FILE_ONLY,
        "fileonly-1.4.dist-info/licenses/LICENSE": ISC,
        "gruesse-0.9.dist-info/METADATA": LATIN_1,
        "leftover-2.2.dist-info/RECORD": b"",
        "oldtimer-0.1-py2.7.egg-info": OLD,
        "silent-3.0.dist-info/METADATA": SILENT,
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
