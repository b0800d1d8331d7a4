"""An authorization server in small, for the MCP server of the tests: RFC 9728, 8414, 7591, 6749 and 7636."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

__all__ = ["PASSWORD", "TOKEN", "Said", "signing_in"]

PASSWORD = "tester:the-password-of-tests"
TOKEN = "the-secret-of-tests"
CHALLENGES: dict[str, str] = {}
"""What the verifier of each code must make (PKCE)."""


class Said(NamedTuple):
    """An answer."""

    status: int
    document: Any = None
    location: str = ""


def signing_in(base: str, path: str, query: str, authorization: str, body: str) -> Said | None:
    """Where to sign in, a name for whoever asks, a code, and a token for whoever knows a password or has had a code."""
    match path:
        case "/.well-known/oauth-protected-resource/mcp":
            return Said(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        case "/.well-known/oauth-authorization-server":
            ends = {f"{what}_endpoint": f"{base}/{where}" for what, where in ENDS.items()}
            pkce = {"code_challenge_methods_supported": ["S256"]}
            return Said(200, {"issuer": base, "response_types_supported": ["code"], **pkce, **ends})
        case "/register":
            return Said(201, {**json.loads(body), "client_id": "registered"})
        case "/authorize":
            return _code(_fields(query))
        case "/token":
            right = _may(_fields(body), authorization)
            token = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
            return Said(200, token) if right else Said(401, {"error": "invalid_client"})
    return None


ENDS = {"authorization": "authorize", "token": "token", "registration": "register"}


def _fields(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


def _code(asked: dict[str, str]) -> Said:
    """A person would be asked here; this one says yes."""
    code = f"code-{len(CHALLENGES)}"
    CHALLENGES[code] = asked["code_challenge"]
    return Said(302, location=f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")


def _may(asked: dict[str, str], authorization: str) -> bool:
    if asked.get("grant_type") != "authorization_code":
        return authorization == "Basic " + base64.b64encode(PASSWORD.encode()).decode()
    made = base64.urlsafe_b64encode(sha256(asked["code_verifier"].encode()).digest()).decode().rstrip("=")
    return CHALLENGES.pop(asked["code"], None) == made
