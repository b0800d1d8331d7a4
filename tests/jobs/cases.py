"""All cases of all jobs."""

from __future__ import annotations

from jobs.cases_agentdojo import CASES as AGENTDOJO
from jobs.cases_complexfuncbench import CASES as COMPLEXFUNCBENCH
from jobs.cases_public import CASES as PUBLIC
from jobs.cases_taubench import CASES as TAUBENCH

__all__ = ["CASES"]

CASES = [*AGENTDOJO, *TAUBENCH, *COMPLEXFUNCBENCH, *PUBLIC]
