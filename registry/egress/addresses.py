"""What an IP address is for: the public internet, or a place that strangers must not be able to name.

    address --IPv4 inside an IPv6?--> the address that is meant --first network it lies in--> a word, or "" for public

Mapped addresses and those of NAT64 are judged by the IPv4 address in them: that is where a packet ends. Of tunnels (6to4,
Teredo) nobody knows where it ends, so they are a kind of their own. The tables are written out, since what the standard
library calls global differs between versions of Python.
Sources: the IANA special-purpose address registries; RFC 6052, RFC 6890; the address of Azure's wire server.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["INSIDE", "Address", "kind_of", "meant_by", "read_address"]

Address = IPv4Address | IPv6Address

_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "metadata",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "tunnel",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_V6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "2001::/32": "tunnel",
    "2001::/23": "reserved",
    "2001:db8::/32": "documentation",
    "2002::/16": "tunnel",
    "3fff::/20": "documentation",
    "2000::/3": "",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
}
"""The first that holds an address decides; outside all of them nothing is public."""

_TABLE4 = [(IPv4Network(text), kind) for text, kind in _V4.items()]
_TABLE6 = [(IPv6Network(text), kind) for text, kind in _V6.items()]
_HOLDS_V4 = tuple(ip_network(text) for text in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))

INSIDE = frozenset({"loopback", "private", "shared"})
"""Places with hosts of one's own, which a host name may be allowed to lead to."""


def read_address(text: str) -> Address | None:
    """The address that a text is in its usual form; None for any other text, `127.1` and `0x7f000001` among them."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def meant_by(address: Address) -> Address:
    """The IPv4 address inside a mapped or translated one; any other as it is."""
    if isinstance(address, IPv6Address) and any(address in network for network in _HOLDS_V4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def kind_of(address: Address) -> str:
    """What the address is for, in a word; "" where it is public."""
    meant = meant_by(address)
    if isinstance(meant, IPv4Address):
        return next((kind for network, kind in _TABLE4 if meant in network), "")
    return next((kind for network, kind in _TABLE6 if meant in network), "reserved")
