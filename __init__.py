"""A model plans first, as data; code checks it, people review it, and only then does it run.

Nothing is imported until a name is used, so that `import foreplan` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .console.served.server import mcp_server
    from .executor.agent import create_agent
    from .executor.batches.batch import Batch
    from .executor.batches.rows import RowResult
    from .executor.batches.sources import FileRows
    from .executor.batches.sqlite_rows import SqliteRows
    from .executor.engine import Engine
    from .executor.hands.hooks import Keep
    from .executor.journal.journal import MemoryJournal
    from .executor.journal.sqlite_journal import SqliteJournal
    from .executor.mcp_session import mcp_tools
    from .executor.openapi_import import openapi_tools
    from .executor.run import Run
    from .executor.session import Session
    from .executor.telemetry import Telemetry
    from .planner.approvals import Approval, RowLimit
    from .planner.building import PlanBuilder
    from .planner.checking import check
    from .planner.model_planner import ModelPlanner
    from .planner.models.anthropic_model import AnthropicModel
    from .planner.models.budgeted import Budgeted
    from .planner.models.extract import extract_with
    from .planner.models.fallback import Fallback
    from .planner.models.local_model import LocalModel
    from .planner.models.messages import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
    from .planner.models.openai_model import OpenAIModel
    from .planner.models.priced import Priced
    from .planner.models.pydantic_ai_model import PydanticAIModel
    from .planner.models.recorded import RecordedModel
    from .planner.models.retrying import Retrying
    from .planner.models.scripted import ScriptedModel
    from .planner.models.window import Window
    from .planner.plan import Patch, Plan, Step
    from .planner.planners import FunctionPlanner, StaticPlanner
    from .planner.react import React
    from .planner.reviewing import diff, review
    from .planner.subplans import as_tool
    from .policies.batches import BatchRules
    from .policies.effect import Effect
    from .policies.errors import CannotPlan, ForeplanError
    from .policies.failures import Failure, Kind, ToolFailure
    from .policies.permissions import Level, Principal, Roles
    from .policies.policies import Breaker, Budget, Limits, Policies, Rate, Rates
    from .policies.retry import Retry
    from .policies.secrets import Secret
    from .policies.signing import Ed25519Signer, Ed25519Verifier, HmacSigner
    from .registry.code_tools import code_tool
    from .registry.egress.client import guarded_client
    from .registry.egress.rules import Egress
    from .registry.people import ask
    from .registry.registry import Registry
    from .registry.search import EmbeddingSearch, HybridSearch, WordSearch
    from .registry.sources import tools_of
    from .registry.standins import Found
    from .registry.tools import Tool, ToolContext, tool
    from .registry.vaults import EnvironmentSecrets, KeyringSecrets, MappingSecrets

    __version__: str

__all__ = [
    "AIMessage",
    "AnthropicModel",
    "Approval",
    "Batch",
    "BatchRules",
    "Breaker",
    "Budget",
    "Budgeted",
    "CannotPlan",
    "Ed25519Signer",
    "Ed25519Verifier",
    "Effect",
    "Egress",
    "EmbeddingSearch",
    "Engine",
    "EnvironmentSecrets",
    "Failure",
    "Fallback",
    "FileRows",
    "ForeplanError",
    "Found",
    "FunctionPlanner",
    "HmacSigner",
    "HumanMessage",
    "HybridSearch",
    "Keep",
    "KeyringSecrets",
    "Kind",
    "Level",
    "Limits",
    "LocalModel",
    "MappingSecrets",
    "MemoryJournal",
    "ModelPlanner",
    "OpenAIModel",
    "Patch",
    "Plan",
    "PlanBuilder",
    "Policies",
    "Priced",
    "Principal",
    "PydanticAIModel",
    "Rate",
    "Rates",
    "React",
    "RecordedModel",
    "Registry",
    "Retry",
    "Retrying",
    "Roles",
    "RowLimit",
    "RowResult",
    "Run",
    "ScriptedModel",
    "Secret",
    "Session",
    "SqliteJournal",
    "SqliteRows",
    "StaticPlanner",
    "Step",
    "SystemMessage",
    "Telemetry",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolFailure",
    "ToolMessage",
    "Window",
    "WordSearch",
    "as_tool",
    "ask",
    "check",
    "code_tool",
    "create_agent",
    "diff",
    "extract_with",
    "guarded_client",
    "mcp_server",
    "mcp_tools",
    "openapi_tools",
    "review",
    "tool",
    "tools_of",
]

_HOMES = {
    "console.served.server": ("mcp_server",),
    "executor.agent": ("create_agent",),
    "executor.batches.batch": ("Batch",),
    "executor.batches.rows": ("RowResult",),
    "executor.batches.sources": ("FileRows",),
    "executor.batches.sqlite_rows": ("SqliteRows",),
    "executor.engine": ("Engine",),
    "executor.hands.hooks": ("Keep",),
    "executor.journal.journal": ("MemoryJournal",),
    "executor.mcp_session": ("mcp_tools",),
    "executor.openapi_import": ("openapi_tools",),
    "executor.run": ("Run",),
    "executor.session": ("Session",),
    "executor.journal.sqlite_journal": ("SqliteJournal",),
    "executor.telemetry": ("Telemetry",),
    "planner.approvals": ("Approval", "RowLimit"),
    "planner.building": ("PlanBuilder",),
    "planner.checking": ("check",),
    "planner.model_planner": ("ModelPlanner",),
    "planner.models.anthropic_model": ("AnthropicModel",),
    "planner.models.budgeted": ("Budgeted",),
    "planner.models.extract": ("extract_with",),
    "planner.models.fallback": ("Fallback",),
    "planner.models.local_model": ("LocalModel",),
    "planner.models.messages": ("AIMessage", "HumanMessage", "SystemMessage", "ToolCall", "ToolMessage"),
    "planner.models.openai_model": ("OpenAIModel",),
    "planner.models.priced": ("Priced",),
    "planner.models.pydantic_ai_model": ("PydanticAIModel",),
    "planner.models.recorded": ("RecordedModel",),
    "planner.models.retrying": ("Retrying",),
    "planner.models.scripted": ("ScriptedModel",),
    "planner.models.window": ("Window",),
    "planner.plan": ("Patch", "Plan", "Step"),
    "planner.planners": ("FunctionPlanner", "StaticPlanner"),
    "planner.react": ("React",),
    "planner.reviewing": ("diff", "review"),
    "planner.subplans": ("as_tool",),
    "policies.effect": ("Effect",),
    "policies.errors": ("CannotPlan", "ForeplanError"),
    "policies.failures": ("Failure", "Kind", "ToolFailure"),
    "policies.permissions": ("Level", "Principal", "Roles"),
    "policies.batches": ("BatchRules",),
    "policies.policies": ("Breaker", "Budget", "Limits", "Policies", "Rate", "Rates"),
    "policies.retry": ("Retry",),
    "policies.secrets": ("Secret",),
    "policies.signing": ("Ed25519Signer", "Ed25519Verifier", "HmacSigner"),
    "registry.code_tools": ("code_tool",),
    "registry.egress.client": ("guarded_client",),
    "registry.egress.rules": ("Egress",),
    "registry.people": ("ask",),
    "registry.registry": ("Registry",),
    "registry.search": ("EmbeddingSearch", "HybridSearch", "WordSearch"),
    "registry.sources": ("tools_of",),
    "registry.standins": ("Found",),
    "registry.tools": ("Tool", "ToolContext", "tool"),
    "registry.vaults": ("EnvironmentSecrets", "KeyringSecrets", "MappingSecrets"),
}
"""Module -> the public names that live in it: the same as the imports above, which only type checkers read."""


def __getattr__(name: str) -> Any:
    """Import the home of a public name when it is first used (PEP 562), and keep it."""
    from importlib import import_module, metadata

    if name == "__version__":
        value: Any = metadata.version("foreplan")
    else:
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'foreplan' has no attribute {name!r}")
        value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *globals()})
