"""Files without a column, whose rows are only a number in the footer.

Writers leave out the columns that they need not store (partition columns of Delta tables) or cannot store (void,
unknown), and a file may be left with none. DuckDB refuses such a Parquet file, and Spark's Parquet and ORC readers
refuse it or find no row in it. So engines read no such file: they count its rows up to the number in its footer. What a
table's metadata says of the number is held against it, because nothing else in the file could show that rows are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from harness.engines.shared.data_files import FileName, look_at
from harness.engines.shared.stored_files import opened
from harness.errors import HarnessError
from harness.files.arrow_parquet import row_count
from harness.storage.stores import Storage


def columnless_rows(files: Sequence[FileName], storage: Storage) -> dict[str, int]:
    """The row counts of the Parquet files without a column among `files`, by physical path, from their footers.

    A file that cannot be read is left out: who reads it for its columns says why.

    Raises:
        CorruptFileError: a footer's row groups have other rows than it counts in all.
    """
    counts = look_at(lambda file: _rows(file, storage), files, [file.physical for file in files])
    return {file.physical: count for file, count in zip(files, counts, strict=True) if count is not None}


def _rows(file: FileName, storage: Storage) -> int | None:
    from pyarrow import parquet

    try:
        footer = parquet.read_metadata(opened(file, storage))
    except (HarnessError, pa.ArrowException, OSError, UnicodeError):  # the last: of a message with bytes of the file
        return None
    if footer.num_columns:
        return None
    return row_count(footer, file=str(file))
