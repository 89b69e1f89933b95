"""The directory of a slice. It becomes a table in one step, after all files have been fetched.

While files are fetched, the metadata is in a hidden folder, so that readers find no table. One rename in the last step
moves the metadata into place. An interrupted pull leaves its journal in the hidden folder, and the same pull continues
from there.
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
"""The note that records a slice's origin. Neither format's cleanup removes files with this prefix."""
_WORK = "_harness_pull"
_ORIGINALS = f"{_WORK}/originals"
"""The folder of source files from which files of the slice are made."""
_FILES = "_harness_slice_files.jsonl"
"""The journal: the source file of each file of the slice, with size and checksum."""


class SliceDirectory:
    """A directory that becomes a slice, or a slice that is updated to a newer snapshot.

    Attributes:
        directory: The absolute path.
        journal: The path of the journal while files are fetched.
    """

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory = directory.absolute()
        self._metadata = self.directory / metadata
        self._work = self.directory / _WORK
        self._staged = self._work / metadata
        self._marker = self._work / "request.json"
        self.journal = self._work / _FILES

    def file(self, relative: str) -> Path:
        """Return the path of a file of the slice.

        Raises:
            RequestError: A symbolic link leads out of the directory.
        """
        return check_inside(self.directory, self.directory / relative)

    def begin(self, request: dict[str, Any], *, refresh: bool = False) -> None:
        """Reserve the directory for this pull, or continue the same pull.

        Args:
            request: The pull, as plain values.
            refresh: True if the directory already is a slice.

        Raises:
            RequestError: The directory holds something else.
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
                f"Cannot pull into {self.directory}: a different pull was interrupted there; "
                "remove the directory, or choose another one"
            )
        with translate_write_errors(self.directory):
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
            if refresh and (self.directory / _FILES).is_file():
                shutil.copyfile(self.directory / _FILES, self.journal)
            self._marker.write_text(content, encoding="utf-8")

    def check(self) -> None:
        """Raise RequestError if no pull could begin or continue here. Nothing is written."""
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise RequestError(f"Cannot pull into {self.directory}: it is a file; choose a directory")
        is_begun = self._marker.is_file() and not self._metadata.exists()
        if any(self.directory.iterdir()) and not is_begun:
            raise RequestError(
                f"Cannot pull into {self.directory}: it is not empty; choose a new directory, or refresh the slice"
            )

    def stage(self) -> Path:
        """Create and return an empty folder for the metadata."""
        with translate_write_errors(self.directory):
            shutil.rmtree(self._staged, ignore_errors=True)
            self._staged.mkdir(parents=True)
        return self._staged

    def publish(self, note: dict[str, Any], *, journal: bool = True) -> None:
        """Turn the directory into a table: write the note, move the metadata into place, and delete working files.

        Args:
            note: The note that records the slice's origin.
            journal: If True, keep the journal, with the names of the source's files.
        """
        with translate_write_errors(self.directory):
            if journal and self.journal.is_file():
                os.replace(self.journal, self.directory / _FILES)
            scratch = self._work / NOTE
            scratch.unlink(missing_ok=True)
            with scratch.open("x", encoding="utf-8") as out:  # does not follow a symbolic link
                out.write(json.dumps(note, indent=1) + "\n")
            os.replace(scratch, self.directory / NOTE)
            if self._metadata.exists():
                os.replace(self._metadata, self._work / "before")
            os.replace(self._staged, self._metadata)
            shutil.rmtree(self._work)


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Raise errors of the operating system as a StorageError that names the written file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write the slice: {reason}", file=str(error.filename or path)) from error


_RESERVED = frozenset({"metadata", "_delta_log"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_MAX_SEGMENT = 200  # bytes; file systems allow 255
_MAX_PATH = 1000  # bytes


class SlicePaths:
    """The path of each source file in the slice, relative to the slice's directory.

    A path is the source path below the table's location if that is safe, and otherwise a digest. The source paths are
    not trusted: they may lead out of the slice, be too long for a file system, or collide with the slice's metadata.
    """

    def __init__(self, location: str, refreshed: int, *, numbered: bool) -> None:
        """Create the paths for a source whose files are below a location.

        Args:
            location: The location, as the source's metadata or storage spells it.
            refreshed: The number of refreshes. Rewritten files have new names after each refresh.
            numbered: If True, names are numbers and do not reveal the source's names.
        """
        self.refreshed = refreshed
        self._numbered = numbered
        self._prefix = location.rstrip("/") + "/"
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def written_path(self, path: str, *, ending: str = "", is_rewritten: bool = True) -> str:
        """Return the path of a file in the slice.

        Args:
            path: The source path.
            ending: The ending of the name.
            is_rewritten: True if the file is made from the source's file, False if it is a copy.
        """
        name = self.path_of(path, ending=ending)
        return f"refresh-{self.refreshed}/{name}" if self.refreshed and is_rewritten else name

    def fetched_path(self, path: str, *, is_rewritten: bool) -> str:
        """Return the path to which a source file is copied. `is_rewritten` is as for `written_path`."""
        return f"{_ORIGINALS}/{self.path_of(path)}" if is_rewritten else self.path_of(path)

    def path_of(self, path: str, *, ending: str = "", folder: str = "data") -> str:
        """Return the path of a copy in the slice.

        Args:
            path: The source path.
            ending: The ending of the name.
            folder: The folder for names by digest.
        """
        result = self._given.get(path)
        if result is None:
            if self._numbered:
                result = f"data/{len(self._given):06d}{ending or '.parquet'}"
            else:
                result = self._safe_path(path, ending) or _digest_path(path, ending, folder)
            self._given[path] = result
            self._taken.add(result.casefold())
            self._folders.update(_parent_folders(result.casefold()))
        return result

    def _safe_path(self, path: str, ending: str) -> str | None:
        """Return the path below the location, or None if a slice cannot use it or another file already has it."""
        if not path.startswith(self._prefix):
            return None
        relative = path.removeprefix(self._prefix)
        relative = relative if relative.endswith(ending) else relative + ending
        segments = relative.split("/")
        if not all(map(_is_plain, segments)) or segments[0].casefold() in _RESERVED or segments[0][0] in "._":
            return None
        # Some file systems ignore case, and object stores allow a name to be both a file and a folder.
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


_PIECE = 1 << 23  # the bytes of a file that are held at a time
FETCHES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A source file that the slice copies.

    Attributes:
        physical: The path of its bytes.
        target: Its path in the slice.
        size: The recorded size in bytes, or None if it is not recorded.
    """

    physical: PhysicalPath
    target: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that has been fetched.

    Attributes:
        source: The source file, without secrets.
        target: Its path in the slice.
        size: Its size in bytes.
        sha256: The SHA-256 digest of its bytes, in hexadecimal.
    """

    source: str
    target: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A planned slice of a table of either format.

    Attributes:
        points: The slice's snapshots or versions, oldest first.
        storage: The storage that reads the source.
        files: The files to copy.
        rewritten_bytes: The size of source files that are read to be rewritten, and not copied.
        write: A function that writes the metadata for the fetched files, which are given by target. It returns a
            sentence for each thing that the slice lacks.
    """

    points: tuple[int, ...]
    storage: Storage
    files: tuple[SourceFile, ...]
    rewritten_bytes: int = 0
    write: Callable[[SliceDirectory, Mapping[str, FetchedFile]], list[str]]


def fetch(
    files: Sequence[SourceFile], storage: Storage, place: SliceDirectory, *, link: bool = False
) -> tuple[dict[str, FetchedFile], int]:
    """Copy the files that are not in the slice yet.

    Args:
        files: The files to copy.
        storage: The storage that reads the source.
        place: The slice's directory.
        link: If True, hard links are made instead of copies, if the file system supports it.

    Returns:
        All files by target, and the number of files that were already there.

    Raises:
        MissingFileError, OutsideTableError, StorageError: A file cannot be read, or ends early.
    """
    entries = read_journal(place.journal)
    present, missing = {}, []
    for file in files:
        result = entries.get(file.target)
        if (
            result is not None
            and result.source == redact(file.physical)
            and _is_intact(place.file(file.target), result)
        ):
            present[file.target] = result
        else:
            missing.append(file)
    size = sum(file.size or 0 for file in missing)
    with phase("fetching files", size, "bytes") as advance, ThreadPoolExecutor(FETCHES_AT_ONCE) as pool:
        work = _FetchState(storage, place, advance, link=link)
        try:
            wait([pool.submit(work.run, file) for file in missing])
        except BaseException as error:  # Ctrl-C; the pool then waits for its threads
            work.failure = error
            raise
    if work.failure is not None:
        raise work.failure
    return {**present, **work.fetched}, len(present)


class _FetchState:
    """The state that the fetching threads share.

    Attributes:
        failure: The first error, which stops all threads.
        fetched: The fetched files by target.
    """

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
            except BaseException as error:  # raised again by the thread that waits
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
        """Link the file and return its checksum, or return None if it has to be copied."""
        if not (self._is_linked and is_local(file.physical)):
            return None
        try:
            os.link(local_path(file.physical), part)
        except OSError:  # the file system has no hard links, or the source is on a different file system
            return None
        with part.open("rb") as linked:
            return hashlib.file_digest(linked, "sha256").hexdigest()

    def _copy(self, file: SourceFile, part: Path, size: int) -> str:
        """Copy a file of this size, and return its checksum."""
        digest = hashlib.sha256()
        part.unlink(missing_ok=True)
        with part.open("xb") as out:  # does not follow a symbolic link
            for start in range(0, size, _PIECE):
                if self.failure is not None:
                    raise self.failure
                length = min(_PIECE, size - start)
                piece = self._storage.read(file.physical, offset=start, length=length)
                if len(piece) != length:
                    raise StorageError(
                        f"Cannot copy: the file was replaced or truncated, because reading {length} of {size} bytes "
                        f"from byte {start} on returned {len(piece)}. Pull again",
                        file=file.physical,
                    )
                digest.update(piece)
                out.write(piece)
                with self._lock:
                    self._advance(length)
        return digest.hexdigest()


def read_journal(path: Path) -> dict[str, FetchedFile]:
    """Return the files that earlier attempts fetched, by target. A line that was cut by an interruption is ignored."""
    if not path.is_file():
        return {}
    result = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            file = FetchedFile(**json.loads(line))
        except (ValueError, TypeError):
            continue
        result[file.target] = file
    return result


def discard_stale(directory: Path, fetched: Mapping[str, FetchedFile], refreshed: int) -> None:
    """Delete the files of a slice's older state, and remove them from the journal.

    Args:
        directory: The slice's directory.
        fetched: The slice's present files, by target.
        refreshed: The number of refreshes.
    """
    journal = directory / _FILES
    entries = read_journal(journal)
    with translate_write_errors(directory):
        for target in entries.keys() - fetched.keys():
            check_inside(directory, directory / target).unlink(missing_ok=True)
        for target in entries if refreshed == 1 else ():
            # Files made from originals by the first pull; later ones are in a folder per refresh.
            if target.startswith(f"{_ORIGINALS}/"):
                check_inside(directory, directory / target.removeprefix(f"{_ORIGINALS}/")).unlink(missing_ok=True)
        shutil.rmtree(directory / f"refresh-{refreshed - 1}", ignore_errors=True)
        lines = "".join(json.dumps(asdict(file)) + "\n" for file in fetched.values())
        journal.unlink(missing_ok=True)
        with journal.open("x", encoding="utf-8") as out:  # does not follow a symbolic link
            out.write(lines)


def _is_intact(path: Path, expected: FetchedFile) -> bool:
    """Return whether a file still has the size and checksum with which it was fetched."""
    if not path.is_file() or path.stat().st_size != expected.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == expected.sha256
