"""Lowers equality deletes to null-safe anti joins, one per set of key ids.

Which deletes hit which data file is settled in the plan's delete sets. Where there are few scopes, each is an
arm whose anti join sees exactly its own delete files. Where there are many (a stream that commits deletes every
minute), all data files share one anti join, in which a delete's greatest sequence number and its partition are compared
as columns (iceberg 4.6, 4.29): a scope per arm would read each delete file once per scope.

What a join costs is its probes (`harness.engines.duckdb.equality`). By `=` or null-safe, of BIGINT or INTEGER, as NOT
EXISTS, NOT IN or an outer join it is the same; a semi join by `=` has a Bloom filter in the scan and costs a fifth, but
the rows that it finds would have to be taken from a second scan. A join per data file, with the keys that its bounds
let hit it, 1.75 times the plain scan; a bitmap of integer keys would cost about that, by what bitmaps of positions
cost, where the keys lie close to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

import pyarrow as pa

from harness.engines import sqltext
from harness.engines.duckdb.columns import FileTable, Translation
from harness.engines.duckdb.scans import Scanner
from harness.engines.file_groups import Pooled, ScanFile, Scope
from harness.engines.key_sets import KeySet, delete_files, deleted_keys, key_sets
from harness.metadata.filters.predicate import And, Comparison, In, IsNull, Predicate, StartsWith
from harness.metadata.model.schema import Field, StringType
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass

# What a filter says about single columns, as SQL conditions on other expressions of the same values.


def implied(predicate: Predicate, columns: Mapping[int, str]) -> list[str]:
    """Conditions that hold wherever `predicate` is true, each about one column.

    Args:
        predicate: of the filter.
        columns: by field id, an expression with the column's values; other columns are left out.
    """
    return [sql for part in _conjuncts(predicate) if (sql := _condition(part, columns)) is not None]


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _condition(part: Predicate, columns: Mapping[int, str]) -> str | None:
    match part:
        case Comparison(field=f, op=op, value=value) if f.id in columns:
            return f"{columns[f.id]} {op.value} {sqltext.literal(value, f.type)}"
        case In(field=f, values=values, negated=negated) if f.id in columns:
            items = ", ".join(sqltext.literal(value, f.type) for value in values)
            return f"{columns[f.id]} {'NOT ' if negated else ''}IN ({items})"
        case IsNull(field=f, negated=negated) if f.id in columns:
            return f"{columns[f.id]} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(field=f, prefix=prefix, negated=negated) if f.id in columns:
            return f"{'NOT ' if negated else ''}starts_with({columns[f.id]}, {sqltext.text(prefix)})"
        case _:
            return None


# Keys of an anti join, padded so that DuckDB's hash table of them is sparse.
#
# A probe that finds its slot of the table empty is done; one that finds another key there costs a mispredicted branch,
# and most probes of deletes find nothing. DuckDB makes a table of a power of two, at least 2^14 slots, that is just
# large enough for its rows: up to half of the slots are taken. Rows with equal keys share a slot, so that copies
# of one row make the table larger and no fuller. Of 20 million probes (a scan of 2 columns plain: 1), DuckDB 2.0:
#
#     keys             2,000  8,000  20,000  50,000  100,000  200,000
#     as they are       1.28   1.96    1.59    1.83     1.91     2.05
#     padded            1.28   1.30    1.33    1.39     1.55     1.69


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


@dataclass(frozen=True, slots=True)
class EqualityLowering:
    """The equality deletes of one plan, on one connection.

    files: every delete file.
    """

    plan: ScanPlan
    scanner: Scanner
    register: Callable[[pa.Table], str]
    files: tuple[ScanFile, ...]

    @staticmethod
    def of(plan: ScanPlan, scanner: Scanner, register: Callable[[pa.Table], str]) -> EqualityLowering:
        """What the plan's equality deletes need; reads nothing yet."""
        return EqualityLowering(plan, scanner, register, delete_files(plan))

    def matches(self, scope: Scope, roots: Mapping[Field, str], rows: int) -> list[Match]:
        """The deletes that hit an arm, one match per anti join with its rows, `s`.

        Args:
            scope: the arm's. Where deletes are pooled, `s` has `sq` (the data sequence number of the row's file) and
                `sp` (the index of its partition).
            roots: expression of each root column on the data side.
            rows: how many rows the arm has.
        """
        match scope:
            case None:
                return []
            case Pooled.ALL:
                return self._by_sequence(roots)
            case int():
                return self._by_scope(self.plan.delete_sets[scope], roots, rows)
            case _:
                assert_never(scope)

    def _by_scope(self, scope: Sequence[int], roots: Mapping[Field, str], rows: int) -> list[Match]:
        matches = []
        for key_set, members in key_sets(self.plan, scope).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            relation, count = self._relation(key_set, members, [])
            data = _keys(key_set, [roots[root] for root in key_set.keys])
            on = [_same(d, k) for d, k in zip(data, keys, strict=True)]
            matches.append(Match(padded(relation, count, rows), on))
        return matches

    def _by_sequence(self, roots: Mapping[Field, str]) -> list[Match]:
        matches = []
        deletes = self.plan.equality_deletes
        for key_set, members in key_sets(self.plan, range(len(deletes))).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            columns = _keys(key_set, [roots[root] for root in key_set.keys])
            for is_global in (True, False):
                chosen = [m for m in members if (deletes[m].partition is None) is is_global]
                if not chosen:
                    continue
                scope = [] if is_global else ["kp"]
                pooled, _ = self._relation(key_set, chosen, ["ks", *scope])
                relation = (
                    f"(SELECT {', '.join([*keys, *scope])}, max(ks) AS ks FROM {pooled} "
                    f"GROUP BY {', '.join([*keys, *scope])})"
                )
                on = [_same(d, k) for d, k in zip(columns, keys, strict=True)]
                on.append("s.sq < d.ks")
                if not is_global:
                    on.append("s.sp = d.kp")
                matches.append(Match(relation, on))
        return matches

    def _relation(self, key_set: KeySet, members: Sequence[int], extra: Sequence[str]) -> tuple[str, int]:
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition).

        And how many rows the files have.
        """
        files, selects, rows = [self.files[m] for m in members], [], 0
        for group in self.scanner.inspector.groups(files, key_set.keys):
            found = deleted_keys(self.plan, key_set, group, members)
            scan = self.scanner.scan([files[i] for i in group.members], group, key_set.keys)
            rows += sum(scan.rows)
            translation = Translation(scan.shown, FileTable(len(group.members)))
            keys = _keys(key_set, [translation.expression(root) for root in found.roots])
            facts = {"ks": found.sequence_number, "kp": found.partition}
            columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
            columns += [f"{translation.expression(facts[label])} AS {label}" for label in extra]
            source = f"{scan.relation} AS f{translation.table.join(self.register)}"
            selects.append(f"SELECT {', '.join(columns)} FROM {source}{self._where(key_set, keys)}")
        return f"({' UNION ALL '.join(selects)})", rows

    def _where(self, key_set: KeySet, keys: Sequence[str]) -> str:
        """The filter's conditions on the keys: a row that it keeps has them too, so no other key can hit one.

        With them DuckDB skips the row groups of delete files as it skips those of data files.
        """
        if self.plan.filter is None:
            return ""
        whole = zip(key_set.keys, key_set.names, keys, strict=True)
        columns = {root.id: key for root, names, key in whole if not names}
        conditions = implied(self.plan.filter.predicate, columns)
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


@dataclass(frozen=True, slots=True)
class Match:
    """One anti join: the relation of deleted keys, and when a row of it, `d`, hits a data row."""

    relation: str
    on: Sequence[str]


def _keys(key_set: KeySet, roots: Sequence[str]) -> list[str]:
    """The key expressions, given those of the root columns. A key below a null struct is null (iceberg 4.23).

    Text is compared by bytes, whatever the connection's default collation is (iceberg 4.28).
    """
    made = []
    for root, names, type_ in zip(roots, key_set.names, key_set.types, strict=True):
        access = root
        for part in names:
            access = f"struct_extract({access}, {sqltext.text(part)})"
        made.append(f"({access} COLLATE C)" if isinstance(type_, StringType) else access)
    return made


def _same(data: str, key: str) -> str:
    """Null equals null and nothing else (iceberg 4.26); NaN equals NaN on DuckDB."""
    return f"{data} IS NOT DISTINCT FROM d.{key}"
