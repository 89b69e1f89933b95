"""Commands that read a table with a reader: Python code, or a script of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import sqlglot

from harness.suite.reader import At, TableAt
from harness.suite.readers import PINNED


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandTemplate:
    """The template of a reader's commands. Placeholders are in braces.

    Attributes:
        code: The command, with `place` (metadata file or directory), `location`, `metadata` (file name), and the parts
            below.
        columns: The selected columns, with `names` or `columns_text`.
        where: The filter, with `text`, a condition in `dialect`.
        every: The text for all columns.
        dialect: The SQL dialect of the filter.
        quote: The quotation mark around names.
        at: For each kind of a point in history, its text with `value` and `moment`.
    """

    code: str
    columns: str
    where: str
    every: str = ""
    dialect: str = "duckdb"
    quote: str = ""
    at: Mapping[str, str] = field(default_factory=dict)


def _sql(code: str, dialect: str, at: Mapping[str, str]) -> _CommandTemplate:
    return _CommandTemplate(
        code=code, columns="{listed}", every="*", where=" WHERE {text}", dialect=dialect, quote='"', at=at
    )


def _spark(format: str) -> _CommandTemplate:
    pinned = PINNED[format]
    settings = " ".join(f"--conf {name}={value}" for name, value in pinned["settings"].items())
    start = f"# pyspark {pinned['pyspark']}: pyspark --packages {','.join(pinned['packages'])} {settings}"
    version = '.option("versionAsOf", {value!r})'
    return _CommandTemplate(
        code=f'{start}\nspark.read.format("{format}"){{at}}.load({{place!r}}){{where}}{{columns}}.show(truncate=False)',
        columns=".select(*{names!r})",
        where=".where({text!r})",
        dialect="spark",
        quote="`",
        at={
            "snapshot_id": version,
            "version": version,
            "ref": version,
            "timestamp_ms": '.option("timestampAsOf", {moment!r})',
        },
    )


def _polars(call: str, at: Mapping[str, str]) -> _CommandTemplate:
    return _CommandTemplate(
        code=f"import polars as pl\nprint(pl.{call}{{where}}{{columns}}.collect())",
        columns=".select(*{names!r})",
        where=".filter(pl.sql_expr({text!r}))",
        at=at,
    )


def _daft(call: str, at: Mapping[str, str]) -> _CommandTemplate:
    return _CommandTemplate(
        code=f"import daft\nprint(daft.{call}{{where}}{{columns}}.to_arrow())",
        columns=".select(*{names!r})",
        where=".where(daft.sql_expr({text!r}))",
        at=at,
    )


_TRINO_AT = {
    "snapshot_id": " FOR VERSION AS OF {value}",
    "version": " FOR VERSION AS OF {value}",
    "ref": " FOR VERSION AS OF '{value}'",
    "timestamp_ms": " FOR TIMESTAMP AS OF TIMESTAMP '{moment} UTC'",
}
_PYICEBERG = """from pyiceberg.table import StaticTable
table = StaticTable.from_metadata({place!r})
print(table.scan({at}{where}{columns}).to_arrow())"""
_DELTALAKE = """from deltalake import DeltaTable, QueryBuilder
table = DeltaTable({place!r})
{at}print(QueryBuilder().register("t", table).execute('''SELECT {columns} FROM t{where}''').read_all())"""
_TEMPLATES: Mapping[str, Mapping[str, _CommandTemplate]] = {
    "iceberg": {
        "DuckDB": _sql(
            "INSTALL iceberg; LOAD iceberg;\nSELECT {columns} FROM iceberg_scan('{place}'{at}){where};",
            "duckdb",
            {
                "snapshot_id": ", snapshot_from_id => {value}",
                "timestamp_ms": ", snapshot_from_timestamp => TIMESTAMP '{moment}'",
            },
        ),
        "Spark": _spark("iceberg"),
        "Trino": _sql(
            "-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true\n"
            "CALL iceberg.system.register_table('default', 't', 'file://{location}', '{metadata}');\n"
            "SELECT {columns} FROM iceberg.default.t{at}{where};",
            "trino",
            _TRINO_AT,
        ),
        "ClickHouse": _sql(
            "-- clickhouse local, started in /\nSELECT {columns} FROM icebergLocal('{location}', "
            "SETTINGS iceberg_metadata_file_path = 'metadata/{metadata}'){where}{at};",
            "clickhouse",
            {
                "snapshot_id": " SETTINGS iceberg_snapshot_id = {value}",
                "timestamp_ms": " SETTINGS iceberg_timestamp_ms = {value}",
            },
        ),
        "PyIceberg": _CommandTemplate(
            code=_PYICEBERG,
            columns="selected_fields={names!r}",
            where="row_filter={text!r}, ",
            at={
                "snapshot_id": "snapshot_id={value}, ",
                "ref": "snapshot_id=table.snapshot_by_name({value!r}).snapshot_id, ",
                "timestamp_ms": "snapshot_id=table.snapshot_as_of_timestamp({value}).snapshot_id, ",
            },
        ),
        "Polars": _polars("scan_iceberg({place!r}{at})", {"snapshot_id": ", snapshot_id={value}"}),
        "Daft": _daft("read_iceberg({place!r}{at})", {"snapshot_id": ", snapshot_id={value}"}),
    },
    "delta": {
        "DuckDB": _sql(
            "INSTALL delta; LOAD delta;\nSELECT {columns} FROM delta_scan('{place}'{at}){where};",
            "duckdb",
            {"version": ", version => {value}"},
        ),
        "Spark": _spark("delta"),
        "Trino": _sql(
            "-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true\n"
            "CALL delta.system.register_table('default', 't', 'file://{location}');\n"
            "SELECT {columns} FROM delta.default.t{at}{where};",
            "trino",
            _TRINO_AT,
        ),
        "ClickHouse": _sql(
            "-- clickhouse local, started in /\nSELECT {columns} FROM deltaLakeLocal('{location}'){where}{at};",
            "clickhouse",
            {"version": " SETTINGS delta_lake_snapshot_version = {value}"},
        ),
        "deltalake": _sql(
            _DELTALAKE,
            "duckdb",
            {
                "version": "table.load_as_version({value})\n",
                "timestamp_ms": "table.load_as_version({moment!r} + 'Z')\n",
            },
        ),
        "Polars": _polars("scan_delta({place!r}{at})", {"version": ", version={value}"}),
        "Daft": _daft("read_deltalake({place!r}{at})", {"version": ", version={value}"}),
    },
}


def commands(table: TableAt, columns: tuple[str, ...] | None, where: str | None) -> dict[str, str]:
    """Return the command of each reader that can express the read, by the reader's name.

    Python code ends with a `print` of the rows, or with Spark's `show`.

    Args:
        table: The table.
        columns: The selected columns. None means all.
        where: A boolean expression in DuckDB's dialect. None means every row.
    """
    templates = _TEMPLATES[table.format].items()
    return {
        reader: _fill(template, table, columns, where)
        for reader, template in templates
        if table.at is None or table.at.kind in template.at
    }


def _fill(template: _CommandTemplate, table: TableAt, columns: tuple[str, ...] | None, where: str | None) -> str:
    at = "" if table.at is None else template.at[table.at.kind].format(value=table.at.value, moment=_moment(table.at))
    columns_text = template.every
    if columns is not None:
        q = template.quote
        names = tuple(f"{q}{name.replace(q, q * 2)}{q}" if q else name for name in columns)
        columns_text = template.columns.format(names=names, listed=", ".join(names))
    condition = ""
    if where is not None:
        condition = template.where.format(text=sqlglot.transpile(where, read="duckdb", write=template.dialect)[0])
    return template.code.format(
        place=table.location if table.metadata_path is None else table.metadata_path,
        location=table.location,
        metadata="" if table.metadata_path is None else Path(table.metadata_path).name,
        at=at,
        columns=columns_text,
        where=condition,
    )


def _moment(at: At) -> str:
    """Return the UTC time of a point in history, or an empty text if it is not a time."""
    if at.kind != "timestamp_ms":
        return ""
    return datetime.fromtimestamp(int(at.value) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
