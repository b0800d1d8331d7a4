"""The tools of the licence audit: what a plan may call."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

import readers
import spdx
import yaml
from pydantic import TypeAdapter, ValidationError
from readers import Metadata, Package
from typing_extensions import TypedDict

from foreplan import Effect, Registry, ToolFailure, tool

__all__ = ["Counts", "Licence", "Verdict", "Written", "read_policy", "registry"]


class Licence(TypedDict):
    """A package's licence as an SPDX expression, and the statement that it was taken from."""

    spdx: str
    basis: str


class Verdict(TypedDict):
    """One line of the report; `verdict` is allowed, review, denied, or unknown where the package says nothing."""

    name: str
    version: str
    spdx: str
    basis: str
    verdict: str
    reason: str


class Counts(TypedDict):
    """How many packages there are, and how many of each verdict."""

    packages: int
    allowed: int
    review: int
    denied: int
    unknown: int


class Written(TypedDict):
    """A file that was written."""

    path: str


@tool(effect=Effect.READS)
def list_packages(folders: list[str]) -> list[Package]:
    """List the packages that are installed in some folders.

    Args:
        folders: Folders that hold packages, such as site-packages.
    """
    missing = [folder for folder in folders if not Path(folder).is_dir()]
    if missing:
        raise ToolFailure(f"there is no folder {missing[0]}", kind="bad_args", code="no_such_folder")
    return [package for folder in folders for package in readers.packages_in(Path(folder))]


@tool(effect=Effect.READS)
def read_metadata(folder: str) -> Metadata:
    """Read what a package says about its licence, with importlib.metadata.

    Fails with the code needs_other_reader where the metadata are missing or not UTF-8.

    Args:
        folder: The package's .dist-info or .egg-info.
    """
    try:
        return readers.plainly(Path(folder))
    except readers.Unreadable as error:
        raise ToolFailure(str(error), code="needs_other_reader", details={"folder": folder}) from error


@tool(effect=Effect.READS)
def read_metadata_carefully(folder: str) -> Metadata:
    """Read what a package says about its licence, whatever the encoding, and also where its metadata file is gone.

    Args:
        folder: The package's .dist-info or .egg-info.
    """
    return readers.carefully(Path(folder))


@tool(effect=Effect.READS)
def normalise_licence(metadata: Metadata) -> Licence:
    """Turn what a package says about its licence into an SPDX expression.

    Fails with the code no_licence_data where it says nothing that can be recognised.

    Args:
        metadata: What the package says.
    """
    found = spdx.licence_of(
        expression=metadata["expression"],
        licence=metadata["licence"],
        classifiers=metadata["classifiers"],
        texts=[file["spdx"] for file in metadata["files"]],
    )
    if found is None:
        raise ToolFailure(f"{metadata['name']} does not say its licence", code="no_licence_data")
    return {"spdx": found[0], "basis": found[1]}


@tool(effect=Effect.READS)
def judge_licences(metadata: list[Metadata], licences: list[Licence | None], policy: str) -> list[Verdict]:
    """Judge the licence of each package by a policy file.

    Args:
        metadata: What the packages say.
        licences: Their licences, in the same order; null where a package does not say it.
        policy: The policy file.
    """
    rules = read_policy(policy)
    verdicts = [_verdict(m, licence, rules) for m, licence in zip(metadata, licences, strict=True)]
    return sorted(verdicts, key=lambda v: v["name"].lower())


class Rules(TypedDict):
    """A policy file: identifiers by verdict, the verdict on others, and packages with the reason to allow them."""

    allowed: list[str]
    review: list[str]
    denied: list[str]
    otherwise: Literal["allowed", "review", "denied"]
    accepted: dict[str, str]


def read_policy(path: str) -> Rules:
    """The rules in a policy file; raises `ToolFailure` with a sentence where they cannot be read."""
    try:
        return TypeAdapter(Rules).validate_python(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = f"the policy {path} cannot be read: {error}"
    except ValidationError as error:
        first = error.errors()[0]
        problem = (
            f"the policy {path} is not as it should be: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        )
    raise ToolFailure(problem, kind="bad_args", code="bad_policy")


def _verdict(metadata: Metadata, licence: Licence | None, rules: Rules) -> Verdict:
    named: Verdict = {
        "name": metadata["name"],
        "version": metadata["version"],
        "spdx": licence["spdx"] if licence else "",
        "basis": licence["basis"] if licence else "",
        "verdict": "unknown",
        "reason": "the package does not say its licence",
    }
    if metadata["name"] in rules["accepted"]:
        return {**named, "verdict": "allowed", "reason": rules["accepted"][metadata["name"]]}
    tree = spdx.parse(named["spdx"])
    if tree is None:
        return named
    lists = {"allowed": rules["allowed"], "review": rules["review"], "denied": rules["denied"]}
    return {**named, "verdict": spdx.judge(tree, lists, otherwise=rules["otherwise"]), "reason": ""}


@tool(effect=Effect.WRITES)
def write_csv(verdicts: list[Verdict], path: str) -> Written:
    """Write the verdicts as a CSV file, over an older one.

    Args:
        verdicts: One row each.
        path: The file.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, Verdict.__annotations__)
        rows.writeheader()
        rows.writerows(verdicts)
    return {"path": path}


@tool(effect=Effect.WRITES)
def write_markdown(verdicts: list[Verdict], folders: list[str], path: str) -> Written:
    """Write the verdicts as a Markdown page, what needs attention first, over an older one.

    Args:
        verdicts: The verdicts.
        folders: Where the packages were found.
        path: The file.
    """
    lines = ["# Licences", "", *(f"* `{folder}`" for folder in folders), ""]
    for verdict in ("denied", "unknown", "review", "allowed"):
        rows = [v for v in verdicts if v["verdict"] == verdict]
        lines += [f"## {verdict.capitalize()}: {len(rows)}", "", *_table(rows)]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines), encoding="utf-8")
    return {"path": path}


def _table(rows: list[Verdict]) -> list[str]:
    if not rows:
        return []
    cells = [[v["name"], v["version"], v["spdx"], v["basis"], v["reason"]] for v in rows]
    head = ["| package | version | licence | taken from | reason |", "| --- | --- | --- | --- | --- |"]
    return [*head, *("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells), ""]


@tool(effect=Effect.ACTS)
def append_history(path: str, run: str, started_at: str, counts: Counts) -> Written:
    """Append one line to the history of audits.

    Args:
        path: The history, a CSV file; it is made if there is none.
        run: The id of the run that made the audit.
        started_at: When that run started.
        counts: How many packages there were of each verdict.
    """
    new = not Path(path).exists()
    with open(path, "a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        if new:
            rows.writerow(["run", "started_at", *counts])
        rows.writerow([run, started_at, *counts.values()])
    return {"path": path}


registry = Registry(
    list_packages,
    read_metadata,
    read_metadata_carefully,
    normalise_licence,
    judge_licences,
    write_csv,
    write_markdown,
    append_history,
)
