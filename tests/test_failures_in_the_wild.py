"""What libraries really raise, on loopback and on disk, is classified as the table below says."""

from __future__ import annotations

import asyncio
import concurrent.futures
import configparser
import csv
import ctypes
import errno
import ftplib
import gzip
import http.client
import imaplib
import importlib
import io
import json
import lzma
import os
import poplib
import signal
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import xml.etree.ElementTree
import zipfile
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import anyio
import httpx
import jsonschema
import pydantic
import pytest
import requests
import trio
import trustme
import urllib3
import yaml
from support.misbehaving import Server, closed_port, crowded_port

from foreplan.policies.classification import CODES, classify
from foreplan.policies.failures import Happened, Kind, ToolFailure


class World(NamedTuple):
    """Everything that can go wrong, within reach."""

    http: Server
    tls: Server
    closed: int
    crowded: int | None
    path: Path

    def url(self, path: str) -> str:
        return self.http.url(path)

    @property
    def refusing(self) -> str:
        return f"http://127.0.0.1:{self.closed}/"

    @property
    def waiting(self) -> str:
        if self.crowded is None:
            pytest.skip("this system refuses instead of letting callers wait")
        return f"http://127.0.0.1:{self.crowded}/"

    @property
    def nowhere(self) -> str:
        return f"http://{_unknown_host()}/"

    @property
    def mistaken(self) -> str:
        """TLS spoken to a server that does not."""
        return self.http.url("status/200").replace("http:", "https:")

    def file(self, content: bytes = b"text") -> Path:
        path = self.path / "file"
        path.write_bytes(content)
        return path


class Row(NamedTuple):
    """What is done, and what its exception must mean."""

    name: str
    do: Callable[[World], object]
    kind: str
    code: str
    happened: str


_hosts: list[str | None] = []


def _unknown_host() -> str:
    """A name that the resolver of this machine knows not to exist (offline it may not know)."""
    if not _hosts:
        try:
            socket.getaddrinfo("foreplan.invalid", 80)
        except socket.gaierror as error:
            _hosts.append("foreplan.invalid" if error.errno == socket.EAI_NONAME else None)
        else:
            _hosts.append(None)
    if _hosts[0] is None:
        pytest.skip("the resolver of this machine does not say that a name does not exist")
    return _hosts[0]


# --- short ways to call each library


def h(path: str, **options: Any) -> Callable[[World], object]:
    return lambda w: httpx.get(w.url(path), **options).raise_for_status()


def r(path: str, **options: Any) -> Callable[[World], object]:
    return lambda w: requests.get(w.url(path), **options).raise_for_status()


def u(path: str, **options: Any) -> Callable[[World], object]:
    return lambda w: _urllib3(w.url(path), **options)


def a(path: str, **options: Any) -> Callable[[World], object]:
    return lambda w: _aiohttp(w.url(path), **options)


def lib(path: str, **options: Any) -> Callable[[World], object]:
    return lambda w: _urllib(w.url(path), **options)


def _urllib3(url: str, **options: Any) -> object:
    with urllib3.PoolManager(retries=options.pop("retries", False)) as pool:
        response = pool.request("GET", url, **options)
        return response.data


def _aiohttp(url: str, *, read: str = "read", **options: Any) -> object:
    async def get() -> object:
        async with aiohttp.ClientSession() as session, session.get(url, **options) as response:
            response.raise_for_status()
            return await getattr(response, read)()

    return asyncio.run(get())


def _urllib(url: str, **options: Any) -> object:
    with urllib.request.urlopen(url, **options) as response:
        return response.read()


def _httpx_async(url: str, backend: str, **options: Any) -> object:
    async def get() -> object:
        async with httpx.AsyncClient(**options) as client:
            return await client.get(url)

    return anyio.run(get, backend=backend)


def _busy_pool(w: World) -> object:
    limits = httpx.Limits(max_connections=1)
    with (
        httpx.Client(limits=limits, timeout=httpx.Timeout(5, pool=0.05)) as client,
        client.stream("GET", w.url("slow-body")),
    ):
        return client.get(w.url("status/200"))


def _empty_pool(w: World) -> object:
    with urllib3.HTTPConnectionPool("127.0.0.1", w.http.port, maxsize=1, block=True) as pool:
        held = pool.request("GET", "/slow-body", preload_content=False)
        try:
            return pool.request("GET", "/status/200", pool_timeout=0.05, retries=False)
        finally:
            held.close()


def _urllib3_retries(code: int) -> urllib3.Retry:
    return urllib3.Retry(1, status_forcelist=[code], backoff_factor=0)


def _requests_with_retries(url: str) -> object:
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=_urllib3_retries(500)))
        return session.get(url)


def _bad_host_header(w: World) -> object:
    return requests.get(w.url("status/200"), headers={"X": "a\nb"})


# --- things that go wrong without HTTP


def _raw(w: World, path: str) -> object:
    with socket.create_connection(("127.0.0.1", w.http.port), 5) as connection:
        connection.sendall(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
        while connection.recv(4096):
            pass
        connection.sendall(b"too late")
        return connection.recv(1)


def _raw_tls(w: World, port: int) -> object:
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", port), 5) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as wrapped,
    ):
        return wrapped.version()


def _bind_twice(w: World) -> object:
    with socket.socket() as second:
        second.bind(("127.0.0.1", w.http.port))
    return None


def _receive_nothing(w: World) -> object:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        return left.recv(1)


def _write_to_nobody(w: World) -> object:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return os.write(writer, b"hello?")
    finally:
        os.close(writer)


def _link_a_directory(w: World) -> object:
    os.link(w.path, w.path / "again")
    return None


def _write_to_a_full_disk(w: World) -> object:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        return os.write(full, b"x")
    finally:
        os.close(full)


def _open_too_many(w: World) -> object:
    resource = pytest.importorskip("resource")
    bounds = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, bounds[1]))
        return os.dup(lowest)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, bounds)
        os.close(lowest)


def _chase_links(w: World) -> object:
    (w.path / "a").symlink_to(w.path / "b")
    (w.path / "b").symlink_to(w.path / "a")
    return (w.path / "a").read_text()


def _fail_in_c(w: World) -> object:
    raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))


def _python(*code: str) -> list[str]:
    return [sys.executable, "-c", ";".join(code)]


def _run_killed(w: World) -> object:
    return subprocess.run(_python(f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"), check=True)


def _run_for_ever(w: World) -> object:
    return subprocess.run(_python("import threading", "threading.Event().wait()"), timeout=0.05)


def _no_tool_for_it(w: World) -> object:
    return subprocess.run([str(w.path / "no-such-program")], check=True)


def _recurse(w: World) -> object:
    return _recurse(w)


def _cancel_itself(w: World) -> object:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    return asyncio.run(work())


def _cancelled_future(w: World) -> object:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.cancel()
    return future.result()


def _run(work: Callable[[], Awaitable[object]]) -> Callable[[World], object]:
    return lambda w: asyncio.run(_awaited(work))


async def _awaited(work: Callable[[], Awaitable[object]]) -> object:
    return await work()


async def _too_slow_asyncio() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


async def _too_slow_anyio() -> None:
    with anyio.fail_after(0):
        await anyio.sleep_forever()


async def _too_slow_trio() -> None:
    with trio.fail_after(0):
        await trio.sleep_forever()


async def _stream(step: str) -> None:
    send, receive = anyio.create_memory_object_stream[int](0)
    with send, receive:
        if step == "end":
            send.close()
            await receive.receive()
        if step == "broken":
            receive.close()
            await send.send(1)
        if step == "closed":
            receive.close()
            await receive.receive()
        send.send_nowait(1)


async def _several() -> None:
    async def missing() -> None:
        raise KeyError("amount")

    async def refused() -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(missing)
        tasks.start_soon(refused)
        await anyio.sleep_forever()


async def _one_of_several() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_too_slow_anyio)
        await anyio.sleep_forever()


def _trio_refused(w: World) -> object:
    async def connect() -> None:
        await trio.open_tcp_stream("127.0.0.1", w.closed)

    return trio.run(connect)


def _anyio_refused(w: World) -> object:
    async def connect() -> None:
        await anyio.connect_tcp("localhost", w.closed)

    return anyio.run(connect)


def _asyncio_cut(w: World) -> object:
    async def read() -> bytes:
        stream, writer = await asyncio.open_connection("127.0.0.1", w.http.port)
        writer.write(b"GET /hang-up HTTP/1.1\r\n\r\n")
        try:
            return await stream.readexactly(10)
        finally:
            writer.close()
            await writer.wait_closed()

    return asyncio.run(read())


# --- databases


def sql(*statements: str, at: str = ":memory:", **options: Any) -> Callable[[World], object]:
    def do(w: World) -> object:
        with closing(sqlite3.connect(at.format(w.path), **options)) as connection:
            return [connection.execute(statement).fetchall() for statement in statements]

    return do


def _locked(w: World) -> object:
    path = w.path / "a.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as first,
        closing(sqlite3.connect(path, timeout=0)) as second,
    ):
        first.execute("create table t (x)")
        first.execute("begin exclusive")
        return second.execute("insert into t values (1)")


def _not_a_database(w: World) -> object:
    return sql("select * from t", at=str(w.file(b"no database at all" * 100)))(w)


def _sql_denied(w: World) -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        return connection.execute("select 1")


def _sql_interrupted(w: World) -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.set_progress_handler(lambda: 1, 1)
        return connection.execute(
            "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
        )


def _sql_closed(w: World) -> object:
    connection = sqlite3.connect(":memory:")
    connection.close()
    return connection.execute("select 1")


# --- mail and files by wire


def smtp(*script: bytes) -> Callable[[World], object]:
    def do(w: World) -> object:
        with Server(script=script) as server:
            client = smtplib.SMTP("127.0.0.1", server.port, local_hostname="localhost", timeout=5)
            try:
                client.ehlo()
                if client.has_extn("auth"):
                    client.login("a", "b")
                return client.sendmail("a@example.org", ["b@example.org"], "hello")
            finally:
                client.close()

    return do


def ftp(*script: bytes) -> Callable[[World], object]:
    def do(w: World) -> object:
        with Server(script=script) as server, ftplib.FTP(timeout=5) as client:
            client.connect("127.0.0.1", server.port)
            try:
                return client.login()
            finally:
                client.close()

    return do


def _imap(w: World) -> object:
    with Server(script=(b"* OK hello\r\n", b"* CAPABILITY IMAP4rev1\r\nXXXX1 BAD no\r\n")) as server:
        return imaplib.IMAP4("127.0.0.1", server.port, timeout=5)


def _pop(w: World) -> object:
    with Server(script=(b"+OK hello\r\n", b"-ERR who?\r\n")) as server:
        client = poplib.POP3("127.0.0.1", server.port, timeout=5)
        try:
            return client.user("a")
        finally:
            client.close()


# --- data


class Payment(pydantic.BaseModel):
    """What a tool might check an answer against."""

    amount: float


def _tar(w: World) -> object:
    with tarfile.open(w.file(b"no archive at all")) as archive:
        return archive


class Sdk(Exception):
    """How SDKs report an error status: openai, anthropic and many others."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"Error code: {response.status_code}")
        self.response = response
        self.status_code = response.status_code


def _sdk(w: World) -> object:
    raise Sdk(httpx.get(w.url("later/429/seconds")))


def _wrapped(w: World) -> object:
    try:
        return httpx.get(w.refusing)
    except httpx.ConnectError as error:
        raise RuntimeError("the ledger cannot be reached") from error


def _misunderstood(w: World) -> object:
    try:
        return httpx.get(w.refusing)
    except httpx.ConnectError:
        return dict[str, str]()["payer"]  # a bug while handling an error is a bug


def _says_no(w: World) -> object:
    raise ToolFailure("the account is closed", code="account_closed")


# fmt: off
TABLE = [
    # httpx
    Row("httpx 400", h("status/400"), "bad_args", "bad_request", "no"),
    Row("httpx 401", h("status/401"), "permission", "unauthenticated", "no"),
    Row("httpx 402", h("status/402"), "business", "payment_required", "no"),
    Row("httpx 403", h("status/403"), "permission", "forbidden", "no"),
    Row("httpx 404", h("status/404"), "business", "not_found", "no"),
    Row("httpx 405", h("status/405"), "bad_args", "bad_request", "no"),
    Row("httpx 408", h("status/408"), "timeout", "request_timeout", "maybe"),
    Row("httpx 409", h("status/409"), "business", "conflict", "no"),
    Row("httpx 410", h("status/410"), "business", "gone", "no"),
    Row("httpx 413", h("status/413"), "bad_args", "too_large", "no"),
    Row("httpx 422", h("status/422"), "bad_args", "unprocessable", "no"),
    Row("httpx 429", h("later/429/seconds"), "network", "rate_limited", "no"),
    Row("httpx 500", h("status/500"), "network", "server_error", "maybe"),
    Row("httpx 502", h("status/502"), "network", "bad_gateway", "maybe"),
    Row("httpx 503", h("status/503"), "network", "unavailable", "maybe"),
    Row("httpx 504", h("status/504"), "timeout", "gateway_timeout", "maybe"),
    Row("httpx 529", h("status/529"), "network", "server_error", "maybe"),
    Row("httpx redirect not followed", h("around"), "business", "redirected", "maybe"),
    Row("httpx redirects without end", h("around", follow_redirects=True), "business", "redirected", "maybe"),
    Row("httpx refused", lambda w: httpx.get(w.refusing), "network", "connection_refused", "no"),
    Row("httpx unknown host", lambda w: httpx.get(w.nowhere), "network", "unknown_host", "no"),
    Row("httpx certificate", lambda w: httpx.get(w.tls.url()), "network", "tls_certificate", "no"),
    Row("httpx TLS to plain HTTP", lambda w: httpx.get(w.mistaken), "network", "tls", "no"),
    Row("httpx connect timeout", lambda w: httpx.get(w.waiting, timeout=0.05), "timeout", "connect_timeout", "no"),
    Row("httpx read timeout", h("silent", timeout=0.05), "timeout", "read_timeout", "maybe"),
    Row("httpx slow body", h("slow-body", timeout=0.05), "timeout", "read_timeout", "maybe"),
    Row("httpx no free connection", _busy_pool, "timeout", "pool_timeout", "no"),
    Row("httpx reset", h("reset"), "network", "connection_reset", "maybe"),
    Row("httpx reset in the body", h("reset-in-body"), "network", "connection_reset", "maybe"),
    Row("httpx hang-up", h("hang-up"), "network", "protocol_error", "maybe"),
    Row("httpx cut-off body", h("cut"), "network", "protocol_error", "maybe"),
    Row("httpx cut-off chunk", h("cut-chunk"), "network", "protocol_error", "maybe"),
    Row("httpx garbage", h("garbage"), "network", "protocol_error", "maybe"),
    Row("httpx bad gzip", h("bad-gzip"), "business", "bad_response", "maybe"),
    Row("httpx HTML for JSON", lambda w: httpx.get(w.url("html")).json(), "business", "bad_data", "maybe"),
    Row("httpx scheme", lambda w: httpx.get("gopher://localhost"), "bad_args", "bad_url", "no"),
    Row("httpx bad URL", lambda w: httpx.get("http://[::1"), "bad_args", "bad_url", "no"),
    Row("httpx bad header", lambda w: httpx.get(w.url("html"), headers={"X": "a\nb"}), "bad_args", "bad_request", "no"),
    Row("httpx proxy", lambda w: httpx.get(w.mistaken, proxy=w.url("")), "network", "proxy_failed", "no"),
    Row("httpx asyncio refused", lambda w: _httpx_async(w.refusing, "asyncio"), "network", "connection_refused", "no"),
    Row("httpx trio refused", lambda w: _httpx_async(w.refusing, "trio"), "network", "connection_refused", "no"),
    Row("httpx asyncio reset", lambda w: _httpx_async(w.url("reset"), "asyncio"), "network", "connection_reset", "maybe"),
    Row("httpx trio reset", lambda w: _httpx_async(w.url("reset"), "trio"), "network", "connection_reset", "maybe"),
    Row("httpx asyncio certificate", lambda w: _httpx_async(w.tls.url(), "asyncio"), "network", "tls_certificate", "no"),
    Row("httpx trio certificate", lambda w: _httpx_async(w.tls.url(), "trio"), "network", "tls_certificate", "no"),
    Row("httpx asyncio unknown host", lambda w: _httpx_async(w.nowhere, "asyncio"), "network", "unknown_host", "no"),
    # requests
    Row("requests 400", r("status/400"), "bad_args", "bad_request", "no"),
    Row("requests 403", r("status/403"), "permission", "forbidden", "no"),
    Row("requests 404", r("status/404"), "business", "not_found", "no"),
    Row("requests 429", r("later/429/date"), "network", "rate_limited", "no"),
    Row("requests 500", r("status/500"), "network", "server_error", "maybe"),
    Row("requests 500 again and again", lambda w: _requests_with_retries(w.url("status/500")), "network", "server_error", "maybe"),
    Row("requests refused", lambda w: requests.get(w.refusing), "network", "connection_refused", "no"),
    Row("requests unknown host", lambda w: requests.get(w.nowhere), "network", "unknown_host", "no"),
    Row("requests certificate", lambda w: requests.get(w.tls.url()), "network", "tls_certificate", "no"),
    Row("requests TLS to plain HTTP", lambda w: requests.get(w.mistaken), "network", "tls", "no"),
    Row("requests connect timeout", lambda w: requests.get(w.waiting, timeout=0.05), "timeout", "connect_timeout", "no"),
    Row("requests read timeout", r("silent", timeout=0.05), "timeout", "read_timeout", "maybe"),
    Row("requests slow body", r("slow-body", timeout=0.05), "timeout", "read_timeout", "maybe"),
    Row("requests reset", r("reset"), "network", "connection_reset", "maybe"),
    Row("requests reset in the body", r("reset-in-body"), "network", "connection_reset", "maybe"),
    Row("requests hang-up", r("hang-up"), "network", "connection_closed", "maybe"),
    Row("requests cut-off body", r("cut"), "network", "incomplete_answer", "maybe"),
    Row("requests cut-off chunk", r("cut-chunk"), "network", "incomplete_answer", "maybe"),
    Row("requests bad chunk", r("bad-chunk"), "network", "incomplete_answer", "maybe"),
    Row("requests garbage", r("garbage"), "network", "protocol_error", "maybe"),
    Row("requests bad gzip", r("bad-gzip"), "business", "bad_response", "maybe"),
    Row("requests HTML for JSON", lambda w: requests.get(w.url("html")).json(), "business", "bad_response", "maybe"),
    Row("requests redirects without end", r("around"), "business", "redirected", "maybe"),
    Row("requests no scheme", lambda w: requests.get("localhost"), "bad_args", "bad_url", "no"),
    Row("requests scheme", lambda w: requests.get("gopher://localhost"), "bad_args", "bad_url", "no"),
    Row("requests bad URL", lambda w: requests.get("http://[::1"), "bad_args", "bad_url", "no"),
    Row("requests bad header", _bad_host_header, "bad_args", "bad_request", "no"),
    Row("requests proxy", lambda w: requests.get(w.url("html"), proxies={"http": w.refusing}), "network", "connection_refused", "no"),
    # aiohttp
    Row("aiohttp 401", a("status/401"), "permission", "unauthenticated", "no"),
    Row("aiohttp 404", a("status/404"), "business", "not_found", "no"),
    Row("aiohttp 422", a("status/422"), "bad_args", "unprocessable", "no"),
    Row("aiohttp 429", a("later/429/seconds"), "network", "rate_limited", "no"),
    Row("aiohttp 503", a("later/503/date"), "network", "unavailable", "maybe"),
    Row("aiohttp refused", lambda w: _aiohttp(w.refusing), "network", "connection_refused", "no"),
    Row("aiohttp unknown host", lambda w: _aiohttp(w.nowhere), "network", "unknown_host", "no"),
    Row("aiohttp certificate", lambda w: _aiohttp(w.tls.url()), "network", "tls_certificate", "no"),
    Row("aiohttp TLS to plain HTTP", lambda w: _aiohttp(w.mistaken), "network", "tls", "no"),
    Row("aiohttp connect timeout", lambda w: _aiohttp(w.waiting, timeout=aiohttp.ClientTimeout(sock_connect=0.05)), "timeout", "connect_timeout", "no"),
    Row("aiohttp read timeout", a("silent", timeout=aiohttp.ClientTimeout(sock_read=0.05)), "timeout", "read_timeout", "maybe"),
    Row("aiohttp total timeout", a("silent", timeout=aiohttp.ClientTimeout(total=0.05)), "timeout", "timed_out", "maybe"),
    Row("aiohttp slow body", a("slow-body", timeout=aiohttp.ClientTimeout(sock_read=0.05)), "timeout", "read_timeout", "maybe"),
    Row("aiohttp reset", a("reset"), "network", "connection_reset", "maybe"),
    Row("aiohttp hang-up", a("hang-up"), "network", "connection_closed", "maybe"),
    Row("aiohttp cut-off body", a("cut"), "network", "incomplete_answer", "maybe"),
    Row("aiohttp cut-off chunk", a("cut-chunk"), "network", "incomplete_answer", "maybe"),
    Row("aiohttp garbage", a("garbage"), "network", "protocol_error", "maybe"),
    Row("aiohttp HTML for JSON", a("html", read="json"), "business", "bad_response", "maybe"),
    Row("aiohttp redirects without end", a("around"), "business", "redirected", "maybe"),
    Row("aiohttp bad URL", lambda w: _aiohttp("http://"), "bad_args", "bad_url", "no"),
    # urllib3
    Row("urllib3 refused", lambda w: _urllib3(w.refusing), "network", "connection_refused", "no"),
    Row("urllib3 refused again and again", lambda w: _urllib3(w.refusing, retries=1), "network", "connection_refused", "no"),
    Row("urllib3 unknown host", lambda w: _urllib3(w.nowhere), "network", "unknown_host", "no"),
    Row("urllib3 certificate", lambda w: _urllib3(w.tls.url()), "network", "tls_certificate", "no"),
    Row("urllib3 connect timeout", lambda w: _urllib3(w.waiting, timeout=0.05), "timeout", "connect_timeout", "no"),
    Row("urllib3 read timeout", u("silent", timeout=0.05), "timeout", "read_timeout", "maybe"),
    Row("urllib3 reset", u("reset"), "network", "connection_reset", "maybe"),
    Row("urllib3 hang-up", u("hang-up"), "network", "connection_closed", "maybe"),
    Row("urllib3 cut-off body", u("cut"), "network", "incomplete_answer", "maybe"),
    Row("urllib3 garbage", u("garbage"), "network", "protocol_error", "maybe"),
    Row("urllib3 bad gzip", u("bad-gzip"), "business", "bad_response", "maybe"),
    Row("urllib3 500 again and again", u("status/500", retries=_urllib3_retries(500)), "network", "server_error", "maybe"),
    Row("urllib3 no free connection", _empty_pool, "timeout", "pool_timeout", "no"),
    Row("urllib3 bad URL", lambda w: _urllib3("http://[::1"), "bad_args", "bad_url", "no"),
    # urllib and http.client
    Row("urllib 404", lib("status/404"), "business", "not_found", "no"),
    Row("urllib 500", lib("status/500"), "network", "server_error", "maybe"),
    Row("urllib refused", lambda w: _urllib(w.refusing), "network", "connection_refused", "no"),
    Row("urllib unknown host", lambda w: _urllib(w.nowhere), "network", "unknown_host", "no"),
    Row("urllib certificate", lambda w: _urllib(w.tls.url()), "network", "tls_certificate", "no"),
    Row("urllib timeout", lib("silent", timeout=0.05), "timeout", "timed_out", "maybe"),
    Row("urllib reset", lib("reset"), "network", "connection_reset", "maybe"),
    Row("urllib hang-up", lib("hang-up"), "network", "connection_closed", "maybe"),
    Row("urllib cut-off body", lib("cut"), "network", "incomplete_answer", "maybe"),
    Row("urllib garbage", lib("garbage"), "network", "protocol_error", "maybe"),
    Row("urllib scheme", lambda w: _urllib("gopher://localhost"), "bad_args", "bad_url", "no"),
    Row("urllib missing file", lambda w: _urllib((w.path / "no").as_uri()), "business", "not_found", "no"),
    Row("http.client bad URL", lib("a b"), "bad_args", "bad_url", "no"),
    Row("http.client out of order", lambda w: http.client.HTTPConnection("localhost").getresponse(), "business", "tool_error", "maybe"),
    # sockets
    Row("socket refused", lambda w: socket.create_connection(("127.0.0.1", w.closed)), "network", "connection_refused", "no"),
    Row("socket reset", lambda w: _raw(w, "reset"), "network", "connection_reset", "maybe"),
    Row("socket connect timeout", lambda w: socket.create_connection(("127.0.0.1", (w.waiting and w.crowded) or 0), 0.05), "timeout", "timed_out", "maybe"),
    Row("socket no such name", lambda w: socket.getaddrinfo("no number", 80, flags=socket.AI_NUMERICHOST), "network", "unknown_host", "no"),
    Row("socket address in use", _bind_twice, "business", "busy", "no"),
    Row("socket would block", _receive_nothing, "business", "busy", "no"),
    Row("pipe without reader", _write_to_nobody, "network", "connection_closed", "maybe"),
    Row("ssl certificate", lambda w: _raw_tls(w, w.tls.port), "network", "tls_certificate", "no"),
    Row("ssl to plain HTTP", lambda w: _raw_tls(w, w.http.port), "network", "tls", "no"),
    # mail and file transfer
    Row("smtp not today", smtp(b"421 not today\r\n"), "network", "connect_failed", "no"),
    Row("smtp login", smtp(b"220 hi\r\n", b"250-hi\r\n250 AUTH PLAIN\r\n", b"535 no\r\n"), "permission", "unauthenticated", "no"),
    Row("smtp sender", smtp(b"220 hi\r\n", b"250 hi\r\n", b"550 no\r\n", b"250 ok\r\n"), "business", "refused", "no"),
    Row("smtp greylisting", smtp(b"220 hi\r\n", b"250 hi\r\n", b"250 ok\r\n", b"450 later\r\n", b"250 ok\r\n"), "network", "unavailable", "no"),
    Row("smtp recipient", smtp(b"220 hi\r\n", b"250 hi\r\n", b"250 ok\r\n", b"550 no\r\n", b"250 ok\r\n"), "business", "refused", "no"),
    Row("smtp hang-up", smtp(b"220 hi\r\n", b"250 hi\r\n", b""), "network", "connection_closed", "maybe"),
    Row("ftp login", ftp(b"220 hi\r\n", b"530 no\r\n"), "business", "refused", "no"),
    Row("ftp later", ftp(b"220 hi\r\n", b"421 later\r\n"), "network", "unavailable", "maybe"),
    Row("imap", _imap, "network", "connection_closed", "maybe"),
    Row("pop", _pop, "business", "refused", "maybe"),
    # files
    Row("no such file", lambda w: (w.path / "no").read_text(), "business", "not_found", "no"),
    Row("permission", _link_a_directory, "permission", "access_denied", "no"),
    Row("exists", lambda w: w.path.mkdir(), "business", "exists", "no"),
    Row("a directory", lambda w: w.path.read_text(), "business", "wrong_file_type", "no"),
    Row("not a directory", lambda w: (w.file() / "x").read_text(), "business", "wrong_file_type", "no"),
    Row("not empty", lambda w: w.file().parent.rmdir(), "business", "conflict", "no"),
    Row("name too long", lambda w: (w.path / ("n" * 300)).read_text(), "bad_args", "bad_path", "no"),
    Row("links in a circle", _chase_links, "bad_args", "bad_path", "no"),
    Row("disk full", _write_to_a_full_disk, "business", "disk_full", "maybe"),
    Row("too many files", _open_too_many, "business", "too_many_files", "no"),
    Row("no such process", lambda w: os.kill(2**30, 0), "business", "not_found", "no"),
    Row("another errno", _fail_in_c, "business", "os_error", "maybe"),
    # programs
    Row("program fails", lambda w: subprocess.run(_python("raise SystemExit(3)"), check=True), "business", "process_failed", "maybe"),
    Row("program killed", _run_killed, "business", "process_killed", "maybe"),
    Row("program too slow", _run_for_ever, "timeout", "process_timeout", "maybe"),
    Row("program missing", _no_tool_for_it, "business", "not_found", "no"),
    # sqlite3
    Row("sqlite locked", _locked, "timeout", "database_busy", "no"),
    Row("sqlite unique", sql("create table t (x unique)", "insert into t values (1), (1)"), "business", "constraint", "no"),
    Row("sqlite read-only", sql("create table t (x)", at="file:{}/r.db?mode=ro&immutable=1", uri=True), "business", "not_found", "no"),
    Row("sqlite query only", sql("pragma query_only = 1", "create table t (x)"), "permission", "read_only", "no"),
    Row("sqlite no table", sql("select * from nowhere"), "business", "sql_error", "no"),
    Row("sqlite syntax", sql("selekt"), "business", "sql_error", "no"),
    Row("sqlite full", sql("pragma max_page_count = 1", "create table t (x)"), "business", "disk_full", "no"),
    Row("sqlite no database", _not_a_database, "business", "bad_data", "maybe"),
    Row("sqlite no folder", sql(at="{}/no/a.db"), "business", "not_found", "no"),
    Row("sqlite denied", _sql_denied, "permission", "access_denied", "no"),
    Row("sqlite interrupted", _sql_interrupted, "business", "tool_cancelled", "maybe"),
    Row("sqlite closed", _sql_closed, "business", "tool_error", "maybe"),
    # data
    Row("json", lambda w: json.loads("{"), "business", "bad_data", "maybe"),
    Row("decode", lambda w: b"\xff".decode(), "business", "bad_data", "maybe"),
    Row("encode", lambda w: "é".encode("ascii"), "business", "bad_data", "maybe"),
    Row("yaml", lambda w: yaml.safe_load("a: ["), "business", "bad_data", "maybe"),
    Row("toml", lambda w: tomllib.loads("="), "business", "bad_data", "maybe"),
    Row("xml", lambda w: xml.etree.ElementTree.fromstring("<a>"), "business", "bad_data", "maybe"),
    Row("csv", lambda w: list(csv.reader(['"' + "x" * 200_000])), "business", "bad_data", "maybe"),
    Row("ini", lambda w: configparser.ConfigParser().read_string("x"), "business", "bad_data", "maybe"),
    Row("zip", lambda w: zipfile.ZipFile(w.file()), "business", "bad_data", "maybe"),
    Row("tar", _tar, "business", "bad_data", "maybe"),
    Row("gzip", lambda w: gzip.decompress(b"no gzip"), "business", "bad_data", "maybe"),
    Row("zlib", lambda w: zlib.decompress(b"no zlib"), "business", "bad_data", "maybe"),
    Row("xz", lambda w: lzma.decompress(b"no xz"), "business", "bad_data", "maybe"),
    Row("pydantic", lambda w: Payment.model_validate({"amount": "much"}), "business", "invalid_data", "maybe"),
    Row("jsonschema", lambda w: jsonschema.validate(1, {"type": "string"}), "business", "invalid_data", "maybe"),
    # bugs
    Row("missing key", lambda w: dict[str, str]()["x"], "business", "tool_error", "maybe"),
    Row("wrong type", lambda w: "a" + 1, "business", "tool_error", "maybe"),  # type: ignore[operator]
    Row("wrong value", lambda w: int("x"), "business", "tool_error", "maybe"),
    Row("missing attribute", lambda w: w.nothing, "business", "tool_error", "maybe"),  # type: ignore[attr-defined]
    Row("division by zero", lambda w: 1 / 0, "business", "tool_error", "maybe"),
    Row("endless recursion", _recurse, "business", "tool_error", "maybe"),
    Row("abstract", lambda w: io.RawIOBase().read(1), "business", "not_implemented", "maybe"),
    Row("no memory", lambda w: bytearray(sys.maxsize), "business", "out_of_memory", "maybe"),
    Row("module missing", lambda w: importlib.import_module("no_such_module_anywhere"), "business", "missing_module", "maybe"),
    Row("foreign function", lambda w: ctypes.CDLL(None).no_such_function_anywhere, "business", "tool_error", "maybe"),
    Row("exit", lambda w: sys.exit(3), "business", "tool_exit", "maybe"),
    # event loops
    Row("asyncio timeout", _run(_too_slow_asyncio), "timeout", "timed_out", "maybe"),
    Row("anyio timeout", _run(_too_slow_anyio), "timeout", "timed_out", "maybe"),
    Row("trio timeout", lambda w: trio.run(_too_slow_trio), "timeout", "timed_out", "maybe"),
    Row("asyncio cancelled", _cancel_itself, "business", "tool_cancelled", "maybe"),
    Row("future cancelled", _cancelled_future, "business", "tool_cancelled", "maybe"),
    Row("future timeout", lambda w: concurrent.futures.Future().result(0), "timeout", "timed_out", "maybe"),
    Row("anyio end of stream", _run(lambda: _stream("end")), "network", "connection_closed", "maybe"),
    Row("anyio broken stream", _run(lambda: _stream("broken")), "network", "connection_reset", "maybe"),
    Row("anyio closed stream", _run(lambda: _stream("closed")), "business", "tool_error", "maybe"),
    Row("anyio full stream", _run(lambda: _stream("full")), "business", "busy", "no"),
    Row("anyio refused", _anyio_refused, "network", "connection_refused", "no"),
    Row("trio refused", _trio_refused, "network", "connection_refused", "no"),
    Row("asyncio cut off", _asyncio_cut, "network", "incomplete_answer", "maybe"),
    Row("a group of two", _run(_several), "business", "tool_error", "maybe"),
    Row("a group of one", _run(_one_of_several), "timeout", "timed_out", "maybe"),
    # wrapped
    Row("an SDK's status", _sdk, "network", "rate_limited", "no"),
    Row("raised from a cause", _wrapped, "network", "connection_refused", "no"),
    Row("a bug while handling", _misunderstood, "business", "tool_error", "maybe"),
    Row("a tool says no", _says_no, "business", "account_closed", "no"),
]
# fmt: on


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server, int | None]]:
    """One server that misbehaves, one whose certificate nobody vouches for, one port that lets callers wait."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    with Server() as plain, Server(tls=tls) as encrypted, crowded_port() as crowded:
        yield plain, encrypted, crowded


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is reached directly, whatever proxy this machine uses."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def world(servers: tuple[Server, Server, int | None], tmp_path: Path) -> World:
    """The servers, with a folder of this test's own."""
    plain, encrypted, crowded = servers
    return World(plain, encrypted, closed_port(), crowded, tmp_path)


def _raised(do: Callable[[World], object], world: World) -> BaseException:
    try:
        do(world)
    except pytest.skip.Exception:
        raise
    except BaseException as error:  # a tool may exit, or cancel itself
        return error
    pytest.fail("nothing was raised")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_an_exception_means_what_the_table_says(row: Row, world: World) -> None:
    """Kind, code and `happened` follow from what a library really raises; the message is never empty."""
    error = _raised(row.do, world)
    failure = classify(error)
    if isinstance(error, urllib.error.HTTPError):  # a response as well
        error.close()
    said = (failure.kind, failure.code, failure.happened)
    assert said == (Kind(row.kind), row.code, Happened(row.happened)), repr(error)
    assert failure.message
    assert "Group" not in failure.exception


def test_the_table_is_long_enough() -> None:
    """At least sixty exceptions, no name twice."""
    assert len(TABLE) >= 60
    assert len({row.name for row in TABLE}) == len(TABLE)
    assert {row.code for row in TABLE} - set(CODES) == {"account_closed"}
