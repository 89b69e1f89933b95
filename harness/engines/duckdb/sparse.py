"""Keys of an anti join, padded so that DuckDB's hash table of them is sparse.

A probe that finds its slot of the table empty is done; one that finds another key there costs a mispredicted branch,
and most probes of deletes find nothing. DuckDB makes a table of a power of two, at least 2^14 slots, that is just large
enough for its rows: up to half of the slots are taken. Rows with equal keys share a slot, so that copies of one row
make the table larger and no fuller. Of 20 million probes (a scan of 2 columns plain: 1), DuckDB 2.0:

    keys             2,000  8,000  20,000  50,000  100,000  200,000
    as they are       1.28   1.96    1.59    1.83     1.91     2.05
    padded            1.28   1.30    1.33    1.39     1.55     1.69
"""

from __future__ import annotations

_FEW_KEYS = 50_000
"""Up to here an eighth of the slots may be taken; above, a quarter, because a larger table leaves the caches."""
_MOST_KEYS = 400_000
"""Beyond these a larger table costs as much as its emptiness saves."""
_SMALLEST_TABLE = 2**14
_PROBES = 16
"""How many rows must be probed for each row of the padded keys; a copy costs as much as a few probes save."""


def padding(keys: int, probes: int) -> int:
    """How many copies of one row to add.

    Args:
        keys: how many rows hold keys.
        probes: how many rows are looked up.
    """
    if not 0 < keys <= _MOST_KEYS:
        return 0
    slots = 1 << (keys * (8 if keys <= _FEW_KEYS else 4) - 1).bit_length()
    rows = slots // 3 + 1  # more than half of the slots, by DuckDB's load factors of 1.5 and 2
    if slots <= _SMALLEST_TABLE or rows <= keys or rows * _PROBES > probes:
        return 0
    return rows - keys


def padded(relation: str, keys: int, probes: int) -> str:
    """The FROM item with copies of one of its rows, for anti and semi joins by equality, null-safe or not, of all keys.

    Never for a join with another condition: it would walk all copies for each row that has their key.
    """
    copies = padding(keys, probes)
    if not copies:
        return relation
    one = f"(SELECT * FROM {relation} LIMIT 1) AS one"
    return f"(SELECT * FROM {relation} UNION ALL SELECT one.* FROM {one}, range({copies}))"
