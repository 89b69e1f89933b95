"""A word as a table on disk: the builders of scenarios apply its last operations to the table of the shorter word.

Each word has its own table. Iceberg tables share a directory, since a metadata file is a table, and two words write
files with different names. Delta tables have a directory each, with links to common files.
"""

import copy
import itertools
import os
import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drawn.models.model import TableModel
from letters import TABLES, Operation
from words import Word

from harness.suite.scenarios.building import create_history
from harness.suite.scenarios.delta.history import DeltaHistory
from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.suite.scenarios.iceberg.writes import IcebergWrites
from harness.suite.scenarios.model import Scenario
from harness.writing.iceberg.builder import IcebergTable

_NAMES = itertools.count(1)


@dataclass(frozen=True, eq=False)
class EnumeratedTable:
    """The table of a word.

    Attributes:
        history: The builder of the table.
        operations: The operations, as in a scenario file.
    """

    word: Word
    model: TableModel
    history: IcebergHistory | DeltaHistory = field(repr=False)
    operations: tuple[Mapping[str, Any], ...] = ()

    @property
    def address(self) -> str:
        return str(self.history.metadata_path or self.history.location)

    def scenario(self, **more: Any) -> Scenario:
        """Return the scenario that makes this table from the beginning."""
        title = f"A small history: {', '.join(self.word)}"
        given = {"clauses": (), "features": (), "path": None, "format": self.model.format, **more}
        table = TABLES[self.model.kind]
        return Scenario(name="-".join(self.word), title=title, table=table, history=self.operations, **given)


def begin_table(model: TableModel, directory: Path) -> EnumeratedTable:
    """Return the table of the empty word."""
    first = EnumeratedTable((), model, history=None)  # type: ignore[arg-type]
    return replace(first, history=create_history(first.scenario(expectations=()), directory / "0"))


def extend_table(
    before: EnumeratedTable, word: Word, model: TableModel, operations: Sequence[Operation], directory: Path
) -> EnumeratedTable:
    """Return the table of a word, made from the table of the word without its last letter, which does not change."""
    history = _fork(before.history, directory / str(next(_NAMES)))
    done = [_with_vectors(operation, history) for operation in operations]
    for operation in done:
        history.apply(operation)
    return EnumeratedTable(word, model, history, (*before.operations, *done))


def _with_vectors(operation: Operation, history: IcebergHistory | DeltaHistory) -> Operation:
    """Return the operation as in a scenario. A file that has deleted rows from the start has its vector in the log."""
    (value,) = operation.values()
    if not isinstance(history, DeltaHistory) or not isinstance(value, dict) or "add" not in value:
        return operation
    return {"commit": {**value, "add": [_with_vector(spec, history) for spec in value["add"]]}}


def _with_vector(spec: Any, history: DeltaHistory) -> Any:
    if "dead" not in spec:
        return spec
    given = {key: value for key, value in spec.items() if key != "dead"}
    (vector,) = history.table.write_vectors({spec["data"]: frozenset(spec["dead"])}, storage="i").values()
    stats = f'{{"numRecords":{len(spec["rows"])}}}'
    return {**given, "set": {"deletionVector": vector, "stats": stats}}


def _fork(history: IcebergHistory | DeltaHistory, directory: Path) -> IcebergHistory | DeltaHistory:
    """Return a copy of a history that writes files without changing those of the original."""
    if isinstance(history, DeltaHistory):
        forked = pickle.loads(pickle.dumps(history))
        shutil.copytree(history.location, directory, copy_function=_link)
        table = forked.table
        for handle in table.handles:
            handle.file = directory / handle.file.relative_to(table.directory)
        table.directory = table.origin = table.allowed_directory = directory
        table.log.directory = directory / "_delta_log"
        return forked
    forked = copy.copy(history)
    forked.table, forked.commits = forked_table(history.table), dict(history.commits)
    forked.writes = IcebergWrites(forked.table)
    forked.writes.files, forked.writes.written = dict(history.files), list(history.writes.written)
    return forked


def forked_table(table: IcebergTable) -> IcebergTable:
    """Return a copy of a table in the same directory that writes files under its own names."""
    forked, forked.store = copy.copy(table), copy.copy(table.store)
    forked.document = pickle.loads(pickle.dumps(table.document))
    forked._files = forked.store._versions = 1000 * next(_NAMES)
    forked.store._avro = _Manifests(table.store._avro)
    return forked


class _Manifests(dict[str, Any]):
    """Manifests by path. Manifests are named after their number, so this counts those of all tables."""

    def __len__(self) -> int:
        return next(_NAMES)


def _link(source: str, target: str) -> None:
    """Link a file, or copy a log file, which may be rewritten without changing the other table's file."""
    (shutil.copy2 if "/_delta_log/" in source else os.link)(source, target)
