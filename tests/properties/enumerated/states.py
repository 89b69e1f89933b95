"""Every pair of a data file and a delete: what there is of them, and which rows they leave.

The rows are worked out from the specification alone, and nothing of harness is imported.
Spec: Iceberg, "Scan Planning", "Sequence Numbers", "Position Delete Files", "Equality Delete Files".
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DELETE_NUMBER = 3
NUMBERS = {"less": 2, "equal": 3, "greater": 4, "zero": 0, "inherited": 3}
"""Data sequence numbers of data files. `inherited`: none in the entry, and the file is of the delete's own commit."""
KINDS = ("position", "vector", "equality", "equality of two")
SPECS = ("none", "same", "another")
"""Of the delete: without fields; that of the data file; one with the same two fields in the other order."""
PARTITIONS = ("equal", "different", "null", "crossed")
"""Of the delete, beside that of the data file. `crossed`: the values of its two fields changed places."""
NULLS = ("no key", "key of data", "key of delete", "both keys")
BOUNDS = ("absent", "right", "inverted")
"""Of the key, in the entries of data files and of equality deletes; of paths, in those of position deletes."""
TARGET = 1
"""The position of the row that a delete is meant for."""


@dataclass(frozen=True)
class PairState:
    """A data file and a delete; `number` tells it from all others."""

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
        """The rows of the data file: two that no delete is meant for around the one in the middle."""
        n, (p, q) = self.number, self.data_partition
        keys = (-2 * n, None if self.nulls in ("key of data", "both keys") else n, -2 * n - 1)
        return [{"r": 3 * n + i, "k": key, "m": n, "o": min(i, 1), "p": p, "q": q} for i, key in enumerate(keys)]


def all_states(kinds: Sequence[str]) -> list[PairState]:
    """All of them. What a delete has no use for does not vary: keys where it is by position; bounds of a vector."""
    found = itertools.product(NUMBERS, KINDS, SPECS, PARTITIONS, NULLS, BOUNDS, BOUNDS)
    return [
        PairState(n, *facts) for n, facts in enumerate((f for f in found if f[1] in kinds and _is_valid(*f)), start=1)
    ]


def _is_valid(sequence, kind, spec, partition, nulls, data_bounds, delete_bounds) -> bool:
    if kind == "vector" and delete_bounds != "right":
        return False
    return kind.startswith("equality") or nulls in ("no key", "key of data")


def remaining_rows(states: Sequence[PairState]) -> Iterator[dict[str, int | str | None]]:
    """The rows of the data files that no delete of all these states hits."""
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
    """Tells whether the delete of one state applies to the data file of another."""
    number = NUMBERS[data.sequence]
    same_partition = delete.spec == "same" and delete.delete_partition == data.data_partition
    if delete.is_by_position:
        return number <= DELETE_NUMBER and same_partition
    return number < DELETE_NUMBER and (delete.spec == "none" or same_partition)


def is_refused(state: PairState) -> bool:
    """Tells whether the delete names the data file and must not hit it, which harness sees and makes an error.

    The specification lets such deletes go by. A vector must not contradict its file (iceberg 4.3). A position delete of
    another partition is an error where it is seen to name the file: by its bounds, or because delete files of other
    specs are read for that (iceberg 4.4).
    """
    if state.kind == "position":
        return _names_missing_file(state) and not is_overlooked(state)
    return state.kind == "vector" and not applies(state, state)


def is_overlooked(state: PairState) -> bool:
    """Whether the same is so, and only reading the delete files of all partitions would tell, as the oracle does."""
    return _names_missing_file(state) and state.spec == "same" and state.delete_bounds != "right"


def _names_missing_file(state: PairState) -> bool:
    is_later = NUMBERS[state.sequence] > DELETE_NUMBER
    return state.kind == "position" and not is_later and not applies(state, state)
