"""A planner that asks a model, through any `ChatModel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from ..policies.errors import BadInput
from ..policies.spelling import spelled
from ..registry.registry import Registry
from .answers import read_patch_answer, read_plan_answer
from .arriving import ArrivingSteps
from .models.chat import ChatModel, ask_model, expect_models
from .models.chunks import AIMessageChunk, ask_streaming
from .models.messages import AIMessage, Message
from .plan_schema import Form, response_schema
from .prompt import COMPOSITIONS, Example, plan_messages, replan_messages
from .python_form import from_python
from .requests import PlanRequest, Proposal, ReplanRequest
from .strict_form import STRICT_RULES, from_strict

__all__ = ["ModelPlanner"]


@spelled
class ModelPlanner:
    """One question to the model per request; repair is driven by whoever asks (`previous`, `findings`).

    `examples` show how steps are put together, with tools that do not exist; `instructions` are yours, added to the
    rules; `config` is handed to the model as it is. `form` is that of the JSON Schema sent with each request: "full",
    "strict" for services whose structured output accepts little, "compact" where schemas must be small (`plan_schema.py`),
    "python" for small models, who are told less, too (`python_form.py`, `short_prompt.py`). The model's answer may be wrapped in prose or fences. Raises `ModelDeclined` (a `CannotPlan`) and `AnswerUnreadable` (a `PlanUnreadable`), both with the answer's `text` and
    `usage`; what the model itself raises passes through.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        examples: Sequence[Example] = COMPOSITIONS,
        instructions: str = "",
        config: Mapping[str, Any] | None = None,
        form: Form = "full",
    ) -> None:
        if form not in get_args(Form):
            raise BadInput(f"a schema has no form {form!r}; there are {', '.join(get_args(Form))}")
        expect_models(model)
        self.model = model
        self.examples = examples if examples is COMPOSITIONS else tuple(examples)
        self.instructions = instructions
        self.config = config
        self.form: Form = form

    async def plan(self, request: PlanRequest) -> Proposal:
        """The plan that the model writes for this goal."""
        messages = plan_messages(request, **self._telling)
        schema = response_schema(request.tools, form=self.form)
        answer = await self._ask(messages, schema, arrived=request.arrived)
        return read_plan_answer(answer, request, reading=partial(self._read, tools=request.tools))

    async def replan(self, request: ReplanRequest) -> Proposal:
        """The patch that the model writes for what failed."""
        messages = replan_messages(request, **self._telling)
        answer = await self._ask(messages, response_schema(request.tools, form=self.form, patch=True))
        names = tuple(request.plan.by_id)
        return read_patch_answer(
            answer, request, reading=partial(self._read, tools=request.tools, names=names)
        )

    @property
    def _telling(self) -> dict[str, Any]:
        said = self.instructions
        if self.form == "strict":
            said = f"{said.strip()}\n\n{STRICT_RULES}".strip()
        return {"examples": self.examples, "instructions": said, "short": self.form == "python"}

    def _read(self, document: Any, tools: Registry, names: Sequence[str] = ()) -> Any:
        match self.form:
            case "strict":
                return from_strict(document, tools)
            case "python":
                return from_python(document, tools, names=names)
            case _:
                return document

    async def _ask(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        arrived: Callable[[dict[str, Any]], None] | None = None,
    ) -> AIMessage:
        if arrived is None or self.form in ("strict", "python") or not hasattr(self.model, "astream"):
            return await ask_model(self.model, messages, response_format=schema, config=self.config)
        steps = ArrivingSteps()

        def heard(chunk: AIMessageChunk) -> None:
            for step in steps.feed(chunk.content):
                arrived(step)

        return await ask_streaming(self.model, messages, heard, response_format=schema, config=self.config)

    def __repr__(self) -> str:
        return f"<ModelPlanner over {self.model!r}>"
