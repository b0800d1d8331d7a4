"""The expression language: a total subset of Python expressions, parsed by us and interpreted; nothing is ever `eval`ed.

    text --parse--> Expression --evaluate(scope)--> JSON         raises ExpressionError | EvaluationError, nothing else
    JSON --compile_template--> Template --evaluate(scope)--> JSON

What it can say: `docs/language.md`, whose tables come from `functions.py`. It knows plain values and names, no plan.
"""

from __future__ import annotations

from .errors import EvaluationError, ExpressionError
from .expression import Expression, constants, parse, references, rename
from .fuel import FUEL, Fuel
from .functions import FUNCTIONS, METHODS, Function
from .grammar import NODES
from .language import code_table, language_table
from .names import RESERVED, Reference, valid_id
from .slips import FOREIGN_CALLS
from .templates import Template, compile_template, problems, rename_in

__all__ = [
    "FOREIGN_CALLS",
    "FUEL",
    "FUNCTIONS",
    "METHODS",
    "NODES",
    "RESERVED",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "Fuel",
    "Function",
    "Reference",
    "Template",
    "code_table",
    "compile_template",
    "constants",
    "language_table",
    "parse",
    "problems",
    "references",
    "rename",
    "rename_in",
    "valid_id",
]
