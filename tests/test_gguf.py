"""The head of a model file is read without the library that runs it, and what is no model is refused in a sentence."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ggufs import INSTRUCT, gguf

from foreplan.planner.models.gguf import read_gguf
from foreplan.policies.errors import BadInput


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


def test_a_head_tells_what_the_model_is(tmp_path: Path) -> None:
    """Its architecture, how long a context it knows, and that it is made for conversations."""
    content = gguf(INSTRUCT)
    head = read_gguf(written(tmp_path, content))
    assert (head.architecture, head.longest, head.instruct) == ("llama", 4096, True)
    assert head.bytes == len(content)
    assert head.entries["tokenizer.ggml.tokens"] == 3


def test_memory_grows_with_the_context(tmp_path: Path) -> None:
    """Keys and values of each token: two layers, two heads of 16 numbers, two bytes each."""
    head = read_gguf(written(tmp_path, gguf(INSTRUCT)))
    assert head.bytes_for(1001) - head.bytes_for(1) == 1000 * 2 * (2 * 2 * 16) * 2


def test_a_base_model_says_that_it_is_none_for_conversations(tmp_path: Path) -> None:
    """Without a template there is no way to tell it who says what."""
    entries = {name: value for name, value in INSTRUCT.items() if name != "tokenizer.chat_template"}
    assert not read_gguf(written(tmp_path, gguf(entries))).instruct


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin with GGUF"),
        (b"\x93NUMPY", "does not begin with GGUF"),
        (b"GGUF", "cut short or damaged"),
        (gguf(INSTRUCT, version=9), "its version is 9"),
        (gguf(INSTRUCT, content=b"\0" * 32), "cut short"),
        (gguf(INSTRUCT)[:200], "cut short or damaged"),
        (gguf({})[:4] + b"\3\0\0\0" + b"\xff" * 16, "counts 18446744073709551615"),
    ],
)
def test_what_is_no_model_file_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(BadInput, match=said):
        read_gguf(written(tmp_path, content))


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    """Each with its own sentence."""
    with pytest.raises(BadInput, match=r"there is no file .*; `foreplan models pull` fetches a model"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(BadInput, match="is no file"):
        read_gguf(tmp_path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_head_is_refused_or_read_and_never_a_crash(data: Any, tmp_path: Path) -> None:
    """Whatever bytes change, and wherever it is cut."""
    content = bytearray(gguf(INSTRUCT))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path = written(tmp_path, bytes(content[:cut]))
    with suppress(BadInput):
        head = read_gguf(path)
        assert head.bytes == cut
        assert head.bytes_for(10) >= cut
