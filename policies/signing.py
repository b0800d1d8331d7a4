"""Who signed what: one key for both sides (HMAC), or a private and a public one (Ed25519).

    Verifier    verify(data, signature) -> bool         knows who may sign
    Signer      and sign(data) -> bytes                 can

HMAC-SHA256 needs nothing but Python; but whoever can check a signature can make one. Where those who check must not be able
to sign, use Ed25519, which needs `pip install 'foreplan[ed25519]'`.

A key is 32 bytes or more: the bytes themselves, a text of hex digits, or any other text as UTF-8. It does not show itself.
"""

from __future__ import annotations

import hmac
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, Protocol

from .errors import BadInput
from .secrets import Secret
from .spelling import spelled

__all__ = [
    "Ed25519Signer",
    "Ed25519Verifier",
    "HmacSigner",
    "Signer",
    "Verifier",
    "read_signer",
    "read_verifier",
]

LEAST = 32
"""Bytes of a key: as many as the digest has (RFC 2104, section 3)."""
_MOST = 64 * 1024
"""Bytes of a file that holds a key; a larger one is something else."""
_PEM = b"-----BEGIN "


class Verifier(Protocol):
    """Knows a signature of this key when it sees one."""

    id: str
    """Whose key it is; "" where it is nobody's in particular."""
    algorithm: str
    fingerprint: str
    """Names the key without telling it."""

    def verify(self, data: bytes, signature: bytes, /) -> bool:
        """Whether the holder of the key signed exactly these bytes."""


class Signer(Verifier, Protocol):
    """Holds the key itself."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature of these bytes."""


@spelled
class HmacSigner:
    """HMAC-SHA256 with a key of 32 bytes or more; signs and verifies. Raises `BadInput` for less."""

    algorithm = "hmac-sha256"

    def __init__(self, key: Secret | str | bytes, id: str = "") -> None:
        data = _key_bytes(key)
        if len(data) < LEAST:
            raise BadInput(
                f"a key must have at least {LEAST} bytes, this one has {len(data)}; "
                "`python -c 'import secrets; print(secrets.token_hex(32))'` makes one"
            )
        self.id = id
        self._begun = hmac.new(data, digestmod="sha256")  # begun, and copied each time: the key is not kept
        self.fingerprint = self.sign(b"foreplan key\n").hex()[:16]

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], id: str = "") -> HmacSigner:
        """The key in a file, without white space around it. Raises `BadInput`."""
        return cls(_read(path), id)

    @classmethod
    def from_environment(cls, name: str, id: str = "") -> HmacSigner:
        """The key in an environment variable. Raises `BadInput`."""
        text = os.environ.get(name, "")
        if not text:
            raise BadInput(f"there is no key: the environment variable {name} is not set")
        return cls(text, id)

    def sign(self, data: bytes, /) -> bytes:
        """32 bytes."""
        mac = self._begun.copy()
        mac.update(data)
        return mac.digest()

    def verify(self, data: bytes, signature: bytes, /) -> bool:
        """Whether the key's holder signed this; it takes as long to find out whatever the signature is."""
        return hmac.compare_digest(self.sign(data), signature)

    def __repr__(self) -> str:
        return f"<HmacSigner {self.id or self.fingerprint}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a key cannot be pickled; read it where it is used")


@spelled
class Ed25519Verifier:
    """The public key (PEM, or its 32 bytes). Raises `BadInput`, also where `cryptography` is not installed."""

    algorithm = "ed25519"

    def __init__(self, key: str | bytes, id: str = "") -> None:
        self._take(_public(_cryptography(), key.encode() if isinstance(key, str) else key), id)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], id: str = "") -> Ed25519Verifier:
        """The public key in a PEM file. Raises `BadInput`."""
        return cls(_read(path), id)

    def _take(self, key: Any, id: str) -> None:
        self.id = id
        self._public = key
        self.fingerprint = sha256(key.public_bytes_raw()).hexdigest()[:16]

    def verify(self, data: bytes, signature: bytes, /) -> bool:
        """Whether the holder of the private key signed this."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id or self.fingerprint}>"


@spelled
class Ed25519Signer(Ed25519Verifier):
    """The private key (PEM without a password, or its 32 bytes as a `Secret` of hex digits)."""

    def __init__(self, key: Secret | str | bytes, id: str = "") -> None:
        self._private = _private(_cryptography(), _key_bytes(key))
        self._take(self._private.public_key(), id)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], id: str = "") -> Ed25519Signer:
        """The private key in a PEM file. Raises `BadInput`."""
        return cls(_read(path), id)

    @property
    def public(self) -> str:
        """The public key as PEM, for those who verify."""
        return str(_pem(self._public))

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes."""
        return bytes(self._private.sign(data))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a key cannot be pickled; read it where it is used")


def read_signer(path: str | os.PathLike[str], id: str = "") -> Signer:
    """The key in a file: a private Ed25519 key where it is PEM, else one for HMAC. Raises `BadInput`."""
    data = _read(path)
    if b"PUBLIC KEY" in data.partition(b"\n")[0]:
        raise BadInput(f"{path} holds a public key, which cannot sign; give the private one")
    return Ed25519Signer(data, id) if data.startswith(_PEM) else HmacSigner(data, id)


def read_verifier(path: str | os.PathLike[str], id: str = "") -> Verifier:
    """The same for those who verify: a public Ed25519 key will do."""
    data = _read(path)
    if b"PUBLIC KEY" in data.partition(b"\n")[0]:
        return Ed25519Verifier(data, id)
    return read_signer(path, id)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"the key in {os.fspath(path)!r} cannot be read: {said}") from None
    if len(data) > _MOST:
        raise BadInput(f"{os.fspath(path)!r} is too large to be a key")
    return data.strip()


def _key_bytes(key: Secret | str | bytes) -> bytes:
    """The bytes of a key; hex digits mean the bytes they spell, wherever that is a key long enough."""
    given: object = key
    if not isinstance(given, Secret | str | bytes):
        raise BadInput(f"a key is a Secret, text or bytes, not {type(given).__name__}")
    data = key.reveal().encode() if isinstance(key, Secret) else key.encode() if isinstance(key, str) else key
    if len(data) >= 2 * LEAST and re.fullmatch(rb"(?:[0-9a-fA-F]{2})+", data):
        return bytes.fromhex(data.decode())
    return data


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BadInput(
            "Ed25519 keys need the package `cryptography`: pip install 'foreplan[ed25519]'"
        ) from None
    return ed25519


def _public(library: Any, data: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = (
            load_pem_public_key(data)
            if data.startswith(_PEM)
            else library.Ed25519PublicKey.from_public_bytes(data)
        )
    except Exception:
        raise BadInput("this is no public Ed25519 key: give PEM, or its 32 bytes") from None
    return _expect(found, library.Ed25519PublicKey)


def _private(library: Any, data: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = (
            load_pem_private_key(data, None)
            if data.startswith(_PEM)
            else library.Ed25519PrivateKey.from_private_bytes(data)
        )
    except Exception:
        raise BadInput(
            "this is no private Ed25519 key: give PEM without a password, or its 32 bytes"
        ) from None
    return _expect(found, library.Ed25519PrivateKey)


def _expect(found: Any, kind: type[Any]) -> Any:
    if not isinstance(found, kind):
        raise BadInput(f"this is a key of another kind ({type(found).__name__}); an Ed25519 key is needed")
    return found


def _pem(public: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())
