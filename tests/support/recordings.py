"""Calls that were recorded elsewhere, played back: the same tool with the same arguments gives the same answer.

    recording = Recording.of("taubench", "tau1-retail-test-0")
    recording.args("get_order_details")          arguments of the first such call, references filled in
    Session(world.tools, recording).tools        the same tools, with recorded answers

What only reads may also come from another record of the same suite, where everything begins in the same state.
Where `fill` is given, recorded answers are laid over those of the tools themselves: some data sets are pruned.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from foreplan import Effect, Tool, ToolContext, ToolFailure
from foreplan.registry.values import copy_plain, to_plain

from .datasets import records, tool_name

__all__ = ["Recorded", "Recording", "Session"]


class Recorded(NamedTuple):
    """One call, and what came of it."""

    tool: str
    args: dict[str, Any]
    output: Any
    error: str | None


@dataclass(frozen=True)
class Recording:
    """The calls of one record, and those of its neighbours."""

    item: dict[str, Any]
    calls: tuple[Recorded, ...]
    others: tuple[Recorded, ...] = ()

    @classmethod
    def of(cls, folder: str, id: str) -> Recording:
        """The record with this id; skips the test where the data are absent."""
        found = {item["id"]: item for item in records(folder)}
        item = found.pop(id)
        suites = [key for key in ("suite", "domain") if key in item]
        near = [o for o in found.values() if suites and all(o[key] == item[key] for key in suites)]
        others = tuple(call for other in near for call in _calls(other))
        return cls(item, tuple(_calls(item)), others)

    @classmethod
    def alone(cls, item: dict[str, Any]) -> Recording:
        """The calls of this one record."""
        return cls(item, tuple(_calls(item)))

    def args(self, tool: str, nth: int = 0) -> dict[str, Any]:
        """The arguments of the first call of a tool, or of a later one."""
        return [call.args for call in self.calls if call.tool == tool][nth]

    def answer(
        self, tool: str, args: Mapping[str, Any], *, reads: bool, but: Collection[str] = ()
    ) -> Recorded | None:
        """What came of this very call, whatever the arguments in `but` were (`tool.argument`)."""
        wanted = _key(tool, args, but)
        for call in (*self.calls, *(self.others if reads else ())):
            if _key(call.tool, call.args, but) == wanted:
                return call
        return None


class Session:
    """Tools whose answers come from a recording. `made` is every call, `effects` those that are no mere reads.

    `fill` names the tools whose own answers fill in what is not recorded. Built-in tools answer themselves.
    """

    def __init__(
        self,
        tools: list[Tool],
        recording: Recording,
        *,
        fill: Collection[str] = (),
        but: Collection[str] = (),
    ) -> None:
        self.recording = recording
        self.fill = fill
        self.but = but
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.effects: list[tuple[str, dict[str, Any]]] = []
        self.tools = [each if each.result_from else self._played(each) for each in tools]

    def _played(self, own: Tool) -> Tool:
        async def call(args: dict[str, Any], context: ToolContext) -> Any:
            self.made.append((own.name, args))
            reads, fill = own.effect is Effect.READS, own.name in self.fill
            found = self.recording.answer(own.name, args, reads=reads, but=self.but)
            if found is None and not fill:
                raise ToolFailure(f"nothing was recorded for {own.name} with {args}", code="not_recorded")
            if found is not None and found.error is not None:
                raise ToolFailure(found.error)
            if not reads:
                self.effects.append((own.name, args))
            own_answer = to_plain(await own.invoke(args, context)) if fill else None
            return laid_over(found.output, own_answer) if found is not None else own_answer

        output = own.output.document if own.output is not None else None
        made = Tool.declare(
            own.name, own.description, input_schema=own.input.document, output_schema=output, call=call
        )
        return replace(made, effect=own.effect)


def laid_over(recorded: Any, filled: Any) -> Any:
    """A recorded answer, with what it lacks filled in from another one of the same shape."""
    if isinstance(recorded, dict) and isinstance(filled, dict):
        return {**filled, **{key: laid_over(value, filled.get(key)) for key, value in recorded.items()}}
    if isinstance(recorded, list) and isinstance(filled, list):
        both = [laid_over(a, b) for a, b in zip(recorded, filled, strict=False)]
        return [*both, *recorded[len(both) :], *filled[len(both) :]]
    return recorded


def _calls(item: dict[str, Any]) -> Iterator[Recorded]:
    outputs: dict[str, Any] = {}
    for step in item["plan"]["steps"]:
        output = outputs[step["id"]] = step.get("output", step.get("response"))
        yield Recorded(tool_name(step["tool"]), _filled(step["args"], outputs), output, step.get("error"))


def _filled(value: Any, outputs: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(each, outputs) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return copy_plain(_at(outputs[value["$ref"]], value["path"]))
    return {key: _filled(each, outputs) for key, each in value.items()}


def _at(value: Any, path: list[str | int]) -> Any:
    for part, following in zip(path, [*path[1:], None], strict=False):
        if part == "~key":
            return following
        value = value[part]
    return value


def _key(tool: str, args: Mapping[str, Any], but: Collection[str]) -> str:
    kept = {name: _rounded(value) for name, value in args.items() if f"{tool}.{name}" not in but}
    return json.dumps([tool, kept], sort_keys=True)


def _rounded(value: Any) -> Any:
    """With integers for floats that are none in truth: `4.0` is `4`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return value
