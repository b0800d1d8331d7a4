"""A first plan: `python examples/first_plan.py`."""

from foreplan import Engine, Plan, Registry, tool


@tool(effect="reads")
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


counts = {
    "id": "counts",
    "each": ["one", "two words"],
    "tool": "count_words",
    "args": {"text": {"$": "item"}},
}
plan = Plan.model_validate({"steps": [counts], "output": {"$": "sum(counts)"}})
print(Engine(Registry(count_words)).run_blocking(plan).output)
