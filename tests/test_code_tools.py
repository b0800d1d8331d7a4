"""Code tools: code runs where it can do no harm, or not at all. Every escape here is really tried."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.confined import CONFINED, bwrap_that, open_folder, still_runs

import foreplan
from foreplan import Budget, Engine, Plan, Policies, Registry, Retry, Tool, ToolFailure, code_tool
from foreplan.planner.findings import CheckFailed
from foreplan.policies.errors import NotApproved, ToolRefused
from foreplan.policies.failures import Happened, Kind
from foreplan.policies.permissions import Level
from foreplan.registry.sandbox import Sandbox, probe
from foreplan.registry.syscalls import filter_for

MIB = 1024 * 1024
HOST = str(Path.home())


async def given(code: str, *, stdin: str = "", files: dict[str, str] | None = None, **options: Any) -> Any:
    """What a Python tool with these caps gives for this code."""
    return await code_tool("run_python", **options)({"code": code, "stdin": stdin, "files": files or {}})


def said(code: str, **options: Any) -> str:
    """What this code writes; it must end well."""

    async def main() -> Any:
        return await given(code, **options)

    result = anyio.run(main)
    assert (result["stderr"], result["exit_code"]) == ("", 0)
    return str(result["stdout"]).strip()


def tries(*lines: str) -> str:
    """Code that writes how each line ended: the name of its exception, or what it gave."""
    body = "".join(
        f"\ntry:\n    print({line})\nexcept Exception as e:\n    print(type(e).__name__)" for line in lines
    )
    return "import ctypes, os, socket, subprocess, sys" + body


def run(plan: dict[str, Any], *tools: Tool, policies: Policies | None = None) -> Any:
    return Engine(Registry(*tools), policies=policies or Policies()).run_blocking(Plan.model_validate(plan))


# What comes back.


@CONFINED
@pytest.mark.anyio
async def test_code_reads_what_it_is_given_and_its_output_comes_back() -> None:
    """Standard input and files go in; what it writes and its exit code come out."""
    code = (
        "import sys, helper; print(helper.shout(sys.stdin.read())); print('no', file=sys.stderr); sys.exit(3)"
    )
    result = await given(code, stdin="héllo", files={"helper.py": "def shout(text): return text.upper()"})
    assert result == {"stdout": "HÉLLO\n", "stderr": "no\n", "exit_code": 3, "truncated": False}


@CONFINED
@pytest.mark.anyio
async def test_a_traceback_is_data() -> None:
    """Code that raises is no failure of the tool: its traceback is what it wrote."""
    result = await given("print('before')\n1/0")
    assert (result["stdout"], result["exit_code"]) == ("before\n", 1)
    assert "line 2, in <module>" in result["stderr"]
    assert "ZeroDivisionError" in result["stderr"]


@CONFINED
def test_a_shell_is_a_shell() -> None:
    """The other language, with a pipe and a failing last command."""
    tool = code_tool("run_shell", "shell")
    code = "cat words.txt - | sort | tr a-z A-Z; false"
    result = anyio.run(tool, {"code": code, "stdin": "b\n", "files": {"words.txt": "c\na\n"}})
    assert result == {"stdout": "A\nB\nC\n", "stderr": "", "exit_code": 1, "truncated": False}
    result = anyio.run(tool, {"code": "yes | head -n 1"})
    assert result == {"stdout": "y\n", "stderr": "", "exit_code": 0, "truncated": False}


@CONFINED
def test_bytes_that_are_no_text_and_a_signal_come_back() -> None:
    """Whatever code writes becomes text, and being killed is an exit code."""
    code = r"import os; os.write(1, b'\xff\x00ok'); os.kill(os.getpid(), 11)"
    result = anyio.run(code_tool("run_python"), {"code": code})
    assert (result["stdout"], result["exit_code"]) == ("\ufffd\0ok", 128 + signal.SIGSEGV)


@CONFINED
def test_nothing_is_kept_from_one_call_to_the_next() -> None:
    """Each call is a sandbox of its own."""
    code = "import os; print(os.listdir()); open('left', 'w').close()"
    assert [said(code), said(code)] == ["['main.py']", "['main.py']"]


# What code cannot reach.


@CONFINED
def test_there_is_no_network() -> None:
    """Neither a server on this machine, by any kind of socket, nor the machine around this one can be reached."""
    name = f"foreplan-{uuid.uuid4()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = server.getsockname()[1]
        code = tries(
            f"socket.create_connection(('127.0.0.1', {port}), 2)",
            "socket.create_connection(('192.0.2.1', 80), 2)",
            rf"socket.socket(socket.AF_UNIX).connect('\0{name}')",
            "socket.socket(40, socket.SOCK_STREAM)",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "socket.socketpair() and 'a pair'",
        )
        assert said(code).split("\n") == ["ConnectionRefusedError", *["OSError"] * 4, "a pair"]
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@CONFINED
def test_no_environment_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in our environment is in no environment of the sandbox; ours is not there."""
    monkeypatch.setenv("FOREPLAN_SECRET", "open-sesame")
    code = "import glob, os; print(sorted(os.environ), [open(p).read() for p in glob.glob('/proc/[0-9]*/environ')])"
    seen = said(code)
    assert seen.startswith("['HOME', 'LANG', 'PATH', 'PWD']")
    assert "sesame" not in seen


@CONFINED
def test_no_file_of_ours_can_be_seen() -> None:
    """Neither the system's secrets nor anyone's home, this project, its folder, or sockets of services."""
    found = probe()
    assert isinstance(found, Sandbox)
    secret = [
        *(
            "/etc/shadow",
            "/etc/passwd",
            "/etc/hostname",
            "/root",
            "/home",
            "/run",
            "/var",
            "/sys",
            "/opt",
            "/srv",
        ),
        *("/usr/local", "/usr/share/doc", "/dev/shm", "/dev/tty", "/dev/ptmx", "/dev/mem"),
        *(HOST, __file__, os.getcwd()),
    ]
    hidden = [
        path
        for path in secret
        if not f"{found.python}/".startswith(f"{path.rstrip('/')}/") and path != "/tmp"
    ]
    assert said(f"import os; print([p for p in {hidden!r} if os.path.exists(p)])") == "[]"


@CONFINED
def test_nothing_can_be_written_but_in_its_folder() -> None:
    """Tried with what the kernel would let root write, too, and with files of each folder."""
    code = """
import os, sys
opened = []
for top, folders, files in os.walk("/"):
    kernel = top.startswith("/proc/sys")
    if top.startswith("/tmp") or top.startswith("/proc/") and not kernel or top.startswith("/usr/lib/"):
        folders.clear()
        continue
    for path in [os.path.join(top, "new"), *(os.path.join(top, name) for name in files[: 9999 if kernel else 20])]:
        if os.path.islink(path) or path.startswith("/dev/") and not path.endswith("/new"):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            opened.append(path)
        except OSError:
            pass
print(sorted(opened))
"""
    everybody = "/proc/sys/kernel/ns_last_pid"  # open to all, and then asks for a capability
    assert said(code) in ("[]", f"[{everybody!r}]")


@CONFINED
def test_no_other_process_can_be_seen_or_signalled() -> None:
    """Code sees process 1 of its sandbox and itself, and a signal to everybody reaches nobody outside."""
    code = tries(
        "sorted(int(n) for n in os.listdir('/proc') if n.isdigit()) == [1, os.getpid()]",
        f"os.kill({os.getpid()}, 0)",
        f"os.kill({os.getppid()}, 9)",
        "os.kill(1, 9)",
        "os.listdir('/proc/1/fd')",
        "sorted(os.listdir('/proc/self/fd'))",
    )
    seen = said(code).split("\n")
    assert seen[:3] == ["True", "ProcessLookupError", "ProcessLookupError"]
    assert seen[-1] == "['0', '1', '2', '3']"  # the last is the listing itself


@CONFINED
def test_no_privilege_can_be_had() -> None:
    """No capability, no namespace, no key of the kernel, no tracing, no program that would run as another user."""
    code = tries(
        "[l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')] == ['0' * 16] * 5",
        "ctypes.CDLL(None).unshare(0x10000000)",
        "subprocess.run(['unshare', '-U', 'true'], capture_output=True).returncode",
        "ctypes.CDLL(None).syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000011, 0, 0, 0, 0)",
        "ctypes.CDLL(None).syscall(250 if os.uname().machine == 'x86_64' else 219, 0, -3, 0)",
        "ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
        "ctypes.CDLL(None).shmget(0, 4096, 0o1600)",
        "os.memfd_create('x')",
        "os.setuid(0)",
        "sorted({os.getuid(), os.getgid(), *os.getgroups()})",
    )
    assert said(code).split("\n") == [
        *("True", "-1", "1", "-1", "-1", "-1", "-1", "PermissionError", "OSError", "[65534]")
    ]


@CONFINED
def test_a_path_that_it_may_read_can_be_read_only() -> None:
    """`read_only` shows this folder where it is, and not a byte can be changed in it; not even its sockets are open."""
    with open_folder() as folder:
        (folder / "data.txt").write_text("of ours")
        (folder / "data.txt").chmod(0o666)
        with socket.socket(socket.AF_UNIX) as service:
            service.bind(str(folder / "service"))
            service.listen()
            (folder / "service").chmod(0o777)
            code = tries(
                f"open('{folder}/data.txt').read()",
                f"open('{folder}/data.txt', 'w')",
                f"socket.socket(socket.AF_UNIX).connect('{folder}/service')",
            )
            assert said(code, read_only=[folder]).split("\n") == ["of ours", "OSError", "OSError"]


# What code cannot use up.

BOMBS = {
    "memory": ("x = []\nwhile True: x.append(bytearray(10**6))", "MemoryError"),
    "files": ("f = open('x', 'wb')\nwhile True: f.write(b'x' * 10**6)", "OSError"),
    "file": ("import os\nf = open('x', 'wb')\nos.truncate('x', 2**40)", "OSError"),
    "threads": (
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "",
    ),
    "descriptors": ("import os\nwhile True: os.pipe()", "OSError"),
}


@CONFINED
@pytest.mark.parametrize("bomb", BOMBS)
def test_what_grows_without_bound_ends(bomb: str) -> None:
    """Memory, files, threads: code that wants more than its caps gets an error of its own."""
    code, error = BOMBS[bomb]
    result = anyio.run(code_tool("run_python", memory=128 * MIB, folder=8 * MIB), {"code": code})
    assert result["exit_code"] != 0
    assert error in result["stderr"]


@CONFINED
def test_process_1_is_bound_as_the_code_is() -> None:
    """Code can write into the memory of the first process of its sandbox; it wins nothing by that."""
    code = """
import ctypes
def facts(process):
    status = [line for line in open(f"/proc/{process}/status") if line[:3] in ("Cap", "NoN", "Sec", "Uid", "Gid")]
    return status, open(f"/proc/{process}/limits").read()
print(facts("1") == facts("self"), ctypes.CDLL(None).prctl(1, 0))
"""
    assert said(code) == "True -1"


@CONFINED
@pytest.mark.anyio
async def test_processes_are_counted() -> None:
    """A fork bomb has as many processes as it may, and is gone with the call."""
    code = """
import os, sys, time
made = 0
for _ in range(1000):
    try:
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", sys.argv[0] and MARK])
        made += 1
    except OSError:
        break
print(made)
"""
    mark = str(10**6 + uuid.uuid4().int % 10**9)
    result = await given(code.replace("MARK", repr(mark)), processes=8)
    assert (result["stdout"], result["exit_code"]) == ("7\n", 0)
    assert not still_runs(mark)


@CONFINED
@pytest.mark.anyio
async def test_more_output_than_allowed_ends_it() -> None:
    """Endless output is cut at the cap, and says so; its program is ended."""
    result = await given("while True: print('x' * 999)", output=1000)
    assert (len(result["stdout"]), result["truncated"], result["exit_code"]) == (1000, True, 128 + 9)


@CONFINED
@pytest.mark.anyio
async def test_as_much_output_as_allowed_does_not() -> None:
    """The cap itself may be reached, on both streams."""
    result = await given("import os; os.write(1, b'x' * 70000); os.write(2, b'y' * 70000)", output=70000)
    assert (len(result["stdout"]), len(result["stderr"]), result["truncated"]) == (70000, 70000, False)


# How it ends.

LINGER = """
import os, sys
print("begun", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (0, 1, 2):
            os.close(number)
        os.execv("/bin/sleep", ["sleep", "MARK"])
    os._exit(0)
os.wait()
"""


@CONFINED
@pytest.mark.anyio
async def test_a_daemon_dies_with_its_code() -> None:
    """A process that detached itself does not outlive the program that began it."""
    mark = str(10**6 + uuid.uuid4().int % 10**9)
    assert (await given(LINGER.replace("MARK", mark)))["stdout"] == "begun\n"
    assert not still_runs(mark)


@CONFINED
@pytest.mark.anyio
async def test_when_its_time_is_up_it_ends_with_all_that_it_began() -> None:
    """A loop without end is a time-out that did nothing, with what was written until then; no process is left."""
    mark = str(10**6 + uuid.uuid4().int % 10**9)
    with pytest.raises(ToolFailure, match=r"did not end within 1\.5 s") as raised:
        await given(LINGER.replace("MARK", mark) + "while True: pass", timeout=1.5)
    failure = raised.value
    assert (failure.kind, failure.code, failure.happened) == (Kind.TIMEOUT, "deadline", Happened.NO)
    assert failure.details == {"stdout": "begun\n", "stderr": ""}
    assert not still_runs(mark)


@CONFINED
@pytest.mark.anyio
async def test_cancelled_it_ends_with_all_that_it_began() -> None:
    """A call that is cancelled leaves no process, whether the code has begun or the sandbox is still being made."""
    mark = str(10**6 + uuid.uuid4().int % 10**9)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(given, LINGER.replace("MARK", mark) + "while True: pass")
            while not await anyio.to_thread.run_sync(still_runs, mark):
                pass
            scope.cancel()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(given, LINGER.replace("MARK", mark) + "while True: pass")
            await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert not still_runs(mark)


KILLED = """
import anyio, sys
from foreplan import code_tool
anyio.run(code_tool("run_python"), {"code": sys.argv[1]})
"""


@CONFINED
def test_it_dies_with_us() -> None:
    """Killed in the middle of a call, we leave no process behind."""
    mark = str(10**6 + uuid.uuid4().int % 10**9)
    code = LINGER.replace("MARK", mark) + "while True: pass"
    with subprocess.Popen([sys.executable, "-P", "-c", KILLED, code]) as process:
        while not still_runs(mark) and process.poll() is None:
            pass
        process.kill()
    for _ in range(100_000):  # the kernel tells it, and does not say when it has
        if not still_runs(mark):
            break
    assert not still_runs(mark)


# Never without.


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder that is all of PATH."""
    with open_folder() as folder:
        monkeypatch.setenv("PATH", str(folder))
        yield folder


def test_without_bubblewrap_there_is_no_tool(path: Path) -> None:
    """The tool is refused with what to do about it; it never runs unsandboxed (threat 21)."""
    with pytest.raises(
        ToolRefused, match=r"'run_python' is refused.* no bubblewrap here; install it \(apt install"
    ):
        code_tool("run_python")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "sys.exit('bwrap: No permissions to create new namespace')",
            "makes no sandbox here: No permissions to create",
        ),
        ("", "it says nothing"),
        (
            "command = command[command.index('--') + 1:]; os.execv(command[0], command)",
            "does not confine: the user namespace",
        ),
    ],
    ids=["fails", "does nothing", "runs it as it is"],
)
def test_what_is_called_bubblewrap_and_is_not_is_found_out(path: Path, script: str, reason: str) -> None:
    """A program of that name that fails, or runs what it is given without a sandbox, makes no tool."""
    bwrap_that(path, script)
    with pytest.raises(ToolRefused, match=reason):
        code_tool("run_python")


BROKEN = {
    "the network": (
        "replaced('--unshare-all', '--unshare-ipc', '--unshare-pid', '--unshare-uts')",
        "the net namespace",
    ),
    "the root": ("replaced('--remount-ro', '--perms', '0755', '--dir')", "/ can be written"),
    "the environment": ("replaced('--clearenv', '--setenv', 'TOKEN', 'x')", "the environment holds .*TOKEN"),
    "the user": ("replaced('65534', '1000')", "as a user of the host"),
    "the filter": (
        "[w for n, w in enumerate(command) if '--seccomp' not in command[max(0, n - 1):n + 1]]",
        "not filtered",
    ),
}


@CONFINED
@pytest.mark.parametrize("promise", BROKEN)
def test_each_promise_is_looked_at(promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap that keeps all promises but one makes no tool, and the reason says which one."""
    script, reason = BROKEN[promise]
    helper = "replaced = lambda old, *new: [w for word in command for w in (new if word == old else (word,))]"
    with open_folder() as folder:
        bwrap_that(folder, f"{helper}\nos.execv(real, [real, *{script}])")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        with pytest.raises(ToolRefused, match=f"does not confine.*{reason}"):
            code_tool("run_python")


@CONFINED
@pytest.mark.parametrize(
    "script",
    [None, "sys.exit(1)", "command = command[command.index('--') + 1:]; os.execv(command[0], command)"],
)
def test_a_sandbox_that_breaks_later_runs_no_code(
    script: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call looks anew: a `bwrap` that is gone, broken or another one by then is a failure, and nothing happened."""
    with open_folder() as folder:
        found = bwrap_that(folder, "os.execv(real, [real, *command])")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        tool = code_tool("run_python")
        assert anyio.run(tool, {"code": "print(1)"})["stdout"] == "1\n"
        found.unlink()
        if script is not None:
            bwrap_that(folder, script)
        trace = folder / "trace"
        folder.chmod(0o777)
        with pytest.raises(ToolFailure, match="the code was not run: ") as raised:
            anyio.run(tool, {"code": f"open({str(trace)!r}, 'w')"})
        assert (raised.value.kind, raised.value.code) == (Kind.PERMISSION, "no_sandbox")
        assert raised.value.happened is Happened.NO
        assert not trace.exists()


def test_what_the_kernel_is_to_refuse_is_known_for_the_machines_we_know() -> None:
    """A machine whose numbers of system calls are not known has no filter, and so no sandbox."""
    assert {machine: bool(filter_for(machine)) for machine in ("x86_64", "aarch64", "arm64", "riscv64")} == {
        **dict.fromkeys(("x86_64", "aarch64", "arm64"), True),
        "riscv64": False,
    }


# What is refused.


@CONFINED
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"language": "pyhton"}, r"cannot run 'pyhton'; did you mean 'python'\?"),
        ({"timeout": 0}, "timeout of code tool 'x' is 0; it is a number from"),
        ({"memory": True}, "memory of code tool 'x' is True"),
        ({"processes": 2.5}, "processes of code tool 'x' is 2.5"),
        ({"read_only": "/data"}, "must be a list of paths"),
        ({"read_only": ["data"]}, "no absolute path"),
        ({"read_only": ["/proc/1"]}, "cannot be shown '/proc/1'"),
        ({"read_only": ["/"]}, "cannot be shown '/'"),
        ({"secret_refs": {"token": "TOKEN"}}, "takes no secret_refs: code in a sandbox is given no secrets"),
        ({"effect": "acts"}, "takes no effect: nothing that code does"),
        ({"permisions": "x"}, "no option 'permisions'; did you mean 'permissions'"),
    ],
)
def test_what_a_code_tool_cannot_be_is_a_sentence(options: dict[str, Any], sentence: str) -> None:
    """Options are checked when the tool is made."""
    with pytest.raises(ToolRefused, match=sentence):
        code_tool("x", **options)


@CONFINED
@pytest.mark.parametrize(
    "args",
    [
        {"code": ""},
        {"code": "x" * 100_001},
        {"code": "print(1)\0"},
        {"code": "1", "files": {"../x": ""}},
        {"code": "1", "files": {"main.py": ""}},
        {"code": "1", "files": {"a": "x" * 40_000}},
        {"code": "1", "stdin": 5},
        {"code": "1", "shell": True},
        {"code": "print('\ud800')"},
    ],
)
def test_arguments_that_no_code_is_are_bad_args(args: dict[str, Any]) -> None:
    """What cannot be run is refused before a sandbox is made, most of it by the schema."""
    tool = code_tool("run_python", folder=64 * 1024)
    if tool.input.accepts(args):
        with pytest.raises(ToolFailure) as raised:
            anyio.run(tool, args)
        assert (raised.value.kind, raised.value.code) == (Kind.BAD_ARGS, "bad_code")


# In the pipeline.


@CONFINED
def test_its_contract_says_what_it_is() -> None:
    """Language, caps and paths are bound by an approval: change one, and it is another tool."""
    tool = code_tool("run", timeout=5)
    contract = tool.contract()
    assert (contract["effect"], contract["level"], contract["tags"]) == ("reads", "high", ["code"])
    others = [
        code_tool("run", "shell", timeout=5),
        code_tool("run", timeout=6),
        code_tool("run", timeout=5, memory=2**27),
    ]
    assert len({tool.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert (
        Tool.from_contract(contract).fingerprint
        == tool.fingerprint
        == code_tool("run", timeout=5).fingerprint
    )
    assert json.loads(json.dumps(contract["binds"]))["sandbox"]["language"] == "python"


@CONFINED
def test_in_a_plan_it_is_a_call_like_any_other() -> None:
    """It takes results of others, in parallel, each in its own sandbox; the budget counts it."""
    plan = {
        "steps": [
            {
                "id": "squares",
                "each": [1, 2, 3],
                "tool": "run_python",
                "args": {"code": "print(int(input()) ** 2)", "stdin": {"$": "str(item)"}},
            }
        ],
        "output": {"$": "[number(s.stdout.strip()) for s in squares]"},
    }
    done = run(plan, code_tool("run_python"))
    assert (done.output, done.tool_calls) == ([1, 4, 9], 3)
    with pytest.raises(CheckFailed, match="at least 3 calls, the budget is 2"):
        run(plan, code_tool("run_python"), policies=Policies(budget=Budget(tool_calls=2)))


@CONFINED
def test_its_level_and_its_approval_bind() -> None:
    """Policies refuse it by its level, or want it approved; an approval holds for these very caps."""
    plan = Plan.model_validate({"steps": [{"id": "ran", "tool": "run", "args": {"code": "print(1)"}}]})
    strict = Engine([code_tool("run")], policies=Policies(max_level=Level.MEDIUM))
    assert [finding.code for finding in strict.check(plan).errors] == ["level_too_high"]
    rules = Policies(approve="never", approve_from=Level.HIGH)
    engine = Engine([code_tool("run")], policies=rules)
    with pytest.raises(NotApproved):
        engine.run_blocking(plan)
    approval = engine.approve(plan, by="ada")
    with pytest.raises(NotApproved, match="run"):
        Engine([code_tool("run", processes=17)], policies=rules).run_blocking(plan, approval=approval)
    assert engine.run_blocking(plan, approval=approval)["ran"]["stdout"] == "1\n"


@CONFINED
def test_a_sandbox_that_is_gone_fails_the_step_and_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a plan it is a failure of kind permission, and nothing happened; there is one attempt."""
    with open_folder() as folder:
        found = bwrap_that(folder, "os.execv(real, [real, *command])")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        tool = code_tool("run_python")
        found.unlink()
        done = run({"steps": [{"id": "ran", "tool": "run_python", "args": {"code": "print(1)"}}]}, tool)
    [(_, failure)] = done.failures
    assert (failure.kind, failure.code, failure.happened) == (Kind.PERMISSION, "no_sandbox", Happened.NO)
    assert done.tool_calls == 1


@CONFINED
def test_its_time_out_is_a_failure_of_the_step() -> None:
    """Code that does not end is tried again as often as policies say, and then is a failure of its kind."""
    plan = {"steps": [{"id": "endless", "tool": "run_python", "args": {"code": "while True: pass"}}]}
    done = run(plan, code_tool("run_python", timeout=0.3), policies=Policies(retry=Retry(attempts=1)))
    [(_, failure)] = done.failures
    assert (failure.kind, failure.code, failure.happened) == (Kind.TIMEOUT, "deadline", Happened.NO)


ORDINARY = """
import os, sys
os.setgroups([])
os.setgid(54321)
os.setuid(54321)
try:
    from foreplan.registry.sandbox import probe
except (ImportError, PermissionError):
    sys.exit("closed")
print(type(probe()).__name__, os.getuid())
"""


@CONFINED
@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become somebody else; everybody else is tested as it is"
)
def test_it_works_for_an_ordinary_user_too() -> None:
    """Root and everyone else: the same sandbox."""
    found = probe()
    assert isinstance(found, Sandbox)
    if found.python_version.split(".")[:2] != [str(n) for n in sys.version_info[:2]]:
        pytest.skip("no Python of this version is open to other users")
    root = str(Path(foreplan.__file__).parents[1])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([root, *filter(None, sys.path)])}
    command = [found.python, "-P", "-B", "-c", ORDINARY]
    ran = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    if ran.stderr.strip() == "closed":
        pytest.skip("foreplan is in a folder that is closed to other users")
    assert (ran.stdout, ran.stderr) == ("Sandbox 54321\n", "")


def test_where_bubblewrap_works_code_tools_do() -> None:
    """If the tests above are skipped, it is for the machine, and not for a fault of ours."""
    command = "bwrap --unshare-all --unshare-user --disable-userns --ro-bind /usr /usr --ro-bind /proc /proc"
    links = [
        word
        for name in ("lib", "lib64")
        if os.path.islink(f"/{name}")
        for word in ("--symlink", f"usr/{name}", f"/{name}")
    ]
    plain = [*command.split(), *links, "/usr/bin/true"]
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        worked = subprocess.run(plain, capture_output=True, cwd="/", **nobody).returncode == 0
    except OSError:
        worked = False
    found = probe()
    possible = worked and os.path.exists("/usr/bin/python3") and filter_for(platform.machine())
    assert isinstance(found, Sandbox) or not possible, found


def test_what_the_probe_says_is_kept() -> None:
    """The machine is tried once in a process."""
    assert probe() is probe() or isinstance(probe(), str)
