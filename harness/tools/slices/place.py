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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import RequestError, StorageError
from harness.testing.writing.places import inside

NOTE = "_harness_slice.json"
"""The note of where a slice came from. Names that begin so are hidden: neither format's cleaning removes them."""
_WORK = "_harness_pull"
ORIGINALS = f"{_WORK}/originals"
"""Where files of the source are that are not in their place yet."""
FILES = "_harness_slice_files.jsonl"
"""Which file of the source each file of a slice is, with its size and checksum."""
_REQUEST = "request.json"
_BEFORE = "before"


class Place:
    """A directory that becomes a slice, or is one that becomes newer.

    directory: absolute. metadata: the folder in it that makes a table of it, `metadata` or `_delta_log`.
    """

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory = directory.absolute()
        self._metadata = self.directory / metadata
        self._work = self.directory / _WORK

    @property
    def staged(self) -> Path:
        """Where the metadata is written before it counts."""
        return self._work / self._metadata.name

    @property
    def journal(self) -> Path:
        """Where it is written down which files are there."""
        return self._work / FILES

    def file(self, relative: str) -> Path:
        """Where a file of the slice goes.

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
    """What the operating system says of a write becomes an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write the slice: {reason}", file=str(error.filename or path)) from error


# What the files of a slice are called: as below the source's location, where that is safe, else by a digest.
#
# Paths come from metadata that anyone may have written. A path that leaves the slice, that no file system takes, or
# that # is the metadata's own becomes a name that says nothing.


_RESERVED = frozenset({"metadata", "_delta_log"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_MAX_SEGMENT = 200  # bytes; file systems take 255
_MAX_PATH = 1000  # bytes
_PLAIN = re.compile(r"[^A-Za-z0-9._=-]")


class Names:
    """Gives each file of the source its path in the slice, relative to its directory, always the same one."""

    def __init__(self, locations: Iterable[str], refreshed: int = 0, *, numbered: bool = False) -> None:
        """For a source whose files are below one of `locations`, as its metadata or storage calls them.

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
                self._number(ending)
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

    def _number(self, ending: str) -> str:
        return f"data/{len(self._given):06d}{ending or '.parquet'}"

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
