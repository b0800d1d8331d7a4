"""Small checkers for the formats of JSON Schema, each in time linear in the text.

JSON Schema leaves formats to the reader; here a known one is really checked, an unknown one means nothing. Stricter
than many libraries: date-time and time need an offset (RFC 3339); hostname and email are ASCII. Wider in one place:
a duration may be negative and have a fraction of a second, because `timedelta` is written so.
Sources: RFC 3339, 3986, 3987, 5321, 1123, 6901, 6570, 4122; JSON Schema 2020-12, validation, section 7.3.
"""

from __future__ import annotations

import ipaddress
import re
import warnings
from collections.abc import Callable
from datetime import date

__all__ = ["EXAMPLES", "FORMATS"]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[zZ]|(?P<sign>[+-])(?P<oh>[01][0-9]|2[0-3]):(?P<om>[0-5][0-9]))"
)
_DURATION = re.compile(
    r"-?P(?:[0-9]+W|(?=[0-9T])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?"
    r"(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?)"
)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+")
_QUOTED = re.compile(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
_NOT_IN_NAME = re.compile(r"[\x00-\x20\x7f-\xa0\"#%&'()*,/:;<=>?@\[\\\]^`{|}\u2028\u2029\ud800-\udfff]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_RELATIVE_POINTER = re.compile(r"(?:0|[1-9][0-9]*)(?:[+-](?:0|[1-9][0-9]*))?(?:#|(?:/(?:[^/~]|~[01])*)*)")

_URI_CHARS = r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]"
_IRI_CHARS = r"[A-Za-z0-9._~!$&'()*+,;=:@/?%\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd-]"
_PARTS = r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://(?P<authority>[^/?#]*))?CHARS*(?:#CHARS*)?"
_URI = re.compile(_PARTS.replace("CHARS", _URI_CHARS))
_IRI = re.compile(_PARTS.replace("CHARS", _IRI_CHARS))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY = re.compile(r"(?:[^@\[\]]*@)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|[^@:\[\]]*)(?::[0-9]*)?")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NO_PATH_COLON = re.compile(r"[^/?#]*:")
_TEMPLATE = re.compile(
    r"(?:[^\x00-\x20\"'<>\\^`{|}%]|%[0-9A-Fa-f]{2}|\{[+#./;?&=,!@|]?[A-Za-z0-9_.%,:*]+\})*"
)


def _date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    if match["s"] != "60":
        return True
    # A leap second is the last one of a day in UTC.
    offset = (
        (int(match["oh"]) * 60 + int(match["om"])) * (-1 if match["sign"] == "-" else 1) if match["oh"] else 0
    )
    return (int(match["h"]) * 60 + int(match["m"]) - offset) % 1440 == 1439


def _date_time(text: str) -> bool:
    return text[10:11] in ("T", "t") and _date(text[:10]) and _time(text[11:])


def _duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None


def _hostname(text: str) -> bool:
    return 0 < len(text) <= 253 and all(map(_LABEL.fullmatch, text.split(".")))


def _idn_hostname(text: str) -> bool:
    if not 0 < len(text) <= 253 or _NOT_IN_NAME.search(text):
        return False
    labels = re.split("[.\u3002\uff0e\uff61]", text)
    return all(0 < len(label) <= 63 and label[0] != "-" and label[-1] != "-" for label in labels)


def _mailbox(text: str, local_is_fine: Callable[[str], bool], host: Callable[[str], bool]) -> bool:
    local, at, domain = text.rpartition("@")
    if not at or not 0 < len(local) <= 64 or len(domain) > 255:
        return False
    if domain[:1] == "[" and domain[-1:] == "]":
        inner = domain[1:-1]
        fine = _ipv6(inner[5:]) if inner[:5].lower() == "ipv6:" else _ipv4(inner)
    else:
        fine = host(domain)
    return fine and (local_is_fine(local) or _QUOTED.fullmatch(local) is not None)


def _email(text: str) -> bool:
    return _mailbox(text, lambda local: all(map(_ATOM.fullmatch, local.split("."))), _hostname)


def _idn_email(text: str) -> bool:
    def fine(local: str) -> bool:
        ascii_only = "".join(c if c.isascii() else "a" for c in local)
        return all(map(_ATOM.fullmatch, ascii_only.split("."))) and not _NOT_IN_NAME.search(_bare(local))

    return _mailbox(text, fine, _idn_hostname)


def _bare(local: str) -> str:
    return "".join(c for c in local if not c.isascii())


def _ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(
        p.isascii() and p.isdigit() and str(int(p[:4])) == p and int(p) < 256 for p in parts
    )


def _ipv6(text: str) -> bool:
    if len(text) > 45 or "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _reference(text: str, grammar: re.Pattern[str]) -> bool:
    match = grammar.fullmatch(text)
    if match is None or _BAD_PERCENT.search(text):
        return False
    authority = match["authority"]
    if authority is None:
        return True
    host = _AUTHORITY.fullmatch(authority)
    if host is None or re.search(r'[\s"<>\\^`{|}]', authority):
        return False
    ascii_is_fine = grammar is _IRI or authority.isascii()
    return ascii_is_fine and (host["six"] is None or _ipv6(host["six"]))


def _uri(text: str) -> bool:
    return _SCHEME.match(text) is not None and _reference(text, _URI)


def _iri(text: str) -> bool:
    return _SCHEME.match(text) is not None and _reference(text, _IRI)


def _relative(text: str) -> bool:
    return _SCHEME.match(text) is not None or _NO_PATH_COLON.match(text) is None


def _uri_reference(text: str) -> bool:
    return _relative(text) and _reference(text, _URI)


def _iri_reference(text: str) -> bool:
    return _relative(text) and _reference(text, _IRI)


def _regex(text: str) -> bool:
    if len(text) > 2000:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    "duration": _duration,
    "email": _email,
    "idn-email": _idn_email,
    "hostname": _hostname,
    "idn-hostname": _idn_hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uri": _uri,
    "uri-reference": _uri_reference,
    "iri": _iri,
    "iri-reference": _iri_reference,
    "uri-template": lambda text: _TEMPLATE.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "json-pointer": lambda text: _POINTER.fullmatch(text) is not None,
    "relative-json-pointer": lambda text: _RELATIVE_POINTER.fullmatch(text) is not None,
    "regex": _regex,
}
"""By name: whether a text has the format."""

EXAMPLES: dict[str, str] = {
    "date": "2024-02-29",
    "time": "08:30:00Z",
    "date-time": "2024-02-29T08:30:00Z",
    "duration": "P1DT2H",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "json-pointer": "/rows/0",
}
"""One text per format that people get wrong, for messages."""
