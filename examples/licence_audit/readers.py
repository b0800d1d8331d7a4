"""Two readers of what an installed package says about itself.

The plain one is `importlib.metadata`, which wants UTF-8 and a metadata file. The careful one reads bytes, takes
Latin-1 where it is no UTF-8, and makes do with the folder's name where there is no metadata file at all.
"""

from __future__ import annotations

import importlib.metadata
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import spdx
from typing_extensions import TypedDict

__all__ = ["LicenceFile", "Metadata", "Package", "Unreadable", "carefully", "packages_in", "plainly"]


class Package(TypedDict):
    """An installed package: the name in its folder's name, and that folder (or, for old ones, that file)."""

    name: str
    folder: str


class LicenceFile(TypedDict):
    """A licence file beside the metadata, and the licence whose text it holds ("" if it is not recognised)."""

    name: str
    spdx: str


class Metadata(TypedDict):
    """What a package says about its licence, as it says it ("" where it says nothing)."""

    name: str
    version: str
    expression: str
    licence: str
    classifiers: list[str]
    files: list[LicenceFile]


class Unreadable(Exception):
    """The plain reader cannot read this package's metadata."""


def packages_in(folder: Path) -> list[Package]:
    """The packages installed in a folder such as `site-packages`, by name."""
    found = [path for path in folder.iterdir() if path.suffix in (".dist-info", ".egg-info")]
    return sorted(
        ({"name": _named(path)[0], "folder": str(path)} for path in found), key=lambda p: p["name"].lower()
    )


def plainly(folder: Path) -> Metadata:
    """What `importlib.metadata` reads."""
    try:
        message = importlib.metadata.Distribution.at(folder).metadata
    except (UnicodeDecodeError, importlib.metadata.PackageNotFoundError) as error:
        raise Unreadable(f"the metadata of {folder.name} cannot be read: {error}") from error
    if message is None or not message.get_all("Name"):
        raise Unreadable(f"{folder.name} has no metadata file that names the package")
    return _metadata(message, folder)


def carefully(folder: Path) -> Metadata:
    """The same from the bytes of the metadata file, or from the folder's name."""
    places = [folder / "METADATA", folder / "PKG-INFO", folder]
    data = next((place.read_bytes() for place in places if place.is_file()), b"")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return _metadata(HeaderParser().parsestr(text), folder)


def _metadata(message: importlib.metadata.PackageMetadata | Message, folder: Path) -> Metadata:
    def first(name: str) -> str:
        return str((message.get_all(name) or [""])[0])

    name, version = _named(folder)
    return {
        "name": first("Name") or name,
        "version": first("Version") or version,
        "expression": first("License-Expression"),
        "licence": first("License"),
        "classifiers": [
            str(c) for c in message.get_all("Classifier") or [] if str(c).startswith("License ::")
        ],
        "files": _licence_files(folder),
    }


def _named(folder: Path) -> tuple[str, str]:
    """Name and version out of `some_package-1.2.dist-info`."""
    name, _, rest = folder.stem.partition("-")
    return name, rest.partition("-py")[0]


def _licence_files(folder: Path) -> list[LicenceFile]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_licence(path.name)]
    texts = {str(p.relative_to(folder)): p.read_bytes().decode("utf-8", "replace") for p in paths}
    return [{"name": name, "spdx": spdx.from_text(text) or ""} for name, text in texts.items()]


def _is_licence(name: str) -> bool:
    return name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "UNLICENSE"))
