"""The alphabet of operations that histories consist of, and the possible words over it.

A word is a tuple of letters. Every word starts with an empty table: an Iceberg table without a partition spec, or a
Delta table partitioned by `p`. A letter with nothing to act on is not possible, nor is any word that contains it.
"""

from collections.abc import Mapping
from typing import TypeAlias

from drawn.models.model import TableModel
from letters import Operation, after, operations

Word: TypeAlias = tuple[str, ...]

_ROWS = ("append", "append-null")
"""Rows with the keys 1 and 2 in partitions a and b; rows with a row that has neither key nor partition."""
_DELETES = ("delete-first", "delete-last", "delete-each", "upsert")
"""Deletes by position or by a deletion vector: the first live row; the last one; the first row of every file in one
commit. `upsert` deletes the live rows with key 1 and the first of the new rows, in one commit with new rows of key 1.
"""
_EQUALITY = ("delete-equal", "delete-null")
"""Equality deletes of key 1, and of rows without a key. They apply to one partition if the table is partitioned."""
_FILES = ("compact", "drop-file")
"""Write all live rows to new files that replace the old ones; drop the first file, even if deletes refer to it."""
_COLUMNS = ("add-column", "drop-column", "rename")
"""Add a column; drop the value column, or the last added one; rename the key, or back."""
_ICEBERG = (*_FILES, *_COLUMNS, "rollback", "respec")
"""Roll back to the previous snapshot; partition by `p`, or back."""
_LOG = (
    "checkpoint-classic",
    "checkpoint-parts",
    "checkpoint-v2",
    "checkpoint-json",
    "compact-log",
    "checksum",
    "expire-log",
    "vacuum",
)
"""Checkpoints: one file; two files; V2 in Parquet with two sidecars; V2 in JSON with one. Then: compact the last two
commits into one file; delete the commits before the newest checkpoint; delete the files that the newest version lacks.
"""

ALPHABET = {
    "iceberg-1": (*_ROWS, *_ICEBERG),
    "iceberg-2": (*_ROWS, *_DELETES, *_EQUALITY, *_ICEBERG, "compact-old"),
    "iceberg-3": (*_ROWS, *_DELETES, *_EQUALITY, *_ICEBERG, "compact-old"),
    "delta": (*_ROWS, *_DELETES, *_FILES, *_COLUMNS, "restore", *_LOG),
}
"""The letters of each kind of table. `compact-old`: the new files keep the least sequence number of the old ones."""


def longer(models: Mapping[Word, TableModel], kind: str) -> dict[Word, tuple[TableModel, list[Operation]]]:
    """Return the possible words with one more letter, in alphabetical order, with model and operations."""
    made = {}
    for word, model in models.items():
        for letter in ALPHABET[kind]:
            new = operations(model, word, letter)
            if new is not None:
                made[*word, letter] = after(model, new), new
    return made
