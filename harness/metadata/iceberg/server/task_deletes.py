"""The deletes of a server's plan, numbered and checked against the partitions of their data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.errors import InvalidTableError, StorageError
from harness.metadata.iceberg.delete_scope import DeleteScope, vector_of
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.planned_deletes import key_columns
from harness.metadata.iceberg.server.tasks import FileTask, ServerPlan
from harness.metadata.iceberg.values import Partitions, read_schema_first
from harness.metadata.model.arrow_values import array_of, first_repeated
from harness.metadata.model.schema import Schema
from harness.metadata.plan.deletes import (
    EqualityDelete,
    PathSpellings,
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    vectors_table,
)
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable
CLIENT = "open the table with planning='client'"
"""The remedy if only the metadata files contain the missing information."""


def refuse_duplicates(plan: ServerPlan, source: IcebergTable, catalog: str) -> None:
    """Raise InvalidTableError if a plan lists a data file twice, unless the user allows it (iceberg 2.13)."""
    paths = [task.file.path for task in plan.tasks]
    if len(frozenset(paths)) < len(paths) and not source.options.allow_duplicate_files:
        message = (
            f"Data file is twice in the plan of catalog {catalog}, so its rows are undefined. Allow duplicates to "
            f"read its rows twice, or {CLIENT}"
        )
        path = first_repeated(pa.chunked_array([array_of(paths, pa.string())]))
        raise InvalidTableError(message, cause="DuplicateDataFile", file=path, rule="iceberg 2.13")


@dataclass(frozen=True, slots=True)
class _Sources:
    """The numbers of a data file's equality delete set, and of its vector or set of position delete files."""

    equality: int
    vector: int | None = None
    files: int | None = None


@dataclass(slots=True, kw_only=True)
class TaskDeletes:
    """The deletes of a server's plan, numbered in the order of their first use by a data file.

    Attributes:
        deletes: All deletes of the plan.
        source: The table.
        partitions: The partition tuples of the plan.
        scope: The rules for partitions.
        spellings: The spellings of paths that the user's path map makes equal.
        live: The paths of all data files of the plan.
        catalog: The name of the catalog, for messages.
        equality: The number of each equality delete that was used, by its index in `deletes`.
        equality_sets: The number of each set of equality deletes.
        files: The number of each position delete file, by its index in `deletes`.
        file_sets: The number of each set of position delete files.
        vectors: The number of each deletion vector, by its index in `deletes`.
    """

    deletes: Sequence[DataFile]
    source: IcebergTable
    partitions: Partitions
    scope: DeleteScope
    spellings: PathSpellings
    live: frozenset[str]
    catalog: str
    equality: dict[int, int] = field(default_factory=dict)
    equality_sets: dict[tuple[int, ...], int] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    file_sets: dict[PositionFiles, int] = field(default_factory=dict)
    vectors: dict[int, int] = field(default_factory=dict)
    _scopes: set[tuple[int, int]] = field(default_factory=set)

    @staticmethod
    def of(plan: ServerPlan, source: IcebergTable, schema: Schema, catalog: str) -> TaskDeletes:
        """Return the deletes of a plan.

        Raises:
            InvalidTableError: A data file is in the plan twice.
            StorageError: The plan lists a delete that it applies to no data file, so a data file may lack this delete.
        """
        refuse_duplicates(plan, source, catalog)
        metadata, used = source.metadata, {place for task in plan.tasks for place in task.deletes}
        partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
        deletes = TaskDeletes(
            deletes=plan.deletes,
            source=source,
            partitions=partitions,
            scope=DeleteScope(
                partition_of=lambda file: partitions.key_of(file.spec_id, file.partition),
                specs=metadata.specs,
                lenient=source.options.lenient_delete_partition,
            ),
            spellings=PathSpellings(source.path_map, metadata.location, source.location, source.storage.untrusted),
            live=frozenset(task.file.path for task in plan.tasks),
            catalog=catalog,
        )
        for place, delete in enumerate(plan.deletes):
            if place not in used:
                raise deletes._error("lists a delete that it applies to no data file", delete, "4.1")
        return deletes

    def add(self, task: FileTask, partition: int) -> _Sources:
        """Check that the deletes of a data file may apply to it, and return their numbers.

        Args:
            task: The data file.
            partition: The index of its partition.
        """
        if not task.deletes:
            return _Sources(self.equality_sets.setdefault((), len(self.equality_sets)))
        equality: list[int] = []
        files: list[int] = []
        vector: int | None = None
        for place in task.deletes:
            delete = self.deletes[place]
            if delete.content is Content.EQUALITY_DELETES:
                self._check_equality_scope(place, task.file, partition)
                equality.append(self.equality.setdefault(place, len(self.equality)))
                continue
            is_vector = delete.format == "puffin"
            self.scope.check_target(delete, task.file, rule="iceberg 4.3" if is_vector else "iceberg 4.4")
            if is_vector:
                vector = self.vectors.setdefault(place, len(self.vectors))
            else:
                files.append(place)
        set_number = self.equality_sets.setdefault(tuple(sorted(equality)), len(self.equality_sets))
        # A data file with a vector ignores position delete files (iceberg 4.5).
        if vector is not None or not files:
            return _Sources(set_number, vector=vector)
        applied = PositionFiles(tuple(self.files.setdefault(place, len(self.files)) for place in files))
        return _Sources(set_number, files=self.file_sets.setdefault(applied, len(self.file_sets)))

    def _target(self, delete: DataFile) -> RecordedPath | None:
        """Return the path of the data file that a delete names, in the plan's spelling."""
        target = delete.referenced_data_file
        if target is None or target in self.live:
            return target
        return self.spellings.equivalent_path(target, self.live) or target

    def _check_equality_scope(self, place: int, data: DataFile, partition: int) -> None:
        if (place, partition) in self._scopes:
            return
        delete = self.deletes[place]
        if self.scope.equality_delete_partition(delete) not in (None, self.scope.partition_of(data)):
            reason = (
                f"applies an equality delete of spec {delete.spec_id} and partition {dict(delete.partition)} to "
                f"{data.path} of spec {data.spec_id} and partition {dict(data.partition)}"
            )
            raise self._error(reason, delete, "4.6")
        self._scopes.add((place, partition))

    def equality_deletes(self) -> tuple[EqualityDelete, ...]:
        """Return the equality deletes that were used, by number."""
        schemas = self.partitions.schemas
        return tuple(
            EqualityDelete(
                path=delete.path,
                physical=self.source.path_map.physical(delete.path),
                format=delete.format,
                keys=key_columns(delete.equality_ids or (), schemas, file=delete.path),
                sequence_number=None,
                partition=None
                if self.scope.equality_delete_partition(delete) is None
                else self.partitions.index_of(delete.spec_id, delete.partition),
                record_count=delete.record_count,
            )
            for delete in map(self.deletes.__getitem__, self.equality)
        )

    def position_deletes(self) -> PositionDeletes:
        """Return the position deletes that were used, by number."""
        path_map = self.source.path_map
        vectors, files = ([self.deletes[place] for place in places] for places in (self.vectors, self.files))
        return PositionDeletes(
            files=tuple(
                PositionDeleteFile(
                    path=delete.path,
                    physical=path_map.physical(delete.path),
                    format=delete.format,
                    sequence_number=None,
                    partition=self.partitions.index_of(delete.spec_id, delete.partition),
                    target=self._target(delete),
                    record_count=delete.record_count,
                )
                for delete in files
            ),
            vectors=vectors_table([vector_of(delete, path_map.physical(delete.path)) for delete in vectors]),
            sets=tuple(self.file_sets),
        )

    def _error(self, reason: str, delete: DataFile, rule: str) -> StorageError:
        message = f"Catalog {self.catalog} returned an invalid plan: it {reason}; {CLIENT}"
        return StorageError(message, cause="CatalogAnswer", file=delete.path, rule=f"iceberg {rule}")
