"""Tools go out to public addresses only: whatever a name looks like, leads to, or turns into on the way."""

from __future__ import annotations

import gzip
import importlib.util
import ssl
import zlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

if importlib.util.find_spec("httpx2") is None:
    pytest.skip("the package httpx2 is not installed", allow_module_level=True)

import httpx2
import trustme
from support.web import Seen, reply, serving

from foreplan import Egress, Kind, ToolFailure, guarded_client
from foreplan.policies.classification import classify
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Happened
from foreplan.registry.egress.addresses import kind_of, read_address

pytestmark = pytest.mark.anyio

LOOPBACK = Egress(allow=["127.0.0.0/8"])


def names(**known: str | list[str]) -> Any:
    """A look-up that knows these names; `_` stands for a dot."""

    async def resolve(host: str, port: int) -> list[str]:
        found = known[host.replace(".", "_")]
        return [found] if isinstance(found, str) else found

    return resolve


async def refusal(url: str, egress: Egress | None = None, **options: Any) -> ToolFailure:
    """Why a GET of this URL is refused."""
    async with guarded_client(egress, **options) as client:
        with pytest.raises(ToolFailure) as raised:
            await client.get(url)
    assert (raised.value.kind, raised.value.happened) == (Kind.PERMISSION, Happened.NO)
    assert raised.value.code == "egress_refused"
    return raised.value


# --- Addresses.


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.0.9", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("100.100.100.200", "shared"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "metadata"),
        ("192.0.0.192", "reserved"),
        ("198.18.0.1", "benchmarking"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:a9fe:a9fe", "link-local"),
        ("::ffff:0:10.0.0.1", "private"),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "tunnel"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "tunnel"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("4000::1", "reserved"),
        ("8.8.8.8", ""),
        ("172.32.0.1", ""),
        ("64:ff9b::8.8.8.8", ""),
        ("::ffff:8.8.8.8", ""),
        ("2606:4700:4700::1111", ""),
    ],
)
def test_an_address_is_what_it_leads_to(address: str, kind: str) -> None:
    """Mapped and translated addresses are judged by the one inside; on every Python alike."""
    found = read_address(address)
    assert found is not None
    assert kind_of(found) == kind


@pytest.mark.parametrize("port", [0, 65536, 99999])
async def test_what_is_no_port_is_refused(port: int) -> None:
    """With a sentence; nothing is looked up."""
    async with guarded_client(Egress(allow=["127.0.0.1"])) as client:
        with pytest.raises(ToolFailure, match="is no port") as raised:
            await client.get(f"http://127.0.0.1:{port}/")
        assert raised.value.code == "egress_refused"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.0x1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:0001::]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a..b",
        "a b",
    ],
)
async def test_no_disguise_of_the_machine_itself_is_let_out(host: str) -> None:
    """Threat 13: numbers, octal, hexadecimal, mapped, translated, tunnelled, a dot at the end; nothing is sent."""
    async with guarded_client() as client:
        with pytest.raises((ToolFailure, httpx2.InvalidURL)) as raised:
            await client.get(f"http://{host}/")
    failure = classify(raised.value)
    assert (failure.kind in (Kind.PERMISSION, Kind.BAD_ARGS), failure.happened) == (True, Happened.NO)


@pytest.mark.parametrize("host", ["①②⑦.⓪.⓪.①", "１２７.0.0.1", "ⓛocalhost", "127。0。0。1"])
async def test_letters_that_look_like_others_lead_nowhere_else(host: str) -> None:
    """IDNA: what is no name is refused before it is looked up, what is one is judged by where it leads."""
    async with guarded_client() as client:
        with pytest.raises((ToolFailure, httpx2.InvalidURL)):
            await client.get(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://ada:pw@example.com/", "must not carry a user name"),
        ("http://example.com:22/", "port 22"),
        ("http://127.1/", "an address in disguise"),
        ("ftp://example.com/", "may speak https and http"),
    ],
)
async def test_a_url_is_judged_before_its_name_is_looked_up(url: str, said: str) -> None:
    """User names, ports of the system, other schemes."""
    assert said in str(await refusal(url, resolve=names()))


async def test_every_address_of_a_name_must_be_allowed() -> None:
    """One private address among public ones is enough: which one is used must not be left to luck."""
    both = names(api_example_com=["8.8.8.8", "10.0.0.7"])
    failure = await refusal("http://api.example.com/", resolve=both)
    assert (
        str(failure) == "'api.example.com' leads to 10.0.0.7 (private): tools may call public addresses only"
    )
    assert failure.hint == "if that is meant, allow it: Egress(allow=['10.0.0.7:80'])"
    mapped = names(api_example_com="::ffff:10.0.0.7")
    assert "which is 10.0.0.7" in str(await refusal("http://api.example.com/", resolve=mapped))
    zone = names(api_example_com="fe80::1%eth0")
    assert "no address to call" in str(await refusal("http://api.example.com/", resolve=zone))


@pytest.mark.parametrize(
    ("allow", "host", "address", "fine"),
    [
        (["10.0.0.0/8"], "a.test", "10.0.0.7", True),
        (["10.0.0.0/8"], "a.test", "::ffff:10.0.0.7", True),
        (["10.0.0.0/8"], "a.test", "192.168.0.1", False),
        (["10.0.0.7:8080"], "a.test", "10.0.0.7", True),
        (["10.0.0.7:8081"], "a.test", "10.0.0.7", False),
        (["a.test"], "a.test", "10.0.0.7", True),
        (["a.test:8080"], "A.test.", "127.0.0.1", True),
        (["*.test"], "b.a.test", "127.0.0.1", True),
        (["*.test"], "test", "127.0.0.1", False),
        (["a.test"], "b.test", "127.0.0.1", False),
        (["a.test"], "a.test", "169.254.169.254", False),
        (["169.254.169.254"], "a.test", "169.254.169.254", True),
        (["[::1]:8080"], "a.test", "::1", True),
        (["fd00::/8"], "a.test", "fd12::1", True),
    ],
)
def test_what_is_private_is_allowed_by_network_address_or_name(
    allow: list[str], host: str, address: str, fine: bool
) -> None:
    """A name opens private places, never the metadata service of a cloud: that must be named by its address."""
    rules = Egress(allow=allow)
    if fine:
        assert rules.check(host, 8080, [address]) == [address]
    else:
        with pytest.raises(ToolFailure):
            rules.check(host, 8080, [address])


def test_only_the_hosts_that_are_named_may_be_called() -> None:
    """With `hosts`, also public ones are refused, with the nearest name."""
    rules = Egress(hosts=["api.example.com", "*.example.org", "8.8.8.0/24"])
    for host in ("api.example.com", "x.example.org", "8.8.8.8"):
        rules.admit("https", host, None)
    with pytest.raises(ToolFailure, match=r"did you mean 'api\.example\.com'"):
        rules.admit("https", "api.example.con", None)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"allow": "10.0.0.0/8"}, "a list of texts"),
        ({"allow": ["10.0.0.1/8"]}, "cannot hold '10.0.0.1/8'"),
        ({"allow": ["http://localhost"]}, "cannot hold"),
        ({"allow": ["localhost:99999"]}, "cannot hold"),
        ({"allow": [7]}, "places as text"),
        ({"hosts": ["127.1"]}, "cannot hold"),
        ({"schemes": ["ftp"]}, "https and http"),
        ({"timeout": 0}, "a number above 0"),
        ({"most_bytes": True}, "a number above 0"),
    ],
)
def test_a_rule_that_is_none_is_refused_at_once(rules: dict[str, Any], said: str) -> None:
    """A misspelt rule must not leave a door open, nor shut."""
    with pytest.raises(BadInput, match=said):
        Egress(**rules)


@pytest.mark.parametrize("option", ["proxy", "mounts", "transport", "trust_env", "follow_redirects"])
def test_no_option_of_the_client_leads_around_the_guard(option: str) -> None:
    """A proxy looks names up by itself, a transport of its own asks nobody."""
    with pytest.raises(BadInput, match=f"takes no {option}"):
        guarded_client(**{option: None})


# --- Connections.


async def test_what_was_checked_is_what_is_connected_to() -> None:
    """A name that is looked up again and leads elsewhere then: the check and the connection use one answer."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.2" if len(asked) == 1 else "127.0.0.1"]

    async with (
        serving(lambda seen: reply("good"), host="127.0.0.2") as good,
        serving(lambda seen: reply("bad"), host="127.0.0.1", port=good.port) as bad,
    ):
        client = guarded_client(Egress(allow=["127.0.0.2"]), resolve=resolve)
        async with client:
            url = f"http://moves.test:{good.port}/"
            assert (await client.get(url, headers={"Connection": "close"})).text == "good"
            assert asked == ["moves.test"]
            assert good.seen[0].headers["host"] == f"moves.test:{good.port}"
            with pytest.raises(ToolFailure, match=r"leads to 127\.0\.0\.1"):
                await client.get(url)
        assert bad.seen == []


async def test_the_name_stays_what_tls_asks_for() -> None:
    """The socket goes to an address, the certificate must be that of the name."""
    authority = trustme.CA()
    server, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("shop.test").configure_cert(server)
    authority.configure_trust(trust)
    resolve = names(shop_test="127.0.0.1", other_test="127.0.0.1")
    async with (
        serving(lambda seen: reply("hello"), tls=server) as web,
        guarded_client(LOOPBACK, resolve=resolve, verify=trust) as client,
    ):
        assert (await client.get(f"https://shop.test:{web.port}/")).text == "hello"
        with pytest.raises(httpx2.ConnectError) as raised:
            await client.get(f"https://other.test:{web.port}/")
        assert classify(raised.value).code == "tls_certificate"


async def test_what_goes_wrong_on_the_way_is_one_of_the_five_kinds() -> None:
    """Refused, unknown, cut off: as httpx2 raises it, so as the tables know it."""
    async with (
        serving(lambda seen: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc") as web,
        guarded_client(LOOPBACK) as client,
    ):
        with pytest.raises(httpx2.RemoteProtocolError) as cut:
            await client.get(web.url)
    async with guarded_client(LOOPBACK) as client:
        with pytest.raises(httpx2.ConnectError) as raised:
            await client.get(web.url)
    assert classify(cut.value).kind == Kind.NETWORK
    assert classify(raised.value).code == "connection_refused"


# --- Redirects.


def redirecting(target: str, status: int = 302) -> Any:
    return lambda seen: reply("here") if seen.path == "/end" else reply("", status, location=target)


async def test_a_redirect_is_judged_like_a_request() -> None:
    """A public page that sends on to the metadata service does not get there."""
    async with serving(redirecting("/end")) as web, guarded_client(LOOPBACK) as client:
        assert (await client.get(web.url)).text == "here"
    async with serving(redirecting("http://169.254.169.254/latest/meta-data/")) as web:
        await refusal(web.url, LOOPBACK)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_of_what_changes_something_is_not_followed(status: int) -> None:
    """Nobody approved that the same is sent elsewhere, or sent again."""
    async with serving(redirecting("/end", status)) as web, guarded_client(LOOPBACK) as client:
        assert (await client.post(web.url, json={})).status_code == status
        assert [seen.method for seen in web.seen] == ["POST"]


async def test_what_may_be_a_credential_does_not_go_to_another_host() -> None:
    """Not in Authorization, not in a cookie, not in a header that a service made up."""
    async with serving(lambda seen: reply("got it")) as other:
        async with serving(redirecting(f"{other.url}/")) as web, guarded_client(LOOPBACK) as client:
            assert (await client.get(web.url)).text == "got it"
            for name in ("Authorization", "Cookie", "X-Api-Key"):
                with pytest.raises(ToolFailure, match="not followed") as raised:
                    await client.get(web.url, headers={name: "sk-live"})
                assert raised.value.code == "redirected"
        assert len(other.seen) == 1


async def test_redirects_come_to_an_end() -> None:
    """A circle is no place."""
    async with serving(redirecting("/again")) as web, guarded_client(LOOPBACK) as client:
        with pytest.raises(ToolFailure, match="more than 5 redirects"):
            await client.get(web.url)
        assert len(web.seen) == 6


# --- Bounds.


async def test_an_answer_is_counted_after_it_was_unpacked() -> None:
    """100 MB of zeros in 100 KB are stopped at the bound, not after."""
    packed = gzip.compress(bytes(100_000_000), 9)
    rules = Egress(allow=["127.0.0.0/8"], most_bytes=1_000_000)
    async with (
        serving(lambda seen: reply(packed, content_encoding="gzip")) as web,
        guarded_client(rules) as client,
    ):
        with pytest.raises(ToolFailure, match="larger than 1,000,000 bytes") as raised:
            await client.get(web.url)
    assert (raised.value.kind, raised.value.happened) == (Kind.BUSINESS, Happened.YES)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_what_is_packed_arrives_whole(encoding: str, pack: Any) -> None:
    """Pieces of every size, none lost at a border."""
    text = bytes(n * n % 251 for n in range(200_000)) + bytes(200_000)

    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\nconnection: close\r\n\r\n".encode()
        for start in range(0, len(data), 999):
            yield data[start : start + 999]

    async with serving(lambda seen: pieces(pack(text))) as web, guarded_client(LOOPBACK) as client:
        assert (await client.get(web.url)).content == text
        assert web.seen[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    ("body", "encoding", "said"),
    [
        (b"no gzip", "gzip", "cannot be unpacked"),
        (gzip.compress(b"text" * 99)[:-9], "gzip", "was cut off"),
        (b"x", "br", "nobody asked for"),
        (b"x", "gzip, gzip", "nobody asked for"),
    ],
    ids=["none", "cut off", "unasked", "twice"],
)
async def test_what_cannot_be_unpacked_is_a_bad_answer(body: bytes, encoding: str, said: str) -> None:
    """Damaged, cut off, or in a way that nobody asked for."""
    async with (
        serving(lambda seen: reply(body, content_encoding=encoding)) as web,
        guarded_client(LOOPBACK) as client,
    ):
        with pytest.raises(ToolFailure, match=said) as raised:
            await client.get(web.url)
    assert (raised.value.kind, raised.value.code) == (Kind.BUSINESS, "bad_response")


async def test_headers_are_bounded() -> None:
    """Of one answer together."""
    many: Any = {f"x-{n}": "y" * 1000 for n in range(40)}
    async with serving(lambda seen: reply("", **many)) as web, guarded_client(LOOPBACK) as client:
        with pytest.raises(ToolFailure, match="32,768 bytes of headers"):
            await client.get(web.url)


async def test_a_server_that_takes_its_time_is_left() -> None:
    """One deadline for the whole exchange: a byte now and then does not put it off."""

    async def drip() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
        while True:
            yield b"x"
            await anyio.lowlevel.checkpoint()

    rules = Egress(allow=["127.0.0.0/8"], timeout=0.2)
    async with serving(lambda seen: drip()) as web, guarded_client(rules) as client:
        with pytest.raises(httpx2.ReadTimeout, match=r"no whole answer within 0\.2 s") as raised:
            await client.get(web.url)
    assert classify(raised.value).kind == Kind.TIMEOUT


async def test_many_calls_go_side_by_side() -> None:
    """One client for all of them."""

    def double(seen: Seen) -> bytes:
        return reply({"n": 2 * int(seen.query)})

    found: list[int] = []
    async with serving(double) as web, guarded_client(LOOPBACK, base_url=web.url) as client:

        async def ask(n: int) -> None:
            found.append((await client.get(f"/?{n}")).json()["n"])

        async with anyio.create_task_group() as group:
            for n in range(30):
                group.start_soon(ask, n)
    assert sorted(found) == [2 * n for n in range(30)]
