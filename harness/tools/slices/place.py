"""The directory of a slice, and how it becomes a table: at once, when all that it names is there.

While files are fetched, what makes a table of them is in a hidden folder; a reader finds no table. The last step moves
the metadata into place by one rename. A pull that was interrupted leaves its journal in the hidden folder, and the same
pull goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import RequestError, StorageError
from harness.storage.paths import shown
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.testing.writing.places import inside

NOTE = "_harness_slice.json"
"""The note of where a slice came from. Names that begin so are hidden: neither format's cleaning removes them."""
_WORK = "_harness_pull"
ORIGINALS = f"{_WORK}/originals"
"""The folder of the source's files that are not in their place yet."""
FILES = "_harness_slice_files.jsonl"
"""The journal: the source file of each file of the slice, with size and checksum."""
_REQUEST = "request.json"
_BEFORE = "before"


class SlicePlace:
    """A directory that becomes a slice, or is one that becomes newer.

    directory: absolute. metadata: the folder in it that makes a table of it, `metadata` or `_delta_log`.
    """

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory = directory.absolute()
        self._metadata = self.directory / metadata
        self._work = self.directory / _WORK

    @property
    def staged(self) -> Path:
        """The folder in which the metadata is written before it counts."""
        return self._work / self._metadata.name

    @property
    def journal(self) -> Path:
        """The journal of the files that are there."""
        return self._work / FILES

    def file(self, relative: str) -> Path:
        """The path of a file of the slice.

        Raises:
            RequestError: a link leads out of the directory.
        """
        return inside(self.directory, self.directory / relative)

    def begin(self, request: dict[str, Any], *, refresh: bool = False) -> None:
        """Take the directory for this pull, or go on with the same one. refresh: the directory is a slice.

        Raises:
            RequestError: the directory holds something else.
        """
        if not refresh:
            self.check()
        content = json.dumps(request, indent=1, sort_keys=True)
        marker = self._work / _REQUEST
        if marker.is_file() and marker.read_text(encoding="utf-8") == content:
            return
        if marker.is_file() and not refresh:
            raise RequestError(
                f"Cannot pull into {self.directory}: a pull of something else ended there before it was done; "
                "remove the directory, or give another one"
            )
        with writing(self.directory):
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
            if refresh and (self.directory / FILES).is_file():
                shutil.copyfile(self.directory / FILES, self.journal)
            marker.write_text(content, encoding="utf-8")

    def check(self) -> None:
        """Raises RequestError if no pull could begin or go on here; nothing is written."""
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise RequestError(f"Cannot pull into {self.directory}: it is a file; give a directory")
        is_begun = (self._work / _REQUEST).is_file() and not self._metadata.exists()
        if any(self.directory.iterdir()) and not is_begun:
            raise RequestError(
                f"Cannot pull into {self.directory}: it is not empty; give a new directory, or refresh the slice"
            )

    def stage(self) -> Path:
        """An empty folder for the metadata."""
        with writing(self.directory):
            shutil.rmtree(self.staged, ignore_errors=True)
            self.staged.mkdir(parents=True)
        return self.staged

    def publish(self, note: dict[str, Any], *, journal: bool = True) -> None:
        """Make a table of the directory: the note first, then the metadata; then nothing of the work is left.

        journal: whether it stays beside the slice, with the names of the source's files.
        """
        with writing(self.directory):
            if journal and self.journal.is_file():
                os.replace(self.journal, self.directory / FILES)
            scratch = self._work / NOTE
            scratch.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
            os.replace(scratch, self.directory / NOTE)
            if self._metadata.exists():
                os.replace(self._metadata, self._work / _BEFORE)
            os.replace(self.staged, self._metadata)
            shutil.rmtree(self._work)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into an error that names the written file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write the slice: {reason}", file=str(error.filename or path)) from error


# Names of a slice's files: as below the source's location, where that is safe, else by a digest.
#
# Paths come from metadata that anyone may have written. A path that leaves the slice, that no file system takes, or
# that is the metadata's own becomes a name that says nothing.


_RESERVED = frozenset({"metadata", "_delta_log"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_MAX_SEGMENT = 200  # bytes; file systems take 255
_MAX_PATH = 1000  # bytes
_PLAIN = re.compile(r"[^A-Za-z0-9._=-]")


class SliceNames:
    """Gives each file of the source its path in the slice, relative to its directory, always the same one."""

    def __init__(self, locations: Iterable[str], refreshed: int = 0, *, numbered: bool = False) -> None:
        """Names for a source whose files are below one of `locations`, as its metadata or storage calls them.

        refreshed: how often the slice was; files that are written anew have other names each time.
        numbered: names say nothing of the source's, but in which order they were asked for.
        """
        self.refreshed = refreshed
        self._numbered = numbered
        self._prefixes = [location.rstrip("/") + "/" for location in locations]
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def written(self, path: str, *, ending: str = "") -> str:
        """The path of a file in the slice that is not the source's own, but made of it."""
        name = self.of(path, ending=ending)
        return name if self.refreshed == 0 else f"refresh-{self.refreshed}/{name}"

    def of(self, path: str, *, ending: str = "", folder: str = "data") -> str:
        """The path of a file in the slice.

        path: what the source calls it. ending: what its name must end with. folder: for names by digest.
        """
        found = self._given.get(path)
        if found is None:
            found = (
                f"data/{len(self._given):06d}{ending or '.parquet'}"
                if self._numbered
                else self._safe(path, ending) or self._digest(path, ending, folder)
            )
            self._given[path] = found
            self._taken.add(found.casefold())
            self._folders.update(_folders(found.casefold()))
        return found

    def _safe(self, path: str, ending: str) -> str | None:
        """The part below the location, if it is one that a file of the slice can have and no other file has."""
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        if prefix is None:
            return None
        relative = path[len(prefix) :]
        relative = relative if relative.endswith(ending) else relative + ending
        segments = relative.split("/")
        if not all(map(_is_plain, segments)) or segments[0].casefold() in _RESERVED or segments[0][0] in "._":
            return None
        # Names that differ by case alone are one on some file systems, and stores let a name be file and folder.
        folded = relative.casefold()
        if folded in self._taken or folded in self._folders or self._taken & set(_folders(folded)):
            return None
        return relative if len(relative.encode()) <= _MAX_PATH else None

    def _digest(self, path: str, ending: str, folder: str) -> str:
        last = _PLAIN.sub("_", path.rsplit("/", 1)[-1])[-60:].lstrip("._")
        name = f"{hashlib.sha256(path.encode(errors='surrogatepass')).hexdigest()[:32]}-{last}"
        return f"{folder}/{name if name.endswith(ending) else name + ending}"


def _is_plain(segment: str) -> bool:
    if segment in ("", ".", "..") or _UNSAFE.search(segment) is not None:
        return False
    try:
        return len(segment.encode()) <= _MAX_SEGMENT
    except UnicodeError:
        return False


def _folders(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


# Fetching the files of a slice: in parallel, each whole or not at all, and not again if it is there.


_PIECE = 1 << 23  # bytes that are held of a file at a time
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of the source that the slice holds.

    physical: where its bytes are. target: its path in the slice. size: bytes, as recorded; None: not recorded.
    """

    physical: str
    target: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that is there. source: where it came from, as it is shown. sha256: of its bytes, in hexadecimal digits."""

    source: str
    target: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The fetched files by target, and the number of files that were there before."""

    files: Mapping[str, FetchedFile]
    reused: int


def fetch(files: Sequence[SourceFile], storage: Storage, place: SlicePlace, *, max_bytes: int | None) -> Fetched:
    """Copy the files that are not there yet.

    Raises:
        MissingFileError, OutsideTableError, StorageError: a file cannot be read, or ends early.
        RequestError: the files are larger than they were said to be, and than they may be.
    """
    known = read_journal(place.journal)
    present, missing = {}, []
    for file in files:
        found = known.get(file.target)
        if found is not None and found.source == shown(file.physical) and _is_there(place.file(file.target), found):
            present[file.target] = found
        else:
            missing.append(file)
    size = sum(file.size or 0 for file in missing)
    with phase("fetching files", size, "bytes") as advance, ThreadPoolExecutor(_AT_ONCE) as pool:
        work = _Work(storage, place, max_bytes, advance)
        running = [pool.submit(work.fetch, file) for file in missing]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        if any(future.exception() is not None for future in done):
            work.stopped.set()
            for future in running:
                future.cancel()
    failed = [e for f in running if not f.cancelled() and (e := f.exception()) is not None]
    if failed:  # the cause, rather than one of those that stopped because of it
        raise next((error for error in failed if not isinstance(error, _StoppedError)), failed[0])
    fetched = [future.result() for future in running]
    return Fetched({**present, **{file.target: file for file in fetched}}, len(present))


class _StoppedError(Exception):
    """A file was left because another one failed."""


class _Work:
    """State that the threads share."""

    def __init__(
        self, storage: Storage, place: SlicePlace, max_bytes: int | None, advance: Callable[[int], None]
    ) -> None:
        self.stopped = threading.Event()
        self._storage = storage
        self._place = place
        self._left = max_bytes
        self._advance = advance
        self._lock = threading.Lock()

    def fetch(self, file: SourceFile) -> FetchedFile:
        size = self._storage.size(file.physical)
        self._take(size, file)
        target = self._place.file(file.target)
        part = target.with_name(f"{target.name}.part")
        digest = hashlib.sha256()
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as out:
                for start in range(0, size, _PIECE):
                    if self.stopped.is_set():
                        raise _StoppedError
                    length = min(_PIECE, size - start)
                    piece = self._storage.read(file.physical, offset=start, length=length)
                    if len(piece) != length:
                        raise StorageError(
                            f"Cannot copy: the file has {size} bytes, and reading {length} from {start} on gave "
                            f"{len(piece)}; it was replaced, or cut. Pull again",
                            file=file.physical,
                        )
                    digest.update(piece)
                    out.write(piece)
                    with self._lock:
                        self._advance(length)
            os.replace(part, target)
        fetched = FetchedFile(source=shown(file.physical), target=file.target, size=size, sha256=digest.hexdigest())
        journal = self._place.journal
        with self._lock, writing(journal), journal.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(fetched)) + "\n")
        return fetched

    def _take(self, size: int, file: SourceFile) -> None:
        if self._left is None:
            return
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise RequestError(
                    f"Cannot pull: files are larger than the table says, and than max_bytes allows; {file.physical} "
                    f"has {size:,} bytes, {'none' if file.size is None else f'{file.size:,}'} recorded",
                    options=("max_bytes",),
                )


def read_journal(path: Path) -> dict[str, FetchedFile]:
    """The files that earlier tries fetched, by target; a line that an interruption cut tells nothing."""
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            file = FetchedFile(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[file.target] = file
    return found


def discard_stale(directory: Path, fetched: Mapping[str, FetchedFile], refreshed: int) -> None:
    """Removes the files of what a slice was before it was made newer, and forgets them.

    fetched: those that it has now, by target. refreshed: how often it was made newer.
    """
    journal = directory / FILES
    known = read_journal(journal)
    with writing(directory):
        for target in known.keys() - fetched.keys():
            inside(directory, directory / target).unlink(missing_ok=True)
        for target in known if refreshed == 1 else ():
            # Files that were made of originals the first time; what is made later has a folder for each time.
            if target.startswith(f"{ORIGINALS}/"):
                inside(directory, directory / target.removeprefix(f"{ORIGINALS}/")).unlink(missing_ok=True)
        shutil.rmtree(directory / f"refresh-{refreshed - 1}", ignore_errors=True)
        lines = "".join(json.dumps(asdict(file)) + "\n" for file in fetched.values())
        journal.write_text(lines, encoding="utf-8")


def _is_there(path: Path, expected: FetchedFile) -> bool:
    """True if the file is as it was fetched, to the last bit."""
    if not path.is_file() or path.stat().st_size != expected.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == expected.sha256
