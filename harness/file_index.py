"""The file index of a snapshot: live files grouped by partition and listed under filters, as Spark's `FileIndex` does.

A `ScanPlan` holds the five answers that Spark wants from an index (delta F14): the place of the table, its partition
columns, its files, their size, and the files that a query needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, RequestError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.predicate import Filter, all_of, is_decided
from harness.metadata.model.arrow_values import to_numpy
from harness.metadata.model.schema import Field, Schema
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import is_local

_UNESCAPED = "/!$&'()*+,;=:@"  # what may stand in the path of a URI beside letters, digits and -._~


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A live file.

    path: as recorded. physical: where the bytes are. size: bytes, as recorded.
    record_count: physical rows; None: unknown. ordinal: its index in the files of the plan that listed it.
    """

    path: str
    physical: str
    size: int | None
    record_count: int | None
    ordinal: int

    @property
    def uri(self) -> str:
        """The physical path as an absolute, percent-encoded URI."""
        return file_uri(self.physical)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """The files of one partition.

    values: by name of the partition column, internal values (see `harness.metadata.model.schema`).
    """

    values: Mapping[str, Any] = field(hash=False)
    files: tuple[IndexedFile, ...]


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index of one snapshot.

    plan_files: plans a read of the snapshot: (columns, filter).
    everything: the plan without a filter. root_paths: the table's location.
    """

    plan_files: Callable[[Sequence[str] | None, Filter | None], PlannedScan] = field(repr=False)
    everything: PlannedScan = field(repr=False)
    root_paths: tuple[str, ...]

    @property
    def partition_schema(self) -> Schema:
        """The columns whose values are constant in every file, in the order of the table's schema."""
        constant = set[int]()
        for number, partition in enumerate(self.everything.partitions):
            ids = set(partition.constants)
            constant = ids if number == 0 else constant & ids
        return Schema(fields=tuple(f for f in self.everything.schema.fields if f.id in constant))

    @property
    def input_files(self) -> tuple[str, ...]:
        """URIs of all live files, sorted."""
        return tuple(sorted(map(file_uri, self.everything.files.column("physical").to_pylist())))

    @property
    def size_in_bytes(self) -> int:
        """The recorded sizes of all live files together; deleted rows count like others."""
        return int(pc.sum(self.everything.files.column("size")).as_py() or 0)

    def list_files(
        self, partition_filters: Sequence[str] = (), data_filters: Sequence[str] = ()
    ) -> tuple[PartitionDirectory, ...]:
        """The files that may hold rows which satisfy all filters, by partition; every file is in one directory.

        Args:
            partition_filters: SQL conditions on partition columns alone; they decide exactly (delta F1).
            data_filters: other SQL conditions; statistics decide, and what they cannot exclude stays.

        Raises RequestError: a filter cannot be parsed, or a partition filter mentions another column.
        """
        if isinstance(partition_filters, str) or isinstance(data_filters, str):
            raise RequestError("Invalid filters: expected lists of conditions", table=self.everything.table)
        schema = self.everything.schema
        try:
            exact = [self._partition_filter(text) for text in partition_filters]
            filters = [*exact, *(parse_filter(text, schema) for text in data_filters)]
        except HarnessError as error:
            raise error.within(table=self.everything.table, snapshot=self.everything.snapshot) from error.__cause__
        plan = self.plan_files(None, all_of(filters, schema)) if filters else self.everything
        return tuple(_directories(plan, self.partition_schema.fields))

    def _partition_filter(self, text: str) -> Filter:
        condition = parse_filter(text, self.everything.schema)
        columns = self.partition_schema.fields
        if not is_decided(condition.predicate) or not {f.id for f in condition.columns} <= {f.id for f in columns}:
            raise RequestError(
                f"Invalid partition filter {text!r}: expected conditions that planning can decide, on "
                f"{', '.join(f.name for f in columns) or 'no columns'}; give others as data filters"
            )
        return condition


def file_uri(physical: str) -> str:
    """A physical path as an absolute URI, percent-encoded."""
    if is_local(physical):
        return "file://" + quote(physical, safe=_UNESCAPED)
    scheme, rest = physical.split("://", 1)
    return f"{scheme}://{quote(rest, safe=_UNESCAPED)}"


def _directories(plan: PlannedScan, columns: Sequence[Field]) -> Iterator[PartitionDirectory]:
    """The files of a plan by partition, in the order of the partitions' first files."""
    files = plan.files
    numbers = to_numpy(files.column("partition"))
    order = np.argsort(numbers, kind="stable")
    bounds = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=-1))
    groups = [order[start:stop] for start, stop in itertools.pairwise(bounds)]
    for members in sorted(groups, key=lambda group: int(group[0])):
        partition = plan.partitions[int(numbers[members[0]])]
        yield PartitionDirectory(
            values={f.name: partition.constants.get(f.id) for f in columns}, files=_files(files, members.tolist())
        )


def _files(files: pa.Table, ordinals: Sequence[int]) -> tuple[IndexedFile, ...]:
    rows = files.select(["path", "physical", "size", "record_count"]).take(ordinals).to_pylist()
    return tuple(IndexedFile(ordinal=ordinal, **row) for ordinal, row in zip(ordinals, rows, strict=True))
