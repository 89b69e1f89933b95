"""Equality deletes by Apache Iceberg's own writer; no SQL writes them."""

from typing import Any
from uuid import uuid4

from written_tables import Step, loaded


def equality_delete(
    *keys: str, where: str, equals: Any, whole: bool = False, format: str = "PARQUET", vacuous: bool = False
) -> Step:
    """Deletes by the keys of those rows in which a column has a value; None: in which it is null.

    keys: names of columns. whole: one delete file for the whole table, by the first spec, which must not partition;
    otherwise one for each partition that has data by the current spec. vacuous: where there are no such rows,
    nothing is done.
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
    """The current spec, with each of its partitions that has a file."""
    files = [task.file() for task in table.newScan().planFiles().iterator()]
    current = {str(f.partition().toString()): f.partition() for f in files if f.specId() == table.spec().specId()}
    return [(table.spec(), partition) for partition in current.values()]
