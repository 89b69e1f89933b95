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
_REQUEST = "request.json"
_JOURNAL = "journal.jsonl"


class Place:
    """A directory that becomes a slice.

    directory: absolute. metadata: the folder in it that makes a table of it, `metadata` or `_delta_log`.
    """

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory = directory.absolute()
        self._metadata = metadata

    @property
    def staged(self) -> Path:
        """Where the metadata is written before it counts."""
        return self.directory / _WORK / self._metadata

    @property
    def journal(self) -> Path:
        """Where it is written down which files are there."""
        return self.directory / _WORK / _JOURNAL

    def file(self, relative: str) -> Path:
        """Where a file of the slice goes.

        Raises:
            RequestError: a link leads out of the directory.
        """
        return inside(self.directory, self.directory / relative)

    def begin(self, request: dict[str, Any]) -> None:
        """Take the directory for this pull, or go on with the same one.

        Raises:
            RequestError: the directory holds something else.
        """
        marker = self.directory / _WORK / _REQUEST
        content = json.dumps(request, indent=1, sort_keys=True)
        if self._begun(marker, content):
            return
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            marker.parent.mkdir(exist_ok=True)
            marker.write_text(content, encoding="utf-8")

    def check(self) -> None:
        """Raises RequestError if no pull could begin or go on here; nothing is written."""
        self._begun(self.directory / _WORK / _REQUEST, None)

    def _begun(self, marker: Path, content: str | None) -> bool:
        if not self.directory.exists():
            return False
        if not self.directory.is_dir():
            raise RequestError(f"Cannot pull into {self.directory}: it is a file; give a directory")
        if not any(self.directory.iterdir()):
            return False
        if not marker.is_file() or (self.directory / self._metadata).exists():
            raise RequestError(
                f"Cannot pull into {self.directory}: it is not empty; give a new directory, or refresh the slice"
            )
        if content is not None and marker.read_text(encoding="utf-8") != content:
            raise RequestError(
                f"Cannot pull into {self.directory}: a pull of something else ended there before it was done; "
                "remove the directory, or give another one"
            )
        return True

    def stage(self) -> Path:
        """An empty folder for the metadata."""
        with writing(self.directory):
            shutil.rmtree(self.staged, ignore_errors=True)
            self.staged.mkdir(parents=True)
        return self.staged

    def publish(self, note: dict[str, Any]) -> None:
        """Make a table of the directory: the note first, then the metadata; then nothing of the work is left."""
        with writing(self.directory):
            scratch = self.directory / _WORK / NOTE
            scratch.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
            os.replace(scratch, self.directory / NOTE)
            os.replace(self.staged, self.directory / self._metadata)
            shutil.rmtree(self.directory / _WORK)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the operating system says of a write becomes an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write the slice: {reason}", file=str(error.filename or path)) from error
