"""Machines that keep things: services with pages, exports, reports, keys, files and changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import anyio
from jobs.world import Refused, World, acts, reads, writes


@dataclass(frozen=True)
class Row:
    """Something in a table."""

    id: str
    amount: float = 0.0


@dataclass(frozen=True)
class Page:
    """A page of a table, and where the next one starts."""

    rows: list[Row]
    next_cursor: str | None


@dataclass
class Pages(World):
    """A table that is only given page by page."""

    pages: list[list[Row]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_rows(self, cursor: str = "0") -> Page:
        """One page; without a cursor the first."""
        self.asked.append(cursor)
        at = int(cursor)
        following = str(at + 1) if at + 1 < len(self.pages) else None
        return Page(self.pages[at], following)

    @writes
    async def save_rows(self, rows: list[Row]) -> None:
        """Keep rows."""


@dataclass(frozen=True)
class Started:
    """Work that was begun."""

    job: str


@dataclass(frozen=True)
class Progress:
    """How far work is; `url` is where its result lies once it is done."""

    state: Literal["running", "done", "failed"]
    url: str | None = None


@dataclass
class Exports(World):
    """Slow work: what a job ends as, and after how many looks."""

    ends: dict[str, tuple[Literal["running", "done", "failed"], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self.looks: dict[str, int] = {}

    @acts
    async def start_export(self, name: str) -> Started:
        """Begin an export or report."""
        return Started(f"job {name}")

    @reads
    async def export_status(self, job: str) -> Progress:
        """How far it is."""
        self.asked.append(job)
        state, after = self.ends[job.removeprefix("job ")]
        self.looks[job] = self.looks.get(job, 0) + 1
        if self.looks[job] < after:
            return Progress("running")
        return Progress(state, f"https://files/{job}" if state == "done" else None)

    @writes
    async def download(self, url: str) -> int:
        """Fetch a file, and say how many bytes it has."""
        return len(url)


@dataclass(frozen=True)
class Reading:
    """A measurement as a file holds it."""

    sensor: str
    value: str


@dataclass(frozen=True)
class Measured:
    """A measurement as the table takes it."""

    sensor: str
    value: float


@dataclass
class Pipeline(World):
    """Files of measurements. Reading takes the seconds given; loading takes ten seconds less that."""

    files: dict[str, list[Reading]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def extract_file(self, path: str) -> list[Reading]:
        """The measurements in a file."""
        await anyio.sleep(self.seconds.get(path, 0))
        if path not in self.files:
            raise Refused(f"no file {path!r}", code="not_found")
        return self.files[path]

    @acts
    async def load_rows(self, source: str, rows: list[Measured]) -> int:
        """Put measurements into the table."""
        await anyio.sleep(10 - self.seconds.get(source, 0))
        return len(rows)


@dataclass(frozen=True)
class Key:
    """A key of a service."""

    id: str
    service: str
    created: str


@dataclass
class Vault(World):
    """Keys of services. `bad` services get keys that do not work; `held` keys cannot be revoked."""

    keys: list[Key] = field(default_factory=list)
    bad: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_keys(self) -> list[Key]:
        """All keys."""
        return self.keys

    @acts
    async def create_key(self, service: str) -> Key:
        """Make a key."""
        return Key(f"{service}-new", service, "2030-06-01")

    @acts
    async def delete_key(self, key: str) -> None:
        """Remove a key that is not used."""

    @reads
    async def try_key(self, key: str) -> str:
        """Use a key for something harmless."""
        if key.removesuffix("-new") in self.bad:
            raise Refused(f"{key} does not work", code="denied")
        return "fine"

    @writes
    async def use_key(self, service: str, key: str) -> None:
        """Let a service use this key from now on."""

    @acts
    async def revoke_key(self, key: str) -> None:
        """End a key for good."""
        if key in self.held:
            raise Refused(f"{key} is still in use", code="in_use")


@dataclass(frozen=True)
class Photo:
    """A file of a folder, and when it was taken."""

    name: str
    taken: str


@dataclass
class Folder(World):
    """A folder of photographs."""

    photos: list[Photo] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def list_folder(self, folder: str) -> list[Photo]:
        """The files of a folder."""
        return self.photos

    @acts
    async def rename_file(self, folder: str, old: str, new: str) -> None:
        """Give a file another name."""
        if new in [p.name for p in self.photos]:
            raise Refused(f"{new} is there already", code="exists")
        self.photos = [Photo(new, p.taken) if p.name == old else p for p in self.photos]


@dataclass(frozen=True)
class Report:
    """A report of a service."""

    total: float


@dataclass
class Reports(World):
    """A service that knows some credentials, and among them some that have run out of calls."""

    valid: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def fetch_report(self, credential: str, month: str) -> Report:
        """The report of a month."""
        self.asked.append(credential)
        if credential not in self.valid:
            raise Refused("this credential may not", kind="permission", code="forbidden")
        return Report(12.5)

    @acts
    async def publish_report(self, month: str, total: float) -> None:
        """Show a report to all."""


@dataclass(frozen=True)
class Change:
    """A record that changed; `data` is null where it was deleted."""

    id: str
    changed_at: str
    data: str | None


@dataclass
class Mirror(World):
    """A source with changes and a target that follows it. A record in `stuck` cannot be written."""

    changes: list[Change] = field(default_factory=list)
    watermark: str = "2030-01-01T00:00:00Z"
    stuck: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    @reads
    async def get_watermark(self) -> str:
        """Until when the target has followed."""
        return self.watermark

    @reads
    async def list_changes(self, since: str) -> list[Change]:
        """What changed after a time, in order."""
        return [c for c in self.changes if c.changed_at > since]

    @writes
    async def put_record(self, id: str, data: str) -> None:
        """Write a record."""
        if id == self.stuck:
            raise Refused(f"{id} is locked", code="locked")

    @writes
    async def drop_record(self, id: str) -> None:
        """Remove a record."""

    @writes
    async def set_watermark(self, at: str) -> None:
        """The target has followed until here."""
