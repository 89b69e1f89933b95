"""Equality deletes by Apache Iceberg's own writer, because no SQL statement writes them."""

from typing import Any
from uuid import uuid4

from written_tables import Step, loaded


def equality_delete(
    *keys: str, where: str, equals: Any, whole: bool = False, format: str = "PARQUET", vacuous: bool = False
) -> Step:
    """Return a step that deletes by the keys of the rows in which a column has a value.

    Args:
        keys: Names of the key columns.
        where: The column.
        equals: The value. None for null.
        whole: If true, write one delete file for the whole table under the first spec, which must be unpartitioned.
            Otherwise, write one for each partition of the current spec with data.
        format: The file format.
        vacuous: If true, do nothing if there are no such rows.
    """

    def delete(spark: Any, table: str) -> None:
        iceberg = spark._jvm.org.apache.iceberg
        into = loaded(spark, table)
        named = spark._jvm.java.util.ArrayList(keys)
        schema = into.schema().select(named)
        expressions = iceberg.expressions.Expressions
        condition = expressions.isNull(where) if equals is None else expressions.equal(where, equals)
        rows = list(iceberg.data.IcebergGenerics.read(into).select(named).where(condition).build().iterator())
        if vacuous and not rows:
            return
        assert rows, "an equality delete of nothing shows nothing"
        ids = spark._sc._gateway.new_array(spark._jvm.int, len(keys))
        for place, key in enumerate(keys):
            ids[place] = into.schema().findField(key).fieldId()
        builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(into).equalityFieldIds(ids)
        shaped = builder.equalityDeleteRowSchema(schema).deleteFileFormat(getattr(iceberg.FileFormat, format))
        writers, delta = shaped.build(), into.newRowDelta()
        for spec, partition in [(into.specs().get(0), None)] if whole else _partitions(into):
            name = f"{uuid4()}-equality.{format.lower()}"
            file = into.io().newOutputFile(into.locationProvider().newDataLocation(name))
            output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(file)
            writer = writers.newEqualityDeleteWriter(output, spec, partition)
            for row in rows:
                writer.write(row)
            writer.close()
            delta.addDeletes(writer.toDeleteFile())
        delta.commit()

    return delete


def _partitions(table: Any) -> list[tuple[Any, Any]]:
    """Return the current spec with each of its partitions that has a file."""
    files = [task.file() for task in table.newScan().planFiles().iterator()]
    current = {str(f.partition().toString()): f.partition() for f in files if f.specId() == table.spec().specId()}
    return [(table.spec(), partition) for partition in current.values()]
