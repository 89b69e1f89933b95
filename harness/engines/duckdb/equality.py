"""Lowers equality deletes to null-safe anti joins, one per set of key ids.

Which deletes hit which data file is settled in the plan's equality scopes. Where there are few scopes, each is a
branch whose anti join sees exactly its own delete files. Where there are many (a stream that commits deletes every
minute), all data files share one anti join, in which a delete's greatest sequence number and its partition are compared
as columns (iceberg 4.6, 4.29): a scope per branch would read each delete file once per scope.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.engines.duckdb import sqltext
from harness.engines.duckdb.columns import partition_fields
from harness.engines.duckdb.constants import FileTable
from harness.engines.duckdb.footers import FileName
from harness.engines.duckdb.predicates import implied
from harness.engines.duckdb.scans import ReadGroup, ScanFile, Scanner
from harness.errors import CorruptDeleteError
from harness.plan import EqualityDelete, ScanPlan
from harness.projection import PartitionValue, Source, Stored, Value
from harness.schema import Field, IntegerType, StringType, Type, UnknownType, children

_MANY = "many scopes"
_LONG = IntegerType(64)


@dataclass(frozen=True, slots=True)
class KeySet:
    """One set of key ids.

    keys: per key the root column that holds it. names: per key, from its root down. types: per key, its own.
    """

    keys: tuple[Field, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[Type, ...]

    @staticmethod
    def of(delete: EqualityDelete) -> KeySet:
        """The key set of a delete file."""
        names, types = [], []
        for root, ids in zip(delete.keys, delete.key_paths, strict=True):
            below, current = [], root
            for field_id in ids[1:]:
                current = next(f for f in children(current.type) if f.id == field_id)
                below.append(current.name)
            names.append(tuple(below))
            types.append(current.type)
        return KeySet(delete.keys, tuple(names), tuple(types))

    def expressions(self, roots: Sequence[str]) -> list[str]:
        """The key expressions, given those of the root columns. A key below a null struct is null (iceberg 4.23).

        Text is compared by bytes, whatever the connection's default collation is (iceberg 4.28).
        """
        made = []
        for root, names, type_ in zip(roots, self.names, self.types, strict=True):
            access = root
            for part in names:
                access = f"struct_extract({access}, {sqltext.text(part)})"
            made.append(f"({access} COLLATE C)" if isinstance(type_, StringType) else access)
        return made


@dataclass(frozen=True, slots=True)
class EqualityLowering:
    """The equality deletes of one plan, on one connection.

    roots: every column that holds a key, in the type in which keys are compared.
    files: every delete file.
    """

    plan: ScanPlan
    scanner: Scanner
    register: Callable[[pa.Table], str]
    roots: tuple[Field, ...]
    files: tuple[ScanFile, ...]
    by_scope: bool

    @staticmethod
    def of(plan: ScanPlan, scanner: Scanner, register: Callable[[pa.Table], str]) -> EqualityLowering:
        """What the plan's equality deletes need; reads nothing yet."""
        roots = tuple(dict.fromkeys(key for delete in plan.equality_deletes for key in delete.keys))
        files = tuple(
            ScanFile(name=FileName(d.path, d.physical), format=d.format, constants=_constants(plan, d))
            for d in plan.equality_deletes
        )
        work = sum(map(len, plan.equality_scopes))
        by_scope = len(plan.equality_scopes) <= 64 and work <= 2 * len(files) + 16
        return EqualityLowering(plan, scanner, register, roots, files, by_scope)

    def split(self, scope: int) -> Hashable:
        """What data files must have in common to share a branch; None for files without equality deletes."""
        if not self.plan.equality_scopes[scope]:
            return None
        return scope if self.by_scope else _MANY

    def matches(self, split: Hashable, roots: Mapping[Field, str], data: DataColumns) -> list[Match]:
        """The deletes that hit a branch, one match per anti join.

        Args:
            split: the branch's `split`.
            roots: expression of each root column on the data side.
            data: sequence numbers and partitions on the data side.
        """
        if split is None:
            return []
        if self.by_scope:
            return self._by_scope(self.plan.equality_scopes[int(str(split))], roots)
        return self._by_sequence(roots, data)

    def _by_scope(self, scope: Sequence[int], roots: Mapping[Field, str]) -> list[Match]:
        matches = []
        for key_set, members in self._key_sets(scope).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            relation = self._relation(key_set, members, [])
            data = key_set.expressions([roots[root] for root in key_set.keys])
            matches.append(Match(relation, [_same(d, k) for d, k in zip(data, keys, strict=True)]))
        return matches

    def _by_sequence(self, roots: Mapping[Field, str], data: DataColumns) -> list[Match]:
        matches = []
        deletes = self.plan.equality_deletes
        for key_set, members in self._key_sets(range(len(deletes))).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            columns = key_set.expressions([roots[root] for root in key_set.keys])
            for is_global in (True, False):
                chosen = [m for m in members if (deletes[m].partition is None) is is_global]
                if not chosen:
                    continue
                scope = [] if is_global else ["kp"]
                pooled = self._relation(key_set, chosen, ["ks", *scope])
                relation = (
                    f"(SELECT {', '.join([*keys, *scope])}, max(ks) AS ks FROM {pooled} "
                    f"GROUP BY {', '.join([*keys, *scope])})"
                )
                on = [_same(d, k) for d, k in zip(columns, keys, strict=True)]
                on.append(f"{data.sequence_number()} < d.ks")
                if not is_global:
                    on.append(f"{data.partition()} = d.kp")
                matches.append(Match(relation, on))
        return matches

    def _key_sets(self, members: Sequence[int]) -> dict[KeySet, list[int]]:
        sets: dict[KeySet, list[int]] = {}
        for member in members:
            sets.setdefault(KeySet.of(self.plan.equality_deletes[member]), []).append(member)
        return sets

    def _relation(self, key_set: KeySet, members: Sequence[int], extra: Sequence[str]) -> str:
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition)."""
        deletes = [self.plan.equality_deletes[m] for m in members]
        selects = []
        for group in self.scanner.groups([self.files[m] for m in members], key_set.keys):
            hits = [deletes[i] for i in group.members]
            self._check_keys(key_set, group, hits[0])
            table = FileTable(len(hits))
            facts: dict[str, list[int | None]] = {
                "ks": [d.sequence_number for d in hits],
                "kp": [d.partition for d in hits],
            }
            constants = {
                field_id: table.constant([_constants(self.plan, d).get(field_id) for d in hits], type_)
                for field_id, type_ in partition_fields(key_set.keys, group.sources).items()
            }
            keys = key_set.expressions(group.expressions(key_set.keys, constants))
            columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
            columns += [f"{table.constant(facts[label], _LONG)} AS {label}" for label in extra]
            source = f"{group.relation} AS f{table.join(self.register)}"
            selects.append(f"SELECT {', '.join(columns)} FROM {source}{self._where(key_set, keys)}")
        return f"({' UNION ALL '.join(selects)})"

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

    def _check_keys(self, key_set: KeySet, group: ReadGroup, delete: EqualityDelete) -> None:
        """Refuses delete files without a value for a key: taking it for null could delete or keep any row (4.25)."""
        for root, path, source in zip(key_set.keys, delete.key_paths, group.sources, strict=True):
            if not _has_value(root, source):
                raise CorruptDeleteError(
                    f"Cannot apply an equality delete: its file has no column for its key {root.name!r}"
                    f" (field id {path[-1]}). Rewrite the delete",
                    cause="UnknownEqualityField",
                    table=self.plan.table,
                    file=delete.path,
                    field=str(path[-1]),
                    rule="iceberg 4.25",
                )


@dataclass(frozen=True, slots=True)
class Match:
    """One anti join: the relation of deleted keys, and when a row of it, `d`, hits a data row."""

    relation: str
    on: Sequence[str]


@dataclass(frozen=True, slots=True)
class DataColumns:
    """Expressions on the data side, made only when a match needs them."""

    sequence_number: Callable[[], str]
    partition: Callable[[], str]


def _constants(plan: ScanPlan, delete: EqualityDelete) -> Mapping[int, Any]:
    """What the delete file's partition tuple says about columns that the file lacks (iceberg 4.25, 5.2)."""
    return {} if delete.partition is None else plan.partitions[delete.partition].constants


def _has_value(wanted: Field, source: Source) -> bool:
    """Whether something provides the single key below `wanted`."""
    below = children(wanted.type)
    match source:
        case PartitionValue():
            return True
        case Stored(parts=parts):
            return not below or _has_value(below[0], parts[0])
        case Value(value=value) if below and value is not None:
            return _has_value(below[0], Value(value.get(below[0].id)))
        case Value(value=value):
            return value is not None or isinstance(wanted.type, UnknownType)


def _same(data: str, key: str) -> str:
    """Null equals null and nothing else (iceberg 4.26); NaN equals NaN on DuckDB."""
    return f"{data} IS NOT DISTINCT FROM d.{key}"
