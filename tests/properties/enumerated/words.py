"""The alphabet: the operations that histories are spelt of, and the words over them that are possible.

A word is a tuple of letters. All words begin with an empty table; of Iceberg without a partition spec, of Delta
partitioned by `p`. A letter that has nothing to act on is not possible, and nor is any word with it.
"""

from collections.abc import Mapping
from typing import TypeAlias

from drawn.models.model import TableModel
from letters import Operation, after, operations

Word: TypeAlias = tuple[str, ...]

_ROWS = ("append", "append-null")
"""Rows with the keys 1 and 2 in partitions a and b; rows of which one has neither key nor partition."""
_DELETES = ("delete-first", "delete-last", "delete-each", "upsert")
"""By position, or by a deletion vector: the first live row, the last one, the first one of every file, in one commit.
And in one commit with new rows of key 1: the live ones, and the first of the new rows."""
_EQUALITY = ("delete-equal", "delete-null")
"""By equality: of key 1, and of no key; of one partition where the table is partitioned."""
_FILES = ("compact", "drop-file")
"""All live rows into new files in place of the old; the first file, whatever deletes point to it."""
_COLUMNS = ("add-column", "drop-column", "rename")
"""The value, or else another column; the last of those; the key, and back."""
_ICEBERG = (*_FILES, *_COLUMNS, "rollback", "respec")
"""Back to the snapshot before; partitioned by `p`, and back."""
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
"""Checkpoints: one file; two; V2 in Parquet with two sidecars; V2 in JSON with one. The last two commits as one file.
The commits before the newest checkpoint are deleted; and the files that the newest version does not have."""

ALPHABET = {
    "iceberg-1": (*_ROWS, *_ICEBERG),
    "iceberg-2": (*_ROWS, *_DELETES, *_EQUALITY, *_ICEBERG, "compact-old"),
    "iceberg-3": (*_ROWS, *_DELETES, *_EQUALITY, *_ICEBERG, "compact-old"),
    "delta": (*_ROWS, *_DELETES, *_FILES, *_COLUMNS, "restore", *_LOG),
}
"""The letters of each kind of table. `compact-old`: the new files keep the least sequence number of the old ones."""


def longer(models: Mapping[Word, TableModel], kind: str) -> dict[Word, tuple[TableModel, list[Operation]]]:
    """The possible words with one letter more, in the order of the alphabet: the model, and the letter's operations."""
    made = {}
    for word, model in models.items():
        for letter in ALPHABET[kind]:
            new = operations(model, word, letter)
            if new is not None:
                made[*word, letter] = after(model, new), new
    return made
