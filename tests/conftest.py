"""Fixtures for all tests: both event loops."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on asyncio and on trio."""
    return str(request.param)
