"""Sixty requests in plain English on three tool sets, what is right for each, and a plan by hand that does it.

Right is what became of the world, never how it was said: its state and the calls that changed it are those that were
asked for and no others, in any order that the world allows, and the run gives the value that was asked for. Where a
tool takes free text, the text must hold what was to be told. A request is judged in a world of its own.

Whoever wrote these had not seen what planners are told, and whoever changes that does not look here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from support.local_evaluation import Asked
from support.local_worlds import WORLDS, Call, World

from foreplan import Registry, Run

__all__ = ["ENTRIES", "REQUESTS", "Entry", "answers", "fits", "says"]

Document = dict[str, Any]
Needs = Literal["", "each", "when"]

NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?")
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
NOT_ASKED = object()


class Entry(NamedTuple):
    """A request with a plan that does it; where no tools can, `gold` is None.

    `needs` says what a plan for it cannot do without. `slip` is a plan that looks like an answer and is none.
    """

    asked: Asked
    needs: Needs
    gold: Document | None
    slip: Document | None
    question: bool


@dataclass(frozen=True)
class Says:
    """Any text that holds these values, in any words."""

    values: tuple[str | float, ...]


def says(*values: str | float) -> Says:
    """Any text that holds these values."""
    return Says(values)


def answers(output: Any, wanted: Any) -> bool:
    """Whether an output is an answer: the value itself, alone in a list, in a small object, or in a sentence.

    A list is wanted in any order. In a sentence, a number must be the only one.
    """
    match output:
        case dict():
            return len(output) <= 3 and any(answers(value, wanted) for value in output.values())
        case list() if isinstance(wanted, list):
            return _each_once(wanted, output, fits)
        case [only]:
            return answers(only, wanted)
        case str() if isinstance(wanted, str):
            return _mentions(output, wanted)
        case str() if not isinstance(wanted, list):
            return len(NUMBER.findall(output)) == 1 and _mentions(output, wanted)
    return fits(wanted, output)


def fits(wanted: Any, got: Any) -> bool:
    """Whether a value is the one that is wanted, or a text that says it; 2.0 is 2, and true is not 1."""
    match wanted:
        case Says():
            return isinstance(got, str) and all(_mentions(got, value) for value in wanted.values)
        case bool() | str():
            return type(got) is type(wanted) and bool(got == wanted)
        case int() | float():
            return type(got) in (int, float) and math.isclose(got, wanted, abs_tol=1e-9)
    return bool(got == wanted)


def _mentions(text: str, value: str | float) -> bool:
    if isinstance(value, str):
        return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None
    return any(fits(value, float(number)) for number in NUMBER.findall(text))


def _each_once(wanted: Iterable[Any], got: Iterable[Any], same: Callable[[Any, Any], bool]) -> bool:
    left = list(got)
    for one in wanted:
        place = next((n for n, other in enumerate(left) if same(one, other)), None)
        if place is None:
            return False
        del left[place]
    return not left


def _same_call(wanted: Call, got: Call) -> bool:
    return wanted.tool == got.tool and all(fits(wanted.args[name], got.args[name]) for name in wanted.args)


def _right(world: World, wanted: World, answer: Any, run: Run) -> bool:
    return (
        run.ok
        and _each_once(wanted.done, world.done, _same_call)
        and world.state == wanted.state
        and (answer is NOT_ASKED or answers(run.output, answer))
    )


def _untouched(world: World, run: Run) -> bool:
    return not world.done


def _tools(name: str, does: Sequence[Call], answer: Any) -> tuple[Registry, Callable[[Run], bool]]:
    world, wanted = WORLDS[name](), WORLDS[name]()
    for call in does:
        wanted.changes[call.tool](**call.args)
    return world.registry, partial(_right, world, wanted, answer)


def _tools_that_cannot(name: str) -> tuple[Registry, Callable[[Run], bool]]:
    world = WORLDS[name]()
    return world.registry, partial(_untouched, world)


def _schema(inputs: Mapping[str, Any]) -> Document | None:
    if not inputs:
        return None
    properties = {name: {"type": TYPES[type(value)]} for name, value in inputs.items()}
    return {"type": "object", "properties": properties, "required": list(inputs)}


def _entry(
    name: str,
    request: str,
    gold: Sequence[Document],
    /,
    *does: Call,
    answer: Any = NOT_ASKED,
    output: Any = None,
    needs: Needs = "",
    **inputs: Any,
) -> Entry:
    """What `does` names must happen, and `output` of the gold plan is the `answer`."""
    schema = _schema(inputs)
    plan: Document = {"goal": request, "steps": list(gold)}
    plan |= {"inputs": schema} if schema else {}
    plan |= {"output": output} if output is not None else {}
    asked = Asked(name, request, partial(_tools, name, does, answer), schema, inputs)
    return Entry(asked, needs, plan, None, answer is not NOT_ASKED)


def _impossible(name: str, request: str, *slip: Document) -> Entry:
    """No tools can do this."""
    asked = Asked(name, request, partial(_tools_that_cannot, name), None, {}, possible=False)
    return Entry(asked, "", None, {"goal": request, "steps": list(slip)}, False)


def _do(tool: str, **args: Any) -> Call:
    return Call(tool, args)


def _x(expression: str) -> Document:
    return {"$": expression}


def _step(id: str, tool: str, said: Mapping[str, Any] | None = None, /, **args: Any) -> Document:
    """A step; `said` is what it says besides its tool and its arguments."""
    return {"id": id, **(said or {}), "tool": tool, "args": args}


def _value(id: str, expression: str) -> Document:
    return {"id": id, "value": _x(expression)}


def _each(items: str, name: str = "item", when: str = "") -> Document:
    return {"each": _x(items), "as": name, **(_when(when) if when else {})}


def _when(condition: str) -> Document:
    return {"when": _x(condition)}


_LIBRARY = [
    _entry(
        "library",
        "Reserve book B02 for member M13.",
        [_step("reserved", "reserve_book", book_id="B02", member_id="M13")],
        _do("reserve_book", book_id="B02", member_id="M13"),
    ),
    _entry(
        "library",
        "Move book B07 to shelf A1.",
        [_step("moved", "move_book", book_id="B07", shelf="A1")],
        _do("move_book", book_id="B07", shelf="A1"),
    ),
    _entry(
        "library",
        "How many different books by Jon Halloran do we have?",
        [_step("books", "search_books", text="Jon Halloran")],
        answer=2,
        output=_x("len(books)"),
    ),
    _entry(
        "library",
        "What is the name of the member who has the loan that is due first of all?",
        [
            _step("loans", "list_loans"),
            _step("member", "get_member", member_id=_x("min(loans, key=lambda l: l.due).member_id")),
        ],
        answer="Carla Mendes",
        output=_x("member.name"),
    ),
    _entry(
        "library",
        'Put Hanna Weiss on the waiting list for "Saltmarsh".',
        [
            _step("books", "search_books", text="Saltmarsh"),
            _step("member", "find_member", name="Hanna Weiss"),
            _step("reserved", "reserve_book", book_id=_x("books[0].id"), member_id=_x("member.id")),
        ],
        _do("reserve_book", book_id="B06", member_id="M10"),
    ),
    _entry(
        "library",
        "Renew loan L104 by 14 days and e-mail Dev Patel the new due date (as YYYY-MM-DD).",
        [
            _step("due", "renew_loan", loan_id="L104", days=14),
            _step("member", "find_member", name="Dev Patel"),
            _step(
                "mail", "send_email", to=_x("member.email"), subject="Renewed", body=_x("f'Due on {due}.'")
            ),
        ],
        _do("renew_loan", loan_id="L104", days=14),
        _do("send_email", to="dev@example.org", subject=says(), body=says("2031-03-19")),
    ),
    _entry(
        "library",
        "Charge Bo Lindqvist a fine of 2.50 for a torn cover, and block him from borrowing.",
        [
            _step("bo", "find_member", name="Bo Lindqvist"),
            _step("fine", "charge_fine", member_id=_x("bo.id"), amount=2.5, reason="torn cover"),
            _step("blocked", "block_member", member_id=_x("bo.id"), blocked=True),
        ],
        _do("charge_fine", member_id="M11", amount=2.5, reason=says()),
        _do("block_member", member_id="M11", blocked=True),
    ),
    _entry(
        "library",
        "How much does Carla Mendes owe us in fines?",
        [_step("carla", "find_member", name="Carla Mendes")],
        answer=12.0,
        output=_x("carla.fines"),
    ),
    _entry(
        "library",
        "What is the title of the oldest book on shelf B2?",
        [_step("books", "search_books")],
        answer="Northern Rails",
        output=_x("min([b for b in books if b.shelf == 'B2'], key=lambda b: b.year).title"),
    ),
    _entry(
        "library",
        "Of the loans of the member with the given name, renew the one that is due first, by the given number of days.",
        [
            _step("member", "find_member", name=_x("inputs.name")),
            _step("loans", "list_loans", member_id=_x("member.id")),
            _step(
                "due",
                "renew_loan",
                loan_id=_x("min(loans, key=lambda l: l.due).id"),
                days=_x("inputs.days"),
            ),
        ],
        _do("renew_loan", loan_id="L105", days=10),
        name="Bo Lindqvist",
        days=10,
    ),
    _entry(
        "library",
        'Let "Tidewater" and "Orchard Keeping for Beginners" change places: each goes to the shelf of the other.',
        [
            _step("tide", "search_books", text="Tidewater"),
            _step("keeping", "search_books", text="Orchard Keeping for Beginners"),
            _step("one", "move_book", book_id=_x("tide[0].id"), shelf=_x("keeping[0].shelf")),
            _step("other", "move_book", book_id=_x("keeping[0].id"), shelf=_x("tide[0].shelf")),
        ],
        _do("move_book", book_id="B01", shelf="C1"),
        _do("move_book", book_id="B03", shelf="A3"),
    ),
    _entry(
        "library",
        "It is 2031-03-08. For every loan that was due before today, e-mail the borrower and name the title.",
        [
            _step("loans", "list_loans"),
            {
                "id": "reminders",
                **_each("[l for l in loans if l.due < '2031-03-08']", "loan"),
                "steps": [
                    _step("member", "get_member", member_id=_x("loan.member_id")),
                    _step("mail", "send_email", to=_x("member.email"), subject="Late", body=_x("loan.title")),
                ],
            },
        ],
        _do("send_email", to="hanna@example.org", subject=says(), body=says("The Glass Orchard")),
        _do("send_email", to="carla@example.org", subject=says(), body=says("The Glass Orchard")),
        _do("send_email", to="dev@example.org", subject=says(), body=says("Northern Rails")),
        _do("send_email", to="bo@example.org", subject=says(), body=says("The Lamplighters")),
        needs="each",
    ),
    _entry(
        "library",
        "Renew everything that Hanna Weiss has on loan by a week.",
        [
            _step("hanna", "find_member", name="Hanna Weiss"),
            _step("loans", "list_loans", member_id=_x("hanna.id")),
            _step("renewed", "renew_loan", _each("loans"), loan_id=_x("item.id"), days=7),
        ],
        _do("renew_loan", loan_id="L100", days=7),
        _do("renew_loan", loan_id="L103", days=7),
        needs="each",
    ),
    _entry(
        "library",
        "Charge the borrower of every loan that is overdue on the given day 0.20 for each day it is late, "
        'with the reason "overdue".',
        [
            _step("loans", "list_loans"),
            _step(
                "fines",
                "charge_fine",
                _each("[l for l in loans if l.due < inputs.today]", "loan"),
                member_id=_x("loan.member_id"),
                amount=_x("0.2 * between(loan.due, inputs.today)"),
                reason="overdue",
            ),
        ],
        _do("charge_fine", member_id="M10", amount=1.4, reason="overdue"),
        _do("charge_fine", member_id="M12", amount=5.2, reason="overdue"),
        _do("charge_fine", member_id="M13", amount=0.6, reason="overdue"),
        _do("charge_fine", member_id="M11", amount=1.8, reason="overdue"),
        needs="each",
        today="2031-03-08",
    ),
    _entry(
        "library",
        "Shelf D4 is broken: put all books that stand there on shelf E1.",
        [
            _step("books", "search_books"),
            _step(
                "moved",
                "move_book",
                _each("[b for b in books if b.shelf == 'D4']", "book"),
                book_id=_x("book.id"),
                shelf="E1",
            ),
        ],
        _do("move_book", book_id="B06", shelf="E1"),
        _do("move_book", book_id="B07", shelf="E1"),
        needs="each",
    ),
    _entry(
        "library",
        'If no copy of "The Glass Orchard" is free, reserve it for Dev Patel; '
        "if there is one, e-mail him that he can fetch it.",
        [
            _step("books", "search_books", text="The Glass Orchard"),
            _step("dev", "find_member", name="Dev Patel"),
            _step(
                "reserved",
                "reserve_book",
                _when("books[0].copies_free == 0"),
                book_id=_x("books[0].id"),
                member_id=_x("dev.id"),
            ),
            _step(
                "mail",
                "send_email",
                _when("books[0].copies_free > 0"),
                to=_x("dev.email"),
                subject="The Glass Orchard",
                body="It is there.",
            ),
        ],
        _do("reserve_book", book_id="B02", member_id="M13"),
        needs="when",
    ),
    _entry(
        "library",
        "Unless Carla Mendes is blocked already, block her. E-mail her what she owes in fines in any case.",
        [
            _step("carla", "find_member", name="Carla Mendes"),
            _step(
                "blocked", "block_member", _when("not carla.blocked"), member_id=_x("carla.id"), blocked=True
            ),
            _step("mail", "send_email", to=_x("carla.email"), subject="Fines", body=_x("str(carla.fines)")),
        ],
        _do("send_email", to="carla@example.org", subject=says(), body=says(12.0)),
        needs="when",
    ),
    _entry(
        "library",
        "Renew loan L101 by 7 days if it was renewed fewer than two times; "
        "otherwise e-mail the borrower that it cannot be renewed again.",
        [
            _step("loans", "list_loans"),
            _value("loan", "first([l for l in loans if l.id == 'L101'])"),
            _step("due", "renew_loan", _when("loan.renewals < 2"), loan_id="L101", days=7),
            _step("member", "get_member", member_id=_x("loan.member_id")),
            _step(
                "mail",
                "send_email",
                _when("loan.renewals >= 2"),
                to=_x("member.email"),
                subject="Your loan",
                body="It cannot be renewed again.",
            ),
        ],
        _do("send_email", to="bo@example.org", subject=says(), body=says()),
        needs="when",
    ),
    _impossible(
        "library",
        'Buy two more copies of "The Lamplighters" from the publisher.',
        _step("bought", "reserve_book", book_id="B07", member_id="M10"),
    ),
    _impossible(
        "library",
        "Delete Bo Lindqvist's account, with everything we know about him.",
        _step("deleted", "block_member", member_id="M11"),
    ),
]

_SERVERS = [
    _entry(
        "servers",
        "Restart nginx on web-2.",
        [_step("restarted", "restart_service", host="web-2", service="nginx")],
        _do("restart_service", host="web-2", service="nginx"),
    ),
    _entry(
        "servers",
        "Silence alert A3 for an hour.",
        [_step("silenced", "silence_alert", alert_id="A3", minutes=60)],
        _do("silence_alert", alert_id="A3", minutes=60),
    ),
    _entry(
        "servers",
        "How many hosts are there in the US?",
        [_step("hosts", "list_hosts", region="us")],
        answer=3,
        output=_x("len(hosts)"),
    ),
    _entry(
        "servers",
        "Which host has the least free disk space? Give its name.",
        [_step("hosts", "list_hosts")],
        answer="db-1",
        output=_x("min(hosts, key=lambda h: h.disk_free_gb).name"),
    ),
    _entry(
        "servers",
        "What is the average CPU load of the web hosts, in percent?",
        [
            _step("hosts", "list_hosts"),
            _value("loads", "[h.cpu_percent for h in hosts if h.role == 'web']"),
        ],
        answer=73,
        output=_x("sum(loads) / len(loads)"),
    ),
    _entry(
        "servers",
        "Which alerts have been open for more than 90 minutes? I need a list of their ids.",
        [_step("alerts", "list_alerts")],
        answer=["A2", "A3", "A5"],
        output=_x("[a.id for a in alerts if a.minutes_open > 90]"),
    ),
    _entry(
        "servers",
        "Page whoever is on call for databases and say that db-1 is short of disk space.",
        [
            _step("person", "on_call", team="database"),
            _step("paged", "page", phone=_x("person.phone"), text="db-1 is short of disk space"),
        ],
        _do("page", phone="+44 7700 900102", text=says("db-1")),
    ),
    _entry(
        "servers",
        'Open a high-priority ticket "Broker down" for queue-1 and give it to Sol Vega.',
        [
            _step("ticket", "open_ticket", host="queue-1", title="Broker down", priority="high"),
            _step("given", "assign_ticket", ticket=_x("ticket"), assignee="Sol Vega"),
        ],
        _do("open_ticket", host="queue-1", title="Broker down", priority="high"),
        _do("assign_ticket", ticket="OPS-856", assignee="Sol Vega"),
    ),
    _entry(
        "servers",
        'Open a ticket of normal priority with the title "Certificate expires" for web-2, give it to whoever is on '
        "call for the web team, and tell me the number of the ticket.",
        [
            _step("ticket", "open_ticket", host="web-2", title="Certificate expires", priority="normal"),
            _step("person", "on_call", team="web"),
            _step("given", "assign_ticket", ticket=_x("ticket"), assignee=_x("person.name")),
        ],
        _do("open_ticket", host="web-2", title="Certificate expires", priority="normal"),
        _do("assign_ticket", ticket="OPS-418", assignee="Lena Fischer"),
        answer="OPS-418",
        output=_x("ticket"),
    ),
    _entry(
        "servers",
        "Grow the disk of db-1 by 50 GB, then page the database person on call with how many GB are free after that.",
        [
            _step("free", "grow_disk", host="db-1", gigabytes=50),
            _step("person", "on_call", team="database"),
            _step("paged", "page", phone=_x("person.phone"), text=_x("f'db-1: {free} GB are free'")),
        ],
        _do("grow_disk", host="db-1", gigabytes=50),
        _do("page", phone="+44 7700 900102", text=says(55)),
    ),
    _entry(
        "servers",
        "Page the person on call for the given team and tell them to look at the given host.",
        [
            _step("person", "on_call", team=_x("inputs.team")),
            _step("paged", "page", phone=_x("person.phone"), text=_x("'please look at ' + inputs.host")),
        ],
        _do("page", phone="+34 600 555103", text=says("db-2")),
        team="network",
        host="db-2",
    ),
    _entry(
        "servers",
        'Open a high-priority ticket "Longest outage" for the host whose critical alert has been open longest, '
        "and silence that alert for two hours.",
        [
            _step("alerts", "list_alerts", severity="critical"),
            _value("worst", "max(alerts, key=lambda a: a.minutes_open)"),
            _step("ticket", "open_ticket", host=_x("worst.host"), title="Longest outage", priority="high"),
            _step("silenced", "silence_alert", alert_id=_x("worst.id"), minutes=120),
        ],
        _do("open_ticket", host="db-1", title="Longest outage", priority="high"),
        _do("silence_alert", alert_id="A2", minutes=120),
    ),
    _entry(
        "servers",
        "Silence all warnings for 30 minutes.",
        [
            _step("alerts", "list_alerts", severity="warning"),
            _step("silenced", "silence_alert", _each("alerts"), alert_id=_x("item.id"), minutes=30),
        ],
        *(_do("silence_alert", alert_id=alert, minutes=30) for alert in ("A3", "A5", "A6")),
        needs="each",
    ),
    _entry(
        "servers",
        "Restart each failed service on queue-1.",
        [
            _step("services", "list_services", host="queue-1"),
            _step(
                "restarted",
                "restart_service",
                _each("services", "service", when="service.state == 'failed'"),
                host="queue-1",
                service=_x("service.name"),
            ),
        ],
        _do("restart_service", host="queue-1", service="broker"),
        _do("restart_service", host="queue-1", service="mirror"),
        needs="each",
    ),
    _entry(
        "servers",
        'Open a low-priority ticket titled "Upgrade" for every web host that does not run version 4.2.0.',
        [
            _step("hosts", "list_hosts"),
            _step(
                "tickets",
                "open_ticket",
                _each("[h for h in hosts if h.role == 'web' and h.version != '4.2.0']", "host"),
                host=_x("host.name"),
                title="Upgrade",
                priority="low",
            ),
        ],
        _do("open_ticket", host="web-1", title="Upgrade", priority="low"),
        _do("open_ticket", host="web-2", title="Upgrade", priority="low"),
        needs="each",
    ),
    _entry(
        "servers",
        "On every host in the EU, restart whatever service is not running.",
        [
            _step("hosts", "list_hosts", region="eu"),
            _step("services", "list_services", _each("hosts", "host"), host=_x("host.name")),
            _step(
                "restarted",
                "restart_service",
                _each("[s for s in flat(services) if s.state != 'running']", "service"),
                host=_x("service.host"),
                service=_x("service.name"),
            ),
        ],
        _do("restart_service", host="web-1", service="worker"),
        _do("restart_service", host="web-2", service="nginx"),
        _do("restart_service", host="db-1", service="backup"),
        needs="each",
    ),
    _entry(
        "servers",
        "Add 20 GB of disk to each host that has less free space than the given limit, in GB.",
        [
            _step("hosts", "list_hosts"),
            _step(
                "grown",
                "grow_disk",
                _each("[h for h in hosts if h.disk_free_gb < inputs.limit]", "host"),
                host=_x("host.name"),
                gigabytes=20,
            ),
        ],
        _do("grow_disk", host="web-3", gigabytes=20),
        _do("grow_disk", host="db-1", gigabytes=20),
        needs="each",
        limit=10,
    ),
    _entry(
        "servers",
        "If any critical alert has been open for more than two hours, page the web person on call about it. "
        "If none has, silence alert A2 for 20 minutes.",
        [
            _step("alerts", "list_alerts", severity="critical"),
            _value("old", "[a for a in alerts if a.minutes_open > 120]"),
            _step("person", "on_call", team="web"),
            _step("paged", "page", _when("len(old) > 0"), phone=_x("person.phone"), text=_x("str(old)")),
            _step("silenced", "silence_alert", _when("len(old) == 0"), alert_id="A2", minutes=20),
        ],
        _do("silence_alert", alert_id="A2", minutes=20),
        needs="when",
    ),
    _entry(
        "servers",
        "Restart the broker on queue-1 if it was not restarted yet today. If it was, leave it alone and open a "
        'high-priority ticket "Broker keeps failing" for that host.',
        [
            _step("services", "list_services", host="queue-1"),
            _value("broker", "first([s for s in services if s.name == 'broker'])"),
            _step(
                "restarted",
                "restart_service",
                _when("broker.restarts_today == 0"),
                host="queue-1",
                service="broker",
            ),
            _step(
                "ticket",
                "open_ticket",
                _when("broker.restarts_today > 0"),
                host="queue-1",
                title="Broker keeps failing",
                priority="high",
            ),
        ],
        _do("open_ticket", host="queue-1", title="Broker keeps failing", priority="high"),
        needs="when",
    ),
    _impossible(
        "servers",
        "Roll web-3 back to version 4.1.9.",
        _step("back", "restart_service", host="web-3", service="nginx"),
    ),
]

_MEWS = [
    _entry(
        "mews",
        "Give Wren two mice.",
        [_step("fed", "feed", bird="Wren", item="mouse", pieces=2)],
        _do("feed", bird="Wren", item="mouse", pieces=2),
    ),
    _entry(
        "mews",
        "Write down that Castor flew for 25 minutes and caught one.",
        [_step("flights", "log_flight", bird="Castor", minutes=25, caught=1)],
        _do("log_flight", bird="Castor", minutes=25, caught=1),
    ),
    _entry(
        "mews",
        "What does Sable weigh now?",
        [_step("grams", "weigh", bird="Sable")],
        answer=655,
        output=_x("grams"),
    ),
    _entry(
        "mews",
        "By how many grams is Bran under his flying weight?",
        [_step("grams", "weigh", bird="Bran"), _step("birds", "list_birds")],
        answer=48,
        output=_x("first([b for b in birds if b.name == 'Bran']).flying_weight - grams"),
    ),
    _entry(
        "mews",
        "How many grams of food lie in the larder altogether?",
        [_step("store", "look_in_larder")],
        answer=1470,
        output=_x("sum(f.pieces * f.grams_each for f in store)"),
    ),
    _entry(
        "mews",
        "List the names of the birds that Agnes keeps.",
        [_step("birds", "list_birds")],
        answer=["Isolde", "Wren"],
        output=_x("[b.name for b in birds if b.keeper == 'Agnes']"),
    ),
    _entry(
        "mews",
        "Which species is the bird that carries the transmitter with the frequency 216.145?",
        [
            _step("sets", "list_transmitters"),
            _step("birds", "list_birds"),
            _value("carrier", "first([t.fitted_to for t in sets if t.frequency == 216.145])"),
        ],
        answer="Harris's hawk",
        output=_x("first([b.species for b in birds if b.name == carrier])"),
    ),
    _entry(
        "mews",
        "Weigh Isolde and send her keeper the number of grams.",
        [
            _step("grams", "weigh", bird="Isolde"),
            _step("birds", "list_birds"),
            _step(
                "told",
                "tell_keeper",
                keeper=_x("first([b.keeper for b in birds if b.name == 'Isolde'])"),
                text=_x("f'{grams} g'"),
            ),
        ],
        _do("tell_keeper", keeper="Agnes", text=says(905)),
    ),
    _entry(
        "mews",
        "Of the transmitters that no bird carries, fit Bran with the one that has the fullest battery.",
        [
            _step("sets", "list_transmitters"),
            _value("free", "[t for t in sets if t.fitted_to is None]"),
            _step(
                "fitted",
                "fit_transmitter",
                bird="Bran",
                serial=_x("max(free, key=lambda t: t.battery_percent).serial"),
            ),
        ],
        _do("fit_transmitter", bird="Bran", serial="T-51"),
    ),
    _entry(
        "mews",
        "Book the vet for Wren on 2031-04-02 because of a cracked talon, and send the booking code to Agnes.",
        [
            _step("code", "book_vet", bird="Wren", day="2031-04-02", reason="cracked talon"),
            _step("told", "tell_keeper", keeper="Agnes", text=_x("code")),
        ],
        _do("book_vet", bird="Wren", day="2031-04-02", reason=says()),
        _do("tell_keeper", keeper="Agnes", text=says("V-6194")),
    ),
    _entry(
        "mews",
        "Give Castor as many mice as there are quail in the larder.",
        [
            _step("store", "look_in_larder"),
            _step(
                "fed",
                "feed",
                bird="Castor",
                item="mouse",
                pieces=_x("first([f.pieces for f in store if f.item == 'quail'])"),
            ),
        ],
        _do("feed", bird="Castor", item="mouse", pieces=5),
    ),
    _entry(
        "mews",
        "Log a flight of the given bird over the given number of minutes, with nothing caught, and tell Tomas how many "
        "flights it has made this season.",
        [
            _step("flights", "log_flight", bird=_x("inputs.bird"), minutes=_x("inputs.minutes"), caught=0),
            _step("told", "tell_keeper", keeper="Tomas", text=_x("f'{inputs.bird}: {flights} flights'")),
        ],
        _do("log_flight", bird="Castor", minutes=40, caught=0),
        _do("tell_keeper", keeper="Tomas", text=says(18)),
        bird="Castor",
        minutes=40,
    ),
    _entry(
        "mews",
        "Weigh all birds and give one chick to each that is below its flying weight.",
        [
            _step("birds", "list_birds"),
            _step("grams", "weigh", _each("birds", "bird"), bird=_x("bird.name")),
            _step(
                "fed",
                "feed",
                _each("[p[0] for p in zip(birds, grams) if p[1] < p[0].flying_weight]", "bird"),
                bird=_x("bird.name"),
                item="chick",
                pieces=1,
            ),
        ],
        _do("feed", bird="Bran", item="chick", pieces=1),
        _do("feed", bird="Sable", item="chick", pieces=1),
        needs="each",
    ),
    _entry(
        "mews",
        "How many grams do all our birds weigh together today?",
        [
            _step("birds", "list_birds"),
            _step("grams", "weigh", _each("birds", "bird"), bird=_x("bird.name")),
        ],
        answer=3703,
        output=_x("sum(grams)"),
        needs="each",
    ),
    _entry(
        "mews",
        "For every bird whose transmitter has less than 15 percent of its battery left, send the keeper of that bird "
        "a message with the name of the bird.",
        [
            _step("sets", "list_transmitters"),
            _step("birds", "list_birds"),
            _value("low", "[t.fitted_to for t in sets if t.battery_percent < 15]"),
            _step(
                "told",
                "tell_keeper",
                _each("[b for b in birds if b.name in low]", "bird"),
                keeper=_x("bird.keeper"),
                text=_x("f'The battery of {bird.name} is low.'"),
            ),
        ],
        _do("tell_keeper", keeper="Agnes", text=says("Isolde")),
        _do("tell_keeper", keeper="Odile", text=says("Sable")),
        needs="each",
    ),
    _entry(
        "mews",
        'Book the vet on the given day for all of Tomas\'s birds, with the reason "yearly check".',
        [
            _step("birds", "list_birds"),
            _step(
                "codes",
                "book_vet",
                _each("birds", "bird", when="bird.keeper == 'Tomas'"),
                bird=_x("bird.name"),
                day=_x("inputs.day"),
                reason="yearly check",
            ),
        ],
        _do("book_vet", bird="Bran", day="2031-05-06", reason="yearly check"),
        _do("book_vet", bird="Castor", day="2031-05-06", reason="yearly check"),
        needs="each",
        day="2031-05-06",
    ),
    _entry(
        "mews",
        "If Isolde is heavier than her flying weight, tell Agnes that Isolde stays at home today; "
        "otherwise log a flight of 10 minutes for her, nothing caught.",
        [
            _step("grams", "weigh", bird="Isolde"),
            _step("birds", "list_birds"),
            _value("heavy", "grams > first([b.flying_weight for b in birds if b.name == 'Isolde'])"),
            _step("told", "tell_keeper", _when("heavy"), keeper="Agnes", text="Isolde stays at home today"),
            _step("flight", "log_flight", _when("not heavy"), bird="Isolde", minutes=10, caught=0),
        ],
        _do("tell_keeper", keeper="Agnes", text=says("Isolde")),
        needs="when",
    ),
    _entry(
        "mews",
        "Give Sable one quail. If fewer than four quail are left then, tell Odile to buy some.",
        [
            _step("left", "feed", bird="Sable", item="quail", pieces=1),
            _step("told", "tell_keeper", _when("left < 4"), keeper="Odile", text="Please buy quail."),
        ],
        _do("feed", bird="Sable", item="quail", pieces=1),
        needs="when",
    ),
    _impossible(
        "mews",
        "Take all of Wren's flights of this season out of the book again.",
        _step("out", "log_flight", bird="Wren", minutes=0),
    ),
    _impossible(
        "mews",
        "Sell Bran to the falconry in Brixen and make out the papers.",
        _step("sold", "move_bird", bird="Bran", perch="Brixen"),
    ),
]

ENTRIES: Sequence[Entry] = (*_LIBRARY, *_SERVERS, *_MEWS)
"""Twenty requests on each tool set."""

REQUESTS: Sequence[Asked] = [entry.asked for entry in ENTRIES]
"""The requests as they are evaluated."""
