"""The directory of a slice, which becomes a table at once, when all files are there.

While files are fetched, the metadata is in a hidden folder; a reader finds no table. The last step moves the metadata
into place by one rename. An interrupted pull leaves its journal in the hidden folder, and the same pull goes on there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import RequestError, StorageError
from harness.storage.paths import PhysicalPath, is_local, local_path, redact
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.writing.local_files import check_inside

NOTE = "_harness_slice.json"
"""The note of a slice's origin. Names that begin so are hidden: neither format's cleaning removes them."""
_WORK = "_harness_pull"
_ORIGINALS = f"{_WORK}/originals"
"""The folder of the source's files of which files of the slice are made."""
_FILES = "_harness_slice_files.jsonl"
"""The journal: the source file of each file of the slice, with size and checksum."""


class SliceDirectory:
    """A directory that becomes a slice, or a slice that becomes newer.

    directory: absolute. metadata: the folder in it that makes a table of it, `metadata` or `_delta_log`.
    """

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory = directory.absolute()
        self._metadata = self.directory / metadata
        self._work = self.directory / _WORK
        self._staged = self._work / metadata
        self._marker = self._work / "request.json"
        self.journal = self._work / _FILES

    def file(self, relative: str) -> Path:
        """The path of a file of the slice. Raises RequestError: a link leads out of the directory."""
        return check_inside(self.directory, self.directory / relative)

    def begin(self, request: dict[str, Any], *, refresh: bool = False) -> None:
        """Take the directory for this pull, or go on with the same one. refresh: the directory is a slice.

        Raises RequestError: the directory holds something else.
        """
        for path in (self._marker, self.journal):
            check_inside(self.directory, path)
        if not refresh:
            self.check()
        content = json.dumps(request, indent=1, sort_keys=True)
        if self._marker.is_file() and self._marker.read_text(encoding="utf-8") == content:
            return
        if self._marker.is_file() and not refresh:
            raise RequestError(
                f"Cannot pull into {self.directory}: a pull of something else ended there before it was done; "
                "remove the directory, or give another one"
            )
        with translate_write_errors(self.directory):
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
            if refresh and (self.directory / _FILES).is_file():
                shutil.copyfile(self.directory / _FILES, self.journal)
            self._marker.write_text(content, encoding="utf-8")

    def check(self) -> None:
        """Raises RequestError if no pull could begin or go on here; nothing is written."""
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise RequestError(f"Cannot pull into {self.directory}: it is a file; give a directory")
        is_begun = self._marker.is_file() and not self._metadata.exists()
        if any(self.directory.iterdir()) and not is_begun:
            raise RequestError(
                f"Cannot pull into {self.directory}: it is not empty; give a new directory, or refresh the slice"
            )

    def stage(self) -> Path:
        """An empty folder for the metadata."""
        with translate_write_errors(self.directory):
            shutil.rmtree(self._staged, ignore_errors=True)
            self._staged.mkdir(parents=True)
        return self._staged

    def publish(self, note: dict[str, Any], *, journal: bool = True) -> None:
        """Make a table of the directory: the note first, then the metadata; the work goes.

        journal: True: it stays beside the slice, with the names of the source's files.
        """
        with translate_write_errors(self.directory):
            if journal and self.journal.is_file():
                os.replace(self.journal, self.directory / _FILES)
            scratch = self._work / NOTE
            scratch.unlink(missing_ok=True)
            with scratch.open("x", encoding="utf-8") as out:  # no link is followed
                out.write(json.dumps(note, indent=1) + "\n")
            os.replace(scratch, self.directory / NOTE)
            if self._metadata.exists():
                os.replace(self._metadata, self._work / "before")
            os.replace(self._staged, self._metadata)
            shutil.rmtree(self._work)


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into an error that names the written file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write the slice: {reason}", file=str(error.filename or path)) from error


# Names of a slice's files: as below the source's location, where these are safe, else by a digest. Anyone may have
# written the paths: they may leave the slice, be too long for a file system, or be the metadata's own.


_RESERVED = frozenset({"metadata", "_delta_log"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_MAX_SEGMENT = 200  # bytes; file systems take 255
_MAX_PATH = 1000  # bytes


class SlicePaths:
    """Gives each file of the source its path in the slice, relative to its directory, always the same one."""

    def __init__(self, location: str, refreshed: int, *, numbered: bool) -> None:
        """Names for a source whose files are below a location, as its metadata or storage calls it.

        refreshed: the number of refreshes; files that are written anew have other names each time.
        numbered: names are numbers, and say nothing of the source's.
        """
        self.refreshed = refreshed
        self._numbered = numbered
        self._prefix = location.rstrip("/") + "/"
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def written_path(self, path: str, *, ending: str = "", is_rewritten: bool = True) -> str:
        """The path of a file in the slice. anew: True: the file is made of the source's; False: a copy."""
        name = self.path_of(path, ending=ending)
        return f"refresh-{self.refreshed}/{name}" if self.refreshed and is_rewritten else name

    def fetched_path(self, path: str, *, is_rewritten: bool) -> str:
        """The path to which a file of the source is copied. anew: as for `written`."""
        return f"{_ORIGINALS}/{self.path_of(path)}" if is_rewritten else self.path_of(path)

    def path_of(self, path: str, *, ending: str = "", folder: str = "data") -> str:
        """The path of a copy in the slice. path: the source's. ending: of the name. folder: for names by digest."""
        found = self._given.get(path)
        if found is None:
            if self._numbered:
                found = f"data/{len(self._given):06d}{ending or '.parquet'}"
            else:
                found = self._safe_path(path, ending) or _digest_path(path, ending, folder)
            self._given[path] = found
            self._taken.add(found.casefold())
            self._folders.update(_parent_folders(found.casefold()))
        return found

    def _safe_path(self, path: str, ending: str) -> str | None:
        """The part below the location; None: no file of the slice can have that name, or another file has it."""
        if not path.startswith(self._prefix):
            return None
        relative = path.removeprefix(self._prefix)
        relative = relative if relative.endswith(ending) else relative + ending
        segments = relative.split("/")
        if not all(map(_is_plain, segments)) or segments[0].casefold() in _RESERVED or segments[0][0] in "._":
            return None
        # Names that differ by case alone are one on some file systems, and stores let a name be file and folder.
        folded = relative.casefold()
        if folded in self._taken or folded in self._folders or self._taken & set(_parent_folders(folded)):
            return None
        return relative if len(relative.encode()) <= _MAX_PATH else None


def _digest_path(path: str, ending: str, folder: str) -> str:
    last = re.sub(r"[^A-Za-z0-9._=-]", "_", path.rsplit("/", 1)[-1])[-60:].lstrip("._")
    name = f"{hashlib.sha256(path.encode(errors='surrogatepass')).hexdigest()[:32]}-{last}"
    return f"{folder}/{name if name.endswith(ending) else name + ending}"


def _is_plain(segment: str) -> bool:
    if segment in ("", ".", "..") or _UNSAFE.search(segment) is not None:
        return False
    try:
        return len(segment.encode()) <= _MAX_SEGMENT
    except UnicodeError:
        return False


def _parent_folders(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


# Fetching the files of a slice: in parallel, each whole or not at all, and files that are there not again.


_PIECE = 1 << 23  # bytes that are held of a file at a time
FETCHES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of the source that the slice holds.

    physical: where its bytes are. target: its path in the slice. size: bytes, as recorded; None: not recorded.
    """

    physical: PhysicalPath
    target: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that is there. source: the file of the source, as shown. sha256: of the bytes, in hexadecimal digits."""

    source: str
    target: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A slice of a table of some format, planned and not yet made.

    points: its snapshots or versions, oldest first. storage: reads the source. files: to copy.
    rewritten_bytes: bytes of the source's files that are read, to be written anew, and not copied.
    write: writes the metadata around the fetched files, by target, staged; a sentence for each lack of the slice.
    """

    points: tuple[int, ...]
    storage: Storage
    files: tuple[SourceFile, ...]
    rewritten_bytes: int = 0
    write: Callable[[SliceDirectory, Mapping[str, FetchedFile]], list[str]]


def fetch(
    files: Sequence[SourceFile], storage: Storage, place: SliceDirectory, *, link: bool = False
) -> tuple[dict[str, FetchedFile], int]:
    """Copy the files that are not there yet: all files by target, and the number of those that were there.

    link: True: files become hard links to the source's, where the file system has such.

    Raises:
        MissingFileError, OutsideTableError, StorageError: a file cannot be read, or ends early.
    """
    known = read_journal(place.journal)
    present, missing = {}, []
    for file in files:
        found = known.get(file.target)
        if found is not None and found.source == redact(file.physical) and _is_intact(place.file(file.target), found):
            present[file.target] = found
        else:
            missing.append(file)
    size = sum(file.size or 0 for file in missing)
    with phase("fetching files", size, "bytes") as advance, ThreadPoolExecutor(FETCHES_AT_ONCE) as pool:
        work = _FetchState(storage, place, advance, link=link)
        try:
            wait([pool.submit(work.run, file) for file in missing])
        except BaseException as error:  # Ctrl-C, and then the pool waits for its threads
            work.failure = error
            raise
    if work.failure is not None:
        raise work.failure
    return {**present, **work.fetched}, len(present)


class _FetchState:
    """State that the threads share. failure: the first one, which ends the other copies."""

    def __init__(
        self,
        storage: Storage,
        place: SliceDirectory,
        advance: Callable[[int], None],
        *,
        link: bool,
    ) -> None:
        self.failure: BaseException | None = None
        self.fetched: dict[str, FetchedFile] = {}
        self._storage = storage
        self._place = place
        self._is_linked = link
        self._advance = advance
        self._lock = threading.Lock()

    def run(self, file: SourceFile) -> None:
        if self.failure is None:
            try:
                self.fetched[file.target] = self.fetch(file)
            except BaseException as error:  # for the thread that waits
                self.failure = self.failure or error

    def fetch(self, file: SourceFile) -> FetchedFile:
        size = self._storage.size(file.physical)
        target = self._place.file(file.target)
        part = target.with_name(f"{target.name}.part")
        with translate_write_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = self._link(file, part) or self._copy(file, part, size)
            os.replace(part, target)
        fetched = FetchedFile(source=redact(file.physical), target=file.target, size=size, sha256=digest)
        journal = self._place.journal
        with self._lock, translate_write_errors(journal), journal.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(fetched)) + "\n")
        return fetched

    def _link(self, file: SourceFile, part: Path) -> str | None:
        """Links the file; its checksum. None: it is to be copied."""
        if not (self._is_linked and is_local(file.physical)):
            return None
        try:
            os.link(local_path(file.physical), part)
        except OSError:  # no file system of hard links, or another one
            return None
        with part.open("rb") as linked:
            return hashlib.file_digest(linked, "sha256").hexdigest()

    def _copy(self, file: SourceFile, part: Path, size: int) -> str:
        """Copies the file of this size; its checksum."""
        digest = hashlib.sha256()
        part.unlink(missing_ok=True)
        with part.open("xb") as out:  # no link is followed
            for start in range(0, size, _PIECE):
                if self.failure is not None:
                    raise self.failure
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
        return digest.hexdigest()


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
    """Removes the files of a slice's older state, and forgets them.

    fetched: those that it has now, by target. refreshed: how often it was made newer.
    """
    journal = directory / _FILES
    known = read_journal(journal)
    with translate_write_errors(directory):
        for target in known.keys() - fetched.keys():
            check_inside(directory, directory / target).unlink(missing_ok=True)
        for target in known if refreshed == 1 else ():
            # Files that were made of originals the first time; later files have a folder for each time.
            if target.startswith(f"{_ORIGINALS}/"):
                check_inside(directory, directory / target.removeprefix(f"{_ORIGINALS}/")).unlink(missing_ok=True)
        shutil.rmtree(directory / f"refresh-{refreshed - 1}", ignore_errors=True)
        lines = "".join(json.dumps(asdict(file)) + "\n" for file in fetched.values())
        journal.unlink(missing_ok=True)
        with journal.open("x", encoding="utf-8") as out:  # no link is followed
            out.write(lines)


def _is_intact(path: Path, expected: FetchedFile) -> bool:
    """Tells whether the file is as it was fetched, to the last bit."""
    if not path.is_file() or path.stat().st_size != expected.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == expected.sha256
