"""A planner that asks a model, through any `ChatModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..policies.errors import BadInput
from ..policies.text import shorten
from .answers import read_patch_answer, read_plan_answer
from .models.chat import ChatModel
from .models.messages import AIMessage, Message
from .prompt import COMPOSITIONS, Example, answer_schema, plan_messages, replan_messages
from .requests import PlanRequest, Proposal, ReplanRequest

__all__ = ["ModelPlanner"]


class ModelPlanner:
    """One question to the model per request; repair is driven by whoever asks (`previous`, `findings`).

    `examples` show how steps are put together, with tools that do not exist; `instructions` are yours, added to the
    rules; `config` is handed to the model as it is. The model's answer may be wrapped in prose or fences. Raises
    `ModelDeclined` (a `CannotPlan`) and `AnswerUnreadable` (a `PlanUnreadable`), both with the answer's `text` and
    `usage`; what the model itself raises passes through.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        examples: Sequence[Example] = COMPOSITIONS,
        instructions: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.examples = tuple(examples)
        self.instructions = instructions
        self.config = config

    async def plan(self, request: PlanRequest) -> Proposal:
        """The plan that the model writes for this goal."""
        messages = plan_messages(request, examples=self.examples, instructions=self.instructions)
        answer = await self._ask(messages, answer_schema(request.tools.names))
        return read_plan_answer(answer, request)

    async def replan(self, request: ReplanRequest) -> Proposal:
        """The patch that the model writes for what failed."""
        messages = replan_messages(request, examples=self.examples, instructions=self.instructions)
        answer = await self._ask(messages, answer_schema(request.tools.names, patch=True))
        return read_patch_answer(answer, request)

    async def _ask(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> AIMessage:
        options: dict[str, Any] = {"response_format": schema}
        if self.config is not None:
            options["config"] = self.config
        answer: object = await self.model.agenerate(messages, **options)
        if not isinstance(answer, AIMessage) or not isinstance(answer.content, str):
            raise BadInput(f"`agenerate` must give an AIMessage with text, not {shorten(repr(answer), 60)}")
        return answer

    def __repr__(self) -> str:
        return f"<ModelPlanner over {self.model!r}>"
