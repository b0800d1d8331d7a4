"""Small GGUF files, written entry by entry as the format says: what heads of model files are tested on."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

__all__ = ["INSTRUCT", "gguf"]

INSTRUCT: Mapping[str, Any] = {
    "general.architecture": "llama",
    "llama.context_length": 4096,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.scores": [0.5, 1.5],
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.chat_template": "{{ messages }}",
}
"""What the head of an instruct model says."""


def gguf(
    entries: Mapping[str, Any], *, tensors: int = 2, content: bytes = b"\0" * 64, version: int = 3
) -> bytes:
    """A file with these entries and some tensors of 32 bytes each, of which `content` is what there is."""
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, len(entries))
    head += b"".join(_text(name) + _value(value) for name, value in entries.items())
    for number in range(tensors):
        head += _text(f"blk.{number}.weight") + struct.pack("<IQIQ", 1, 8, 0, 32 * number)
    return head + b"\0" * (-len(head) % 32) + content


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    kind, content = _plain(value)
    if not isinstance(value, list):
        return struct.pack("<I", kind) + content
    kinds = {_plain(item)[0] for item in value}
    return struct.pack("<IIQ", 9, kinds.pop(), len(value)) + b"".join(_plain(item)[1] for item in value)


def _plain(value: Any) -> tuple[int, bytes]:
    match value:
        case bool():
            return 7, struct.pack("<?", value)
        case int():
            return 4, struct.pack("<I", value)
        case float():
            return 6, struct.pack("<f", value)
        case str():
            return 8, _text(value)
        case _:
            return 9, b""
