"""The command line: every word that can follow `foreplan`.

This module says which words there are; `commands.py`, `deciding.py`, `watching.py` and `audit.py` say what they do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ..policies.errors import BadInput
from . import audit, commands, deciding, watching
from .commands import Consent, Given, Setting
from .deciding import Said
from .loading import importable_here
from .screen import Code, Failed, Screen, complain, perform
from .served.command import Door, serve

__all__ = ["app", "main"]

app = typer.Typer(
    name="foreplan",
    help="A model plans first, as data; code checks it, people review it, and only then does it run.",
    epilog="Exit codes: 0 done; 1 failed; 2 bad input; 3 not approved, or waiting for a person; 130 interrupted; "
    "141 nobody reads the output.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_MANY: list[str] = []

Goal = Annotated[
    str, typer.Argument(metavar="GOAL", help="What is to be achieved, in words.", show_default=False)
]
PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan: a YAML or JSON file, or - for standard input.")
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The id of the run, or `last`; `foreplan runs` lists them.")
]
RunToGoOn = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="The id of the run, or `last`; without, --watch takes up all."),
]
QuestionId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the question; `foreplan approvals` lists them.")
]
Choice = Annotated[
    str,
    typer.Argument(metavar="CHOICE", help="One of the options of the question, such as approve or reject."),
]
Changes = Annotated[
    str,
    typer.Argument(metavar="JSON", help='What changes of the arguments, as JSON: {"amount": 50}.'),
]
Value = Annotated[
    str | None,
    typer.Option(
        "--value",
        metavar="JSON",
        help='What comes with `answer` and `accept` (the result), or `edit` ({"args": ...}, with all arguments).',
    ),
]
GoingOn = Annotated[bool, typer.Option("--resume", help="Go on with the run here; needs --tools.")]
ToolsToGoOn = Annotated[
    str,
    typer.Option(
        "--tools",
        "-t",
        metavar="MODULE:NAME",
        envvar="FOREPLAN_TOOLS",
        help="The tools, to go on: module:attribute or path/to/file.py:attribute.",
        show_default=False,
    ),
]
Watching = Annotated[
    bool,
    typer.Option("--watch", help="Take up every run as soon as it is answered or its process was killed."),
]
Once = Annotated[bool, typer.Option("--once", help="With --watch: end when nothing more can go on.")]
Partly = Annotated[
    bool, typer.Option("--partly", help="With --watch: go on as soon as one question is answered.")
]
Paused = Annotated[
    bool, typer.Option("--paused", help="With --watch: take up what somebody interrupted (Ctrl-C), too.")
]
Every = Annotated[
    float,
    typer.Option(
        "--every",
        metavar="SECONDS",
        min=0.01,
        max=3600,
        help="With --watch: how often the journal is looked at.",
    ),
]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The plan as it was.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="The plan as it is.")]
ToolName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="One tool, to see all that is declared of it.")
]
Query = Annotated[
    str | None,
    typer.Argument(
        metavar="[WORDS]", help='What to look for, after the word search: tools search "a refund".'
    ),
]
Wanted = Annotated[int, typer.Option("-k", min=1, help="How many tools a search shows at most.")]

Tools = Annotated[
    str,
    typer.Option(
        "--tools",
        "-t",
        metavar="MODULE:NAME",
        envvar="FOREPLAN_TOOLS",
        help="The tools: module:attribute or path/to/file.py:attribute, `registry` without the attribute.",
        show_default=False,
    ),
]
Planner = Annotated[
    str | None,
    typer.Option(
        "--planner",
        metavar="MODULE:NAME",
        help="Who writes and mends plans: module:attribute or file.py:attribute, `planner` without the attribute.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:NAME",
        help="Who answers in a dialogue, or goes on where a plan does not: module:attribute or file.py:attribute, `model` without the attribute.",
    ),
]
NeededPlanner = Annotated[
    str,
    typer.Option(
        "--planner",
        metavar="MODULE:NAME",
        help="Who writes the plan: module:attribute or file.py:attribute, `planner` without the attribute.",
        show_default=False,
    ),
]
AuthorizeWord = Annotated[
    str | None,
    typer.Option(
        "--authorize",
        metavar="MODULE:NAME",
        help="A function that is asked before each attempt of a call: module:attribute or file.py:attribute.",
    ),
]
PolicyFile = Annotated[
    str | None, typer.Option("--policies", metavar="FILE", help="The rules: a YAML or JSON file.")
]
Who = Annotated[
    str | None,
    typer.Option(
        "--principal",
        metavar="ID|FILE",
        help="On whose behalf: an id, or a file with id, roles and permissions.",
    ),
]
Permission = Annotated[
    list[str],
    typer.Option(
        "--permission", metavar="NAME", help="A permission that the principal holds; may be repeated."
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        "--journal",
        "-j",
        metavar="FILE",
        envvar="FOREPLAN_JOURNAL",
        help="The file that keeps the runs (SQLite).",
    ),
]
JournalKey = Annotated[
    str | None,
    typer.Option(
        "--journal-key",
        metavar="FILE",
        envvar="FOREPLAN_JOURNAL_KEY",
        help="The key that seals the journal: 32 bytes and more for HMAC, or a private Ed25519 key (PEM).",
    ),
]
JournalFile = Annotated[str, typer.Argument(metavar="JOURNAL", help="The file that keeps the runs (SQLite).")]
OneRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="The id of one run, or `last`; all of them without.")
]
ExportFile = Annotated[
    str, typer.Argument(metavar="FILE", help="What `foreplan export` wrote, or - for standard input.")
]
OlderThan = Annotated[
    str,
    typer.Option(
        "--older-than", metavar="TIME", help="How long ago they closed: 90d, 24h.", show_default=False
    ),
]
KeepFailed = Annotated[bool, typer.Option("--keep-failed", help="Delete only runs that are done.")]
VerifyKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="FILE",
        envvar="FOREPLAN_JOURNAL_KEY",
        help="The key that seals the journal; a public Ed25519 key (PEM) will do.",
    ),
]
Last = Annotated[
    str,
    typer.Option(
        "--last", metavar="SEQ:HASH", help="A position that was kept elsewhere.", show_default=False
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs", "-i", metavar="FILE", help="The inputs: a YAML or JSON file, or - for standard input."
    ),
]
Set = Annotated[
    list[str],
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="One input, over the file; may be repeated."),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where it is written; standard output without."),
]
InputsSchema = Annotated[
    str | None,
    typer.Option(
        "--inputs-schema", metavar="FILE", help="A JSON Schema of the inputs that the plan is to be run with."
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who says yes; the login name without.", show_default=False),
]
ScopeWord = Annotated[
    str,
    typer.Option(
        "--scope", metavar="none|reads|envelope", help="Which new plans after failures the yes covers."
    ),
]
ExpiresIn = Annotated[
    str | None,
    typer.Option("--expires-in", metavar="TIME", help="How long the approval holds: 90s, 30m, 24h, 7d."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Say yes to what the review shows, without being asked.")
]
ApprovalFile = Annotated[
    str | None,
    typer.Option("--approval", metavar="FILE", help="The approval, as `foreplan approve` wrote it."),
]
SigningKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="Sign the approval with this key: a private Ed25519 key (PEM), or 32 bytes and more for HMAC.",
    ),
]
ApproverKey = Annotated[
    list[str],
    typer.Option(
        "--approver-key",
        metavar="[NAME=]FILE",
        help="Whose signature makes an approval one: a public Ed25519 key (PEM) or one for HMAC; may be repeated.",
    ),
]
Ask = Annotated[bool, typer.Option("--approve", help="Show what the plan does, ask for a yes, and run it.")]
Decide = Annotated[
    list[str],
    typer.Option(
        "--decide",
        metavar="ID=CHOICE",
        help="The answer to an open question (ID=answer:JSON answers a step that asks, ID=accept:JSON gives a result, ID=edit:'{\"args\": …}' changes a call); may be repeated.",
    ),
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.", show_default=False)
]
Events = Annotated[bool, typer.Option("--events", help="List every event instead.")]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Show events as they happen, in whatever process, until the run is closed."
    ),
]
After = Annotated[
    int,
    typer.Option(
        "--after", metavar="NUMBER", min=0, help="Only events that come after the one of this number."
    ),
]
Deadline = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        metavar="90s",
        help="When the run is wanted to end: it is told whether it did, and not stopped.",
    ),
]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept-changes",
        help="Go on although tools, rules or principal changed; the journal says who accepted what (see --by).",
    ),
]
At = Annotated[
    int | None,
    typer.Option(
        "--at", metavar="SEQ", min=1, help="The run as it stood after this event.", show_default=False
    ),
]
AnyTools = Annotated[
    str | None,
    typer.Option(
        "--tools",
        "-t",
        metavar="MODULE:NAME",
        envvar="FOREPLAN_TOOLS",
        help="The tools of today, of which the contracts count; without, those that were recorded.",
        show_default=False,
    ),
]
OtherPlan = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="FILE", help="Another plan, instead of that of the run.", show_default=False
    ),
]
CompareWord = Annotated[
    bool, typer.Option("--compare", help="List what differs, instead of the run as it would be.")
]
FromStep = Annotated[
    str, typer.Option("--from", metavar="STEP", help="The step before which the new run begins.")
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Listen here (streamable HTTP), such as 127.0.0.1:8765; without, the client speaks over stdio.",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="FILE",
        envvar="FOREPLAN_MCP_TOKEN_FILE",
        help="With --http: a file with the bearer token that each request must bring.",
    ),
]
AllowHost = Annotated[
    list[str],
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="With --http: a host name by which clients reach this server, beside its own; may be repeated.",
    ),
]
ApprovalFolder = Annotated[
    str | None,
    typer.Option(
        "--approvals",
        metavar="FOLDER",
        help="Where people, and nobody else, put approvals; without, JOURNAL-approvals beside the journal.",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Show every value whole, however long.")]
Reads = Annotated[
    bool, typer.Option("--reads", help="Really call tools that only read and have no stand-in.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, and nothing else.")
]
AsSarif = Annotated[
    bool, typer.Option("--sarif", help="Print a SARIF log on standard output, for code hosts and editors.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show the result only: no progress, no advice.")]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show where an error came from, for whoever mends tools.")
]


def _do(screen: Screen, command: Callable[[Screen], Code]) -> None:
    with importable_here():
        raise typer.Exit(perform(screen, lambda: command(screen)))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"foreplan {metadata.version('foreplan')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command("plan")
def _plan(
    goal: Goal,
    tools: Tools,
    planner: NeededPlanner,
    output: Output = None,
    inputs_schema: InputsSchema = None,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Have a planner write a plan.

    It is checked, and goes to a file or to standard output. Nothing runs.
    """
    setting = Setting(tools, planner, policies, principal, tuple(permission))
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.make_plan(s, setting, goal, output, inputs_schema),
    )


@app.command("check")
def _check(
    plan: PlanFile,
    tools: Tools,
    sarif: AsSarif = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Say all that is wrong with a plan.

    Nothing runs. A plan with errors is exit code 2.
    """
    setting = Setting(tools, None, policies, principal, tuple(permission))
    screen = Screen(json=json or sarif, quiet=quiet, traceback=traceback)
    _do(screen, lambda s: commands.check(s, setting, plan, sarif=sarif))


@app.command("review")
def _review(
    plan: PlanFile,
    tools: Tools,
    inputs: Inputs = None,
    set: Set = _MANY,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Show what a plan would do.

    Every call with its effect, arguments and bounds; what cannot be taken back stands first. Nothing runs.
    """
    setting = Setting(tools, None, policies, principal, tuple(permission))
    given = Given(inputs, tuple(set))
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.review(s, setting, given, plan, full=full),
    )


@app.command("rehearse")
def _rehearse(
    plan: PlanFile,
    tools: Tools,
    inputs: Inputs = None,
    set: Set = _MANY,
    reads: Reads = False,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Run a plan for show.

    Stand-ins (`simulate`) are called in the place of tools, nothing is changed, and nothing is kept.
    """
    setting = Setting(tools, None, policies, principal, tuple(permission))
    given = Given(inputs, tuple(set))
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.rehearse(s, setting, given, plan, reads=reads, full=full),
    )


@app.command("approve")
def _approve(
    plan: PlanFile,
    tools: Tools,
    by: By = None,
    scope: ScopeWord = "none",
    expires_in: ExpiresIn = None,
    key: SigningKey = None,
    output: Output = None,
    yes: Yes = False,
    inputs: Inputs = None,
    set: Set = _MANY,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Review a plan, ask, and write the approval.

    The approval is for one run of exactly this plan, with these inputs, tools, rules and principal.
    """
    setting = Setting(tools, None, policies, principal, tuple(permission))
    given = Given(inputs, tuple(set))
    consent = Consent(yes=yes, by=by, scope=scope, expires_in=expires_in, key=key)
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.approve(s, setting, given, consent, plan, output=output, full=full),
    )


@app.command("run")
def _run(
    plan: PlanFile,
    tools: Tools,
    inputs: Inputs = None,
    set: Set = _MANY,
    approval: ApprovalFile = None,
    approver_key: ApproverKey = _MANY,
    approve: Ask = False,
    yes: Yes = False,
    by: By = None,
    scope: ScopeWord = "none",
    deadline: Deadline = None,
    key: SigningKey = None,
    journal: Journal = None,
    journal_key: JournalKey = None,
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Run a plan.

    With a planner, steps that fail are planned anew. Ctrl-C pauses the run; with a journal it can be resumed.
    """
    setting = Setting(
        tools,
        planner,
        policies,
        principal,
        tuple(permission),
        journal,
        authorize,
        model,
        tuple(approver_key),
        journal_key,
    )
    given = Given(inputs, tuple(set))
    consent = Consent(approval, approve, yes, by, scope, key=key)
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.run(s, setting, given, consent, plan, full=full, deadline=deadline),
    )


@app.command("resume")
def _resume(
    tools: Tools,
    run: RunToGoOn = None,
    watch: Watching = False,
    once: Once = False,
    partly: Partly = False,
    paused: Paused = False,
    every: Every = 0.25,
    journal: Journal = None,
    journal_key: JournalKey = None,
    decide: Decide = _MANY,
    by: By = None,
    reason: Reason = "",
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    accept_changes: Accept = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Go on with a run.

    One that was interrupted, or waits for a person; or, with --watch, all that can go on, until Ctrl-C. What is settled is
    not done again.
    """
    screen = Screen(json=json, quiet=quiet, traceback=traceback)
    setting = Setting(
        tools, planner, policies, principal, tuple(permission), journal, authorize, model, (), journal_key
    )
    if watch:
        one = run is not None or bool(decide)
        _do(
            screen,
            lambda s: watching.watch(
                s, setting, one=one, once=once, partly=partly, paused=paused, every=every
            ),
        )
    else:
        _do(
            screen,
            lambda s: commands.resume(
                s, setting, run, decide, by=by, reason=reason, full=full, accept_changes=accept_changes
            ),
        )


@app.command("approvals")
def _approvals(
    journal: Journal = None,
    full: Full = False,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """List what runs ask people.

    All open questions of all runs of a journal: calls that need a yes, outcomes nobody knows, new plans, questions of plans.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: deciding.approvals(s, journal, full=full),
    )


@app.command("decide")
def _decide(
    run: RunId,
    question: QuestionId,
    choice: Choice,
    value: Value = None,
    reason: Reason = "",
    by: By = None,
    journal: Journal = None,
    journal_key: JournalKey = None,
    going_on: GoingOn = False,
    tools: ToolsToGoOn = "",
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Answer a question of a run that waits.

    The answer is written down, and taken in when the run is resumed; here with --resume. It needs no tools.
    """
    said = Said(question, choice, value, reason=reason)
    setting = Setting(
        tools, planner, policies, principal, tuple(permission), journal, authorize, model, (), journal_key
    )
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: deciding.decide(s, setting, run, said, by=by, going_on=going_on, full=full),
    )


@app.command("reject")
def _reject(
    run: RunId,
    question: QuestionId,
    reason: Reason = "",
    by: By = None,
    journal: Journal = None,
    journal_key: JournalKey = None,
    going_on: GoingOn = False,
    tools: ToolsToGoOn = "",
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Say no to a call or a new plan.

    Short for `decide RUN ID reject`; what was rejected is made by no other way.
    """
    said = Said(question, "reject", reason=reason)
    setting = Setting(
        tools, planner, policies, principal, tuple(permission), journal, authorize, model, (), journal_key
    )
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: deciding.decide(s, setting, run, said, by=by, going_on=going_on, full=full),
    )


@app.command("edit")
def _edit(
    run: RunId,
    question: QuestionId,
    changes: Changes,
    reason: Reason = "",
    by: By = None,
    journal: Journal = None,
    journal_key: JournalKey = None,
    going_on: GoingOn = False,
    tools: ToolsToGoOn = "",
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Say yes to a call with other arguments.

    What is not named stays as it was asked. Short for `decide RUN ID edit --value '{"args": ...}'`, which names all.
    """
    said = Said(question, "edit", changes=changes, reason=reason)
    setting = Setting(
        tools, planner, policies, principal, tuple(permission), journal, authorize, model, (), journal_key
    )
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: deciding.decide(s, setting, run, said, by=by, going_on=going_on, full=full),
    )


@app.command("show")
def _show(
    run: RunId,
    journal: Journal = None,
    events: Events = False,
    follow: Follow = False,
    after: After = 0,
    at: At = None,
    full: Full = False,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Tell a run from its journal.

    It needs none of its tools.
    """
    screen = Screen(json=json, quiet=quiet, traceback=traceback)
    if follow:
        _do(screen, lambda s: commands.follow(s, journal, run, after=after))
    else:
        _do(screen, lambda s: commands.show(s, journal, run, events=events, full=full, after=after, at=at))


@app.command("replay")
def _replay(
    run: RunId,
    tools: AnyTools = None,
    journal: Journal = None,
    plan: OtherPlan = None,
    policies: PolicyFile = None,
    compare: CompareWord = False,
    full: Full = False,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Run a run again on its record, with what holds today.

    No tool, model or person is asked. Exit code 0: every decision is the same; 1: some differ.
    """
    setting = Setting(tools or "", policies=policies, journal=journal)
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.replay(s, setting, run, plan, compare=compare, full=full),
    )


@app.command("fork")
def _fork(
    run: RunId,
    from_step: FromStep,
    tools: Tools,
    journal: Journal = None,
    plan: OtherPlan = None,
    approval: ApprovalFile = None,
    ask: Ask = False,
    yes: Yes = False,
    by: By = None,
    scope: ScopeWord = "none",
    planner: Planner = None,
    model: Model = None,
    full: Full = False,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Begin a new run where another stood before one of its steps.

    What was settled before is taken over and not called again; what acted is asked about before it is done once more.
    """
    setting = Setting(tools, planner, policies, principal, tuple(permission), journal, authorize, model)
    consent = Consent(approval, ask, yes, by, scope)
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.fork(s, setting, consent, run, from_step, plan, full=full),
    )


@app.command("runs")
def _runs(
    journal: Journal = None, json: AsJson = False, quiet: Quiet = False, traceback: Traceback = False
) -> None:
    """List the runs of a journal."""
    _do(Screen(json=json, quiet=quiet, traceback=traceback), lambda s: commands.runs(s, journal))


@app.command("cancel")
def _cancel(
    run: RunId,
    journal: Journal = None,
    journal_key: JournalKey = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """End a run for good.

    One that was interrupted, or waits for a person.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: commands.cancel(s, journal, run, journal_key),
    )


@app.command("verify")
def _verify(
    journal: JournalFile,
    run: OneRun = None,
    key: VerifyKey = None,
    last: Last = "",
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Prove a journal.

    It says what it could prove and what not. What does not hold is exit code 1.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: audit.verify(s, journal, run, key, last),
    )


@app.command("export")
def _export(
    journal: JournalFile,
    run: OneRun = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Write a journal, or a run of it, as JSON Lines.

    Nothing is lost: `foreplan import` makes of it what it was. With --json the lines are a list in one document.
    """
    _do(Screen(json=json, quiet=quiet, traceback=traceback), lambda s: audit.export(s, journal, run))


@app.command("import")
def _import(
    journal: JournalFile,
    file: ExportFile,
    journal_key: JournalKey = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Take runs into a journal that were exported.

    All of them or none; what does not verify is not taken in.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: audit.import_(s, journal, file, journal_key),
    )


@app.command("prune")
def _prune(
    journal: JournalFile,
    older_than: OlderThan,
    keep_failed: KeepFailed = False,
    journal_key: JournalKey = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Delete the records of runs that closed long ago.

    That they were there stays provable.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: audit.prune(s, journal, older_than, keep_failed, journal_key),
    )


@app.command("forget")
def _forget(
    journal: JournalFile,
    run: RunId,
    journal_key: JournalKey = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Delete the personal values of a closed run.

    The record still verifies.
    """
    _do(
        Screen(json=json, quiet=quiet, traceback=traceback),
        lambda s: audit.forget(s, journal, run, journal_key),
    )


@app.command("tools")
def _tools(
    tools: Tools,
    name: ToolName = None,
    words: Query = None,
    k: Wanted = 10,
    policies: PolicyFile = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """List the tools, show one, or search them."""
    screen = Screen(json=json, quiet=quiet, traceback=traceback)
    if words is not None:
        _do(screen, lambda s: commands.search_tools(s, tools, name or "", words, k))
    else:
        _do(screen, lambda s: commands.show_tools(s, tools, name, policies))


@app.command("mcp")
def _mcp(
    tools: Tools,
    planner: Planner = None,
    model: Model = None,
    journal: Journal = None,
    journal_key: JournalKey = None,
    approvals: ApprovalFolder = None,
    approver_key: ApproverKey = _MANY,
    http: Http = None,
    token: TokenFile = None,
    allow_host: AllowHost = _MANY,
    policies: PolicyFile = None,
    principal: Who = None,
    permission: Permission = _MANY,
    authorize: AuthorizeWord = None,
    json: AsJson = False,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Serve plans to an MCP client.

    It checks, reviews and, with a journal, runs plans; what needs an approval runs only when a person gave one here.
    """
    setting = Setting(
        tools,
        planner,
        policies,
        principal,
        tuple(permission),
        journal,
        authorize,
        model,
        tuple(approver_key),
        journal_key,
    )
    door = Door(http, token, tuple(allow_host), approvals)
    _do(Screen(json=json, quiet=quiet, traceback=traceback), lambda s: serve(s, setting, door))


@app.command("diff")
def _diff(
    old: Old, new: New, json: AsJson = False, quiet: Quiet = False, traceback: Traceback = False
) -> None:
    """Show how two plans differ."""
    _do(Screen(json=json, quiet=quiet, traceback=traceback), lambda s: commands.show_diff(s, old, new))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `foreplan`; gives the exit code and raises nothing."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: Any = app(words or ["--help"], prog_name="foreplan", standalone_mode=False)
        return int(code or 0)
    except OSError as error:  # the help cannot be written
        return int(_usage(Failed(f"the result cannot be written: {error.strerror or error}"), words))
    except Exception as error:  # what typer says about the words themselves
        return int(_usage(error, words))


def _usage(error: Exception, words: list[str]) -> Code:
    """Say what is wrong with the words of a command line."""
    screen = Screen(json="--json" in words, traceback="--traceback" in words)
    said = getattr(error, "format_message", None)
    if said is None:
        return complain(screen, error)
    sentence = " ".join(str(said()).split()).rstrip(".").replace(". Did you mean", "; did you mean")
    context = getattr(error, "ctx", None)
    advice = f" (see {context.command_path} --help)" if context is not None else ""
    return complain(screen, BadInput(f"{sentence[:1].lower()}{sentence[1:]}{advice}"))
