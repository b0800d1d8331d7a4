"""A model whose answers are recorded once and given again ever after, without the model.

    model = RecordedModel("answers.jsonl", MyModel(...))     the first time: asks, and writes each answer down
    model = RecordedModel("answers.jsonl")                   later: gives what was written; asks nobody

The file is JSON Lines: one request with its answer a line. A request that was never recorded is refused with what
differs from the nearest one, so that a prompt that drifted is seen. Prompts and answers stand in the file as they are.
"""

from __future__ import annotations

import difflib
import json
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...policies.canonical import digest
from ...policies.errors import BadInput
from ...policies.spelling import spelled
from ...policies.text import safe_text, shorten
from .chat import ChatModel, ask_model
from .messages import AIMessage, Message, message_from_json

__all__ = ["RecordedModel", "RecordingDrifted"]


class RecordingDrifted(BadInput):
    """A request is not in the recording (any more): `difference` says what the nearest recorded one says instead."""

    def __init__(self, path: Path, difference: str) -> None:
        super().__init__(
            f"{path} holds no answer to this request: {difference}; record it anew: delete the file and give the model"
        )
        self.difference = difference


@spelled
class RecordedModel:
    """Answers from a file; with a model behind it, a file that does not exist yet is written.

    The same request may be recorded more than once: its answers come in the order in which they were given.
    """

    asks_others = True

    def __init__(self, path: str | Path, model: ChatModel | None = None) -> None:
        self.path = Path(path)
        self.requests = 0
        self._answers: defaultdict[str, deque[AIMessage]] = defaultdict(deque)
        self._known: list[dict[str, Any]] = []
        self._model = None if self.path.exists() else model
        if self.path.exists():
            self._read()
        elif model is None:
            raise BadInput(
                f"there is no recording {self.path}, and no model to make it: RecordedModel(path, model)"
            )

    @property
    def real(self) -> bool:
        """Whether a model is asked: while the recording is made."""
        return self._model is not None

    async def agenerate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """The recorded answer to this request. Raises `RecordingDrifted`."""
        self.requests += 1
        options = {"tools": tools, "response_format": response_format, "config": config}
        request = {"messages": [m.to_json() for m in messages]}
        request |= {
            name: json.loads(json.dumps(value)) for name, value in options.items() if value is not None
        }
        if self._model is not None:
            return await self._record(self._model, messages, options, request)
        held = self._answers[digest(request)]
        if not held:
            raise RecordingDrifted(self.path, self._difference(request))
        return held.popleft() if len(held) > 1 else held[0]

    async def _record(
        self, model: ChatModel, messages: Sequence[Message], options: dict[str, Any], request: dict[str, Any]
    ) -> AIMessage:
        answer = await ask_model(model, messages, **options)
        line = json.dumps({"request": request, "answer": answer.to_json()}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return answer

    def _read(self) -> None:
        for number, line in enumerate(self.path.read_text("utf-8").splitlines(), 1):
            try:
                document = json.loads(line)
                request, answer = document["request"], message_from_json(document["answer"])
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(f"line {number} of {self.path} is no recorded answer: {error}") from None
            if not isinstance(answer, AIMessage):
                raise BadInput(f"line {number} of {self.path} does not hold the answer of a model")
            self._answers[digest(request)].append(answer)
            self._known.append(request)

    def _difference(self, request: dict[str, Any]) -> str:
        """How the request differs from the one most like it."""
        if not self._known:
            return "it is empty"
        text = _text(request)
        nearest = max(self._known, key=lambda known: _likeness(_text(known), text))
        changed = [
            shorten(line, 120)
            for line in difflib.unified_diff(_text(nearest), text, n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))
        ]
        more = f" and {len(changed) - 4} more lines" if len(changed) > 4 else ""
        return safe_text("recorded (-) and asked (+) differ: " + " ".join(changed[:4]) + more)

    def __repr__(self) -> str:
        return f"<RecordedModel {self.path}>"


def _text(request: dict[str, Any]) -> list[str]:
    said = [line for message in request["messages"] for line in str(message.get("content")).splitlines()]
    rest = {name: value for name, value in request.items() if name != "messages"}
    return [*said, json.dumps(rest, ensure_ascii=False, sort_keys=True)]


def _likeness(known: list[str], asked: list[str]) -> float:
    return difflib.SequenceMatcher(None, known, asked, autojunk=False).quick_ratio()
