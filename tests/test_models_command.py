"""`foreplan models`: what is fetched is the file that was meant, whole, or it is not there."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.ggufs import INSTRUCT, gguf
from support.local_models import LARGE, fetched

from foreplan.console.app import main
from foreplan.planner.models.known_models import KNOWN, KnownModel, find_model
from foreplan.planner.models.pulling import pull
from foreplan.policies.errors import BadInput, ForeplanError

CONTENT = gguf(INSTRUCT, content=os.urandom(3_000_000))


@dataclass
class Shelf:
    """A web server with one file; `cuts` are bytes after which a connection breaks, `statuses` what it says first."""

    content: bytes
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def model(self, **other: Any) -> KnownModel:
        """What is on the shelf, as it is known."""
        sum_ = hashlib.sha256(self.content).hexdigest()
        return KnownModel("tiny", "tiny.gguf", f"{self.url}/m", len(self.content), sum_, "MIT")._replace(
            **other
        )


@contextmanager
def shelf(content: bytes = CONTENT, **how: Any) -> Iterator[Shelf]:
    known = Shelf(content, **how)

    class Speaker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            known.asked.append(asked)
            if known.statuses:
                self.send_error(known.statuses.pop(0))
                return
            begin = int(asked[6:-1]) if asked and known.ranges else 0
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header(
                    "Content-Range", f"bytes {begin}-{len(known.content) - 1}/{len(known.content)}"
                )
            self.send_header("Content-Length", str(len(known.content) - begin))
            self.end_headers()
            end = begin + known.cuts.pop(0) if known.cuts else len(known.content)
            self.wfile.write(known.content[begin:end])

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Speaker) as server:
        known.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_a_model_is_fetched_whole_and_once(tmp_path: Path) -> None:
    """With progress; the second time it is there."""
    told: list[tuple[int, int]] = []
    with shelf() as there:
        for _ in range(2):
            path = pull(there.model(), tmp_path / "new", told=lambda have, whole: told.append((have, whole)))
    assert path.read_bytes() == CONTENT
    assert (told[0], told[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert len(there.asked) == 1


def test_a_connection_that_breaks_is_gone_on_with(tmp_path: Path) -> None:
    """From where it broke, as often as each brings something."""
    with shelf(cuts=[500_000] * 5) as there:
        assert pull(there.model(), tmp_path).read_bytes() == CONTENT
    assert there.asked == ["", *(f"bytes={n * 500_000}-" for n in range(1, 6))]


def test_a_part_that_is_there_is_gone_on_with(tmp_path: Path) -> None:
    """Also days later, in another process; a server that knows no ranges gives all of it again."""
    for ranges in (True, False):
        folder = tmp_path / str(ranges)
        folder.mkdir()
        (folder / "tiny.gguf.part").write_bytes(CONTENT[:1000])
        with shelf(ranges=ranges) as there:
            assert pull(there.model(), folder).read_bytes() == CONTENT
        assert there.asked == ["bytes=1000-"]
        assert files(folder) == {"tiny.gguf": len(CONTENT)}


def test_another_file_is_not_kept(tmp_path: Path) -> None:
    """Neither one that came, nor one that somebody put there; each says what to do."""
    with shelf() as there:
        wrong = there.model(sha256="0" * 64)
        with pytest.raises(
            ForeplanError, match=r"is not tiny: its sha256 is .*; it was deleted; pull it again"
        ):
            pull(wrong, tmp_path)
        assert files(tmp_path) == {}
        (tmp_path / "tiny.gguf").write_bytes(b"mine")
        with pytest.raises(ForeplanError, match=r"delete .*tiny.gguf and pull it again"):
            pull(wrong, tmp_path)
    assert (tmp_path / "tiny.gguf").read_bytes() == b"mine"


def test_a_file_that_grows_beyond_its_size_is_cut_off(tmp_path: Path) -> None:
    """Nothing is written without end."""
    with shelf() as there, pytest.raises(ForeplanError, match="more than the 1,000 bytes of tiny"):
        pull(there.model(bytes=1000), tmp_path)
    assert files(tmp_path) == {"tiny.gguf.part": 0}


@pytest.mark.parametrize(
    ("how", "asked", "said"),
    [
        ({"statuses": [404]}, 1, "answers 404 Not Found"),
        ({"statuses": [503] * 9}, 5, "answers 503"),
        ({"cuts": [0] * 9}, 5, "what has come is kept, so pull it again"),
    ],
)
def test_what_cannot_be_fetched_says_why(how: Any, asked: int, said: str, tmp_path: Path) -> None:
    """After as many tries as make sense."""
    with shelf(**how) as there, pytest.raises(ForeplanError, match=said):
        pull(there.model(), tmp_path)
    assert len(there.asked) == asked


def test_a_service_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    """A few times."""
    with shelf(statuses=[503, 429]) as there:
        assert pull(there.model(), tmp_path).exists()


def test_two_do_not_write_the_same_part(tmp_path: Path) -> None:
    """The second is told to wait."""
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "tiny.gguf.part").open("ab") as other, shelf() as there:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match=r"somebody else is fetching tiny.gguf.part"):
            pull(there.model(), tmp_path)


def test_a_folder_that_cannot_be_made_and_a_disk_that_is_too_small_are_told(tmp_path: Path) -> None:
    """Before anything is fetched."""
    (tmp_path / "file").write_text("")
    with shelf() as there:
        with pytest.raises(BadInput, match="cannot be kept in"):
            pull(there.model(), tmp_path / "file" / "models")
        with pytest.raises(BadInput, match=r"bytes free and tiny needs 1,0.* more; see --to"):
            pull(there.model(bytes=10**18), tmp_path)
    assert there.asked == []


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The known ones, whether they are here, and how to get the recommended one."""
    assert main(["models", "list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "qwen2.5-coder-1.5b-instruct  1,117 MB, Apache-2.0, recommended  not here\n"
    assert "foreplan models pull" in shown.err
    assert main(["models", "list", "--json"]) == 0
    (listed,) = document(capsys)["models"]
    assert (listed["bytes"], listed["file"]) == (1_117_320_768, None)


def test_a_file_that_is_here_is_taken_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And is found by its name."""
    source = tmp_path / "mine.gguf"
    source.write_bytes(CONTENT)
    assert main(["models", "pull", str(source), "--json"]) == 0
    path = Path(document(capsys)["file"])
    assert path.read_bytes() == CONTENT
    assert find_model("mine") == path
    assert main(["models", "list", "--json"]) == 0
    assert [model["name"] for model in document(capsys)["models"]] == [*KNOWN, "mine"]


def test_a_fetch_that_brings_another_file_fails_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By an address of the user's; --json tells it, too."""
    with shelf() as there:
        code = main(
            ["models", "pull", "--from", f"{there.url}/x.gguf", "--to", str(tmp_path / "to"), "--json"]
        )
    shown = capsys.readouterr()
    assert code == 1
    assert json.loads(shown.out)["error"]["message"].startswith(f"{there.url}/x.gguf cannot be fetched")
    assert "Fetching qwen2.5-coder-1.5b-instruct (Apache-2.0) from http" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lsit"], "did you mean 'list'"),
        (["pull", "qwen"], "no model is called 'qwen'"),
        (["pull", "./none.gguf"], "there is no file"),
        (["pull", "--from", "file:///etc/passwd"], "begins with https://"),
        (["list", "qwen"], "takes no name"),
        (["pull", __file__ + ".gguf", "--from", "http://x"], "needs no --from"),
        (["pull", __file__.replace("test_models_command.py", "")], "is no file"),
    ],
)
def test_mistyped_words_are_refused_with_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a sentence."""
    assert main(["models", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.proof
def test_the_recommended_model_is_pulled_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All 1,117,320,768 bytes from a server on loopback, cut once on the way, by the command."""
    try:
        source = fetched(LARGE)
    except ImportError as error:
        pytest.skip(str(error))
    with shelf(source.read_bytes(), cuts=[400_000_000]) as there:
        assert main(["models", "pull", "--from", f"{there.url}/m.gguf", "--to", str(tmp_path)]) == 0
    assert there.asked == ["", "bytes=400000000-"]
    (path,) = tmp_path.glob("*.gguf")
    assert f"{path}\n" == capsys.readouterr().out
    assert path.name == KNOWN["qwen2.5-coder-1.5b-instruct"].file
