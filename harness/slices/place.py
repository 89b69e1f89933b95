"""The directory of a slice, and how it becomes a table: at once, when all that it names is there.

While files are fetched, what makes a table of them is in a hidden folder; a reader finds no table. The last step moves
the metadata into place by one rename. A pull that was interrupted leaves its journal in the hidden folder, and the same
pull goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import RequestError, StorageError
from harness.writing.confinement import inside

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
