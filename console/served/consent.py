"""How a yes comes to a server whose client is a model: from a person, past the client.

    run without a yes -> the plan and its inputs are laid into FOLDER/asked, and the answer says what a person types
    foreplan approve FOLDER/asked/plan-….yaml … -o FOLDER/approval-….json      a person looks, and says yes
    run once more     -> the approval in FOLDER covers exactly this plan with these inputs, and is used up

Who can write a file can write an approval. So nothing that a client hands over counts by itself: it must be signed, and
by somebody whom the engine knows as an approver. And what a client said (inputs may look like an approval) is laid where
no approval is looked for.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...executor.engine import Engine
from ...planner.approvals import Approval, read_approval, tools_of, why_needed
from ...planner.documents import write_yaml
from ...planner.inputs import settle_inputs
from ...planner.plan import Plan
from ...policies.canonical import digest
from ...policies.errors import BadInput, NotApproved
from ..files import read_file, write_file

__all__ = ["Consent", "Spell", "plain_spelling"]

Spell = Callable[..., str]
"""A command line of foreplan with these words, and the options that this server was started with."""

_ASKED = "asked"
_FILES = 400
"""So many files of a folder are looked at, and no more are laid into it."""


class Consent:
    """Where approvals come from: `folder`, into which only people put them."""

    def __init__(self, engine: Engine, folder: Path | None, spell: Spell) -> None:
        self._engine = engine
        self._folder = folder
        self._spell = spell
        self._signed = bool(engine.approvers)

    def needed(self, plan: Plan) -> list[str]:
        """Why the plan needs an approval, a phrase each."""
        registry = self._engine.registry
        used = [registry[name] for name in tools_of(plan) if name in registry]
        return why_needed(used, self._engine.policies)

    def of(self, plan: Plan, inputs: Mapping[str, Any] | None, handed: Any) -> Approval | None:
        """The approval that a run of this plan goes by; None where it needs none. Raises `NotApproved`."""
        if handed is not None:
            return self._handed(handed)
        reasons = self.needed(plan)
        if not reasons:
            return None
        settled = settle_inputs(plan, inputs)
        spent = ""
        for approval in sorted(self._lying(plan, settled), key=lambda found: -found.approved_at):
            by = self._engine.journal.run_of_approval(approval.id)
            if by is None:
                return approval
            spent = spent or f"; the approval that was given is used up, by run {by!r}"
        raise NotApproved(self._refusal(plan, settled, f"{'; '.join(reasons[:3])}{spent}"))

    def _handed(self, document: Any) -> Approval:
        if not self._signed:
            raise NotApproved(
                "an approval that a client hands over proves nothing here, for no signature counts: leave it out, and the "
                "answer says what a person types; a server that is started with --approver-key takes signed ones"
            )
        return read_approval(document)

    def _lying(self, plan: Plan, inputs: dict[str, Any]) -> Iterator[Approval]:
        """Approvals in the folder for this plan and these inputs that have not expired; the engine looks at the rest."""
        wanted, now = (digest(plan.to_json()), digest(inputs)), time.time()
        for path in self._files():
            try:
                approval = read_approval(read_file(str(path)))
            except BadInput:
                continue  # another file, or one that somebody changed
            alive = approval.expires_at is None or now < approval.expires_at
            if (approval.plan, approval.inputs) == wanted and alive:
                yield approval

    def _files(self) -> list[Path]:
        if self._folder is None or not self._folder.is_dir():
            return []
        if self._folder.stat().st_mode & stat.S_IWOTH:
            raise NotApproved(
                f"no approval counts that lies in {self._folder}, for everybody may write there: chmod o-w"
            )
        found = [path for path in self._folder.glob("*.json") if _is_own(path)]
        return sorted(found, key=_age)[:_FILES]

    def _refusal(self, plan: Plan, inputs: dict[str, Any], why: str) -> str:
        said = f"nothing has run: this plan needs an approval by a person ({why})"
        if self._folder is None:
            return f"{said}, and this server takes none; it must be started with --approvals FOLDER"
        command = self._laid(self._folder, plan, inputs)
        return f"{said}. Ask a person to look at it and to type: {command} -- then call run again with the same plan and inputs"

    def _laid(self, folder: Path, plan: Plan, inputs: dict[str, Any]) -> str:
        """Lay the plan and its inputs before a person; the command with which that one says yes."""
        asked = folder / _ASKED
        if asked.is_symlink():
            raise NotApproved(
                f"nothing has run: {asked} leads elsewhere, so no plan is laid there; remove it"
            )
        for needed in (folder, asked):
            needed.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{_brief(digest(plan.to_json()))}-{_brief(digest(inputs))}"
        plan_file, inputs_file = asked / f"plan-{name}.yaml", asked / f"inputs-{name}.json"
        if not plan_file.exists() and len(os.listdir(asked)) >= _FILES:
            raise NotApproved(f"nothing has run: {_FILES} files lie in {asked}; a person must clear it first")
        for file in (plan_file, inputs_file):
            if file.is_symlink():
                file.unlink()
        write_file(str(plan_file), write_yaml(plan))
        words = ["approve", str(plan_file)]
        if inputs:
            write_file(str(inputs_file), json.dumps(inputs, indent=2, ensure_ascii=False) + "\n")
            words += ["--inputs", str(inputs_file)]
        signing = ["--key", "YOUR_KEY"] if self._signed else []
        return self._spell(*words, "-o", str(folder / f"approval-{name}.json"), *signing)


def _is_own(path: Path) -> bool:
    """Whether it is a file of this folder, and none that everybody could have written."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # gone since the folder was read
        return False
    return stat.S_ISREG(mode) and not mode & stat.S_IWOTH


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _brief(name: str) -> str:
    return name.removeprefix("sha256:")[:16]


def plain_spelling(*words: str) -> str:
    """The command line where nobody said with which options: the tools are left to whoever types it."""
    return shlex.join(["foreplan", *words, "--tools", "MODULE:NAME"])
