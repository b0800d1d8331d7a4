"""People as a tool: `Registry(..., ask)` lets a plan put a question to someone and go on with the answer.

    - id: which
      tool: ask
      args: {question: Which invoice is meant?, options: {$: "invoices"}, data: {$: "order"}}
    - id: terms
      tool: ask
      args: {question: What was agreed?, schema: {type: object, properties: {days: {type: integer}}, required: [days]}}

No code is called: the run asks, waits at no cost, and takes the answer when it comes, if it is one of the options or fits
the schema. What is shown is text and data of the plan, never words of a model that runs beside it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..policies.effect import Effect
from .tools import Tool

__all__ = ["ask"]

_OPTION: dict[str, Any] = {
    "anyOf": [
        {"type": ["string", "integer"]},
        {
            "type": "object",
            "properties": {"id": {"type": ["string", "integer"]}, "label": {"type": "string"}},
            "required": ["id"],
            "additionalProperties": True,
        },
    ]
}

_TAKES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "description": "What the person is asked."},
        "options": {
            "type": "array",
            "items": _OPTION,
            "minItems": 1,
            "description": "What to choose from: texts, or objects with an `id`, which is the answer, and a `label`.",
        },
        "schema": {"type": "object", "description": "JSON Schema of what the person is to fill in."},
        "data": {"description": "Shown beside the question."},
    },
    "required": ["question"],
}

_WORDS = (
    "Ask a person and wait for the answer. Give either `options` to choose from (the result is the text or `id` that was "
    "chosen) or the JSON `schema` of what is to be filled in (the result fits it)."
)


def _nobody(args: dict[str, Any]) -> Any:
    raise RuntimeError("`ask` has no code to call: a run puts its question to a person")


ask: Tool = dataclasses.replace(
    Tool.declare(
        "ask",
        _WORDS,
        input_schema=_TAKES,
        call=_nobody,
        effect=Effect.READS,
        timeout=None,
        result_from=("options", "schema"),
    ),
    answered_by="person",
)
"""Puts a question to a person: see the top of this module."""
