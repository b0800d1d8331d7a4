"""What importing costs: the wheel, built from the tracked files and installed alone in a fresh environment.

`import foreplan` loads nothing but a table of names; the real cost is what the first names bring: Engine, Plan,
Registry and tool. Beside them stand an empty program and the two libraries that the core is built on. Seconds inside
the process, after Python itself has started, of a warm file cache; median of the repeats, in turns. The promise is in
CPU time, which is what it takes on a machine with nothing else to do.
`-X importtime` says which modules take it: their own milliseconds (it slows everything by a third or so).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from results import Figures, Found, Options, Target, median

ROOT = Path(__file__).resolve().parents[1]
NAMES = "import foreplan; foreplan.Engine, foreplan.Plan, foreplan.Registry, foreplan.tool"
WAYS = {
    "nothing": "pass",
    "import pydantic, anyio": "import pydantic, anyio; pydantic.BaseModel",
    "import foreplan": "import foreplan",
    "Engine, Plan, Registry, tool": NAMES,
    "until a first plan has run": f"""{NAMES}
@foreplan.tool(effect="reads")
def double(n: int) -> int:
    return 2 * n
run = foreplan.Engine([double]).run_blocking(
    foreplan.Plan.model_validate({{"steps": [{{"id": "a", "tool": "double", "args": {{"n": 1}}}}]}})
)
assert run["a"] == 2""",
}
LATER = ("networkx", "jsonschema", "typer", "rich", "yaml", "rfc8785", "sqlite3", "langgraph", "httpx")
"""What must not be loaded before it is needed."""


def installed(folder: Path) -> Path:
    """The Python of an environment that holds the wheel and what it needs, and no source tree."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.wheels import build_wheel

    wheel = build_wheel(ROOT, folder / "built")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq", "install", str(wheel)]
    subprocess.run(pip, check=True, cwd=folder, stderr=subprocess.DEVNULL)
    return python


def timed(python: Path, code: str) -> Figures:
    """Wall and CPU milliseconds of the code in a fresh process, and which of `LATER` it loaded."""
    program = f"""
import json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
{code}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
loaded = [name for name in {LATER!r} if name in sys.modules]
print(json.dumps({{"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "modules": len(sys.modules), "loaded": loaded}}))
"""
    done = subprocess.run(
        [python, "-P", "-c", program], cwd=python.parent, stdout=subprocess.PIPE, check=True
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def ways(python: Path, repeats: int) -> dict[str, Figures]:
    found: dict[str, list[Figures]] = {name: [] for name in WAYS}
    for _ in range(repeats + 1):
        for name, code in WAYS.items():
            found[name].append(timed(python, code))
    return {name: summed_up(several[1:]) for name, several in found.items()}


def summed_up(several: list[Figures]) -> Figures:
    figures: Figures = {key: median(one[key] for one in several) for key in ("wall_ms", "cpu_ms", "modules")}
    return figures | {"loaded": " ".join(several[0]["loaded"]) or "-"}


def modules(python: Path, repeats: int) -> dict[str, Figures]:
    """The ten modules that take longest of themselves, and the ten that take longest with all they import."""
    own: dict[str, list[float]] = {}
    whole: dict[str, list[float]] = {}
    for _ in range(repeats):
        command = [str(python), "-P", "-X", "importtime", "-c", NAMES]
        done = subprocess.run(command, cwd=python.parent, stderr=subprocess.PIPE, text=True, check=True)
        for name, own_us, whole_us in parsed(done.stderr.splitlines()):
            own.setdefault(name, []).append(own_us / 1e3)
            whole.setdefault(name, []).append(whole_us / 1e3)
    longest = sorted(own, key=lambda name: -statistics.median(own[name]))[:10]
    return {
        name: {"own_ms": median(own[name]), "with_its_imports_ms": median(whole[name])} for name in longest
    }


def parsed(lines: Iterable[str]) -> Iterable[tuple[str, int, int]]:
    """Name, own and whole microseconds of each line `import time: own | whole | name`."""
    for line in lines:
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            yield parts[2].strip(), int(parts[0]), int(parts[1])


def measure(options: Options) -> Found:
    repeats = max(options.repeats, 9)
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder))
        found = ways(python, repeats)
        slowest = modules(python, options.repeats)
    names = found["Engine, Plan, Registry, tool"]
    loaded = 0 if names["loaded"] == "-" else len(names["loaded"].split())
    targets = [
        Target("import of the installed wheel", 0.35, round(names["wall_ms"] / 1e3, 3), "s", expected=0.25),
        Target("heavy libraries that it loads", 0, loaded),
    ]
    return Found(found | slowest, targets)
