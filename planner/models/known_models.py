"""Models that are known to plan, where they come from, and where they are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ...policies.errors import BadInput
from ...policies.text import did_you_mean

__all__ = ["KNOWN", "RECOMMENDED", "KnownModel", "cache_folder", "find_model", "known_model", "model_folder"]


class KnownModel(NamedTuple):
    """A model file: its name here, its address, and what it must be byte for byte."""

    name: str
    file: str
    url: str
    bytes: int
    sha256: str
    licence: str


RECOMMENDED = "qwen2.5-coder-1.5b-instruct"

KNOWN: dict[str, KnownModel] = {
    RECOMMENDED: KnownModel(
        RECOMMENDED,
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Apache-2.0",
    )
}


def cache_folder() -> Path:
    """The user's folder for what can be fetched or made again (XDG_CACHE_HOME, ~/.cache)."""
    said = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(said) if os.path.isabs(said) else Path.home() / ".cache") / "foreplan"


def model_folder() -> Path:
    """Where `foreplan models pull` puts models, and where they are looked for by name."""
    return cache_folder() / "models"


def known_model(name: str) -> KnownModel:
    """The model of this name. Raises `BadInput` for another."""
    if name not in KNOWN:
        raise BadInput(f"no model is called {name!r}{did_you_mean(name, KNOWN)}; known: {', '.join(KNOWN)}")
    return KNOWN[name]


def find_model(model: str | os.PathLike[str]) -> Path:
    """The file that a path means, or the name of a model that was pulled. Raises `BadInput` where there is none."""
    text = os.fspath(model)
    pulled = model_folder() / (KNOWN[text].file if text in KNOWN else f"{text}.gguf")
    if pulled.parent == model_folder() and pulled.exists():
        return pulled
    if text in KNOWN:
        raise BadInput(f"the model {text} is not on this machine; fetch it: foreplan models pull {text}")
    if not text or (os.sep not in text and not text.endswith(".gguf") and not Path(text).exists()):
        known_model(text)
    return Path(text).expanduser()
