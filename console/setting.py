"""Options that belong together, as what they mean: with which tools, by which rules and for whom, kept where, approved how.

A command that takes one of these takes all its options, in this order.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from ..executor.engine import Engine
from ..planner.approvals import Approval, RowLimit, Scope
from ..planner.plan import Plan
from ..policies.errors import BadInput
from ..policies.policies import Policies
from ..policies.signing import read_signer
from ..policies.text import did_you_mean
from . import options as o
from .asking import login_name
from .given import (
    read_approvers,
    read_duration,
    read_given_approval,
    read_inputs,
    read_policies,
    read_principal,
)
from .lines import plain
from .loading import load_authorize, load_model, load_planner
from .tool_files import load_tools

__all__ = ["Approving", "Around", "Consent", "Given", "Kept", "Minds", "Rules", "Setting", "scope_of"]


@dataclass(frozen=True)
class Rules:
    """By which rules, and for whom."""

    policies: o.PolicyFile = None
    principal: o.Who = None
    permissions: o.Permission = field(default_factory=list)

    def read(self) -> Policies:
        """The rules themselves."""
        return read_policies(self.policies)


@dataclass(frozen=True)
class Minds:
    """Who writes plans, and who goes on without one."""

    planner: o.Planner = None
    model: o.Model = None


@dataclass(frozen=True)
class Kept:
    """Where runs are kept, and what seals them."""

    journal: o.Journal = None
    journal_key: o.JournalKey = None


@dataclass(frozen=True)
class Given:
    """The words that give a plan its inputs."""

    inputs: o.Inputs = None
    sets: o.Set = field(default_factory=list)

    def read(self, plan: Plan) -> dict[str, Any] | None:
        """The inputs, checked; None where nothing is said."""
        return read_inputs(plan, self.inputs, self.sets)

    def words(self) -> list[str]:
        """What was typed."""
        file = ["--inputs", self.inputs] if self.inputs is not None else []
        return [*file, *(word for pair in self.sets for word in ("--set", pair))]


@dataclass(frozen=True)
class Around:
    """What stands around a run, or a batch, wherever it begins or goes on."""

    kept: Kept = field(default_factory=Kept)
    minds: Minds = field(default_factory=Minds)
    rules: Rules = field(default_factory=Rules)
    authorize: o.AuthorizeWord = None

    def with_tools(self, tools: str, approver_keys: Sequence[str] = ()) -> Setting:
        """All that makes an engine."""
        return Setting(tools, self.rules, self.minds, self.kept, self.authorize, tuple(approver_keys))


@dataclass(frozen=True)
class Approving:
    """How a plan is approved that is to run now: by a file, or by a yes given here."""

    approval_file: o.ApprovalFile = None
    approver_keys: o.ApproverKey = field(default_factory=list)
    yes: o.Yes = False
    by: o.By = None
    scope: o.ScopeWord = "none"
    key: o.SigningKey = None

    def consent(self, *, ask: bool) -> Consent:
        """The same, once its words make sense; `ask`: whoever sits here is asked. Raises `BadInput`."""
        return Consent(self.approval_file, ask, self.yes, self.by, self.scope, key=self.key).held()


@dataclass(frozen=True)
class Setting:
    """All that makes an engine; kept to tell how to go on."""

    tools: str = ""
    rules: Rules = Rules()
    minds: Minds = Minds()
    kept: Kept = Kept()
    authorize: str | None = None
    approver_keys: tuple[str, ...] = ()

    def loaded(self) -> dict[str, Any]:
        """What these words name, as arguments of an engine; loaded once."""
        planner, model = self.minds.planner, self.minds.model
        found = load_tools(self.tools)
        return {
            "registry": found.registry,
            "secrets": found.secrets,
            "planner": load_planner(planner) if planner is not None else None,
            "policies": self.rules.read(),
            "principal": read_principal(self.rules.principal, self.rules.permissions),
            "authorize": load_authorize(self.authorize) if self.authorize is not None else None,
            "react": load_model(model) if model is not None else None,
            "approvers": read_approvers(self.approver_keys),
        }

    def engine(self) -> Engine:
        """The engine these words describe, without a journal."""
        return Engine(**self.loaded())

    def command(self, name: str, *words: str) -> str:
        """A command line with these words in it, to be pasted."""
        options: list[tuple[str, str | None]] = [("--tools", self.tools)]
        if name in ("resume", "retry"):
            options += [("--planner", self.minds.planner), ("--journal", self.kept.journal)]
            options += [("--journal-key", self.kept.journal_key)]
            options += [("--authorize", self.authorize), ("--model", self.minds.model)]
        # A run that goes on keeps the rules that it was opened with, but what roles permit is asked anew.
        options += [("--policies", self.rules.policies), ("--principal", self.rules.principal)]
        options += [("--permission", permission) for permission in self.rules.permissions]
        said = [word for option, value in options if value for word in (option, value)]
        return "foreplan " + " ".join(shlex.quote(plain(word)) for word in (name, *words, *said))


@dataclass(frozen=True)
class Consent:
    """The words about approval: a file, or a yes given here; whose it is, how long it lasts, which re-plans it covers."""

    file: str | None = None
    ask: bool = False
    yes: bool = False
    by: str | None = None
    scope: str = "none"
    expires_in: str | None = None
    key: str | None = None

    def held(self) -> Consent:
        """Itself, once its words make sense. Raises `BadInput`."""
        scope_of(self.scope), read_duration(self.expires_in)
        return self

    def given(self, journal: str | None) -> Approval | None:
        """The approval in the file. Raises `BadInput` where there is no journal in which it could be used up."""
        if self.file is not None and journal is None:
            raise BadInput(
                "an approval is for one run, and only a journal remembers that it was used: "
                "add --journal FILE (or FOREPLAN_JOURNAL in the environment)"
            )
        return read_given_approval(self.file)

    def approved(
        self,
        engine: Engine,
        plan: Plan,
        inputs: dict[str, Any] | None = None,
        *,
        batch: RowLimit | None = None,
    ) -> Approval:
        """The approval of what was shown: for one run with these inputs, or for a batch."""
        by, lasts = self.by or login_name(), read_duration(self.expires_in)
        signer = read_signer(self.key, by) if self.key is not None else None
        scope = scope_of(self.scope)
        options: dict[str, Any] = {"by": by, "scope": scope, "expires_in": lasts, "signer": signer}
        return engine.approve(plan, inputs=inputs, batch=batch, **options)


def scope_of(word: str) -> Scope:
    """The scope of that name. Raises `BadInput` with the nearest."""
    scopes = get_args(Scope)
    if word not in scopes:
        guess = did_you_mean(word, scopes) or f"; there are {', '.join(scopes)}"
        raise BadInput(f"there is no scope '{plain(word, 60)}'{guess}")
    return cast(Scope, word)
