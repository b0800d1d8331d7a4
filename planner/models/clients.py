"""Who asks a service through its SDK: the client that was handed in, or a new one for each question.

A client of its own is closed after the question, so that a model may be asked from any event loop and leaves nothing open.
Retries and time limits of an SDK are off: those of the run hold.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any

from ...policies.errors import BadInput
from ...policies.secrets import Secret
from .telling import needs

__all__ = ["Clients", "needed"]

_SALT = os.urandom(16)


class Clients:
    """`make(base_url, api_key)` gives a new one; `check` refuses one that cannot ask."""

    def __init__(
        self,
        given: Any,
        base_url: str | None,
        api_key: str | Secret | None,
        make: Callable[[str | None, str | Secret | None], Any],
        check: Callable[[Any], None] = lambda client: None,
    ) -> None:
        if given is not None and (base_url is not None or api_key is not None):
            raise BadInput("a client has its own base_url and api_key; give them, or the client")
        self._given = given
        self._settings = (base_url, api_key)
        self._make = make
        self._check = check

    @property
    def account(self) -> str:
        """Equal where the same service is asked with the same key, and nothing from which the key could be told."""
        url, key = self._settings
        if self._given is not None:
            url, key = str(getattr(self._given, "base_url", "")), getattr(self._given, "api_key", None)
        shown = key.reveal() if isinstance(key, Secret) else str(key or "")
        return sha256(_SALT + f"{url or ''}\0{shown}".encode()).hexdigest()[:16]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """A client for one question."""
        if self._given is not None:
            yield self._given.with_options(max_retries=0)
            return
        async with self._make(*self._settings) as client:
            self._check(client)
            yield client


@contextmanager
def needed(package: str, extra: str) -> Iterator[None]:
    """Around the import of a package that only some need. Raises `BadInput` with what to install."""
    try:
        yield
    except ModuleNotFoundError:
        raise needs(package, extra) from None
