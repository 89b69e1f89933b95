"""The function `compare_plans`, which checks the plan of a server against the table's metadata.

    harness.compare_plans("prod.sales.orders", where="region = 'eu'")

Plans are compared as lists of files (`harness.diff.plan_differences`). Rows are only read if the lists differ, and only
from files that differ:

- A file that one plan lacks is a difference if one of its rows matches the filter.
- A residual that is not equivalent to the filter is evaluated, together with the filter, on the rows of its files.
- All other files that differ are read with both plans, and their rows are compared.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.compare import compare
from harness.diff.plan_differences import ListingContext, ListingDifferences, compare_listings
from harness.diff.plan_result import (
    CLIENT,
    SERVER,
    PlanComparison,
    PlanDifference,
    PlanDifferenceKind,
)
from harness.diff.plan_sides import ComparedPlan, ComparedScan, compared_plans
from harness.diff.result import ComparisonResult, SideInfo
from harness.diff.sides import translate_duckdb_errors
from harness.engines.registry import find_engine
from harness.errors import HarnessError, RequestError, StorageError, counted
from harness.metadata.filters.predicate import Constant, Predicate, fields_of, filter_for, is_decided
from harness.metadata.filters.sqltext import quoted
from harness.metadata.iceberg.manifests import DataFile
from harness.metadata.iceberg.server.expressions import parse_expression
from harness.metadata.iceberg.server.listing import (
    ListedFile,
    statistics_types,
)
from harness.metadata.iceberg.server.residuals import normal_form, predicate_sql, residual_of
from harness.metadata.iceberg.server.stated import stated_plan
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.values import Partitions, read_schema_first
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.schema import METADATA
from harness.metadata.model.times import When
from harness.metadata.plan.scan_plan import ScanPlan, no_skipped_files
from harness.metadata.planned_scan import PlannedScan
from harness.snapshot import PlannedRows
from harness.storage.paths import redact
from harness.storage.threads import phase
from harness.table import OpenOptions, Table, open_table

MOST_FILES = 100
_FILE = METADATA["_file"].name


@validate_call
def compare_plans(
    table: object,
    *,
    plans: Sequence[str | ScanPlan] = (SERVER, CLIENT),
    at: When = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    engine: str = "duckdb",
    rows: bool = True,
    max_files: int = MOST_FILES,
    **options: Unpack[OpenOptions],
) -> PlanComparison:
    """Compare two plans of one snapshot of an Iceberg table file by file, and the rows of the files that differ.

        comparison = harness.compare_plans("prod.sales.orders", where="region = 'eu'")
        assert comparison.equal, comparison

    `docs/reference/comparing.md` defines what counts as a difference.

    Args:
        table: The table's name in a catalog, or its location, as for `open_table`.
        plans: The left and the right plan. `server` is the plan of the catalog's server, `client` is the plan that
            harness makes from the metadata files, and a `ScanPlan` is a plan that was made earlier, for the same
            snapshot and filter.
        at: The snapshot, as for `harness.compare`. None: the current snapshot.
        columns: The columns of the rows to compare. None: all columns.
        where: A boolean SQL expression in DuckDB's dialect: the filter of both plans. None: all rows.
        engine: The engine that reads rows for the comparison: `duckdb`, `spark`, or `oracle`.
        rows: If False, no data file is read. Then a file that one plan lacks counts as a difference even if none of its
            rows match the filter, and a residual counts as a difference if it is equivalent to the filter but written
            differently.
        max_files: The maximum number of files to show. All differences are counted.
        options: The options of `open_table`, except `planning`.

    Returns:
        The comparison, with counts of all differences.

    Raises:
        RequestError: An argument is invalid, the table is no Iceberg table, or a saved plan is for another snapshot or
            filter.
        UnsupportedError: The catalog has no server that plans reads.
        HarnessError: The table cannot be opened. If a plan cannot be made, its error is stored in the comparison.
    """
    if isinstance(table, Table):
        raise RequestError("Cannot compare plans of an opened table: pass its name or location")
    if "planning" in options:
        raise RequestError("Cannot pass planning to compare_plans: plans= says who plans", options=("planning",))

    def open_planned(planning: str) -> Table:
        with_planning: OpenOptions = {**options, "planning": planning}
        return open_table(table, **with_planning)

    request = PlanRequest(
        plans=_checked_plans(plans),
        at=at,
        columns=None if columns is None else tuple(columns),
        where=where,
        engine=engine,
        rows=rows,
        max_files=max_files,
    )
    return compare_opened_plans(open_planned, request)


def _checked_plans(plans: Sequence[str | ScanPlan]) -> tuple[str | ScanPlan, str | ScanPlan]:
    if len(plans) != 2 or isinstance(plans, str):
        raise RequestError(
            f"Invalid plans {plans!r}: expected two, for the left and the right side", options=("plans",)
        )
    unknown = next((each for each in plans if not isinstance(each, ScanPlan) and each not in (SERVER, CLIENT)), None)
    if unknown is not None:
        message = f"Invalid plan {unknown!r}: expected '{SERVER}', '{CLIENT}', or a ScanPlan"
        raise RequestError(message, options=("plans",))
    return plans[0], plans[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The arguments of `compare_plans` that do not depend on how the table is opened."""

    plans: tuple[str | ScanPlan, str | ScanPlan]
    at: When = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    engine: str = "duckdb"
    rows: bool = True
    max_files: int = MOST_FILES


def compare_opened_plans(open_planned: Callable[[str], Table], request: PlanRequest) -> PlanComparison:
    """Compare two plans as `compare_plans` does.

    Args:
        open_planned: Opens the table, given a value of the option `planning`.
        request: The plans, and the arguments of the comparison.

    Raises:
        HarnessError: As for `compare_plans`.
    """
    find_engine(request.engine)
    if request.max_files < 0:
        raise RequestError(f"Invalid max_files={request.max_files}: expected 0 or more", options=("max_files",))
    client, name = _iceberg_table(open_planned(CLIENT))
    server = _iceberg_table(open_planned(SERVER))[0] if SERVER in request.plans else None
    selection = (server or client).select(request.at)
    scan = ComparedScan(
        client=client,
        server=server,
        selection=selection,
        columns=request.columns,
        condition=None if request.where is None else filter_for(request.where, selection.schema),
    )
    sides = compared_plans(request.plans, scan)
    comparison = PlanComparison(
        table=name,
        snapshot=None if selection.snapshot is None else selection.snapshot.id,
        where=request.where,
        left=sides[0].info,
        right=sides[1].info,
        rows_read=request.rows,
    )
    if any(side.info.error is not None for side in sides):
        return comparison
    return _PlanComparer(scan, sides, request).run(comparison)


def _iceberg_table(table: Table) -> tuple[IcebergTable, str]:
    """Return the source of an Iceberg table, and its name for reports. Raise RequestError for other tables."""
    source = table._source
    if not isinstance(source, IcebergTable):
        raise RequestError(f"Cannot compare plans of {redact(source.location)}: it is not an Iceberg table")
    return source, table.name or redact(source.location)


_AffectedRows = Mapping[str, tuple[int, int]]
"""By data file: the number of rows that only the residual keeps, and the number of rows that only the filter keeps."""


@dataclass(slots=True)
class _PlanComparer:
    """A comparison of two plans that could be made.

    Attributes:
        scan: The read.
        sides: Both plans.
        request: The request.
        notes: Sentences for the report.
        refusals: For each side, the error if harness refuses to read its plan, otherwise None.
    """

    scan: ComparedScan
    sides: tuple[ComparedPlan, ComparedPlan]
    request: PlanRequest
    notes: list[str] = field(default_factory=list)
    refusals: list[HarnessError | None] = field(init=False)
    _partitions: Partitions = field(init=False)
    _context: ListingContext = field(init=False)

    def __post_init__(self) -> None:
        self.refusals = [side.info.refusal for side in self.sides]
        metadata, schema = self.scan.client.metadata, self.scan.selection.schema
        partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
        by_id = [each.by_id() for each in reversed(partitions.schemas)]
        self._partitions = partitions
        self._context = ListingContext(
            names=(self.sides[0].phrase, self.sides[1].phrase),
            location=metadata.location,
            columns={id_: ".".join(path) for fields in by_id for id_, (path, _) in fields.items()},
            types=statistics_types(schema),
            partition_key=lambda file: partitions.key_of(file.spec_id, file.partition),
            partition_text=self._partition_text,
        )

    def _partition_text(self, file: DataFile) -> str:
        number = self._partitions.index_of(file.spec_id, file.partition)
        return str(self._partitions.all()[number])

    def run(self, comparison: PlanComparison) -> PlanComparison:
        """Return the comparison with the differences."""
        with phase("comparing files"):
            result = compare_listings(self.sides[0].listing, self.sides[1].listing, self._context)
        self.notes += result.notes
        differences = [*result.differences, *self._unshared_files(result)]
        with_other_rows = {each.file for each in differences if each.kind.counts and each.kind not in _SAME_ROWS}
        differences += self._residual_differences()
        rows = self._compare_rows(with_other_rows) if self.request.rows and with_other_rows else None
        counts = Counter(each.kind for each in differences)
        differences.sort(key=lambda each: not each.kind.counts)
        shown = set(list(dict.fromkeys(each.file for each in differences))[: self.request.max_files])
        shown_differences = tuple(each for each in differences if each.file in shown)
        left, right = (
            replace(side.info, refusal=refusal) for side, refusal in zip(self.sides, self.refusals, strict=True)
        )
        return replace(
            comparison,
            left=left,
            right=right,
            differences=shown_differences,
            counts={kind: counts[kind] for kind in PlanDifferenceKind if counts[kind]},
            files=len({each.file for each in differences if each.kind.counts}),
            truncated=len(shown_differences) < len(differences),
            notes=tuple(self.notes),
            rows=rows,
        )

    def _unshared_files(self, result: ListingDifferences) -> Iterator[PlanDifference]:
        """Yield the differences in files that only one plan lists."""
        for number, files in ((0, result.only_left), (1, result.only_right)):
            this, other = self.sides[number], self.sides[1 - number]
            skipped = other.listing.skipped
            for file in files:
                if file.file.path in skipped:
                    yield self._skipped_file(file.file.path, this, other)
            unknown = [file.file.path for file in files if file.file.path not in skipped]
            numbers = self._matching_rows(this, unknown) if self.request.rows and unknown else {}
            for path in unknown:
                rows = numbers.get(path)
                # The file is live, because only a server can list removed files.
                if rows == 0 and this.info.name != SERVER:
                    yield self._skipped_file(path, this, other)
                else:
                    yield self._unshared_file(path, rows, number)

    def _skipped_file(self, path: str, this: ComparedPlan, other: ComparedPlan) -> PlanDifference:
        text = f"{this.phrase} lists the file, {other.phrase} does not, and none of its rows match the filter"
        return self._context.difference(PlanDifferenceKind.SKIPPED_FILE, path, text)

    def _unshared_file(self, path: str, rows: int | None, number: int) -> PlanDifference:
        left, right = (side.phrase for side in self.sides)
        matching = "rows" if self.scan.condition is None else "matching rows"
        size = "" if rows is None else f", which has {rows:,} {matching if rows != 1 else matching[:-1]}"
        if number == 0:
            text, kind = f"{left} lists the file{size}, {right} does not", PlanDifferenceKind.ADDED_FILE
        else:
            text, kind = f"{left} lacks the file{size}", PlanDifferenceKind.MISSING_FILE
        return self._context.difference(kind, path, text, rows=rows)

    def _matching_rows(self, side: ComparedPlan, paths: Sequence[str]) -> Mapping[str, int | None]:
        """Return the number of matching rows in each file of a plan, or nothing if the files cannot be read."""
        try:
            plan = replace(self._plan_of(side, paths), columns=(METADATA["_file"],))
            return {**dict.fromkeys(paths, 0), **dict(_counts_by_file(plan, ("true",)))}
        except HarnessError as error:
            self.notes.append(f"the rows of files that only {side.phrase} lists are not counted: {error}")
            return {}

    def _plan_of(self, side: ComparedPlan, paths: Iterable[str], *, as_stated: bool = False) -> PlannedScan:
        """Return a side's plan, restricted to some files.

        If harness refuses to read the plan, or if `as_stated` is True, the result applies all deletes that the plan
        lists for a file, without checks.

        Raises:
            HarnessError: The listed deletes cannot be applied, either.
        """
        paths = frozenset(paths)
        if side.plan is not None and not as_stated:
            return _restricted(side.plan, paths)
        files = [file for file in side.listing.files if file.file.path in paths]
        like = self.scan.client.plan(self.scan.selection, self.scan.columns, self.scan.condition)
        return stated_plan(files, like, self._partitions, self.scan.client.path_map)

    def _compare_rows(self, paths: Iterable[str]) -> ComparisonResult:
        """Compare the rows that both plans return for some files.

        Harness may only notice that a plan is invalid when it reads the plan's deletes. For a refused plan, compare the
        rows of a reader that applies all listed deletes without checks.
        """
        result = self._compared_rows(paths, [False, False])
        errors = [result.left.error, result.right.error]
        pairs = zip(errors, self.sides, strict=True)
        is_refused = [error is not None and side.info.name == SERVER for error, side in pairs]
        if not any(is_refused):
            return result
        for place, error in enumerate(errors):
            self.refusals[place] = self.refusals[place] or (error if is_refused[place] else None)
        return self._compared_rows(paths, is_refused)

    def _compared_rows(self, paths: Iterable[str], as_stated: Sequence[bool]) -> ComparisonResult:
        sides: list[PlannedRows | HarnessError] = []
        for side, is_stated in zip(self.sides, as_stated, strict=True):
            try:
                sides.append(PlannedRows(self._plan_of(side, paths, as_stated=is_stated)))
            except HarnessError as error:
                sides.append(error)
        return compare(*sides, engines=self.request.engine, names=[side.phrase for side in self.sides])

    def _residual_differences(self) -> Iterator[PlanDifference]:
        """Yield the residuals that are not equivalent to the filter in their file."""
        for side in self.sides:
            equivalent = 0
            for text, files in self._files_by_residual(side).items():
                try:
                    residual = parse_expression(json.loads(text), self.scan.selection.schema)
                except StorageError as error:
                    kind, problem = (
                        PlanDifferenceKind.DIFFERENT_RESIDUAL,
                        f"has a residual that is invalid: {error.message}",
                    )
                    for file in files:
                        yield self._context.difference(kind, file.file.path, f"{side.phrase} {problem}")
                    continue
                paths = self._files_with_other_residual(residual, files)
                if paths and not is_decided(residual):
                    self.notes.append(f"{side.phrase} has a residual that cannot be evaluated: {text}")
                    continue
                affected = self._affected_rows(residual, paths, side) if paths and self.request.rows else None
                for path in paths:
                    difference = self._residual_difference(residual, path, affected, side)
                    if difference is None:
                        equivalent += 1
                    else:
                        yield difference
            if equivalent:
                self.notes.append(
                    f"{side.phrase} has residuals that differ from the filter, but not for the rows of "
                    f"{counted(equivalent, 'file')}"
                )

    def _files_by_residual(self, side: ComparedPlan) -> Mapping[str, list[ListedFile]]:
        """Return the files of a plan that have a residual, by the residual's JSON text."""
        by_text: dict[str, list[ListedFile]] = defaultdict(list)
        for file in side.listing.files:
            if file.residual is not None:
                text = "true" if file.residual is True else json.dumps(file.residual, sort_keys=True)
                by_text[text].append(file)
        return by_text

    def _files_with_other_residual(self, residual: Predicate, files: Sequence[ListedFile]) -> list[str]:
        """Return the files whose residual and filter have different normal forms for the partition of the file."""
        requested, schema = self.scan.requested(), self.scan.selection.schema
        if normal_form(residual) == normal_form(requested):
            return []
        specs, is_equal = self.scan.client.metadata.specs, dict[Hashable, bool]()
        unequal: list[str] = []
        for file in files:
            spec, values = specs.get(file.file.spec_id), file.file.partition
            key = self._partitions.key_of(file.file.spec_id, values)
            if key not in is_equal:
                residuals = [residual_of(p, spec, values, schema) if spec else p for p in (residual, requested)]
                is_equal[key] = normal_form(residuals[0]) == normal_form(residuals[1])
            if not is_equal[key]:
                unequal.append(file.file.path)
        return unequal

    def _affected_rows(self, residual: Predicate, paths: Sequence[str], side: ComparedPlan) -> _AffectedRows | None:
        """Count the rows that only a residual or only the filter keeps. Return None if the files cannot be read.

        The files are read with our own plan and without a filter.
        """
        scan, requested = self.scan, self.scan.requested()
        schema = scan.selection.schema
        by_id = schema.by_id()
        names = dict.fromkeys(by_id[id_][0][0] for each in (residual, requested) for id_ in sorted(fields_of(each)))
        first, second = (predicate_sql(each, schema) for each in (residual, requested))
        conditions = (f"{first} IS TRUE AND {second} IS NOT TRUE", f"{second} IS TRUE AND {first} IS NOT TRUE")
        try:
            plan = _restricted(scan.client.plan(scan.selection, (*names, _FILE), None), paths)
            return {path: (wider, narrower) for path, wider, narrower in _counts_by_file(plan, conditions)}
        except HarnessError as error:
            self.notes.append(f"residuals of {side.phrase} are not evaluated on rows: {error}")
            return None

    def _residual_difference(
        self, residual: Predicate, path: str, affected: _AffectedRows | None, side: ComparedPlan
    ) -> PlanDifference | None:
        """Return the difference of a residual in one file, or None if the residual is right for every row."""
        is_dropped = isinstance(residual, Constant) and residual.value is True
        kinds = PlanDifferenceKind
        what = f"the residual {predicate_sql(residual, self.scan.selection.schema)}"
        if affected is None:
            kind = kinds.DROPPED_RESIDUAL if is_dropped else kinds.DIFFERENT_RESIDUAL
            return self._context.difference(kind, path, f"{side.phrase} has {what}, which is not the filter")
        wider, narrower = affected.get(path, (0, 0))
        if wider:
            kind = kinds.DROPPED_RESIDUAL if is_dropped else kinds.WIDER_RESIDUAL
            reason = f"a reader that trusts it returns {counted(wider, 'row')} that the filter excludes"
            return self._context.difference(kind, path, f"{side.phrase} has {what}: {reason}", rows=wider)
        if narrower:
            reason = f"a reader that applies it loses {counted(narrower, 'row')} that match the filter"
            text = f"{side.phrase} has {what}: {reason}"
            return self._context.difference(kinds.NARROWER_RESIDUAL, path, text, rows=narrower)
        return None


_SAME_ROWS = frozenset({PlanDifferenceKind.STATISTICS})
"""Kinds of differences that do not change rows."""


def _restricted(plan: PlannedScan, paths: Iterable[str]) -> PlannedScan:
    """Return a plan of only some of its files, by recorded path."""
    is_selected = pc.is_in(plan.files.column("path"), value_set=array_of(sorted(paths), pa.string()))
    return replace(plan, files=plan.files.filter(is_selected), skipped=no_skipped_files(), statistics=None)


def _counts_by_file(plan: PlannedScan, conditions: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the recorded path of each file with rows, and the number of its rows that satisfy each condition.

    Raises:
        HarnessError: A file cannot be read.
    """
    relation = PlannedRows(plan).to_duckdb()
    counts = (f"count(*) FILTER (WHERE {condition})" for condition in conditions)
    with translate_duckdb_errors(SideInfo(name="plan", engine="duckdb", table=plan.table), plan):
        rows: list[tuple[Any, ...]] = relation.aggregate(", ".join((quoted(_FILE), *counts)), quoted(_FILE)).fetchall()
    return rows
