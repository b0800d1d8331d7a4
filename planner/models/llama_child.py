"""llama.cpp's server in a process of its own. `llama_server.py` starts this file; nothing imports it.

    in     one line of JSON: the settings
    out    one line of JSON: where it listens, and whether llguidance is in it; or the process ends, and what llama.cpp said is on standard error

It lives until its standard input ends: when its owner closes it, and also when its owner is killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Serve one model."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever llama.cpp prints, the owner reads nothing but the address
    settings = json.loads(sys.stdin.buffer.readline())
    sys.path.append(settings["packages"])
    try:
        server = _serve(settings)
    except RuntimeError:
        _let_it_finish()
        os._exit(1)
    os.write(out, json.dumps({"address": server.listening_address, "guided": _guided()}).encode() + b"\n")
    sys.stdin.buffer.read()
    os._exit(0)  # nothing is kept that a slower end could lose


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.n_ctx = settings["context"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.api_keys = [settings["key"]]
    params.cors_origins = "http://127.0.0.1"  # no page in a browser is let in
    params.slot_save_path = settings["kept"]
    params.cache_ram_mib = settings["remembered"]
    params.n_parallel = 1
    params.port = 0
    params.verbosity = 1
    params.ui = params.warmup = False
    return xllamacpp.Server(params)


def _let_it_finish() -> None:
    """llama.cpp says why from a thread of its own: until something is there and nothing more comes, for two seconds at most."""
    until, before = time.monotonic() + 2, -1
    while time.monotonic() < until:
        said = os.fstat(2).st_size
        if said and said == before:
            return
        before = said
        time.sleep(0.1)


def _guided() -> bool:
    """Whether grammars may be those of llguidance, as in most of the published packages."""
    import xllamacpp

    return str(xllamacpp.json_schema_to_grammar({"type": "object"})).startswith("%llguidance")


if __name__ == "__main__":
    main()
