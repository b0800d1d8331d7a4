"""A planner that asks a model, through any `ChatModel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from ..policies.errors import BadInput
from ..policies.spelling import spelled
from ..registry.registry import Registry
from .answers import program_in, read_patch_answer, read_plan_answer
from .arriving import ArrivingSteps
from .models.chat import ChatModel, ask_model, expect_models
from .models.chunks import AIMessageChunk, ask_streaming
from .models.messages import AIMessage, Message
from .plan_schema import Form as SchemaForm
from .plan_schema import response_schema
from .prompt import COMPOSITIONS, Example, plan_messages, replan_messages
from .python_form import from_python
from .python_grammar import python_grammar
from .python_lines import notes_on
from .requests import PlanRequest, Proposal, ReplanRequest
from .strict_form import STRICT_RULES, from_strict

__all__ = ["ModelPlanner"]

Form: TypeAlias = SchemaForm | Literal["python"]
_Request = TypeVar("_Request", PlanRequest, ReplanRequest)
_FORMS = (*get_args(SchemaForm), "python")


@spelled
class ModelPlanner:
    """One question to the model per request; repair is driven by whoever asks (`previous`, `findings`).

    `examples` show how steps are put together, with tools that do not exist; `instructions` are yours, added to the
    rules; `config` is handed to the model as it is. `form` is that of the JSON Schema sent with each request: "full",
    "strict" for services whose structured output accepts little, "compact" where schemas must be small (`plan_schema.py`),
    "python" lets small models answer with a program in place of a document, and tells them less (`python_form.py`,
    `short_prompt.py`; it has no place for your `examples`). The model's answer may be wrapped in prose or fences. Raises `ModelDeclined` (a `CannotPlan`) and `AnswerUnreadable` (a `PlanUnreadable`), both with the answer's `text` and
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
        if form not in _FORMS:
            raise BadInput(f"a schema has no form {form!r}; there are {', '.join(_FORMS)}")
        expect_models(model)
        self.model = model
        self.examples = examples if examples is COMPOSITIONS else tuple(examples)
        self.instructions = instructions
        self.config = config
        self.form: Form = form

    async def plan(self, request: PlanRequest) -> Proposal:
        """The plan that the model writes for this goal."""
        known = {"inputs": (request.inputs or {}).get("properties", ())}
        messages = plan_messages(self._placed(request, **known), **self._telling)
        answer = await self._ask(messages, self._schema(request.tools), arrived=request.arrived)
        return read_plan_answer(answer, request, **self._reading(request.tools, **known))

    async def replan(self, request: ReplanRequest) -> Proposal:
        """The patch that the model writes for what failed."""
        inputs = (request.plan.inputs or {}).get("properties", ())
        known = {"inputs": inputs, "names": tuple(request.plan.by_id), "patch": True}
        messages = replan_messages(self._placed(request, **known), **self._telling)
        answer = await self._ask(messages, self._schema(request.tools, patch=True))
        return read_patch_answer(answer, request, **self._reading(request.tools, **known))

    @property
    def _telling(self) -> dict[str, Any]:
        said = self.instructions
        if self.form == "strict":
            said = f"{said.strip()}\n\n{STRICT_RULES}".strip()
        return {"examples": self.examples, "instructions": said, "short": self.form == "python"}

    def _placed(self, request: _Request, **known: Any) -> _Request:
        """Of a program that cannot be used: the request anew, with notes on its lines in place of the program."""
        if self.form != "python" or not (request.findings and request.previous):
            return request
        said: tuple[str, ...] = request.notes
        said += notes_on(request.findings, program_in(request.previous), request.tools, **known)
        return replace(request, previous="", findings=(), notes=said)

    def _schema(self, tools: Registry, *, patch: bool = False) -> dict[str, Any]:
        if self.form == "python":
            return {"type": "string", "x-grammar": python_grammar(tools)}
        return response_schema(tools, form=self.form, patch=patch)

    def _reading(self, tools: Registry, **known: Any) -> dict[str, Any]:
        """How an answer is turned into a document."""
        if self.form == "python":
            return {"program": partial(from_python, registry=tools, **known)}
        return {"reading": partial(from_strict, registry=tools)} if self.form == "strict" else {}

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
