"""Tables that a writer changes while they are read: each read must return the rows of one version, or raise a
HarnessError.
A writer makes each version in a separate directory, and moves its files into the table one by one, in the order of real
writers: files before the files that refer to them. It appends, deletes rows, compacts, writes checkpoints, and deletes
what the newest version does not need.
"""

import itertools
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness.suite.scenarios.delta.history import DeltaHistory
from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.table import open_table

KINDS = ("delta", "iceberg-2", "iceberg-3")
_MOST_ROWS = 20


def begin_table(kind: str, directory: Path) -> Any:
    """Return the builder of an empty table of a kind."""
    table: dict[str, Any] = {"schema": {"id": "long"}}
    if kind == "delta":
        return DeltaHistory(directory, {**table, "features": ["deletionVectors"]})
    moved = {"format-version": int(kind[-1]), "recorded-location": "file:///harness-moving/table"}
    return IcebergHistory(directory, {**table, **moved})


def changes(kind: str, history: Any) -> Iterator[list[int]]:
    """Change a table endlessly, and yield the ids of its rows after each change."""
    ids: list[int] = []
    files: list[str] = []
    for number in itertools.count():
        for label, new in ((f"a{number}", range(4 * number, 4 * number + 3)), (f"b{number}", [4 * number + 3])):
            history.apply({"append": [{"data": label, "rows": [[i] for i in new]}]})
            ids, files = [*ids, *new], [*files, label]
            yield ids
        history.apply(_delete(kind, f"a{number}", f"d{number}"))
        ids = [i for i in ids if i != 4 * number]
        yield ids
        ids = ids[-_MOST_ROWS:]
        merged = {"data": f"c{number}", "rows": [[i] for i in ids]}
        if kind == "delta":
            history.apply({"commit": {"add": [merged], "remove": files, "operation": "OPTIMIZE"}})
        else:
            gone = [*files, f"d{number}"] if kind == "iceberg-3" else files
            history.apply({"compact": {"files": [merged], "remove": gone}})
        files = [f"c{number}"]
        yield ids
        (_tidy_delta if kind == "delta" else _tidy_iceberg)(history)
        yield ids


def _delete(kind: str, file: str, label: str) -> dict[str, Any]:
    """Return the operation that deletes the first row of a file."""
    if kind == "delta":
        return {"delete-rows": {file: [0]}}
    delete = {"position-deletes": [[file, 0]]} if kind == "iceberg-2" else {"deletion-vectors": {file: [0]}}
    return {"commit": {"add": [{**delete, "label": label}]}}


def _tidy_delta(history: DeltaHistory) -> None:
    """Write a checkpoint, and delete earlier commits and all files that the newest version does not need."""
    newest = history.table.version
    for operation in ({"checkpoint": "classic"}, {"vacuum": None}, {"expire-log": newest}):
        history.apply(operation)
    for path in (history.location / "_delta_log").glob("*.checkpoint*"):
        if not path.name.startswith(f"{newest:020d}"):
            path.unlink()


def _tidy_iceberg(history: IcebergHistory) -> None:
    """Expire all snapshots except the current one, and delete all files that it does not need."""
    table = history.table
    for snapshot in table.snapshots:
        if snapshot["snapshot-id"] != table.snapshot_id:
            table.expire(snapshot["snapshot-id"])
    needed = {table.metadata_path, history.location / "metadata" / "version-hint.text"}
    for snapshot in table.snapshots:
        manifests = table.manifests(snapshot["snapshot-id"])
        entries = [entry["data_file"]["file_path"] for m in manifests.values() for entry in m.records]
        needed |= {table.file_of(path) for path in (snapshot["manifest-list"], *manifests, *entries)}
    for path in history.location.rglob("*"):
        if path.is_file() and path not in needed:
            path.unlink()


def publish(source: Path, live: Path) -> None:
    """Move new files into the table, each atomically, and then delete the files that are gone."""
    names = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    for name in sorted(names, key=lambda name: (_rank(name), name)):
        target = live / name
        if not target.exists() or target.read_bytes() != (source / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, live.with_name("moved"))
            os.replace(live.with_name("moved"), target)
    old = [path for path in live.rglob("*") if path.is_file() and path.relative_to(live).as_posix() not in names]
    for path in sorted(old, key=lambda path: -_rank(path.name)):
        path.unlink()


def _rank(name: str) -> int:
    """Return the order of a file: files come before the files that refer to them."""
    if name.endswith(("version-hint.text", "_last_checkpoint")):
        return 4
    if name.endswith(".json"):
        return 3
    return 2 if "checkpoint" in name or "snap-" in name else int(name.endswith(".avro"))


def read_while_it_moves(kind: str, directory: Path, reads: int) -> Counter[str]:
    """Read a table a number of times while a writer changes it, and return how often there were rows, and each error.

    Raises:
        AssertionError: The rows belong to no version that the read could have seen.
        Exception: The read raised something other than a HarnessError.
    """
    history, live, versions = begin_table(kind, directory / "made"), directory / "live", []
    is_there, ended, outcomes = threading.Event(), threading.Event(), Counter[str]()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            for ids in changes(kind, history):
                versions.append(ids)  # recorded before the first file is moved
                publish(history.location, live)
                is_there.set()
                if ended.is_set():
                    return
        except BaseException as error:
            errors.append(error)
            is_there.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    is_there.wait()
    for _ in range(reads):
        before = len(versions)
        try:
            rows = sorted(open_table(str(live)).snapshot().to_arrow()["id"].to_pylist())
        except harness.HarnessError as error:
            outcomes[f"{type(error).__name__} {error.cause}"] += 1
            continue
        possible_versions = versions[max(0, before - 2) : len(versions)]
        assert rows in possible_versions, f"{kind}: {rows} is none of {possible_versions}"
        outcomes["rows"] += 1
    ended.set()
    writer.join()
    if errors:
        raise errors[0]
    outcomes["versions"] = len(versions)
    return outcomes
