"""Avro data files: physical schema and all rows as Arrow. Delete files in Avro are read the same way.

Positions are ordinals over all blocks (iceberg 7.3), so rows come whole and in file order.
"""

from __future__ import annotations

import pyarrow as pa

from harness.errors import CorruptFileError
from harness.files.avro_columns import EmptyValues, TooManyError, column_of, read_records
from harness.files.avro_numbers import DAMAGE, FieldError, reason
from harness.files.avro_schema import parse_writer_schema
from harness.files.ocf import Cause, blocks, corrupt, read_header
from harness.limits import DEFAULT, Limits, refusal
from harness.model.file_schema import PhysicalSchema

_CAUSE: Cause = "CorruptDataFile"


def read_avro(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[PhysicalSchema, pa.Table]:
    """The columns of an Avro container and all its rows, in file order.

    The table's columns are the schema's, in order and by name. Ids come from `field-id`, `element-id`, `key-id` and
    `value-id`. Values keep their stored units; enums come as text, a UUID in fixed bytes as Arrow's uuid, a UUID in
    text as text.

    Raises:
        CorruptFileError: not an Avro container, cut, or damaged: a checksum, a length, or a value that its type does
            not have (iceberg 2.14, 7.3).
        EncryptedTableError: an encrypted stream.
        UnsupportedError: a codec outside iceberg 2.14, a union other than of null and one type, a recursive type (7.3).
        LimitError: it asks for more than `limits` allow.
    """
    header = read_header(data, file=file, cause=_CAUSE, limits=limits)
    root = parse_writer_schema(header.schema, file=file, limits=limits)
    column = column_of(root, EmptyValues(limits.empty_values))
    try:
        for count, block in blocks(data, header, file=file, cause=_CAUSE, limits=limits):
            read_records(column, block, count)
        array = column.array()
    except TooManyError as error:
        asked = f"more than {limits.empty_values:,} of its values have no byte"
        raise refusal("empty_values", asked, file=file) from error
    except CorruptFileError as error:
        raise error.within(file=file) from error.__cause__
    except (pa.ArrowException, OverflowError) as error:
        raise corrupt(f"a value does not fit its type: {error}", file, _CAUSE) from error
    except DAMAGE as error:
        path = ".".join(error.path) if isinstance(error, FieldError) else None
        raise corrupt(reason(error), file, _CAUSE, path) from error
    return root.fields(), pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def schema_of_avro(head: bytes, *, file: str, limits: Limits = DEFAULT) -> PhysicalSchema:
    """The columns of an Avro container, from its first bytes, which must hold the whole header; no record is read.

    Raises:
        CorruptFileError: not an Avro container, or `head` ends inside its header.
        EncryptedTableError, UnsupportedError, LimitError: as `read_avro`.
    """
    header = read_header(head, file=file, cause=_CAUSE, limits=limits)
    return parse_writer_schema(header.schema, file=file, limits=limits).fields()
