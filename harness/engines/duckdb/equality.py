"""Lowers equality deletes to null-safe anti joins, one per set of key ids.

Which deletes hit which data file is settled in the plan's delete sets. Where there are few scopes, each is an
arm whose anti join sees exactly its own delete files. Where there are many (a stream that commits deletes every
minute), all data files share one anti join, in which a delete's greatest sequence number and its partition are compared
as columns (iceberg 4.6, 4.29): a scope per arm would read each delete file once per scope.

What a join costs is its probes (`harness.engines.duckdb.sparse`). By `=` or null-safe, of BIGINT or INTEGER, as NOT
EXISTS, NOT IN or an outer join it is the same; a semi join by `=` has a Bloom filter in the scan and costs a fifth, but
the rows that it finds would have to be taken from a second scan. A join per data file, with the keys that its bounds
let hit it, 1.75 times the plain scan; a bitmap of integer keys would cost about that, by what bitmaps of positions
cost, where the keys lie close to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import pyarrow as pa

from harness.engines.duckdb.columns import FileTable, Translation
from harness.engines.duckdb.predicates import implied
from harness.engines.duckdb.scans import Scanner
from harness.engines.duckdb.sparse import padded
from harness.engines.shared import sqltext
from harness.engines.shared.file_groups import Pooled, ScanFile, Scope
from harness.engines.shared.key_sets import KeySet, delete_files, deleted_keys, key_sets
from harness.model.schema import Field, StringType
from harness.plan.scan_plan import ScanPlan
from harness.records import dataclass


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
