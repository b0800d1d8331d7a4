"""Public data sets as plans: `{"$ref": step, "path": […]}` becomes an expression, tool descriptions a registry.

The data lie beside the project in `../shared/data`; where they are absent, tests are skipped with that reason.

    for case in load_complexfuncbench():
        case.item      the record as it stands in the file
        case.plan      a Plan
        case.tools     descriptions of its tools, by name
        registry_of(case.tools, call)
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from foreplan.planner.plan import Plan, Step
from foreplan.registry.registry import Registry
from foreplan.registry.tools import Tool

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

ELEMENT_ONLY = frozenset(
    {
        "Get_Availability",
        "Get_Availability_Calendar",
        "Get_Description_And_Info",
        "Get_Hotel_Reviews(Tips)_Sort_Option",
        "Get_Min_Price",
        "Get_Min_Price_Multi_Stops",
        "Get_Nearby_Cities",
        "Get_Packages",
        "Location_to_Lat_Long",
        "Payment_features_of_the_Hotel",
        "Search_Car_Location",
        "Search_Flight_Location",
        "Search_Hotel_Destination",
        "Taxi_Search_Location",
    }
)
"""Tools of ComplexFuncBench whose output schema describes one element of the list they give."""

Call = Callable[..., Awaitable[Any]] | Callable[..., Any]


class Description(NamedTuple):
    """A tool as a data set describes it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None


class Case(NamedTuple):
    """One record of a data set: as it stands, as a plan, and the tools of that plan."""

    item: dict[str, Any]
    plan: Plan
    tools: dict[str, Description]


def records(folder: str, file: str = "open.jsonl") -> Any:
    """The records of one file, or the one document it holds; skips the test where the data are absent."""
    path = DATA / folder / file
    if not path.exists():
        import pytest  # the benchmarks, which read the data too, do without

        pytest.skip(f"the public data are not beside the project: {folder}/{file}")
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if file.endswith("l") else json.loads(text)


def load_complexfuncbench() -> Iterator[Case]:
    """493 travel tasks; each step's `response` is what the service answered."""
    tools = {t["name"]: _description(t) for t in records("complexfuncbench", "tools.json")}
    for name in ELEMENT_ONLY:
        element = tools[name].output_schema
        tools[name] = tools[name]._replace(output_schema={"type": "array", "items": element})
    for item in records("complexfuncbench"):
        yield Case(item, plan_of(item["plan"]["steps"], goal=item["query"]), _used(item, tools))


def load_nestful() -> Iterator[Case]:
    """440 nested plans over real functions; `item["expected"]` is the value of the plan's output."""
    tools = {t["name"]: _description(t) for t in records("nestful", "tools.json")}
    for item in records("nestful"):
        steps = {step["id"]: step for step in item["plan"]["steps"]}
        last = steps[item["plan"]["output"]]
        (key,) = last["trace"]["output"]
        output = {"$": expression(last["id"], [key])}
        yield Case(item, plan_of(steps.values(), goal=item["query"], output=output), _used(item, tools))


def load_nestools() -> Iterator[Case]:
    """479 typed plans, each with tools of its own."""
    for item in records("nestools"):
        tools = [_description(t) for t in item["tools"]]
        yield Case(item, plan_of(item["plan"]["steps"], goal=item["query"]), {t.name: t for t in tools})


def load_taubench() -> Iterator[Case]:
    """82 retail and airline tasks; what a call gave is not described."""
    tools = records("taubench", "tools.json")
    yield from _by_domain(records("taubench"), tools, "domain", "parameters")


def load_agentdojo() -> Iterator[Case]:
    """49 office, travel, bank and chat tasks; what a call gave is not described."""
    tools = records("agentdojo", "tools.json")
    yield from _by_domain(records("agentdojo"), tools, "suite", "input_schema")


def _by_domain(
    items: list[dict[str, Any]], tools: Mapping[str, Any], domain: str, schema: str
) -> Iterator[Case]:
    catalogues = {
        name: {
            t["name"]: Description(tool_name(t["name"]), t["description"], t[schema], None) for t in several
        }
        for name, several in tools.items()
    }
    for item in items:
        used = _used(item, catalogues[item[domain]])
        yield Case(item, plan_of(item["plan"]["steps"], goal=item["query"]), used)


def load_taskbench_llm_plans() -> Iterator[Case]:
    """996 plans that language models wrote; `tools` are all tools of the domain, for a plan may name others.

    A reference is every `<node-j>` in a text inside `arguments`; each is one element of the argument `resources`, whose
    elements and the results of tools are objects `{media: …}`. Whatever else stands in `arguments` is text.
    """
    catalogues: dict[str, dict[str, Description]] = {}
    for item in records("taskbench_llm_plans"):
        domain = item["domain"]
        if domain not in catalogues:
            nodes = records("taskbench_llm_plans", f"tools_{domain}.json")["nodes"]
            catalogues[domain] = {tool.name: tool for tool in map(_media_tool, nodes)}
        steps = [
            Step(
                id=f"n{i}", tool=_spelled(node["task"]), args={"resources": _resources(node.get("arguments"))}
            )
            for i, node in enumerate(item["task_nodes"])
        ]
        yield Case(item, Plan(goal=item["query"], steps=steps), catalogues[domain])


_NODE = re.compile(r"<node-(\d+)>")


def _resources(arguments: Any) -> list[dict[str, str]]:
    return [{"$": f"n{int(j)}"} for text in _texts(arguments) for j in _NODE.findall(text)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _media_tool(node: Mapping[str, Any]) -> Description:
    takes, gives = (_media(node[key]) for key in ("input-type", "output-type"))
    resources = {"type": "array", "items": takes}
    schema = {"type": "object", "properties": {"resources": resources}, "required": ["resources"]}
    return Description(_spelled(node["id"]), node["desc"], schema, gives)


def _media(kinds: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {"media": {"enum": kinds}}, "required": ["media"]}


def _spelled(name: str) -> str:
    """A name in the letters that a tool may have, different for different names."""
    return "t_" + re.sub(r"[^A-Za-z0-9.-]", lambda sign: f"_{ord(sign[0]):x}_", name)


def load_asynchow() -> Iterator[Case]:
    """784 step graphs: every step calls `work(name, seconds)` after those it depends on."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "seconds": {"type": "number"}},
        "required": ["name", "seconds"],
    }
    tools = {"work": Description("work", "Be busy for so many seconds.", schema, {"type": "null"})}
    for item in records("asynchow"):
        steps = [
            Step(
                id=f"s{step['id']}",
                tool="work",
                args={"name": step["name"], "seconds": step["duration_s"]},
                after=[f"s{id}" for id in step["depends_on"]],
            )
            for step in item["steps"]
        ]
        yield Case(item, Plan(goal=item["title"], steps=steps), tools)


def plan_of(steps: Any, *, goal: str = "", output: Any = None) -> Plan:
    """A plan of recorded steps; dependencies that no argument carries become `after`."""
    document: dict[str, Any] = {"foreplan": 1, "goal": goal, "steps": [_step(step) for step in steps]}
    if output is not None:
        document["output"] = output
    return Plan.model_validate(document)


def expression(step: str, path: list[str | int]) -> str:
    """The expression for a step and a path of keys and indices: `s1[0].coordinates.latitude`.

    `~key` before a key means that key itself, not what stands under it.
    """
    if "~key" in path[:-1]:
        place = path.index("~key")
        holder, key = expression(step, path[:place]), json.dumps(path[place + 1])
        return f"[key for key in {holder} if key == {key}][0]"
    return step + "".join(f".{key}" if _is_name(key) else f"[{json.dumps(key)}]" for key in path)


def tool_name(name: str) -> str:
    """The name with what no tool may have in its name replaced: `Get_Hotel_Reviews(Tips)` is `Get_Hotel_Reviews_Tips_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def template(value: Any) -> Any:
    """Recorded arguments as a template: references become expressions, objects with the key `$` literals."""
    if isinstance(value, list):
        return [template(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return {"$": expression(value["$ref"], value["path"])}
    if value.keys() & {"$", "$literal"}:
        return {"$literal": value}
    return {key: template(item) for key, item in value.items()}


def registry_of(
    tools: Mapping[str, Description], call: Callable[[str], Call] | None = None, **options: Any
) -> Registry:
    """A registry of these descriptions; `call` gives the function behind each name (none: it cannot be called)."""
    return Registry(
        *(
            Tool.declare(
                t.name,
                t.description,
                input_schema=t.input_schema,
                output_schema=t.output_schema,
                call=call(t.name) if call else _uncallable,
                **options,
            )
            for t in tools.values()
        )
    )


async def _uncallable(args: dict[str, Any]) -> Any:
    raise AssertionError("a check does not call tools")


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    carried = set(_references(step["args"]))
    after = [id for id in step.get("depends_on", ()) if id not in carried]
    document = {"id": step["id"], "tool": tool_name(step["tool"]), "args": template(step["args"])}
    return {**document, "after": after} if after else document


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        else:
            for item in value.values():
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _is_name(key: str | int) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii() and not keyword.iskeyword(key)


def _description(tool: Mapping[str, Any]) -> Description:
    return Description(
        tool_name(tool["name"]), tool["description"], tool["input_schema"], tool.get("output_schema")
    )


def _used(item: Mapping[str, Any], tools: Mapping[str, Description]) -> dict[str, Description]:
    names = {step["tool"] for step in item["plan"]["steps"]}
    return {tools[name].name: tools[name] for name in sorted(names)}
