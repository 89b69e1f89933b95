"""What the driver learns of an Avro or ORC file before its rows are read: its columns, and in ORC how many rows it has.

Only an end of the file is read: the header of an Avro container, the footer of an ORC file.
"""

from __future__ import annotations

from harness.engines.shared.data_files import FileName, check_file, check_format
from harness.engines.shared.stored_files import opened
from harness.errors import CorruptFileError, HarnessError
from harness.files.avro import schema_of_avro
from harness.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.plan.projection import PhysicalSchema
from harness.storage.stores import Storage

_FIRST_BYTES = 1 << 16


def read_head(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, int | None]:
    """The columns of an Avro or ORC file, and its number of rows; None: only reading the file tells (avro).

    Raises:
        UnsupportedError: another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError: naming the file.
    """
    check_format(file, file_format, table=table)
    check_file(file, storage, table=table)
    try:
        if file_format == "avro":
            return _avro_schema(file, storage), None
        return schema_of_orc(opened(file, storage), file=str(file))
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


def read_orc_traits(file: FileName, storage: Storage) -> OrcTraits:
    """What the footer of an ORC file says beside its columns.

    Raises:
        MissingFileError, CorruptFileError, UnsupportedError: naming the file.
    """
    return orc_traits(opened(file, storage), file=str(file))


def _avro_schema(file: FileName, storage: Storage) -> PhysicalSchema:
    """Schemas are small as a rule; a header beyond the first bytes is read again, with twice as many."""
    length, size = _FIRST_BYTES, storage.size(file.physical)
    while length < size:
        try:
            return schema_of_avro(storage.read(file.physical, length=length), file=str(file), limits=storage.limits)
        except CorruptFileError:
            length *= 4
    return schema_of_avro(storage.read(file.physical), file=str(file), limits=storage.limits)
