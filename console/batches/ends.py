"""How a batch ended, in a word, and as an exit code."""

from __future__ import annotations

from ...executor.batches.batch import Batch
from ..screen import Code

__all__ = ["batch_code", "batch_fate"]


def batch_fate(batch: Batch) -> str:
    """`done`, or `stopped (budget)`."""
    return f"{batch.status} ({batch.reason})" if batch.reason and batch.status == "stopped" else batch.status


def batch_code(batch: Batch) -> Code:
    """The exit code of a batch that ended, or waits."""
    match batch.status:
        case "done":
            return Code.DONE
        case "waiting" | "running":
            return Code.NOT_APPROVED
        case _:
            return Code.FAILED
