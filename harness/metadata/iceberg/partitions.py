"""Partition tuples of a table: their types, their equality, and the constants that they give to columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any

from harness.errors import UnsupportedError
from harness.metadata.iceberg.manifest_entries import DataFile
from harness.metadata.iceberg.metadata import TableMetadata
from harness.metadata.iceberg.specs import PartitionSpec
from harness.metadata.iceberg.transforms import Identity, UnknownTransform
from harness.metadata.iceberg.values import partition_key, partition_types
from harness.metadata.model.schema import Field, Schema, Type
from harness.metadata.plan.scan_plan import Partition
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Partitions:
    """The distinct partition tuples of the files of one scan, numbered as they come.

    schemas: all schemas of the table, that of the read first, then the newest: they give partition values their types.
    """

    specs: Mapping[int, PartitionSpec]
    schemas: tuple[Schema, ...]
    _types: dict[int, dict[int, Type]] = field(default_factory=dict)
    _indexes: dict[Hashable, int] = field(default_factory=dict)
    _tuples: list[Partition] = field(default_factory=list)

    def key(self, file: DataFile) -> Hashable:
        """Equal for files of one partition: same spec, equal tuple (iceberg 2.18, 4.1)."""
        return self.key_of(file.spec_id, file.partition)

    def key_of(self, spec_id: int, values: Mapping[int, Any]) -> Hashable:
        """As `key`, for a tuple of a spec."""
        types = self._types_of(spec_id)
        return partition_key(spec_id, values, types) if types else spec_id

    def index(self, file: DataFile) -> int:
        """The number of a file's partition."""
        return self.index_of(file.spec_id, file.partition)

    def index_of(self, spec_id: int, values: Mapping[int, Any]) -> int:
        """As `index`, for a tuple of a spec."""
        key = self.key_of(spec_id, values)
        found = self._indexes.get(key)
        if found is None:
            found = self._indexes[key] = len(self._tuples)
            self._tuples.append(self._partition(spec_id, values))
        return found

    def all(self) -> tuple[Partition, ...]:
        """Every partition so far, by number."""
        return tuple(self._tuples)

    def _types_of(self, spec_id: int) -> dict[int, Type]:
        if spec_id not in self._types:
            fields = self.specs[spec_id].fields if spec_id in self.specs else ()
            self._types[spec_id] = partition_types(PartitionSpec(spec_id, fields), self.schemas)
        return self._types[spec_id]

    def _partition(self, spec_id: int, values: Mapping[int, Any]) -> Partition:
        spec = self.specs.get(spec_id)
        constants = {
            part.source_id: values.get(part.field_id)
            for part in (spec.fields if spec is not None else ())
            if isinstance(part.transform, Identity) and part.source_id is not None
        }
        names = {part.field_id: part.name for part in (spec.fields if spec is not None else ())}
        return Partition(spec_id=spec_id, values=dict(values), constants=constants, names=names)


def all_partition_fields(metadata: TableMetadata, schemas: tuple[Schema, ...]) -> tuple[Field, ...]:
    """The fields of all partition specs in ascending order of id, with the types of their values (iceberg 5.17).

    Raises:
        UnsupportedError: a transform's result type is unknown.
    """
    found: dict[int, Field] = {}
    for spec in metadata.specs.values():
        types = partition_types(spec, schemas)
        for part in spec.fields:
            if isinstance(part.transform, UnknownTransform):
                raise UnsupportedError(
                    f"Cannot show _partition: its field {part.name!r} has the unknown transform {part.transform}",
                    cause="UnsupportedType",
                    field="_partition",
                    rule="iceberg 5.17",
                )
            found.setdefault(part.field_id, Field(id=part.field_id, name=part.name, type=types[part.field_id]))
    return tuple(found[field_id] for field_id in sorted(found))
