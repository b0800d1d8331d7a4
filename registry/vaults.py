"""Where secrets come from: a tool names the secret that a parameter needs, and one of these has its value.

    EnvironmentSecrets    environment variables
    MappingSecrets        what the program has read itself
    KeyringSecrets        the keyring of the system
    FileSecrets           files, one for each secret
    Chained               the first of several that has it

A vault of your own is anything with `resolve(ref)`, sync or async, that gives a `Secret` or a text and raises
`SecretMissing` where it has none of this name. A sync one is called in the event loop; where it must wait, it says
`blocking = True` and is called in a thread.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

from ..policies.errors import SecretMissing, expect
from ..policies.secrets import Secret
from ..policies.spelling import spelled
from ..policies.text import did_you_mean

__all__ = [
    "Chained",
    "EnvironmentSecrets",
    "FileSecrets",
    "KeyringSecrets",
    "MappingSecrets",
    "Resolved",
    "Vault",
]

Resolved: TypeAlias = "Secret | str"
_MOST = 64 * 1024
"""Bytes of a file that holds a secret."""


class Vault(Protocol):
    """One method: the secret of this name."""

    def resolve(self, ref: str) -> Resolved | Awaitable[Resolved]:
        """Raises `SecretMissing` where there is none."""


@spelled
class EnvironmentSecrets:
    """Environment variables, read at each call: `EnvironmentSecrets("CRM_")` reads CRM_TOKEN for TOKEN."""

    def __init__(self, prefix: str = "") -> None:
        expect(str, prefix, "the prefix of environment variables")
        self.prefix = prefix

    def resolve(self, ref: str) -> Secret:
        """The value of the variable; an empty one counts as none."""
        name = self.prefix + ref
        value = os.environ.get(name, "")
        if not value:
            near = did_you_mean(
                name, [n for n, value in os.environ.items() if value and n.startswith(self.prefix)]
            )
            raise SecretMissing(ref, f"set the environment variable {name}{near}")
        return Secret(value, ref)

    def __repr__(self) -> str:
        return f"EnvironmentSecrets({self.prefix!r})"


@spelled
class MappingSecrets:
    """Secrets that the program holds itself, by name. Raises `SecretRefused` at once for one that is too short."""

    def __init__(self, secrets: Mapping[str, Secret | str]) -> None:
        expect(Mapping, secrets, "the secrets", "MappingSecrets({'CRM_TOKEN': ...})")
        self._secrets = {ref: Secret(_text(value), ref) for ref, value in secrets.items()}

    def resolve(self, ref: str) -> Secret:
        """The secret of this name."""
        try:
            return self._secrets[ref]
        except KeyError:
            near = did_you_mean(ref, self._secrets)
            raise SecretMissing(ref, f"it is not among those that the program gives{near}") from None

    def __repr__(self) -> str:
        return f"<MappingSecrets of {len(self._secrets)}>"


@spelled
class KeyringSecrets:
    """The system's keyring, by way of the library `keyring`: `pip install foreplan[keyring]`.

    A secret is stored there with `keyring set SERVICE NAME`. Called in a thread, since a keyring may ask its owner.
    """

    blocking = True

    def __init__(self, service: str) -> None:
        expect(str, service, "the service in the keyring")
        self.service = service

    def resolve(self, ref: str) -> Secret:
        """What is stored for the service under this name."""
        import keyring

        value = keyring.get_password(self.service, ref)
        if value is None:
            raise SecretMissing(ref, f"store it with: keyring set {self.service} {ref}")
        return Secret(value, ref)

    def __repr__(self) -> str:
        return f"KeyringSecrets({self.service!r})"


@spelled
class FileSecrets:
    """Files that hold one secret each, by name, read at each call; `others` has those for which no file is named.

    White space at the end of a file, such as the newline that editors put there, is no part of the secret.
    """

    def __init__(self, files: Mapping[str, str | os.PathLike[str]], others: Vault | None = None) -> None:
        expect(Mapping, files, "the files of secrets", "FileSecrets({'CRM_TOKEN': '/run/secrets/crm'})")
        self._files = {ref: Path(file) for ref, file in files.items()}
        self._others = others
        self.blocking = getattr(others, "blocking", False)

    def resolve(self, ref: str) -> Resolved | Awaitable[Resolved]:
        """What stands in the file of this name."""
        if ref in self._files:
            return Secret(self._read(ref), ref)
        if self._others is not None:
            return self._others.resolve(ref)
        near = did_you_mean(ref, self._files)
        raise SecretMissing(ref, f"no file is named for it{near}")

    def _read(self, ref: str) -> str:
        file = self._files[ref]
        try:
            text = file.read_bytes()[: _MOST + 1].decode().rstrip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise SecretMissing(ref, f"its file {str(file)!r} cannot be read: {why}") from None
        if not text or len(text) > _MOST:
            why = "is empty" if not text else f"is larger than {_MOST:,} bytes"
            raise SecretMissing(ref, f"its file {str(file)!r} {why}")
        return text

    def __repr__(self) -> str:
        return f"<FileSecrets of {len(self._files)}>"


class Chained:
    """Several, asked in their order: the first that has the secret gives it. One that fails otherwise is not passed over."""

    def __init__(self, *vaults: Vault) -> None:
        self.vaults = vaults
        self.blocking = any(getattr(vault, "blocking", False) for vault in vaults)

    def resolve(self, ref: str) -> Resolved | Awaitable[Resolved]:
        """What the first that has it gives."""
        return self._from(0, ref)

    def _from(self, place: int, ref: str) -> Resolved | Awaitable[Resolved]:
        for n, vault in enumerate(self.vaults[place:], place):
            try:
                said = vault.resolve(ref)
            except SecretMissing:
                continue
            return self._waited(n, said, ref) if inspect.isawaitable(said) else said
        raise SecretMissing(ref, f"none of {len(self.vaults)} vaults has it")

    async def _waited(self, place: int, said: Awaitable[Resolved], ref: str) -> Resolved:
        try:
            return await said
        except SecretMissing:
            rest = self._from(place + 1, ref)
            return await rest if inspect.isawaitable(rest) else rest

    def __repr__(self) -> str:
        return f"Chained({', '.join(map(repr, self.vaults))})"


def _text(value: Secret | str) -> str:
    return value.reveal() if isinstance(value, Secret) else value
