"""Fetching the files of a slice: in parallel, each whole or not at all, and not again if it is there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.errors import RequestError, StorageError
from harness.storage.paths import shown
from harness.storage.stores import Storage
from harness.testing.writing.places import inside
from harness.tools.slices.place import FILES, ORIGINALS, Place, writing

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
    """What was fetched, by target; and how many files were there before."""

    files: Mapping[str, FetchedFile]
    reused: int


def total_bytes(files: Iterable[SourceFile], storage: Storage) -> int:
    """The size of the files together; storage is asked where none is recorded."""
    return sum(storage.size(file.physical) if file.size is None else file.size for file in files)


def fetch(files: Sequence[SourceFile], storage: Storage, place: Place, *, max_bytes: int | None) -> Fetched:
    """Copy the files that are not there yet.

    Raises:
        MissingFileError, OutsideTableError, StorageError: a file cannot be read, or ends early.
        RequestError: the files are larger than they were said to be, and than they may be.
    """
    known = read_journal(place.journal)
    work = _Work(storage, place, max_bytes)
    present, missing = {}, []
    for file in files:
        found = known.get(file.target)
        if found is not None and found.source == shown(file.physical) and _is_there(place.file(file.target), found):
            present[file.target] = found
        else:
            missing.append(file)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
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
    """What the threads share."""

    def __init__(self, storage: Storage, place: Place, max_bytes: int | None) -> None:
        self.stopped = threading.Event()
        self._storage = storage
        self._place = place
        self._left = max_bytes
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
    """By target, what earlier tries fetched; a line that an interruption cut tells nothing."""
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
    """Whether the file is as it was fetched, to the last bit."""
    if not path.is_file() or path.stat().st_size != expected.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == expected.sha256
