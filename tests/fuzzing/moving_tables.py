"""Tables that a writer changes while they are read: each read must give the rows of one version, or a HarnessError.

A writer makes each version in a directory of its own, and moves its files into the table one by one, in the order in
which writers of the format do: what is pointed to before what points to it. It appends, deletes rows, compacts, makes
checkpoints, and takes away what the newest version does not need.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import harness
from harness.table import open_table
from harness.testing.scenarios.delta.history import DeltaHistory
from harness.testing.scenarios.iceberg.history import IcebergHistory

_LOCATION = "file:///harness-moving/table"


@dataclass(slots=True)
class Model:
    """The rows that there are: the ids in each live file by label, None for a row that was deleted."""

    files: dict[str, list[int | None]] = field(default_factory=dict)
    made: int = 0

    def new(self, ids: list[int]) -> tuple[str, list[list[int]]]:
        """A file with rows of these ids: its label, and its rows."""
        self.made += 1
        label = f"f{self.made}"
        self.files[label] = list(ids)
        return label, [[i] for i in ids]

    def ids(self) -> list[int]:
        """The ids of all rows, sorted."""
        return sorted(i for ids in self.files.values() for i in ids if i is not None)

    def deleted(self, rng: Random) -> tuple[str, int] | None:
        """A live row, which is deleted now: its file and position; None: there is none."""
        live = [(label, p) for label, ids in self.files.items() for p, i in enumerate(ids) if i is not None]
        if not live:
            return None
        label, position = rng.choice(live)
        self.files[label][position] = None
        return label, position

    def merged(self) -> tuple[list[str], list[int]]:
        """All live files, which are none now, and the ids that were in them."""
        labels, ids = list(self.files), self.ids()
        self.files.clear()
        return labels, ids


class Delta:
    """A Delta table being written in a directory."""

    def __init__(self, directory: Path, rng: Random) -> None:
        self._history = DeltaHistory(directory, {"schema": {"id": "long"}, "features": ["deletionVectors"]})
        self._rng = rng
        self.model = Model()
        self.place = self._history.location

    def append(self, ids: list[int]) -> None:
        label, rows = self.model.new(ids)
        self._history.apply({"append": [{"data": label, "rows": rows}]})

    def delete(self) -> None:
        dead = self.model.deleted(self._rng)
        if dead is not None:
            self._history.apply({"delete-rows": {dead[0]: [dead[1]]}})

    def compact(self) -> None:
        labels, ids = self.model.merged()
        label, rows = self.model.new(ids)
        self._history.apply(
            {"commit": {"add": [{"data": label, "rows": rows}], "remove": labels, "operation": "OPTIMIZE"}}
        )

    def tidy(self) -> None:
        """A checkpoint, no commits before it, and no file that the newest version does not need."""
        self._history.apply({"checkpoint": "classic"})
        self._history.apply({"vacuum": None})
        self._history.apply({"expire-log": self._history.table.version})
        newest = f"{self._history.table.version:020d}"
        for path in (self.place / "_delta_log").glob("*.checkpoint*"):
            if not path.name.startswith(newest):
                path.unlink()


class Iceberg:
    """An Iceberg table being written in a directory. version: of the format."""

    def __init__(self, directory: Path, rng: Random, version: int) -> None:
        table = {"format-version": version, "schema": {"id": "long"}, "recorded-location": _LOCATION}
        self._history = IcebergHistory(directory, table)
        self._rng = rng
        self._version = version
        self._vectors: dict[str, str] = {}
        self.model = Model()
        self.place = self._history.location

    def append(self, ids: list[int]) -> None:
        label, rows = self.model.new(ids)
        self._history.apply({"append": [{"data": label, "rows": rows}]})

    def delete(self) -> None:
        dead = self.model.deleted(self._rng)
        if dead is None:
            return
        label, position = dead
        if self._version == 2:
            self._history.apply({"commit": {"add": [{"position-deletes": [[label, position]]}]}})
            return
        old = self._vectors.get(label)
        self._vectors[label] = f"v{len(self._history.files)}"
        positions = [p for p, i in enumerate(self.model.files[label]) if i is None]
        vector = {"deletion-vectors": {label: positions}, "label": self._vectors[label]}
        self._history.apply({"commit": {"add": [vector], "remove": [] if old is None else [old]}})

    def compact(self) -> None:
        labels, ids = self.model.merged()
        label, rows = self.model.new(ids)
        removed = [*labels, *self._vectors.values()]
        self._vectors.clear()
        self._history.apply({"compact": {"files": [{"data": label, "rows": rows}], "remove": removed}})

    def tidy(self) -> None:
        """No snapshot but the current one, and no file that it does not need."""
        table = self._history.table
        for snapshot in table.snapshots:
            if snapshot["snapshot-id"] != table.snapshot_id:
                table.expire(snapshot["snapshot-id"])
        needed = {table.metadata_path, self.place / "metadata" / "version-hint.text"}
        for snapshot in table.snapshots:
            manifests = table.manifests(snapshot["snapshot-id"])
            entries = [entry["data_file"]["file_path"] for m in manifests.values() for entry in m.records]
            needed |= {table.file_of(path) for path in (snapshot["manifest-list"], *manifests, *entries)}
        for path in self.place.rglob("*"):
            if path.is_file() and path not in needed:
                path.unlink()


Written = Delta | Iceberg
KINDS: Mapping[str, Callable[[Path, Random], Written]] = {
    "delta": Delta,
    "iceberg-2": lambda place, rng: Iceberg(place, rng, 2),
    "iceberg-3": lambda place, rng: Iceberg(place, rng, 3),
}


class Writer(threading.Thread):
    """Changes a table again and again. versions: the ids of each, said before its first file is moved.

    live: the table's directory.
    """

    def __init__(self, kind: str, directory: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._rng = Random(seed)
        self._table = KINDS[kind](directory / "made", self._rng)
        self._ended = threading.Event()
        self._ids = 0
        self.live = directory / "live"
        self.versions: list[list[int]] = []
        self.error: BaseException | None = None
        self._change(lambda: self._table.append(self._new_ids()))

    def run(self) -> None:
        """Change the table until `end`."""
        try:
            while not self._ended.is_set():
                self._step()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Change no more; what went wrong in the writer is raised here."""
        self._ended.set()
        self.join()
        if self.error is not None:
            raise self.error

    def _step(self) -> None:
        table = self._table
        match self._rng.randrange(8):
            case 0 | 1 | 2:
                self._change(lambda: table.append(self._new_ids()))
            case 3 | 4:
                self._change(table.delete)
            case 5:
                self._change(table.compact)
            case _:
                self._change(table.tidy)

    def _new_ids(self) -> list[int]:
        first = self._ids
        self._ids += self._rng.choice((1, 2, 5))
        return list(range(first, self._ids))

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self.versions.append(self._table.model.ids())
        publish(self._table.place, self.live)


def publish(made: Path, live: Path) -> None:
    """Move what is new into the table, each file at once; then take away what is gone."""
    names = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    for name in sorted(names, key=lambda name: (_rank(name), name)):
        target = live / name
        data = (made / name).read_bytes()
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(made / name, live.with_name("moved"))
            os.replace(live.with_name("moved"), target)
    old = [path for path in live.rglob("*") if path.is_file() and path.relative_to(live).as_posix() not in names]
    for path in sorted(old, key=lambda path: -_rank(path.name)):
        path.unlink()


def _rank(name: str) -> int:
    """What is pointed to comes before what points to it."""
    if name.endswith(("version-hint.text", "_last_checkpoint")):
        return 4
    if name.endswith(".json"):
        return 3
    if "checkpoint" in name or "snap-" in name:
        return 2
    return int(name.endswith(".avro"))


def read_while_it_moves(kind: str, directory: Path, reads: int, seed: int) -> Counter[str]:
    """Read a table so many times while a writer changes it; how often there were rows, and which errors.

    Raises:
        AssertionError: rows of no version that the read could have seen.
        Exception: what a read raises besides HarnessError.
    """
    writer = Writer(kind, directory, seed)
    outcomes: Counter[str] = Counter()
    writer.start()
    try:
        for _ in range(reads):
            before = len(writer.versions)
            outcome: list[int] | str = _read(str(writer.live))
            seen = writer.versions[max(0, before - 2) : len(writer.versions)]
            if not isinstance(outcome, str):
                assert outcome in seen, f"{kind} with seed {seed}: {outcome} is none of {seen}"
            outcomes[outcome if isinstance(outcome, str) else "rows"] += 1
    finally:
        writer.end()
    outcomes["versions"] = len(writer.versions)
    return outcomes


def _read(location: str) -> list[int] | str:
    try:
        return sorted(open_table(location).snapshot().to_arrow()["id"].to_pylist())
    except harness.HarnessError as error:
        return f"{type(error).__name__} {error.cause}"
