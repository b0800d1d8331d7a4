"""A service that judges each request by its OpenAPI document: werkzeug reads it off the wire, openapi-core validates it.

    with validating(document) as service:
        service.url
        service.judged      what each request was found to be, in order: {"errors": […]} or its parameters and its body

A request that the document does not allow is answered 422 with the reasons as problem+json, others as `answer` says.
Neither library is ours, so neither shares a mistake with what is tested.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Service", "validating"]


class Service(NamedTuple):
    """A service that runs."""

    url: str
    judged: list[dict[str, Any]]


Answer = Callable[[Any], tuple[int, dict[str, str], bytes]]


def _fine(request: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, b"{}"


def _plain(value: Any) -> Any:
    """What was read as JSON, whatever it was read into."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@contextmanager
def validating(
    document: Mapping[str, Any], answer: Answer = _fine, *, reading: bool = True
) -> Iterator[Service]:
    """Serve a document on loopback, in a thread; without `reading` it only judges, which takes half the time."""
    from openapi_core import OpenAPI
    from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
    from werkzeug.serving import WSGIRequestHandler, make_server
    from werkzeug.wrappers import Request, Response

    judged: list[dict[str, Any]] = []

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    def app(environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        request.get_data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = WerkzeugOpenAPIRequest(request)
            errors = list(judge.iter_request_errors(asked))
            found = judge.unmarshal_request(asked) if reading else None
        reasons = [f"{error} {error.__cause__ or ''}".strip() for error in errors]
        told = {"errors": reasons, "target": environ["REQUEST_URI"]}
        if found is not None:
            places = ("path", "query", "header", "cookie")
            told["parameters"] = {place: _plain(getattr(found.parameters, place, {})) for place in places}
            told["body"] = _plain(found.body)
        judged.append(told)
        if reasons:
            body = json.dumps({"title": "not by the document", "detail": reasons[0]}).encode()
            return Response(body, 422, content_type="application/problem+json")(environ, start_response)
        status, headers, body = answer(request)
        return Response(body, status, headers)(environ, start_response)

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    url = f"http://127.0.0.1:{server.server_port}"
    judge = OpenAPI.from_dict({**document, "servers": [{"url": url}]})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Service(url, judged)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
