"""For all tests: both event loops, and programs of which the modules are compiled once."""

from __future__ import annotations

import os
import tempfile

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on asyncio and on trio."""
    return str(request.param)


def pytest_configure(config: pytest.Config) -> None:
    """Where Python may write no bytecode beside the sources, the programs that tests start share a folder for it.

    Otherwise each of them would compile every module anew, which takes longer than most of what they do.
    """
    if os.environ.get("PYTHONDONTWRITEBYTECODE") and not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="foreplan-bytecode-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
        del os.environ["PYTHONDONTWRITEBYTECODE"]
