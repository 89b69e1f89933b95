"""Listings of a store that contains a table, and requests for single files, with other answers than the disk's.

A store whose listing lacks the last commit shows an older table, which readers cannot detect. Therefore the oracle,
which lists independently, reads the rows from the same store. The content of files does not change here; `files` and
other targets change it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fuzz_assessment import Assessment, assess_read
from fuzz_log_views import other_views
from fuzz_reading import Outcome, by_duckdb, by_oracle
from fuzz_subjects import Changes, Image, Subject, SubjectRead

from harness.storage import clients

STORE = "listed://table"
"""The table's location in the store, wherever its files are."""
_LOOK_UPS = "listings:look-ups"
_FOLDERS = ("", "_delta_log", "_delta_log/_staged_commits", "metadata")
"""The folders that harness lists, relative to the table's."""
_LATEST_S = 1_750_000_000.0
"""Later times are build times, which differ in each run; earlier times are set by a scenario."""
_OF_METADATA = ("_delta_log/", "metadata/")


class Listed(fsspec.AbstractFileSystem):
    """A store with one table below `table`.

    Requests are answered with the given answers, and reads with the files on disk.
    """

    protocol = "listed"
    cachable = False
    root: ClassVar[Path] = Path()
    answers: ClassVar[dict[str, bytes | None]] = {}
    hidden: ClassVar[frozenset[str]] = frozenset()

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        below = self._below(path)
        key = f"listings:{below}"
        if key in self.answers:
            data = self.answers[key]
            if data is None:
                raise FileNotFoundError(path)
            infos = [info for info in json.loads(data) if _name(info) not in self.hidden]
        else:
            place = self.root / below
            if not place.is_dir():
                raise FileNotFoundError(path)
            infos = [_info(each, self.root) for each in sorted(place.iterdir())]
        return infos if detail else [info["name"] for info in infos]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        below = self._below(path)
        if below.startswith(_OF_METADATA) and _LOOK_UPS in self.answers and not (self.root / below).is_dir():
            info = json.loads(self.answers[_LOOK_UPS] or b"{}").get(below)
            if info is None or below in self.hidden:
                raise FileNotFoundError(path)
            return dict(info)
        if not (self.root / below).exists():
            raise FileNotFoundError(path)
        return _info(self.root / below, self.root)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return bytes(LocalFileSystem().cat_file(str(self._file(path)), start=start, end=end))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return open(self._file(path), mode)

    def _file(self, path: str) -> Path:
        place = self.root / self._below(path)
        if not place.resolve().is_relative_to(self.root.resolve()):
            raise FileNotFoundError(path)  # in a store, `..` is an ordinary name
        return place

    def _below(self, path: str) -> str:
        return str(self._strip_protocol(path)).removeprefix("table").strip("/")


class Listings:
    """Answers of a store about one table's folders and files."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._address = subject.address.replace(str(subject.directory), STORE)
        infos = {name: _info(subject.directory / name, subject.directory) for name in subject.image}
        self.image: Image = {_LOOK_UPS: _json({n: info for n, info in infos.items() if n.startswith(_OF_METADATA)})}
        for folder in _FOLDERS:
            place = subject.directory / folder
            if place.is_dir():
                entries = [_info(each, subject.directory) for each in sorted(place.iterdir())]
                self.image[f"listings:{folder}"] = _json(entries)

    def files(self, _: SubjectRead) -> list[str]:
        """Return the names of all answers."""
        return list(self.image)

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """Return DuckDB's outcome of a read from the store."""
        with self._store(changes):
            return by_duckdb(self._address, read)

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess an outcome. Other rows are fine if the oracle returns them with the same answers."""

        with self._store(changes):
            careful = (by_duckdb(self._address, read, "off") for _ in "a")
            return assess_read(outcome, original, lambda: self._oracle(read), lambda: careful)

    def _oracle(self, read: SubjectRead) -> Iterator[Outcome]:
        """Yield the oracle's outcomes: of the store, and of each part of a Delta log that repeats another part."""
        yield by_oracle(self._address, read)
        image = self._subject.image
        for view in other_views(image, read.at.get("version")):
            hidden = frozenset(name for name, data in view.items() if data is None)
            written = {name: data for name, data in view.items() if data is not None}
            with mock.patch.object(Listed, "hidden", hidden), self._subject.changed(written):
                yield by_oracle(self._address, read)

    @contextmanager
    def _store(self, changes: Changes) -> Iterator[None]:
        with store_of(self._subject, {**self.image, **changes}):
            yield


@contextmanager
def store_of(subject: Subject, answers: Changes) -> Iterator[None]:
    """While the block runs, put a table into a store. Requests that `answers` does not contain get the true answer."""
    fsspec.register_implementation("listed", Listed, clobber=True)
    clients.MOST_RETRIES = 0  # waiting would not change a mutant's answers
    Listed.root, Listed.answers = subject.directory, dict(answers)
    try:
        yield
    finally:
        Listed.answers = {}


def _info(place: Path, root: Path) -> dict[str, Any]:
    status = place.stat()
    below = place.relative_to(root).as_posix()
    name = "table" if below == "." else f"table/{below}"
    if place.is_dir():
        return {"name": name, "size": 0, "type": "directory"}
    is_set = status.st_mtime < _LATEST_S
    return {"name": name, "size": status.st_size, "type": "file", "mtime": status.st_mtime if is_set else _LATEST_S}


def _name(info: Any) -> str:
    return str(info.get("name", "")).removeprefix("table/") if isinstance(info, dict) else ""


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
