"""The options of a pull, and the rows that they select."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.registry import BATCH_ROWS
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arguments import check_arguments
from harness.metadata.model.arrow_values import scalar_of, to_numpy
from harness.metadata.model.schema import METADATA, Field, Schema
from harness.metadata.plan.scan_plan import without_deletes
from harness.metadata.planned_scan import PlannedScan
from harness.slices.anonymising.pseudonyms import Pseudonyms
from harness.storage.limits import contained
from harness.storage.threads import phase


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """The options of a pull.

    Attributes:
        where: A boolean SQL expression. None: all rows.
        last: The number of snapshots, up to and including the pulled snapshot.
        columns: The names of the slice's columns. None: all columns.
        exact: If True, keep only rows that match `where`.
        sample_rows: The number of rows. None: all rows.
        anonymise: The key that selects pseudonyms. None: values stay.
        statistics: If False, the metadata has no bounds and value counts, as far as the format permits.
        reverse: If True, the metadata lists files and manifests in reverse order.
        link: If True, unchanged files of the source become hard links. They must not be modified afterwards.
    """

    where: str | None = None
    last: int = 1
    columns: tuple[str, ...] | None = None
    exact: bool = False
    sample_rows: int | None = None
    anonymise: str | None = field(default=None, repr=False)
    statistics: bool = True
    reverse: bool = False
    link: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        check_arguments(
            {"where": self.where, "columns": self.columns, "anonymise": self.anonymise},
            ("where", "columns", "anonymise"),
        )
        _check_number(self.last, "last", 1)
        if self.sample_rows is not None:
            _check_number(self.sample_rows, "sample_rows", 1)
        if self.anonymise is not None and not self.anonymise:
            raise RequestError("Invalid anonymise='': expected a key", options=("anonymise",))
        for name in ("sample_rows", "anonymise"):
            if self.last > 1 and getattr(self, name) is not None:
                raise RequestError(
                    f"Cannot pull {self.last} snapshots with {name}: their rows differ; "
                    "leave one of the two options out",
                    options=(name,),
                )
        if self.columns is not None and not self.columns:
            raise RequestError("Invalid columns: expected at least one name", options=("columns",))

    @property
    def cuts_rows(self) -> bool:
        """True if data files may lose rows."""
        return self.exact or self.sample_rows is not None

    @property
    def rewrites_vectors(self) -> bool:
        """True if deletion vectors have to be rewritten."""
        return self.cuts_rows or self.anonymise is not None

    @property
    def rewrites(self) -> bool:
        """True if data files may be rewritten."""
        return self.rewrites_vectors or self.columns is not None

    def bound_columns(self, schema: Schema) -> tuple[Field, ...] | None:
        """Return the slice's columns, or None for all columns of the files.

        An anonymised slice has only the columns of the schema.
        """
        if self.columns is not None:
            return bind_columns(self.columns, schema)
        return None if self.anonymise is None else schema.fields

    def pseudonyms(self) -> Pseudonyms | None:
        """Return the pseudonyms, or None if values stay."""
        return None if self.anonymise is None else Pseudonyms(self.anonymise)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain values for the note, without defaults.

        The values of an anonymised table are left out.
        """
        requested = {
            "where": self.where if self.anonymise is None else None,
            "last": None if self.last == 1 else self.last,
            "columns": None if self.columns is None else list(self.columns),
            "exact": self.exact or None,
            "sample_rows": self.sample_rows,
            "anonymised": self.anonymise is not None or None,
        }
        return {name: value for name, value in requested.items() if value is not None}


def _check_number(value: object, name: str, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise RequestError(f"Invalid {name}={value!r}: expected a whole number of at least {minimum}", options=(name,))


RowPositions: TypeAlias = npt.NDArray[np.int64]
"""Positions of rows in a file, from 0, in ascending order."""
RowSelection: TypeAlias = Mapping[str, RowPositions]
"""The kept rows by physical path. Files without kept rows are absent."""


def select_rows(plans: Iterable[PlannedScan], request: SliceRequest) -> RowSelection | None:
    """Return the rows of the source's files that the slice keeps, or None if it keeps all of them.

    DuckDB finds their positions. A deleted row that matches the filter stays in its file together with its delete. A
    sample keeps the same share of deleted rows as of other rows.

    Args:
        plans: The reads of the slice's snapshots.
        request: The options.

    Raises:
        UnsupportedError: Two snapshots keep different rows of one file.
        HarnessError: A file cannot be read.
    """
    if not request.cuts_rows:
        return None
    result: dict[str, RowPositions] = {}
    for plan in plans:
        with phase("choosing rows"):
            plan_rows = _select_plan_rows(plan, request)
        for path, rows in plan_rows.items():
            if not np.array_equal(result.setdefault(path, rows), rows):
                raise UnsupportedError(
                    "Cannot cut rows: the filter selects different rows of this file in two snapshots, because a "
                    "column was renamed; pull one snapshot",
                    table=plan.table,
                    file=path,
                )
    return result


def _select_plan_rows(plan: PlannedScan, request: SliceRequest) -> dict[str, RowPositions]:
    filtered = plan if request.exact or request.sample_rows is not None else replace(plan, filter=None)
    rows = _read_positions(without_deletes(filtered))
    if request.sample_rows is None:
        return rows
    keys = {path: _sample_keys(path, positions) for path, positions in _read_positions(filtered).items()}
    all_keys = np.concatenate([np.empty(0, np.uint64), *keys.values()])
    if len(all_keys) <= request.sample_rows:
        return rows
    last = np.partition(all_keys, request.sample_rows - 1)[request.sample_rows - 1]
    sample = {path: positions[_sample_keys(path, positions) <= last] for path, positions in rows.items()}
    return {path: positions for path, positions in sample.items() if len(positions)}


def _read_positions(plan: PlannedScan) -> dict[str, RowPositions]:
    """Return the positions of the rows that a plan reads, by physical path."""
    physical = dict(zip(*(plan.files.column(name).to_pylist() for name in ("path", "physical")), strict=True))
    parts: dict[str, list[RowPositions]] = {}
    requested = replace(plan, columns=(METADATA["_file"], METADATA["_pos"]), statistics=None)
    from harness.engines.duckdb.engine import batches as read_batches

    with read_batches(requested, rows=BATCH_ROWS, context=lambda: contained(table=plan.table)) as batches:
        for batch in batches:
            encoded = pc.dictionary_encode(batch.column(0))
            for code, path in enumerate(encoded.dictionary.to_pylist()):
                positions = batch.column(1).filter(pc.equal(encoded.indices, scalar_of(code, pa.int32())))
                parts.setdefault(physical[path], []).append(to_numpy(positions))
    return {path: np.sort(np.concatenate(result)) for path, result in parts.items()}


def _sample_keys(path: str, rows: RowPositions) -> npt.NDArray[np.uint64]:
    """Return a pseudorandom number for each row, which is the same in every pull (splitmix64)."""
    start = int.from_bytes(hashlib.sha256(path.encode(errors="surrogatepass")).digest()[:8], "big")
    with np.errstate(over="ignore"):
        x = np.uint64(start) + (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)
