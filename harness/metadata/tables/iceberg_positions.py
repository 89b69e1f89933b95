"""The rows that an Iceberg snapshot deletes by position, as its delete files and deletion vectors list them.

A position counts once for a delete file, whether or not its data file is still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.errors import HarnessError
from harness.metadata.files.roaring import to_positions
from harness.metadata.iceberg.manifests import DataFile, ManifestEntry
from harness.metadata.iceberg.position_deletes import open_puffin, read_deletion_vector, read_positions
from harness.metadata.iceberg.source import ScanSource
from harness.metadata.model.arrow_values import from_numpy
from harness.metadata.model.schema import StructType
from harness.metadata.tables.reading import INT, LONG, TEXT, partition_column, schema_of, tuples_of

VECTOR_FORMAT = "puffin"


class _EveryPath:
    """The paths of all data files."""

    def __contains__(self, path: object) -> bool:
        return True


def positions_schema(partition: StructType | None) -> pa.Schema:
    """The columns of `position_deletes`. partition: the type of partition tuples, if there are any."""
    return schema_of(
        file_path=TEXT,
        pos=LONG,  # from 0
        **partition_column(partition),
        spec_id=INT,
        delete_file_path=TEXT,
        content_offset=LONG,  # of deletion vectors, as the size
        content_size_in_bytes=LONG,
    )


def position_deletes(entries: Sequence[ManifestEntry], source: ScanSource, partition: StructType | None) -> pa.Table:
    """The deleted positions of each delete file, in the order of the manifests.

    entries: live ones of position delete files and deletion vectors. partition: the type of partition tuples.

    Raises HarnessError: a delete file cannot be read; as for reads of rows.
    """
    schema = positions_schema(partition)
    tables = [schema.empty_table()]
    for entry in entries:
        try:
            tables += [_of_file(schema, entry.file, path, found, partition) for path, found in _read(entry, source)]
        except HarnessError as error:
            raise error.within(table=source.location) from error.__cause__
    return pa.concat_tables(tables)


def _read(entry: ManifestEntry, source: ScanSource) -> Iterator[tuple[str, BitMap64]]:
    """Data files, and their deleted positions."""
    file = entry.file
    physical = source.path_map.physical(file.path)
    if file.format == VECTOR_FORMAT:
        name = file.path if file.path == physical else f"{file.path} ({physical})"
        puffin = open_puffin(source.storage, physical, file=name)
        yield str(file.referenced_data_file), read_deletion_vector(puffin, entry, data_record_count=None)
    else:
        yield from read_positions(source.storage, physical, file, wanted=_EveryPath()).items()


def _of_file(schema: pa.Schema, file: DataFile, path: str, found: BitMap64, partition: StructType | None) -> pa.Table:
    positions = to_positions(found)
    same = {
        "file_path": path,
        "spec_id": file.spec_id,
        "delete_file_path": file.path,
        "content_offset": file.content_offset,
        "content_size_in_bytes": file.content_size,
    }
    size = len(positions)
    arrays = {name: pa.repeat(pa.scalar(value, schema.field(name).type), size) for name, value in same.items()}
    arrays["pos"] = from_numpy(np.asarray(positions, np.int64))
    if partition is not None:
        places = from_numpy(np.zeros(size, np.int64))
        arrays["partition"] = tuples_of([file.partition], partition).take(places)
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
