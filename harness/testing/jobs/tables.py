"""The tables of a job under test: tables that it reads by name or path, and the record of its writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from inspect import signature
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from harness.errors import RequestError, TableNotFoundError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, nearest_names, parse_name
from harness.metadata.files.parquet import open_parquet
from harness.metadata.model.arguments import check_arguments
from harness.snapshot import Changes, Snapshot
from harness.storage.paths import is_local, local_path
from harness.table import Table, open_table
from harness.testing.jobs.reading import JobTable, at_version, frame_rows, names_point, planned_rows, read_point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_CHANGES = ("merge", "update", "delete")
_WHOLE = frozenset({"create", "replace", "createOrReplace", "overwrite", *_CHANGES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of a job.

    Attributes:
        mode: `append`, `overwrite`, `overwritePartitions`, `create`, `replace`, `createOrReplace`, `merge`, `update` or
            `delete`. For the last three, the rows are all rows of the table after the statement.
        schema: The schema of the rows, in Spark's types.
        directory: The directory with the rows as Parquet, or None if there are no rows, as for `CREATE TABLE`.
        partitioned_by: The table's partitioning as Spark writes it, for example `days(ts)`. Empty if there is none, or
            if it is not known.
        where: The condition for the rows that an overwrite replaces. None: all rows.
        options: The options of the write.
    """

    mode: str
    schema: StructType
    directory: Path | None
    partitioned_by: tuple[str, ...] = ()
    where: str | None = None
    options: Mapping[str, str] | None = None

    @property
    def is_whole(self) -> bool:
        """True if the write replaced all earlier rows."""
        return self.mode in _WHOLE and self.where is None

    @property
    def is_known(self) -> bool:
        """True if the table's content is known after the write, provided that it was known before."""
        return self.is_whole or self.mode == "append"

    @property
    def rows(self) -> pa.Table:
        """The written rows in any order, with instants in UTC."""
        from pyspark.sql.pandas.types import to_arrow_schema

        has_zone = "timezone" in signature(to_arrow_schema).parameters  # since Spark 4.1
        zone: dict[str, Any] = {"timezone": "UTC"} if has_zone else {}
        schema = to_arrow_schema(self.schema, **zone)
        files = [] if self.directory is None else sorted(self.directory.rglob("*.parquet"))
        tables = [open_parquet(file).read().select(schema.names).cast(schema) for file in files]
        return pa.concat_tables([schema.empty_table(), *tables])


def overwrite_mode(options: Mapping[str, str], *, dynamic: bool = False) -> tuple[str, str | None]:
    """Return the mode of an overwrite, and the condition that selects the replaced rows.

    Args:
        options: The options of Delta's and Iceberg's writers.
        dynamic: True if the session overwrites only partitions that the new rows have.
    """
    settings = {name.lower().removeprefix("option."): value for name, value in options.items()}
    if "replacewhere" in settings:
        return "overwrite", settings["replacewhere"]
    modes = (settings.get("partitionoverwritemode"), settings.get("overwrite-mode"))
    mode = next((mode for mode in modes if mode is not None), "dynamic" if dynamic else "static")
    return ("overwritePartitions" if mode.lower() == "dynamic" else "overwrite"), None


def after_last_overwrite(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """Return the writes starting with the last one that replaced all rows."""
    starts = [number for number, write in enumerate(writes) if write.is_whole]
    return writes[starts[-1] :] if starts else writes


DESCRIBE = "describe "
"""A prefix for the names of tables that Delta's statements read. Metadata tables have no blank in their names."""
_MS = pa.timestamp("ms", "UTC")


def _describe_detail(table: Table) -> pa.Table:
    """Return the columns of DESCRIBE DETAIL on Spark.

    Spec: Delta, "Retrieve Delta table details".
    """
    description = table.describe()
    protocol = description["protocol"]
    features = {*(protocol["reader_features"] or ()), *(protocol["writer_features"] or ())}
    texts = pa.list_(pa.string())
    columns: dict[str, tuple[object, pa.DataType]] = {
        "format": ("delta", pa.string()),
        "id": (description["uuid"], pa.string()),
        "name": (description["name"], pa.string()),
        "description": (description["description"], pa.string()),
        "location": (table.location, pa.string()),
        "createdAt": (description["created_time_ms"], _MS),
        "lastModified": (description["timestamp_ms"], _MS),
        "partitionColumns": (description["partition_columns"], texts),
        "clusteringColumns": ([], texts),
        "numFiles": (description["files"], pa.int64()),
        "sizeInBytes": (description["bytes"], pa.int64()),
        "properties": (list(description["properties"].items()), pa.map_(pa.string(), pa.string())),
        "minReaderVersion": (protocol["min_reader_version"], pa.int32()),
        "minWriterVersion": (protocol["min_writer_version"], pa.int32()),
        "tableFeatures": (sorted(features), texts),
    }
    return pa.table({name: pa.array([value], type_) for name, (value, type_) in columns.items()})


def _arrow_rows(name: str, rows: pa.Table) -> JobTable:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema)
    assert isinstance(schema, StructType)
    return frame_rows(name, schema, lambda spark: spark.createDataFrame(rows, schema))


_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def partitioned_by(table: Table) -> tuple[str, ...]:
    """Return the current partitioning, for example `region`, `days(ts)`, `bucket(4, id)`. Empty if there is none."""
    if table.format == "delta":
        return tuple(f.name for f in table._source.latest.columns.partition_columns)  # type: ignore[union-attr]
    metadata = table._source.metadata  # type: ignore[union-attr]
    names = {f.id: f.name for f in table.schema.fields}
    transforms = []
    for f in metadata.specs[metadata.default_spec_id].fields:
        transform, _, width = str(f.transform).rstrip("]").partition("[")
        columns = [names.get(id_, f.name) for id_ in f.source_ids]
        if transform == "identity":
            transforms.append(columns[0])
        elif transform != "void":
            transforms.append(
                f"{_TIMES.get(transform, transform)}({', '.join([width, *columns] if width else columns)})"
            )
    return tuple(transforms)


SESSION_CATALOG = "spark_catalog"
DEFAULT_CATALOG = "harness"
NAMELESS = (SESSION_CATALOG, DEFAULT_CATALOG)
"""Spark's catalogs for tables that are named without a catalog."""
PATH_CATALOGS = ("iceberg", "delta")
_TIMESTAMP = "timestamp"
"""The option for `TIMESTAMP AS OF`, in milliseconds since 1970-01-01 UTC. No real reader has this option."""
_MISSING = frozenset({"NoSuchTable", "NoSuchNamespace"})


@dataclass(slots=True)
class WrittenTable:
    """A table that the job wrote to.

    Attributes:
        created: The schema, if the job created the table, or None if it existed before.
        partitioned_by: The partitioning, if the job created the table.
        writes: The writes, in order.
    """

    created: StructType | None = None
    partitioned_by: tuple[str, ...] = ()
    writes: list[Write] = field(default_factory=list)


class JobTables:
    """The tables of a job, by name.

    Attributes:
        sources: The test's tables by name: locations, opened tables, snapshots, or builders with a `location`.
        catalog: A catalog that finds further tables, with its own name before them or without.
        zone: The time zone of times without one.
        targets: The tables that the job wrote to.
        scratch: The folder of written rows, or None if nothing was written.
    """

    def __init__(self, sources: Mapping[str, object], catalog: Catalog | None, *, zone: str) -> None:
        self.sources: dict[Name, object] = {}
        self.add(sources)
        self.catalog = catalog
        self.zone = zone
        self.targets: dict[Name, WrittenTable] = {}
        self.scratch: Path | None = None
        self._numbers = count(1)

    def add(self, sources: Mapping[str, object]) -> None:
        """Add further names, or replace the tables of existing names."""
        check_arguments({"tables": sources})
        self.sources |= {_parse_table_name(name): source for name, source in sources.items()}

    def catalog_names(self) -> tuple[str, ...]:
        """Return the names of the Spark catalogs that these tables need."""
        catalogs = [name[0] for name in self.sources if len(name) > 2]
        return tuple(dict.fromkeys([*catalogs, *([] if self.catalog is None else [self.catalog.name])]))

    def key_of(self, catalog: str, namespace: Sequence[str], name: str) -> Name:
        """Return the key of a table, which is its name without the session's catalog and without `default`."""
        parts = (*namespace, name)
        if catalog not in NAMELESS:
            return _folded((catalog, *parts))
        return _folded(parts[1:] if len(parts) == 2 and parts[0] == "default" else parts)

    def load(self, key: Name, version: str | None = None, timestamp_us: int | None = None) -> JobTable | None:
        """Return the table of that name, or a metadata table of it, or None if there is none."""
        point = {} if version is None else {"versionAsOf": version}
        if timestamp_us is not None:
            point[_TIMESTAMP] = str(timestamp_us // 1000)
        if key[0] in PATH_CATALOGS and len(key) in (2, 3) and _is_path(key[1]):
            return self._load_location("#".join(key[1:]), point)
        return self._find_table(name_text(key), key, point)

    def target_key(self, key: Name) -> Name:
        """Return the key of a written table. It is the same if a job writes to a source by name and by path."""
        if key[0] in PATH_CATALOGS and len(key) == 2 and _is_path(key[1]):
            return path_key(key[1])
        source = self._source(key)
        return key if source is None else path_key(source._source.location)

    def load_path(self, table_format: str, options: Mapping[str, str]) -> JobTable:
        """Return the table that `spark.read.format(table_format).options(…).load(…)` reads.

        Raises:
            RequestError: No path is given, or an option is not supported.
            HarnessError: As for `harness.open_table`.
        """
        settings = {name.lower(): value for name, value in options.items()}
        path = settings.get("path")
        if path is None:
            raise RequestError(f"Cannot load {table_format} rows: no path is given", options=("path",))
        if not _is_path(path):
            result = self._find_table(path, _parse_table_name(path.replace("`", '"')), options)
            if result is not None:
                return result
        return self._load_location(path, options)

    def changes(self, function: str, values: Sequence[str | None], types: Sequence[str]) -> JobTable:
        """Return the changes that `table_changes(name, first, last)` reads. The ends are versions or times."""
        if not 2 <= len(values) <= 3 or values[0] is None or values[1] is None:
            raise RequestError(
                f"Cannot read changes: expected {function}(table, first) or {function}(table, first, last)"
            )
        options = {"readChangeFeed": "true"}
        for end, value, type_ in zip(("starting", "ending"), values[1:], types[1:], strict=False):
            if value is not None:
                if type_.startswith("timestamp"):  # a literal of Catalyst, in microseconds
                    value = str(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(value)))
                options[f"{end}Version" if type_ in ("int", "bigint") else f"{end}Timestamp"] = value
        if function.endswith("by_path"):
            return self._load_location(values[0], options)
        result = self._find_table(values[0], _parse_table_name(values[0].replace("`", '"')), options)
        if result is None:
            near = nearest_names(parse_name(values[0]), self.sources)
            hint = f"the nearest are {', '.join(map(name_text, near))}" if near else "the test names none"
            raise TableNotFoundError(f"Cannot find a table: {values[0]}; {hint}")
        return result

    def names(self, catalog: str, namespace: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the tables directly in a namespace of a Spark catalog."""
        inner = self.key_of(catalog, namespace, "")[:-1]
        keys = [*self.sources, *(key for key, target in self.targets.items() if target.created is not None)]
        result = [key[-1] for key in keys if key[:-1] == inner]
        if self.catalog is not None and catalog in (*NAMELESS, self.catalog.name):
            result += [name[-1] for name in self.catalog.tables(tuple(namespace))]
        return tuple(dict.fromkeys(result))

    def namespaces(self, catalog: str, parent: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the namespaces directly in a namespace."""
        inner = self.key_of(catalog, parent, "")[:-1]
        depth = len(inner)
        keys = [key for key in (*self.sources, *self.targets) if len(key) > depth + 1 and key[:depth] == inner]
        result = [key[depth] for key in keys if catalog not in NAMELESS or len(key) == depth + 2]
        if self.catalog is not None and catalog in (*NAMELESS, self.catalog.name):
            result += [name[-1] for name in self.catalog.namespaces(tuple(parent))]
        return tuple(dict.fromkeys(result))

    def writes_to(self, name: str) -> tuple[Write, ...]:
        """Return all writes to a table, in order, by its name or the path to which it was saved."""
        target = self.targets.get(path_key(name) if _is_path(name) else self.target_key(_parse_table_name(name)))
        if target is None:
            destinations = ", ".join(name_text(key) for key in self.targets) or "nothing"
            raise RequestError(f"The job wrote nothing to {name}; it wrote to {destinations}")
        return tuple(target.writes)

    def target(self, key: Name) -> WrittenTable:
        """Return the record of the writes to the table with this key."""
        return self.targets.setdefault(key, WrittenTable())

    def new_directory(self) -> Path:
        """Return the path of a directory for rows, which does not exist yet."""
        if self.scratch is None:
            self.scratch = Path(tempfile.mkdtemp(prefix="harness-job-"))
        return self.scratch / f"write-{next(self._numbers)}"

    def _find_table(self, name: str, key: Name, options: Mapping[str, str]) -> JobTable | None:
        source = self._source(key)
        if source is not None:
            return self._planned(name, source, None, options)
        if key in self.targets:
            return self._written_table(name, self.targets[key], options)
        source = self._source(key[:-1])
        return None if source is None else self._planned(name, source, key[-1], options)

    def _source(self, key: Name) -> Table | Snapshot | None:
        match self.sources.get(key):
            case None:
                pass
            case Table() | Snapshot() as source:
                return source
            case str() | os.PathLike() as place:
                return open_table(os.fspath(place))
            case source:
                result = getattr(source, "location", None) or getattr(source, "directory", None)  # as builders have
                if result is None:
                    name = type(source).__name__
                    raise RequestError(f"Cannot use {name} as a table: expected an object with a location")
                return open_table(str(result))
        if self.catalog is None or not key:
            return None
        inner = key[1:] if key[0] == self.catalog.name.casefold() and len(key) > 2 else key
        try:
            return open_table(name_text(inner), catalog=self.catalog)
        except TableNotFoundError as error:
            if error.cause in _MISSING:
                return None
            raise

    def _load_location(self, path: str, options: Mapping[str, str]) -> JobTable:
        location, _, metadata = path.partition("#")
        target = self.targets.get(path_key(location))
        if target is not None and target.created is not None and not metadata:
            return self._written_table(path, target, options)
        return self._planned(path, open_table(location), metadata or None, options)

    def _planned(
        self, name: str, source: Table | Snapshot, metadata: str | None, options: Mapping[str, str]
    ) -> JobTable:
        """Return a source at a point in time, or a metadata table of it."""
        table = source if isinstance(source, Table) else Table(source._source)
        target = self.targets.get(path_key(table.location))
        if target is not None and metadata is not None:
            raise _written_to_error(name)
        if target is not None:
            snapshot = source if isinstance(source, Snapshot) else table.snapshot()
            return self._written_table(name, target, options, self._rows(name, table, snapshot))
        point = self._point(table, source, options)
        if isinstance(point, Changes):
            return frame_rows(name, point.to_spark().schema, point.to_spark)
        if metadata is not None:
            if not metadata.startswith(DESCRIBE):
                return _arrow_rows(name, point.metadata(metadata).to_arrow())
            statement = metadata.removeprefix(DESCRIBE)
            if table.format != "delta":
                raise RequestError(
                    f"Cannot DESCRIBE {statement.upper()} {name.rpartition('.')[0]}: it is an Iceberg table; read its "
                    "metadata tables, such as history and snapshots"
                )
            return _arrow_rows(
                name, _describe_detail(table) if statement == "detail" else point.metadata("versions").to_arrow()
            )
        return self._rows(name, table, point)

    def _rows(self, name: str, table: Table, snapshot: Snapshot) -> JobTable:
        return planned_rows(name, table, snapshot, self.zone, partitioned_by(table))

    def _point(self, table: Table, source: Table | Snapshot, options: Mapping[str, str]) -> Snapshot | Changes:
        settings = {name.lower(): value for name, value in options.items()}
        if _TIMESTAMP in settings:
            return table.snapshot(f"timestamp={int(settings[_TIMESTAMP])}")
        if set(settings) == {"versionasof"}:
            return at_version(table, settings["versionasof"])
        result = read_point(table, options, self.zone)
        is_free = isinstance(result, Snapshot) and not names_point(options)
        return source if is_free and isinstance(source, Snapshot) else result

    def _written_table(
        self, name: str, target: WrittenTable, options: Mapping[str, str], source: JobTable | None = None
    ) -> JobTable:
        """Return a table with the rows of the source and of the job's writes.

        Reading it fails if its rows are not known.
        """
        if names_point(options) or _TIMESTAMP in options:
            raise RequestError(f"Cannot read {name} at another point: written rows have no history")
        writes = after_last_overwrite(tuple(target.writes))
        is_over = target.created is None and not writes[0].is_whole
        base = source if is_over and source is not None and _has_same_columns(source, writes) else None
        is_known = all(write.is_known for write in writes) and not (is_over and base is None)
        is_source = target.created is None and source is not None and (is_over or _has_same_columns(source, writes[:1]))
        schema = source.schema if source is not None and is_source else target.created or writes[0].schema
        places = [str(write.directory) for write in writes if write.directory is not None]

        def make(spark: SparkSession) -> DataFrame:
            if not is_known:
                raise _written_to_error(name)
            rows = spark.read.schema(schema).parquet(*places) if places else spark.createDataFrame([], schema)
            return rows if base is None else base.frame(spark, schema.names, (), {}).unionAll(rows)

        partitions = source.partitioned_by if source is not None and is_source else target.partitioned_by
        return frame_rows(name, schema, make, partitions)


def _has_same_columns(source: JobTable, writes: Sequence[Write]) -> bool:
    """Return whether all written rows have the source's columns."""
    return all(simple_columns(write.schema) == simple_columns(source.schema) for write in writes)


def simple_columns(schema: StructType) -> list[tuple[str, str]]:
    """Return the names and types of columns. Two schemas can have rows of the same table only if these are equal."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _written_to_error(name: str) -> RequestError:
    return RequestError(
        f"Cannot read {name}: the job wrote to it, and harness keeps written rows separate; get them with "
        "harness_job.written, or run the job in a session with the real writers, harness.spark_session(reference=…)",
        cause="WrittenTo",
    )


def _is_path(text: str) -> bool:
    return "/" in text or ":" in text


def path_key(path: str) -> Name:
    """Return the key of a table that is identified by its path. Different spellings of a path have the same key."""
    plain = local_path(path)
    return ("path", os.path.realpath(plain) if is_local(plain) else plain.rstrip("/"))


def _parse_table_name(text: str) -> Name:
    """Parse a name into the key that `JobTables.key_of` returns for it."""
    name = _folded(parse_name(text))
    name = name[1:] if name[0] in NAMELESS else name
    return name[1:] if len(name) == 2 and name[0] == "default" else name


def _folded(name: Name) -> Name:
    return tuple(part if _is_path(part) else part.casefold() for part in name)
