"""`foreplan models`: fetch a model that runs on this machine, take one in from a file, list what is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ..planner.models.gguf import read_gguf
from ..planner.models.known_models import KNOWN, RECOMMENDED, KnownModel, known_model, model_folder
from ..planner.models.pulling import Told, pull, sha256_of
from ..policies.errors import BadInput
from ..policies.text import did_you_mean, shorten
from . import options as o
from .lines import plain
from .screen import Code, Screen

__all__ = ["ACTIONS", "models"]

ACTIONS = ("list", "pull")


def models(
    screen: Screen,
    action: o.ModelAction,
    name: o.ModelName = None,
    *,
    to: o.ModelFolder = None,
    address: o.ModelAddress = None,
) -> Code:
    """List or fetch models that run on this machine.

    What is fetched is checked by its sha256; a fetch that was cut goes on where it was.
    """
    folder = Path(to).expanduser() if to is not None else model_folder()
    match action:
        case "pull":
            return _pull(screen, name or RECOMMENDED, folder, address)
        case "list":
            if name is not None or address is not None:
                raise BadInput(
                    "`foreplan models list` takes no name and no address; to fetch one: foreplan models pull"
                )
            return _list(screen, folder)
    raise BadInput(
        f"models can be listed or pulled, not {shorten(repr(action), 40)}{did_you_mean(action, ACTIONS)}"
    )


def _list(screen: Screen, folder: Path) -> Code:
    """The known models and the files that are there."""
    files = {path.name: path for path in sorted(folder.glob("*.gguf"))}
    listed = [_known(model, files.pop(model.file, None)) for model in KNOWN.values()]
    listed += [
        {"name": path.stem, "file": str(path), "bytes": path.stat().st_size} for path in files.values()
    ]
    screen.document({"folder": str(folder), "models": listed})
    screen.write("" if screen.json else "".join(map(_row, listed)))
    if listed[0]["file"] is None:
        screen.say("To fetch it: foreplan models pull")
    return Code.DONE


def _known(model: KnownModel, path: Path | None) -> dict[str, Any]:
    facts = {"licence": model.licence, "url": model.url, "sha256": model.sha256}
    whole = path is not None and path.stat().st_size == model.bytes
    return {"name": model.name, "file": str(path) if path and whole else None, "bytes": model.bytes, **facts}


def _row(model: dict[str, Any]) -> str:
    """One line, however wide the screen: a path is there to be copied."""
    about = [f"{model['bytes'] / 1e6:,.0f} MB", model.get("licence", "")]
    about += ["recommended"] * (model["name"] == RECOMMENDED)
    return f"{plain(model['name'])}  {', '.join(filter(None, about))}  {plain(model['file'] or 'not here')}\n"


def _pull(screen: Screen, name: str, folder: Path, address: str | None) -> Code:
    if os.sep in name or name.endswith(".gguf"):
        if address is not None:
            raise BadInput("a file that is here needs no --from")
        path = _take_in(screen, Path(name).expanduser(), folder)
    else:
        model = known_model(name)
        if address is not None:
            model = model._replace(url=_web(address))
        with _progress(screen, f"Fetching {model.name} ({model.licence}) from {model.url}") as told:
            path = pull(model, folder, told=told)
    screen.document({"file": str(path), "bytes": path.stat().st_size})
    screen.write("" if screen.json else f"{plain(path)}\n")
    return Code.DONE


def _web(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise BadInput(f"{shorten(repr(address), 80)} is no address: it begins with https:// or http://")
    return address


def _take_in(screen: Screen, source: Path, folder: Path) -> Path:
    """A file that came another way, copied to where models are found by name; a known one is told by its digest."""
    head = read_gguf(source)
    if not head.instruct:
        raise BadInput(f"{source} is no instruct model: it holds no template for conversations")
    known = next((m for m in KNOWN.values() if m.bytes == head.bytes and m.sha256 == sha256_of(source)), None)
    if known is not None:
        screen.say(f"It is {known.name}, byte for byte.")
    target = folder / (known.file if known else source.name)
    if target.exists() and target.samefile(source):
        return target
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        part.replace(target)
    except OSError as error:
        raise BadInput(f"the model cannot be kept in {folder}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return target


@contextmanager
def _progress(screen: Screen, title: str) -> Iterator[Told]:
    """What tells how far it is: a bar in a terminal, else a line for each tenth."""
    if screen.quiet or not screen.err.is_terminal:
        yield _tenths(screen, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    screen.say(title)
    with Progress(*columns, console=screen.err, transient=True) as shown:
        task = shown.add_task("fetching", total=None)
        yield lambda have, whole: shown.update(task, completed=have, total=whole)


def _tenths(screen: Screen, title: str) -> Callable[[int, int], None]:
    said = [-1]

    def told(have: int, whole: int) -> None:
        tenth = 10 * have // whole
        if said[0] < 0:
            screen.say(title)
        if tenth > said[0]:
            said[0] = tenth
            screen.say(f"{10 * tenth} %, {have / 1e6:,.0f} of {whole / 1e6:,.0f} MB")

    return told
