"""The values of data files, column by column, as rules of level data read them: one pass of DuckDB over many files.

The values are read as the table's, by the plan of a read without skipping and without deletes. What is recorded is what
reads skip by: `ScanPlan.bounds`, where truncated and wide bounds are widened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.leaves import Leaf
from harness.engines.duckdb.relations import about
from harness.engines.registry import duckdb_engine
from harness.engines.row_groups import Stated, row_groups
from harness.errors import UnknownColumnError
from harness.metadata.delta.statistics import dig, document
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.model.column_stats import ColumnBounds
from harness.metadata.model.schema import value_text
from harness.metadata.plan.scan_plan import ScanPlan, without_deletes
from harness.storage.records import dataclass
from harness.storage.threads import phase
from harness.tools.check.files import Statements
from harness.tools.check.rules import Found, Place, Spans

_MOST_FILES, _MOST_BYTES = 2_000, 1 << 30
"""Files, and their bytes, that are read by one query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValues:
    """A column in one row group; a file without row groups counts as one. Fields are those of `ColumnValues`."""

    number: int
    rows: int
    nulls: int
    gaps: int
    nans: int
    least: Any
    greatest: Any
    stated: Stated | None
    pages: Stated | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """A column, a field of structs, or the elements of lists and maps, in one file: recorded beside actual.

    name: with a point between two levels. stored: the names in data files, from the top down. listed: the values are
    those in lists or maps. rows, nulls: its values with nulls, and the nulls. gaps: nulls that stand for a null struct,
    or for a null or empty list; writers count them, or do not. nans: values that are NaN. least, greatest: of the other
    values, as internal values; None: there is none. recorded: what reads skip by. at: the place of the file in
    `recorded`. groups: the same by row group.
    """

    field: dt.Field
    name: str
    stored: tuple[str, ...]
    path: str
    listed: bool
    plan: ScanPlan
    statements: Statements
    groups: Sequence[GroupValues]
    rows: int
    nulls: int
    gaps: int
    nans: int
    least: Any
    greatest: Any
    recorded: ColumnBounds | None
    at: int

    def spans(self, lower: Any, upper: Any) -> Spans | None:
        """The recorded and the actual range, where both are numbers; an unknown bound is the actual one."""
        ends = (self.least if lower is None else lower, self.greatest if upper is None else upper)
        values = (*ends, self.least, self.greatest)
        if not all(isinstance(value, int | float | Decimal) and math.isfinite(value) for value in values):
            return None
        return (float(ends[0]), float(ends[1])), (float(self.least), float(self.greatest))

    def text(self, value: Any) -> str:
        """A value of the column for people."""
        return value_text(value, self.field.type)

    def found(
        self,
        field: str,
        recorded: str,
        actual: str,
        spans: Spans | None = None,
    ) -> Found:
        """The breach by a statement about the column."""
        file = self.statements.says.get(self.path, self.path)
        return Found(Place(file=file, entry=self.path, field=field, column=self.name), recorded, actual, spans=spans)

    @property
    def in_orc_list(self) -> bool:
        """True for elements, keys and values in ORC, which keeps no counts of them; Java takes rows for those."""
        entry = self.statements.entries.get(self.path)
        return self.listed and entry is not None and entry.format == "orc"

    def in_stats(self, name: str, stored: Sequence[str] | None = None) -> Any:
        """The value for the column under a name of Delta's statistics; None: there is none that a reader gets."""
        return stated(self.statements.stats.get(self.path), name, self.stored if stored is None else stored)


_document = lru_cache(maxsize=16)(document)


def stated(stats: str | None, name: str, stored: Sequence[str]) -> Any:
    """The value for a column under a name of the statistics of a file of Delta; None: there is none."""
    return None if stats is None else dig(_document(stats), (name, *stored))


def _is_stated(leaf: Leaf, statements: Statements, paths: Sequence[str]) -> bool:
    """True unless a column takes reading of lists, and the metadata counts nothing of them in these files."""
    if not leaf.listed and not isinstance(leaf.path[-1].type, dt.ListType | dt.MapType):
        return True
    id_, entries = leaf.path[-1].id, [statements.entries.get(path) for path in paths]
    if any(id_ in (entry.value_counts or entry.null_value_counts or ()) for entry in entries if entry is not None):
        return True
    return any(type(stated(statements.stats.get(path), "nullCount", leaf.stored)) is int for path in paths)


def column_values(
    plan: ScanPlan, statements: Statements, paths: Sequence[str], names: Sequence[str] | None
) -> Iterator[ColumnValues]:
    """The columns of some files of a plan, before deletes, at every depth.

    paths: of the files, as recorded. names: the columns that are wanted; None: all.
    """
    known = {f.name: f for f in plan.schema.fields}
    for name in names or ():
        if name not in known:
            raise UnknownColumnError(f"Unknown column {name!r}: there are {', '.join(known)}", field=name)
    leaves = [
        leaf
        for f in known.values()
        if names is None or f.name in names
        for leaf in Leaf(path=(f,), value=sqltext.name(f.name)).below(in_lists=plan.format == "iceberg")
        if _is_stated(leaf, statements, paths)
    ]
    wanted = _Wanted(
        plan=plan,
        statements=statements,
        leaves=leaves,
        bounds={} if plan.bounds is None else dict(plan.bounds([leaf.path[-1] for leaf in leaves])),
        ordinals={path: at for at, path in enumerate(plan.files.column("path").to_pylist())},
    )
    with phase("reading values", len(paths), "files") as advance:
        for part in _parts(plan, paths):
            yield from wanted.values(part)
            advance(len(part))


def _parts(plan: ScanPlan, paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The files in parts that one query reads."""
    sizes = dict(zip(plan.files.column("path").to_pylist(), plan.files.column("size").to_pylist(), strict=True))
    part: list[str] = []
    size = 0
    for path in paths:
        if part and (len(part) == _MOST_FILES or size > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(path)
        size += sizes.get(path) or 0
    if part:
        yield part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    plan: ScanPlan
    statements: Statements
    leaves: Sequence[Leaf]
    bounds: Mapping[int, ColumnBounds]
    ordinals: Mapping[str, int]

    def values(self, paths: Sequence[str]) -> Iterator[ColumnValues]:
        """The columns of some files."""
        footers = row_groups(self.plan, paths)
        keys = {path: footers[path].key if path in footers else "0" for path in paths}
        found = self._asked(keys, [part for leaf in self.leaves for part in leaf.aggregates()])
        numbers = self._numbers(keys, found)
        by_path: dict[str, list[Sequence[Any]]] = {}
        for row in found:
            by_path.setdefault(row[0], []).append(row)
        for path, rows in by_path.items():
            for place, leaf in enumerate(self.leaves):
                stated_of = footers[path].statistics(leaf.path) if path in footers else None
                parts = []
                for _, number, *values in rows:
                    count, present, gaps, least, greatest = values[5 * place : 5 * place + 5]
                    nans, greatest = numbers.get((path, number, place), (0, greatest))
                    stated, pages = (None, None) if stated_of is None else stated_of(number)
                    parts.append(
                        GroupValues(
                            number=number,
                            rows=count,
                            nulls=count - present,
                            gaps=gaps,
                            nans=nans,
                            least=None if _is_nan(least) else least,
                            greatest=greatest,
                            stated=stated,
                            pages=pages,
                        )
                    )
                yield self._joined(leaf, path, parts)

    def _joined(self, leaf: Leaf, path: str, parts: Sequence[GroupValues]) -> ColumnValues:
        return ColumnValues(
            field=leaf.path[-1],
            name=leaf.name,
            stored=leaf.stored,
            path=path,
            listed=leaf.listed,
            plan=self.plan,
            statements=self.statements,
            groups=parts,
            rows=sum(part.rows for part in parts),
            nulls=sum(part.nulls for part in parts),
            gaps=sum(part.gaps for part in parts),
            nans=sum(part.nans for part in parts),
            least=min((part.least for part in parts if part.least is not None), default=None),
            greatest=max((part.greatest for part in parts if part.greatest is not None), default=None),
            recorded=self.bounds.get(leaf.path[-1].id),
            at=self.ordinals[path],
        )

    def _numbers(
        self, keys: Mapping[str, str], found: Sequence[Sequence[Any]]
    ) -> dict[tuple[str, int, int], tuple[int, Any]]:
        """The number of NaN, and the greatest number, by file, row group and column, where there is a NaN.

        They take a second pass over those columns: to look at every value for NaN in the first costs a tenth of it.
        """
        floats = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf.path[-1].type, dt.FloatType)]
        places = {(row[0], row[1], place) for row in found for place in floats if _is_nan(row[2 + 5 * place + 4])}
        if not places:
            return {}
        columns = sorted({place for *_, place in places})
        leaves = [self.leaves[place] for place in columns]
        texts = [text for leaf in leaves for text in (leaf.count("isnan({})"), leaf.most("max", "NOT isnan({})"))]
        rows = self._asked({path: keys[path] for path, *_ in sorted(places)}, texts)
        return {
            (path, number, place): (values[2 * i], values[2 * i + 1])
            for path, number, *values in rows
            for i, place in enumerate(columns)
            if (path, number, place) in places
        }

    def _asked(self, keys: Mapping[str, str], aggregates: Sequence[str]) -> list[tuple[Any, ...]]:
        """The aggregates of each row group, behind the file's path and its number.

        keys: SQL of the number by path; files with the same are read together.
        """
        together: dict[str, list[str]] = {}
        for path, key in keys.items():
            together.setdefault(key, []).append(path)
        tops = list({leaf.path[0].id: leaf.path[0] for leaf in self.leaves}.values())
        rows: list[tuple[Any, ...]] = []
        for key, paths in together.items():
            more = ["_file"] if key == "0" else ["_file", "_pos"]
            plan, connection = rows_of(self.plan, paths, more, tops), cursor()
            duckdb_engine().relation(plan, connection, name="checked_rows")
            text = f"SELECT {', '.join(['_file', key, *aggregates])} FROM checked_rows GROUP BY ALL"
            with about(self.plan):
                table = connection.sql(text).to_arrow_table()
            rows += zip(*(column.to_pylist() for column in table.columns), strict=True)
        return rows


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def rows_of(plan: ScanPlan, paths: Sequence[str], more: Sequence[str], fields: Sequence[dt.Field]) -> ScanPlan:
    """The plan of some files before deletes. more: metadata columns, which come before `fields`."""
    files = plan.files.filter(pc.is_in(plan.files.column("path"), pa.array(paths, pa.string())))
    return without_deletes(replace(plan, columns=(*(dt.METADATA[name] for name in more), *fields), files=files))


def asked(plan: ScanPlan, relation: duckdb.DuckDBPyRelation, text: str) -> list[tuple[Any, ...]]:
    """The answer to a query about a relation of a plan that is called `rows` in the text."""
    with about(plan):
        found = relation.query("rows", text)
        return [] if found is None else found.fetchall()
