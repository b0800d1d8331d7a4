"""A small model answers with a program: what in it is which part of a plan, and what is refused."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any, Literal

import pytest

from foreplan import Effect, Engine, ModelPlanner, Policies, Registry, ScriptedModel, Tool, tool
from foreplan.planner.findings import CheckFailed, PlanUnreadable
from foreplan.planner.prompt import plan_messages
from foreplan.planner.python_form import HEADER, from_python, traced
from foreplan.planner.python_grammar import python_grammar
from foreplan.planner.requests import PlanRequest
from foreplan.planner.short_prompt import SHORT_EXAMPLES, short_tools

SENT: list[tuple[str, str]] = []


@tool(effect=Effect.READS)
def find(name: str, limit: int = 10) -> list[dict[str, Any]]:
    """Find people."""
    people = [{"name": "Ada", "mail": "a@x", "open": True}, {"name": "Bob", "mail": "b@x", "open": False}]
    return people[:limit]


@tool
def send(to: str, text: str, how: Literal["mail", "post"] = "mail") -> dict[str, str]:
    """Send a letter."""
    SENT.append((to, text))
    return {"to": to}


TOOLS = Registry(find, send)
INPUTS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def read(program: str, **known: Any) -> dict[str, Any]:
    """The document of a program."""
    return from_python(dedent(program), TOOLS, inputs=["name"], **known)


def run(program: str) -> tuple[Any, list[tuple[str, str]]]:
    """What the plan of a program gives, and what it sent."""
    SENT.clear()
    model = ScriptedModel([HEADER + "\n" + indent(dedent(program).strip(), "    ")])
    engine = Engine(
        TOOLS, ModelPlanner(model, form="python"), policies=Policies(approve="never", max_repairs=0)
    )
    done = engine.run_blocking(engine.plan_blocking("g", inputs=INPUTS), inputs={"name": "x"})
    assert done.ok, done
    return done.output, list(SENT)


def test_a_text_with_a_backslash_may_stand_in_an_f_string() -> None:
    """Also where a name stands for it; Python 3.11 writes none between the braces, and what cannot be written is refused."""
    given = r"""
        folder = 'C:\\new\r'
        people = find(name=name)
        return [f'{folder}{p.name}{{}}' for p in people]
    """
    assert run(given)[0] == ["C:\\new\rAda{}", "C:\\new\rBob{}"]
    if sys.version_info < (3, 12):
        with pytest.raises(PlanUnreadable, match="no text has a backslash"):
            read(r"""
                mark = '\\'
                return f'{name.replace(mark, "")}'
            """)


def test_a_call_is_a_step_and_a_constant_stays_one() -> None:
    """Who approves a plan sees the value, not how it is computed; a bare input is that input."""
    document = read("people = find(name=name, limit=3)\nreturn people[0].mail")
    assert document == {
        "steps": [{"id": "people", "tool": "find", "args": {"name": {"$": "inputs.name"}, "limit": 3}}],
        "output": {"$": "people[0].mail"},
    }


@pytest.mark.parametrize(
    ("program", "output", "sent"),
    [
        ("return len([p for p in find(name=name) if p.open])", 1, []),
        (
            "sent = [send(to=p.mail, text='hi') for p in find(name='x') if p.open]\nreturn sent",
            [{"to": "a@x"}],
            ["a@x"],
        ),
        ("for p in find(name='x'):\n    send(to=p.mail, text=f'{p.name}')", None, ["a@x", "b@x"]),
        ("for p in find(name='x'):\n    if not p.open:\n        send(to=p.mail, text='x')", None, ["b@x"]),
        (
            "n = 0\ngot = []\nfor p in find(name='x'):\n    q = find(name=p.name, limit=1)\n    n += len(q)\n"
            "    if p.open:\n        got.append(q[0].name)\nreturn {'n': n, 'got': got}",
            {"n": 2, "got": ["Ada"]},
            [],
        ),
        (
            "p = find(name='x')\nif len(p) > 2:\n    s = send(to='many', text='x')\nelse:\n    s = send(to='few', text='x')\nreturn s.to",
            "few",
            ["few"],
        ),
        ("x = 'a'\nx = x + 'b'\nsend(to=x, text=find(name=x)[1].mail)", None, ["ab"]),
        ("r = send(to='a', text='x') if len(name) > 5 else None\nreturn r", None, []),
        (
            "out = []\nfor i, p in enumerate(find(name='x')):\n    out.append(f'{i} {p.name}')\nreturn out",
            ["0 Ada", "1 Bob"],
            [],
        ),
        (
            "a = []\nfor p in find(name='x'):\n    a.append(send(to=p.mail, text='x'))\nreturn len(a)",
            2,
            ["a@x", "b@x"],
        ),
        (
            "a = []\nfor p in find(name='x'):\n    for q in find(name='y'):\n        a.append(p.name + q.name)\nreturn a",
            ["AdaAda", "AdaBob", "BobAda", "BobBob"],
            [],
        ),
        (
            "if len(name) > 5:\n    send(to='a', text='x')\n    return 1\nsend(to='b', text='x')\nreturn 2",
            2,
            ["b"],
        ),
        (
            "if len(name) > 5:\n    for p in find(name='x'):\n        if p.open:\n            send(to=p.mail, text='x')",
            None,
            [],
        ),
        (
            "if len(name) > 0:\n    if len(name) < 5:\n        return 1\n    send(to='a', text='x')\nsend(to='b', text='x')",
            1,
            [],
        ),
        (
            "out = []\nfor p in find(name='x'):\n    if p.open:\n        out.append(p.name)\n    else:\n        out.append(p.mail)\nreturn out",
            ["Ada", "b@x"],
            [],
        ),
        (
            "out = []\nfor p in find(name='x'):\n    m = find(name=p.name)[0].mail\n    out.append([m for p in [1]])\nreturn out",
            [["a@x"], ["a@x"]],
            [],
        ),
        (
            "got = []\nfor p in find(name='x'):\n    if not p.open:\n        continue\n"
            "    send(to=p.mail, text='x')\n    got.append(p.name)\nreturn got",
            ["Ada"],
            ["a@x"],
        ),
        (
            "got = []\nfor p in find(name='x'):\n    q = find(name=p.name)\n    if p.open:\n        send(to=p.mail, text='x')\n"
            "        continue\n    elif len(q) == 9:\n        got.append(q[0].name)\n        continue\n    got.append(q[1].name)\nreturn got",
            ["Bob"],
            ["a@x"],
        ),
        (
            "got = []\nfor p in find(name='x'):\n    for q in find(name='y'):\n        if q.name == p.name:\n"
            "            continue\n        got.append(p.name + q.name)\nreturn got",
            ["AdaBob", "BobAda"],
            [],
        ),
        ("return next(p.mail for p in find(name='x') if not p.open)", "b@x", []),
        ("return next((p.mail for p in find(name='x') if p.name == 'Eve'), 'nobody')", "nobody", []),
        ("p = find(name='x')\nif p:\n    send(to='a', text='x')", None, ["a"]),
        ("return int('3') + sum(len(p.name) for p in find(name='x'))", 9, []),
    ],
)
def test_a_program_does_what_python_would(program: str, output: Any, sent: list[str]) -> None:
    """Planned, checked and run: loops, conditions, names assigned anew, calls inside calls."""
    gave, letters = run(program)
    assert gave == output
    assert sorted(to for to, _ in letters) == sent


def test_what_stands_below_continue_has_the_other_condition() -> None:
    """`when: not …` of the step; nothing else of the plan says that there was one."""
    (people, sent) = read(
        "for p in find(name='x'):\n    if p.name == 'Bob':\n        continue\n    send(to=p.mail, text='hi')"
    )["steps"]
    assert (sent["each"], sent["when"]) == ({"$": people["id"]}, {"$": "not p.name == 'Bob'"})


def test_effects_keep_their_place_and_reads_run_side_by_side() -> None:
    """A program says in which order things happen; a plan does only where it is told."""
    document = read("a = find(name='1')\nb = find(name='2')\nsend(to='x', text='y')\nc = find(name='3')")
    assert [step.get("after") for step in document["steps"]] == [None, None, ["a", "b"], ["send"]]


def test_a_call_may_fail_where_that_is_said() -> None:
    """`on_failure='skip'` is no argument of the tool."""
    (step,) = read("a = [send(to=n, text='x', on_failure='skip') for n in ['b', 'c']]")["steps"]
    assert step == {
        "id": "a",
        "each": ["b", "c"],
        "as": "n",
        "tool": "send",
        "args": {"to": {"$": "n"}, "text": "x"},
        "on_failure": "skip",
    }


def test_a_program_may_decline() -> None:
    """With a reason."""
    assert read("raise CannotPlan('no tool prints')") == {"cannot_plan": "no tool prints"}


def test_in_a_patch_a_failed_step_is_replaced_by_its_name() -> None:
    """The steps that there are keep their ids."""
    document = read("a = find(name='y')\nsend(to=b[0].mail, text=a[0].name)", names=["a", "b"], patch=True)
    assert document["add"] == [
        {"id": "a_2", "replaces": "a", "tool": "find", "args": {"name": "y"}},
        {
            "id": "send",
            "tool": "send",
            "args": {"to": {"$": "b[0].mail"}, "text": {"$": "a_2[0].name"}},
        },
    ]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("x = = 1", "no Python program, line 1"),
        ("import os", "line 1: only calls"),
        ("while True:\n    pass", "line 1: only calls"),
        ("x = 1\nfor p in [1]:\n    x = p", "line 3: a loop cannot change x"),
        ("x = find(name='a') and send(to='b', text='c')", "line 1: a call of a tool inside and"),
        ("x.append(1)", "there is no x yet"),
        ("(" * 5000, "no Python program"),
    ],
)
def test_what_is_no_such_program_is_refused_with_its_line(program: str, said: str) -> None:
    """Nothing of it is guessed."""
    with pytest.raises(PlanUnreadable, match=said):
        read(program)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("while a:\n        pass", "go through a list with for"),
        ("a['x'] = 1", r"a\['x'\] cannot be changed; write a new value"),
        ("a, b = [1, 2]", "assign to one name at a time"),
        ("a -= 1", "write a = … in full"),
        ("try:\n        a = 1\n    except Exception:\n        pass", "on_failure='skip'"),
        ("for x in [1]:\n        find(name='y')\n        return x", "return after the loop"),
        ("for x in [1]:\n        break", "under an if"),
        ("continue", "continue stands last below an if of a loop"),
        (
            "for x in [1]:\n        if a:\n            if x:\n                continue\n            find(name='y')\n        find(name='z')",
            "and not deeper",
        ),
        ("def other():\n        pass", r"main\(inputs\) is the only function"),
    ],
)
def test_a_statement_that_there_is_not_is_refused_with_what_to_write(statement: str, said: str) -> None:
    """So that whoever wrote it can go on."""
    with pytest.raises(PlanUnreadable, match=said) as caught:
        read(f"def main(inputs):\n    a = find(name='x')\n    {statement}")
    assert caught.value.findings[0].line in (3, 4, 5, 6)


def test_to_give_up_below_an_if_ends_the_program_there() -> None:
    """The output says why, and what follows is for the other case."""
    document = read(
        """
        people = find(name='x')
        if not people:
            raise CannotPlan('nobody is called x')
        sent = send(to=people[0].mail, text='Hello')
        return sent.to
        """
    )
    assert document["steps"][1]["when"] == {"$": "not not people"}
    said = "'nobody is called x' if not people else sent.to if not not people else None"
    assert document["output"] == {"$": said}
    with pytest.raises(PlanUnreadable, match="only calls"):
        read("find(name='x')\nraise CannotPlan('why')")


def test_a_loop_that_looks_for_an_item_returns_what_the_first_one_gives() -> None:
    """What follows is for the case that there is none."""
    document = read(
        """
        people = find(name='x')
        for p in people:
            if p.open:
                return p.mail
        sent = send(to='a@x', text='nobody')
        return sent.to
        """
    )
    assert [step["id"] for step in document["steps"]] == ["people", "found", "sent"]
    assert document["steps"][1]["value"] == {"$": "[p.mail for p in people if p.open]"}
    assert document["steps"][2]["when"] == {"$": "not len(found) > 0"}
    assert document["output"]["$"].startswith("found[0] if len(found) > 0 else sent.to if")


def test_a_call_inside_a_comprehension_that_names_nothing_of_it_is_made_once() -> None:
    """If it only reads; else it is left to the check, which knows no such function."""
    made = read("old = find(name='a')\nreturn [p for p in old if not any(q == p for q in find(name='b'))]")
    assert [step["id"] for step in made["steps"]] == ["old", "find"]
    assert made["output"] == {"$": "[p for p in old if not any([q == p for q in find])]"}
    made = read("old = find(name='a')\nreturn [p for p in old if [q for q in [1] if send(to='b', text='c')]]")
    assert [step["id"] for step in made["steps"]] == ["old"]


BROKEN = """\
def main(inputs):
    people = find(name=inputs.nam)
    for p in people:
        if p.open:
            send(to=p.mail, text=3)
    first = next[q.name == 'x']
    return len(peopl)"""


@pytest.mark.anyio
async def test_what_the_check_says_comes_back_as_lines_of_the_program() -> None:
    """Each with the line, what is wrong there, and the line that would do, where the suggestion makes one."""
    model = ScriptedModel([BROKEN, "def main(inputs):\n    return find(name=inputs.name)"])
    engine = Engine(TOOLS, ModelPlanner(model, form="python"), policies=Policies(approve="never"))
    await engine.plan("Write to all who are open, and tell how many people there are", inputs=INPUTS)
    assert [message.role for message in model.requests[1].messages] == ["system", "user"]
    told = model.requests[1].messages[-1].content
    for text, said in [
        (
            "people = find(name=inputs.nam)",
            "; write `people = find(name=inputs.name)`",
        ),
        ("send(to=p.mail, text=3)", "'text' must be text, not 3"),
        ("first = next[q.name == 'x']", "there is no next here; use first"),
        ("first = next[q.name == 'x']", "nothing is called 'q'"),
        (
            "return len(peopl)",
            "nothing is called 'peopl'; did you mean 'people'?; write `return len(people)`",
        ),
    ]:
        assert [
            line for line in told.splitlines() if line.startswith(f"Note: not `{text}`: ") and said in line
        ]
    assert told.endswith("Request: Write to all who are open, and tell how many people there are")
    assert "/steps" not in told


@dataclass
class Named:
    name: str
    age: int


@pytest.mark.anyio
async def test_a_note_has_the_names_of_the_program() -> None:
    """Not those of the steps; the field that is meant is put where the whole object stands."""

    @tool(effect=Effect.READS)
    def everybody() -> list[Named]:
        """Everybody."""
        return []

    program = "def main(inputs):\n    one = everybody()[0]\n    send(to=one, text='one')"
    model = ScriptedModel([program, program])
    registry = Registry(everybody, TOOLS["send"])
    engine = Engine(registry, ModelPlanner(model, form="python"), policies=Policies(max_repairs=1))
    with pytest.raises(CheckFailed, match="'one_2' is an object"):
        await engine.plan("Write to somebody", inputs=INPUTS)
    note = (
        "Note: not `send(to=one, text='one')`: 'one' is an object, and 'to' must be text; one.name would be; "
    )
    assert f"{note}write `send(to=one.name, text='one')`\n" in model.requests[1].messages[-1].content


def test_every_part_of_a_plan_knows_its_line() -> None:
    """Calls, their arguments, what they repeat over and depend on, values, groups and the output; of a patch too."""
    program = dedent(
        """\
        def main(inputs):
            n = 1 + 1
            for p in find(name='x'):
                if p.open:
                    a = find(name=p.name,
                             limit=n)
                    send(to=a[0].mail, text='x')
            return n"""
    )
    lines = traced(program, TOOLS).lines
    assert lines["/steps/0"] == 2
    assert lines["/steps/1"] == lines["/steps/2"] == 3
    assert lines["/steps/2/steps/0/when"] == 4
    assert lines["/steps/2/steps/0/args/limit"] == 6
    assert lines["/steps/2/steps/1"] == 7
    assert lines["/output"] == 8
    assert traced(program, TOOLS, patch=True).lines["/add/0"] == 2
    assert traced("x = = 1", TOOLS).lines == {}


def test_what_is_misspelt_is_left_to_the_check() -> None:
    """A tool, a name or an argument that there is not."""
    document = read("people = find(nam='x')\nreturn peopl")
    assert document["steps"][0]["args"] == {"nam": "x"}
    assert document["output"] == {"$": "peopl"}


@pytest.mark.anyio
async def test_a_planner_asks_for_a_program_and_reads_it() -> None:
    """Its grammar goes along as the response format; fences are taken off."""
    model = ScriptedModel(
        ["Here it is:\n```python\ndef main(inputs):\n    a = find(name=inputs.name)\n    return a\n```"]
    )
    made = await ModelPlanner(model, form="python").plan(PlanRequest("find somebody", TOOLS, inputs=INPUTS))
    assert made.document.to_json()["steps"][0]["args"] == {"name": {"$": "inputs.name"}}
    assert model.requests[0].options["response_format"] == {
        "type": "string",
        "x-grammar": python_grammar(TOOLS),
    }
    told = model.requests[0].messages
    assert "find(name: str, limit: int = ...) -> list[dict]  # Find people." in told[0].content
    assert told[1].content == "Inputs: inputs.name\nRequest: find somebody"


def test_the_grammar_names_tools_and_arguments_as_a_program_can() -> None:
    """Required ones first; names that Python cannot spell are spelled so that it can, and read back."""
    odd = Tool.declare(
        "crm.find-all",
        description="Finds.",
        input_schema={
            "type": "object",
            "properties": {
                "from": {"type": "string"},
                "max": {"type": "integer"},
                "kind": {"enum": ["a", "b"]},
            },
            "required": ["kind"],
        },
    )
    registry = Registry(odd)
    assert (
        'tool0 ::= "crm_find_all(" "kind=" ("\'a\'" | "\'b\'" | unary) (", " "from_=" expr)? (", " "max=" expr)? '
        '(", " "on_failure=\'skip\'")? ")"'
    ) in python_grammar(registry)
    (step,) = from_python("crm_find_all(kind='a', from_='x')", registry)["steps"]
    assert (step["tool"], step["args"]) == ("crm.find-all", {"kind": "a", "from": "x"})


def test_the_short_prompt_is_short() -> None:
    """A machine without a GPU reads fifty tokens a second."""

    def size(short: bool) -> int:
        return len(plan_messages(PlanRequest("g", TOOLS), short=short)[0].content)

    assert 10 * size(True) < 6 * size(False)


@pytest.mark.parametrize("program", [program for _, _, program in SHORT_EXAMPLES])
def test_the_examples_are_programs(program: str) -> None:
    """Each is read, and fits what is told of its tools."""
    assert ast.parse(program)


def test_types_are_told_by_name_once() -> None:
    """A type that several tools share, and one that holds itself."""
    registry = Registry(declared("read", PERSON, TREE), declared("keep", PERSON, None))
    told = short_tools(registry)
    assert told.splitlines() == [
        "# Tools: use only these",
        "keep(who: Person) -> None  # Does keep.",
        "    who: the one",
        "read(who: Person) -> Tree  # Does read.",
        "    who: the one",
        "# Types",
        'Person = {name: str, age?: int | None, kind: "a" | "b"}',
        "Tree = {leaf: any, below: list[Tree]}",
    ]


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name", "kind"],
}
TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"leaf": {}, "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "required": ["leaf", "below"],
        }
    },
}


def declared(name: str, person: dict[str, Any], result: dict[str, Any] | None) -> Tool:
    """A tool that takes a person."""
    schema = {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/Person", "description": "the one"}},
        "required": ["who"],
        "$defs": {"Person": person},
    }
    return Tool.declare(name, description=f"Does {name}.", input_schema=schema, output_schema=result)
