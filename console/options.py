"""Every word that can follow a command, once: its name, its short form, what it is for.

A command takes an option by naming it as the type of a parameter; `app.py` makes the command line of that.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = [
    "MANY",
    "Accept",
    "After",
    "AllowHost",
    "AnyTools",
    "ApprovalFile",
    "ApprovalFolder",
    "ApproverKey",
    "AsJson",
    "AsSarif",
    "Ask",
    "At",
    "AtOnce",
    "AuthorizeWord",
    "BatchBudget",
    "BatchId",
    "By",
    "Canary",
    "Changes",
    "Choice",
    "Columns",
    "CompareWord",
    "Constants",
    "Deadline",
    "Decide",
    "Delimiter",
    "Encoding",
    "Events",
    "Every",
    "ExpiresIn",
    "ExportFile",
    "Failures",
    "Follow",
    "Format",
    "FromStep",
    "Full",
    "Goal",
    "GoingOn",
    "Groups",
    "Http",
    "Inputs",
    "InputsSchema",
    "Journal",
    "JournalFile",
    "JournalKey",
    "KeepFailed",
    "LargerBudget",
    "Last",
    "Model",
    "ModelAction",
    "ModelAddress",
    "ModelFolder",
    "ModelName",
    "MovedRows",
    "NeededPlanner",
    "New",
    "Old",
    "OlderThan",
    "Once",
    "OneRun",
    "OtherPlan",
    "Output",
    "Overwrite",
    "Partly",
    "PartsOf",
    "Paused",
    "Permission",
    "PlanFile",
    "Planner",
    "PolicyFile",
    "Query",
    "QuestionId",
    "Quiet",
    "Reads",
    "Reason",
    "Results",
    "RowsApproved",
    "RowsFile",
    "RunId",
    "RunToGoOn",
    "Sample",
    "ScopeWord",
    "Set",
    "SigningKey",
    "SourceDigest",
    "SqlQuery",
    "StopAfter",
    "StopRate",
    "Strict",
    "TokenFile",
    "ToolName",
    "Tools",
    "ToolsToGoOn",
    "Traceback",
    "Undo",
    "Value",
    "VerifyKey",
    "Wanted",
    "Watching",
    "Who",
    "Yes",
]

MANY: list[str] = []
"""What an option is that may be repeated, and was not given."""


def _tools(about: str) -> Any:
    """The option that names tools; what they are for differs."""
    names = ("--tools", "-t")
    return typer.Option(
        *names, metavar="MODULE:NAME", envvar="FOREPLAN_TOOLS", help=about, show_default=False
    )


Goal = Annotated[
    str, typer.Argument(metavar="GOAL", help="What is to be achieved, in words.", show_default=False)
]
PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan: a YAML or JSON file, or - for standard input.")
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The id of the run, or `last`; `foreplan runs` lists them.")
]
PartsOf = Annotated[
    str | None,
    typer.Option("--of", metavar="RUN", help="List the rows of this batch, or the sub-plans of this run."),
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
    _tools("The tools, to go on: module:attribute or path/to/file.py:attribute."),
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
    _tools(
        "The tools: module:attribute or path/to/file.py:attribute, `registry` without the attribute; module:* for its functions; an OpenAPI document, FILE.yaml or URL; or a file of tools, with addresses and where secrets are."
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
    typer.Option(
        "--approval",
        metavar="FILE",
        help="The approval, as `foreplan approve` wrote it; it is used up in the journal, so it needs --journal.",
    ),
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
    _tools("The tools of today, of which the contracts count; without, those that were recorded."),
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

RowsFile = Annotated[
    str,
    typer.Argument(
        metavar="ROWS",
        help="The rows: a .csv, .tsv, .jsonl or .json file, an SQLite file (--query), or - for standard input.",
    ),
]
BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The id of the batch, or `last`.")]
Columns = Annotated[
    list[str],
    typer.Option(
        "--map",
        metavar="INPUT=COLUMN",
        help="Which column an input is, where the names differ; may be repeated.",
    ),
]
Constants = Annotated[
    list[str],
    typer.Option(
        "--set", "-s", metavar="INPUT=VALUE", help="An input that is the same for every row; may be repeated."
    ),
]
SqlQuery = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="SQL", help="Of an SQLite file: the SELECT ... ORDER BY ... whose rows they are."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="csv|tsv|jsonl|json", help="What the file is, where its suffix does not say it."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="The encoding of the file, such as cp1252; UTF-8 without."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHAR", help="What stands between cells of CSV; a comma without."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Run nothing if a row cannot run; else it is set aside.")
]
Sample = Annotated[
    int | None,
    typer.Option(
        "--sample",
        metavar="N",
        min=1,
        help="Rehearse N rows, spread over all, and run nothing; needs no approval.",
        show_default=False,
    ),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", metavar="N", min=1, max=10_000, help="How many rows go on at a time.")
]
StopAfter = Annotated[
    int | None,
    typer.Option(
        "--stop-after", metavar="N", min=1, help="Begin no further row after N failures.", show_default=False
    ),
]
StopRate = Annotated[
    float | None,
    typer.Option(
        "--stop-rate",
        metavar="RATE",
        min=0.0001,
        max=1,
        help="Begin no further row once this share failed, as 0.1; after 20 rows at least.",
        show_default=False,
    ),
]
Canary = Annotated[
    int, typer.Option("--canary", metavar="N", min=0, help="Run N rows, then ask before the others.")
]
Groups = Annotated[
    int,
    typer.Option(
        "--groups",
        metavar="N",
        min=0,
        help="With --planner: ask it about at most N groups of rows that fail alike, once for each; 0: about none.",
    ),
]
BatchBudget = Annotated[
    list[str],
    typer.Option(
        "--budget",
        metavar="NAME=MOST",
        help="What all rows together may use: tool_calls=5000, model_calls, tokens, cost=20, seconds=2h; may be repeated.",
    ),
]
LargerBudget = Annotated[
    list[str],
    typer.Option(
        "--budget",
        metavar="NAME=MOST",
        help="A larger budget for all rows together, with what they have used: tool_calls=9000; the journal says who raised it (see --by).",
    ),
]
Undo = Annotated[
    bool, typer.Option("--undo", help="A row that fails takes back what its steps say how to undo.")
]
Results = Annotated[
    str | None,
    typer.Option("--results", metavar="FILE", help="A file that gets a line for each row: .jsonl or .csv."),
]
Failures = Annotated[
    str | None,
    typer.Option(
        "--failures", metavar="FILE", help="A file that gets the rows that failed, to be mended and fed back."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace such files where another batch, or anybody, wrote them.")
]
MovedRows = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="FILE",
        help="Of a batch: where its rows are, if they have moved.",
        show_default=False,
    ),
]
RowsApproved = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="N",
        min=1,
        help="For one batch of at most N rows, in the place of a run with inputs.",
        show_default=False,
    ),
]
SourceDigest = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="DIGEST",
        help="With --rows: only for the rows with this digest, which `batch --sample` shows.",
        show_default=False,
    ),
]

ModelAction = Annotated[
    str, typer.Argument(metavar="list|pull", help="List what is there, or fetch a model.")
]
ModelName = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME|PATH]",
        help="With pull: a model by its name (the recommended one without), or a file to take in.",
    ),
]
ModelFolder = Annotated[
    str | None,
    typer.Option("--to", metavar="FOLDER", help="Where models are kept; without, in the user's cache."),
]
ModelAddress = Annotated[
    str | None,
    typer.Option("--from", metavar="URL", help="Another address that has the same file."),
]
