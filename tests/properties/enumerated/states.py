"""All combinations of a data file and a delete, and the rows that remain.

The rows are derived from the specification alone, and nothing of harness is imported.

Spec: Iceberg, "Scan Planning", "Sequence Numbers", "Position Delete Files", "Equality Delete Files".
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DELETE_NUMBER = 3
NUMBERS = {"less": 2, "equal": 3, "greater": 4, "zero": 0, "inherited": 3}
"""Data sequence numbers of data files.

`inherited`: the entry has no number, and the commit of the delete also adds the file.
"""
KINDS = ("position", "vector", "equality", "equality of two")
SPECS = ("none", "same", "another")
"""The spec of the delete: without fields, the spec of the data file, or one with the same two fields in the other
order.
"""
PARTITIONS = ("equal", "different", "null", "crossed")
"""The partition of the delete, compared with the data file's. `crossed`: the values of its two fields are swapped."""
NULLS = ("no key", "key of data", "key of delete", "both keys")
BOUNDS = ("absent", "right", "inverted")
"""The bounds of the key in the entries of data files and equality deletes, and of paths in those of position deletes.
"""
TARGET = 1
"""The position of the row that a delete targets."""


@dataclass(frozen=True)
class PairState:
    """A data file and a delete. `number` is unique."""

    number: int
    sequence: str
    kind: str
    spec: str
    partition: str
    nulls: str
    data_bounds: str
    delete_bounds: str

    def __str__(self) -> str:
        nulls = "no null" if self.nulls == "no key" else f"null in {self.nulls}"
        return (
            f"{self.kind} delete, sequence number of the data {self.sequence}, spec {self.spec}, partition"
            f" {self.partition}, {nulls}, bounds {self.data_bounds} of data and {self.delete_bounds} of delete"
        )

    @property
    def is_by_position(self) -> bool:
        return self.kind in ("position", "vector")

    @property
    def data_partition(self) -> tuple[str | None, str]:
        return (None if self.partition == "null" else "a b", f"q{self.number}")

    @property
    def delete_partition(self) -> tuple[str | None, str | None]:
        p, q = self.data_partition
        return {"different": ("b", q), "crossed": (q, p)}.get(self.partition, (p, q))

    @property
    def delete_key(self) -> tuple[int | None, int]:
        return (None if self.nulls in ("key of delete", "both keys") else self.number, self.number)

    def rows(self) -> list[dict[str, int | str | None]]:
        """The rows of the data file: the target row, between two rows that no delete targets."""
        n, (p, q) = self.number, self.data_partition
        keys = (-2 * n, None if self.nulls in ("key of data", "both keys") else n, -2 * n - 1)
        return [{"r": 3 * n + i, "k": key, "m": n, "o": min(i, 1), "p": p, "q": q} for i, key in enumerate(keys)]


def all_states(kinds: Sequence[str]) -> list[PairState]:
    """Return all states.

    Properties that do not matter to a delete do not vary: keys of position deletes, bounds of vectors.
    """
    found = itertools.product(NUMBERS, KINDS, SPECS, PARTITIONS, NULLS, BOUNDS, BOUNDS)
    return [
        PairState(n, *facts) for n, facts in enumerate((f for f in found if f[1] in kinds and _is_valid(*f)), start=1)
    ]


def _is_valid(sequence, kind, spec, partition, nulls, data_bounds, delete_bounds) -> bool:
    if kind == "vector" and delete_bounds != "right":
        return False
    return kind.startswith("equality") or nulls in ("no key", "key of data")


def remaining_rows(states: Sequence[PairState]) -> Iterator[dict[str, int | str | None]]:
    """Yield the rows of the data files that none of the deletes of all these states applies to."""
    keys: dict[object, list[PairState]] = {}
    for state in states:
        keys.setdefault(state.number if state.is_by_position else (state.kind, _key(state)), []).append(state)
    for data in states:
        for position, row in enumerate(data.rows()):
            meant = [*(keys.get(data.number, ()) if position == TARGET else ())]
            meant += keys.get(("equality", (row["k"],)), ())
            meant += keys.get(("equality of two", (row["k"], row["m"])), ())
            if not any(applies(delete, data) for delete in meant):
                yield row


def _key(state: PairState) -> tuple[int | None, ...]:
    return state.delete_key if state.kind == "equality of two" else state.delete_key[:1]


def applies(delete: PairState, data: PairState) -> bool:
    """Return whether the delete of one state applies to the data file of another."""
    number = NUMBERS[data.sequence]
    same_partition = delete.spec == "same" and delete.delete_partition == data.data_partition
    if delete.is_by_position:
        return number <= DELETE_NUMBER and same_partition
    return number < DELETE_NUMBER and (delete.spec == "none" or same_partition)


def is_refused(state: PairState) -> bool:
    """Return whether the delete names the data file and must not apply to it, which harness detects and reports as an
    error.
    The specification permits such deletes. A vector must not contradict its file (iceberg 4.3). A position delete of
    another partition is an error if harness can see that it names the file: by its bounds, or because delete files of
    other specs are read to find out (iceberg 4.4).
    """
    if state.kind == "position":
        return _names_missing_file(state) and not is_overlooked(state)
    return state.kind == "vector" and not applies(state, state)


def is_overlooked(state: PairState) -> bool:
    """Return whether the same is true, but can only be detected by reading the delete files of all partitions.

    The oracle reads these.
    """
    return _names_missing_file(state) and state.spec == "same" and state.delete_bounds != "right"


def _names_missing_file(state: PairState) -> bool:
    is_later = NUMBERS[state.sequence] > DELETE_NUMBER
    return state.kind == "position" and not is_later and not applies(state, state)
