"""Every way in which a secret may be written, made without the scrubber's own code, and where it is looked for."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

__all__ = ["SECRET", "encodings", "found_in", "spilled"]

SECRET = 'sk-Ab/9+c?d&e"f ü~Zx7QwL0pMn5Rt2Vb8Yk4Hg6Dj1Fs3'
"""Signs that every encoding writes differently, a letter outside ASCII, a space."""


def encodings(secret: str) -> dict[str, str]:
    """The secret as it may be written, by the name of the encoding."""
    data = secret.encode()
    plain = json.dumps(secret)[1:-1]
    found = {
        "raw": secret,
        "json": plain,
        "json, any letters": json.dumps(secret, ensure_ascii=False)[1:-1],
        "json, slashes": plain.replace("/", "\\/"),
        "json in json": json.dumps(plain)[1:-1],
        "url": urllib.parse.quote(secret),
        "url, all": urllib.parse.quote(secret, safe=""),
        "url, plus": urllib.parse.quote_plus(secret),
        "url, JavaScript": urllib.parse.quote(secret, safe="!~*'()"),
        "url, each": "".join(f"%{byte:02X}" for byte in data),
        "url, each, small": "".join(f"%{byte:02x}" for byte in data),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "repr": repr(secret)[1:-1],
    }
    for before in range(3):
        code = base64.b64encode(b"x" * before + data + b"xx").decode()
        inner = code[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        found[f"base64 at {before}"] = inner
        found[f"base64 for URLs at {before}"] = inner.replace("+", "-").replace("/", "_")
    return found


def found_in(text: str | bytes, secret: str = SECRET) -> list[str]:
    """The names of the encodings in which the secret stands in a text or in the bytes of a file."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return [name for name, written in encodings(secret).items() if written.encode() in data]


def spilled(folder: Path, texts: Iterable[str], secret: str = SECRET) -> dict[str, list[str]]:
    """Where the secret was found: in which file of a folder, in which text by its number, and how it is written."""
    places: dict[str, str | bytes] = {
        path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    places |= {f"text {n}": text for n, text in enumerate(texts)}
    return {place: found for place, content in places.items() if (found := found_in(content, secret))}
