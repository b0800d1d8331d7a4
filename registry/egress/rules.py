"""Where tools may go on the network: the rules as a record, judged before anything is sent.

    URL --scheme, user, port, shape of the host--> name --looked up once--> addresses --each of them--> go, or a sentence

A URL may come from a model, a document or the answer of a server, and name the machine itself, a neighbour or the
metadata service of a cloud in many disguises. So it is not the text that is judged but every address it leads to; the
connection is made to one of these, so that a name server cannot say something else in between.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from ...policies.errors import BadInput
from ...policies.failures import Kind, ToolFailure
from ...policies.spelling import spelled
from ...policies.text import did_you_mean, shorten
from .addresses import INSIDE, Address, kind_of, meant_by, read_address

__all__ = ["Egress", "Resolve", "bare", "refused"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks a host name up: its addresses as texts."""

_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z"
)
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_SCHEMES = {"https": 443, "http": 80}
_SYSTEM_PORTS = 1024
"""Below it are the services of the system: mail, names, files. RFC 6335, section 6."""


def refused(message: str, *, hint: str = "") -> ToolFailure:
    """The failure of a call that the rules do not let out: nothing was sent."""
    return ToolFailure(message, kind=Kind.PERMISSION, code="egress_refused", hint=hint)


class _Place(NamedTuple):
    """One entry of `allow` or `hosts`: a network or a name, on one port or on any."""

    network: IPv4Network | IPv6Network | None
    name: str
    port: int | None

    def names(self, host: str, port: int) -> bool:
        fits = host.endswith(self.name[1:]) if self.name.startswith("*.") else host == self.name
        return self.network is None and fits and self.port in (None, port)

    def holds(self, address: Address, port: int) -> bool:
        return self.network is not None and address in self.network and self.port in (None, port)


def _place(text: object, what: str) -> _Place:
    if not isinstance(text, str):
        raise BadInput(f"{what} holds places as text, like '10.0.0.0/8', not {shorten(repr(text), 40)}")
    host, port = _split(text.strip().lower())
    if port is None or 0 < port < 65536:
        try:
            return _Place(ip_network(host), "", port)
        except ValueError:
            if _NAME.match(host.removeprefix("*.")) and not _NUMBER.match(host.rpartition(".")[2]):
                return _Place(None, host, port)
    raise BadInput(
        f"{what} cannot hold {shorten(repr(text), 80)}; write an address, a network like '10.0.0.0/8', or a host, "
        "each with a port if you like: 'localhost:8080', '[::1]:8080', '*.example.com'"
    )


def _split(text: str) -> tuple[str, int | None]:
    """A host, and the port behind it if there is one."""
    found = re.fullmatch(
        r"\[(?P<six>[^\]]*)\](?::(?P<p6>\d{1,5}))?|(?P<host>[^:]*)(?::(?P<p4>\d{1,5}))?", text
    )
    if found is None:
        return text, None
    port = found["p6"] or found["p4"]
    return found["six"] or found["host"] or "", int(port) if port else None


@spelled
@dataclasses.dataclass(frozen=True, kw_only=True)
class Egress:
    """Where tools may go, and how much may come back. Raises `BadInput` for what is no rule.

    Public addresses may be reached by https and http, on the usual ports and on those from 1024 on. Private ones, the
    machine itself and other special ones may not, unless `allow` says so.
    """

    allow: Sequence[str] = ()
    """Networks, addresses and hosts that may be reached although they are not public: `["10.0.0.0/8",
    "localhost:8080"]`. A host may then have private and loopback addresses, not link-local ones: these must be named
    as such."""
    hosts: Sequence[str] | None = None
    """If given, the only hosts that may be called: `["api.example.com", "*.example.org"]`."""
    schemes: Sequence[str] = ("https", "http")
    timeout: float = 30.0
    """Seconds for one exchange, from the look-up of the name to the last byte, redirects included."""
    connect_timeout: float = 10.0
    most_bytes: int = 10 * 1024 * 1024
    """Bytes of an answer, after it was unpacked."""
    most_header_bytes: int = 32 * 1024
    redirects: int = 5
    """How many redirects of one request are followed; each is judged like a new request."""
    _allowed: list[_Place] = dataclasses.field(init=False, repr=False, compare=False)
    _only: list[_Place] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("allow", "hosts", "schemes"):
            given = getattr(self, name)
            if given is None and name == "hosts":
                continue
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise BadInput(f"{name} of an Egress is a list of texts, not {shorten(repr(given), 60)}")
        for name in ("timeout", "connect_timeout", "most_bytes", "most_header_bytes", "redirects"):
            self._check_number(name)
        for scheme in self.schemes:
            if scheme not in _SCHEMES:
                raise BadInput(f"tools speak https and http, not {shorten(repr(scheme), 40)}")
        set_ = object.__setattr__
        set_(self, "allow", tuple(self.allow))
        set_(self, "hosts", None if self.hosts is None else tuple(self.hosts))
        set_(self, "schemes", tuple(self.schemes))
        set_(self, "_allowed", [_place(text, "allow") for text in self.allow])
        set_(self, "_only", [_place(text, "hosts") for text in self.hosts or ()])

    def _check_number(self, name: str) -> None:
        number = getattr(self, name)
        low = 0 if name == "redirects" else 1e-3
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not low <= number < float("inf")
        ):
            raise BadInput(f"{name} of an Egress is {shorten(repr(number), 40)}; it is a number above 0")

    def admit(self, scheme: str, host: str, port: int | None, user: str = "") -> None:
        """Judge a URL by its parts, before its host is looked up. Raises `ToolFailure`."""
        if scheme not in self.schemes:
            raise refused(f"tools may speak {' and '.join(self.schemes)}, not {shorten(scheme, 20)!r}")
        if user:
            raise refused("a URL must not carry a user name or a password; hand credentials over in a header")
        self._admit_host(bare(host), _SCHEMES[scheme] if port is None else port)

    def _admit_host(self, host: str, port: int) -> None:
        if read_address(host) is None:
            if _NUMBER.match(host.rpartition(".")[2]):
                raise refused(
                    f"{shorten(host, 60)!r} is an address in disguise; write it as four numbers, like 192.0.2.1"
                )
            if not _NAME.match(host):
                raise refused(f"{shorten(host, 60)!r} is no name of a host")
        if self.hosts is not None and not any(self._is(place, host, port) for place in self._only):
            known = ", ".join(self.hosts) or "none"
            near = did_you_mean(host, self.hosts) or f"; there are {shorten(known, 120)}"
            raise refused(f"{shorten(host, 60)!r} is not among the hosts that may be called{near}")
        if not 0 < port < 65536:
            raise refused(f"{port} of {shorten(host, 60)!r} is no port: they go from 1 to 65535")
        if port < _SYSTEM_PORTS and port not in _SCHEMES.values() and not self._named(host, port):
            raise refused(
                f"port {port} of {shorten(host, 60)!r} is none that tools may call",
                hint=f"allow it by name: allow=['{host}:{port}']",
            )

    def allows_by_name(self, host: str, port: int) -> bool:
        """Whether `allow` speaks of this host, or of the address that it is written as."""
        return any(self._is(place, bare(host), port) for place in self._allowed)

    def _named(self, host: str, port: int) -> bool:
        """Whether `allow` names this very host and port."""
        return any(place.port == port and self._is(place, host, port) for place in self._allowed)

    @staticmethod
    def _is(place: _Place, host: str, port: int) -> bool:
        address = read_address(host)
        return place.names(host, port) if address is None else place.holds(address, port)

    def check(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        """The addresses of a host, if the host may be reached at all of them. Raises `ToolFailure`.

        One bad address among good ones is reason enough: no honest name has both.
        """
        host = bare(host)
        by_name = any(place.names(host, port) for place in self._allowed)
        for text in addresses:
            address = read_address(text)
            if address is None or getattr(address, "scope_id", None):
                raise refused(
                    f"{shorten(host, 60)!r} leads to {shorten(text, 60)!r}, which is no address to call"
                )
            kind = kind_of(address)
            if kind and not (by_name and kind in INSIDE) and not self._allows(address, port):
                raise self._off_limits(host, address, port, kind)
        return list(addresses)

    def _allows(self, address: Address, port: int) -> bool:
        forms = {address, meant_by(address)}
        return any(place.holds(form, port) for place in self._allowed for form in forms)

    def _off_limits(self, host: str, address: Address, port: int, kind: str) -> ToolFailure:
        what = f"{address} ({kind})"
        meant = meant_by(address)
        inside = f", which is {meant}" if meant != address else ""
        leads = what if read_address(host) else f"{shorten(host, 60)!r} leads to {what}"
        shown = f"[{address}]" if address.version == 6 else str(address)
        return refused(
            f"{leads}{inside}: tools may call public addresses only",
            hint=f"if that is meant, allow it: Egress(allow=['{shown}:{port}'])",
        )


def bare(host: str) -> str:
    """The host without what only a URL needs."""
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
