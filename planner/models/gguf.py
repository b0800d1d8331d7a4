"""What the head of a GGUF file says, read without the library that runs it: enough to refuse a file in a sentence.

    magic, version | how many tensors, how many entries | entries: name, type, value | tensors: name, shape, type, place

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...policies.errors import BadInput

__all__ = ["Gguf", "read_gguf"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_VERSIONS = (2, 3)
_MOST = 1_000_000
"""Entries or tensors of a file, or elements of one of its lists: more than any model has."""


@dataclass(frozen=True)
class Gguf:
    """A model file: what it says of itself (`entries`, lists as their length) and its size."""

    path: Path
    bytes: int
    entries: dict[str, Any]

    @property
    def architecture(self) -> str:
        """The kind of network, such as `qwen2`."""
        return str(self.entries.get("general.architecture", ""))

    @property
    def instruct(self) -> bool:
        """Whether it says how a conversation is written for it; a base model does not."""
        return bool(self.entries.get("tokenizer.chat_template"))

    @property
    def longest(self) -> int:
        """Tokens of context that it was trained with; 0 where it does not say."""
        return self._number("context_length")

    def bytes_for(self, context: int) -> int:
        """Memory that it takes with so many tokens of context: the weights, their keys and values, room to compute."""
        heads = self._number("attention.head_count") or 1
        width = self._number("attention.key_length") or self._number("embedding_length") // heads
        cached = (
            2 * 2 * self._number("block_count") * (self._number("attention.head_count_kv") or heads) * width
        )
        return self.bytes + cached * context + 300_000_000

    def _number(self, name: str) -> int:
        found = self.entries.get(f"{self.architecture}.{name}")
        return found if type(found) is int else 0


def read_gguf(path: Path) -> Gguf:
    """The head of a model file. Raises `BadInput` for a file that is none, or that is cut short."""
    size = _size(path)
    try:
        with path.open("rb") as file:
            begun = file.read(4)
            if begun != b"GGUF":
                raise BadInput(f"{path} is no GGUF file: it does not begin with GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                entries, end = _Reader(content).all()
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        raise BadInput(f"{path} is cut short or damaged ({error}); fetch it again") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if end >= size:
        raise BadInput(
            f"{path} is cut short: it has {size:,} bytes and needs more than {end:,}; fetch it again"
        )
    return Gguf(path, size, entries)


def _size(path: Path) -> int:
    if not path.exists():
        raise BadInput(f"there is no file {path}; `foreplan models pull` fetches a model")
    if not path.is_file():
        raise BadInput(f"{path} is no file; a model is one file in the GGUF format")
    return path.stat().st_size


class _Reader:
    def __init__(self, content: mmap.mmap) -> None:
        self.content = content
        self.place = 4

    def all(self) -> tuple[dict[str, Any], int]:
        """The entries, and where the last tensor begins."""
        version = self.number("I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}, and {' and '.join(map(str, _VERSIONS))} are known")
        tensors, entries = self.count(), self.count()
        found = {self.text(): self.value(self.number("I")) for _ in range(entries)}
        places = list(self.places(tensors))
        aligned = max(int(found.get("general.alignment", 32)), 1)
        begin = -(-self.place // aligned) * aligned
        return found, begin + max(places, default=0)

    def places(self, tensors: int) -> Iterator[int]:
        for _ in range(tensors):
            self.text()
            dimensions: int = self.number("I")
            self.place += 8 * dimensions + 4
            yield self.number("Q")

    def number(self, form: str) -> Any:
        (found,) = struct.unpack_from(f"<{form}", self.content, self.place)
        self.place += struct.calcsize(f"<{form}")
        return found

    def count(self) -> int:
        found: int = self.number("Q")
        if found > _MOST:
            raise ValueError(f"it counts {found} of something")
        return found

    def text(self) -> str:
        length: int = self.number("Q")
        begin, self.place = self.place, self.place + length
        if self.place > len(self.content):
            raise ValueError("a text is longer than the file")
        return self.content[begin : self.place].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            return self.list()
        if kind not in _NUMBERS:
            raise ValueError(f"a value is of the unknown type {kind}")
        return self.number(_NUMBERS[kind])

    def list(self) -> int:
        kind, length = self.number("I"), self.count()
        if kind in _NUMBERS:
            self.place += length * struct.calcsize(f"<{_NUMBERS[kind]}")
        else:
            for _ in range(length):
                self.value(kind)
        return length
