"""Cases of published suites: tables in a directory, with reads and their expected results.

    suite.json                        a suite that `harness scenarios build` wrote
    NAME/test_case_info.json          a case of Delta's acceptance tests (DAT): the table is `delta/`, and for each read
    NAME/expected/latest, expected/vN there are `table_content/*.parquet` and `table_version_metadata.json`
    NAME/specs/CASE.json              a case of the acceptance workloads: the table is `delta/`, and the rows of a read
    NAME/expected/CASE/expected_data  are in Parquet files

Files and folders whose names begin with `.` or `_` come from Spark and hold no rows. Cases with features that harness
does not know are counted by kind and not run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot

from harness.errors import RequestError, counted
from harness.metadata.files.parquet import open_parquet
from harness.suite.foreign_files import MAX_BYTES, MAX_ROWS, path_below, read_below, read_json
from harness.suite.scenarios.model import ExpectedError, ResolvedExpectation, ResolvedSelector, Scenario, TableCase
from harness.suite.suite_files import INDEX, load_case, load_suite
from harness.table import open_table

_DAT, _WORKLOADS = "test_case_info.json", "specs"
_SNAPSHOTS = ("snapshot", "snapshotConstruction", "snapshot_construction")
_KNOWN_KEYS = {"type", "name", "description", "version", "timestamp", "predicate", "columns", "expected", "error"}
_FILE_NUMBERS = ("fileCount", "filesSkipped")
"""Expected numbers of files, which readers do not have to match."""
_BATCH_ROWS = 1024
"""The number of rows that are decoded before their size is checked, because a long text may be repeated in each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The cases of a directory.

    Attributes:
        not_run: The number of cases that are not run, in words, by kind.
        features: The meanings of features by name.
    """

    directory: Path
    cases: tuple[TableCase, ...]
    not_run: Mapping[str, str]
    features: Mapping[str, str]


_FACTS: Mapping[str, Callable[[Any], object]] = {
    "version": lambda state: state.version,
    "minReaderVersion": lambda state: state.protocol.min_reader_version,
    "minWriterVersion": lambda state: state.protocol.min_writer_version,
    "readerFeatures": lambda state: sorted(state.protocol.reader_features or ()),
    "writerFeatures": lambda state: sorted(state.protocol.writer_features or ()),
    "id": lambda state: state.metadata.id,
    "name": lambda state: state.metadata.name,
    "description": lambda state: state.metadata.description,
    "provider": lambda state: state.metadata.provider,
    "schemaString": lambda state: json.loads(state.metadata.schema_string),
    "partitionColumns": lambda state: list(state.metadata.partition_columns),
    "configuration": lambda state: dict(state.metadata.configuration),
}
"""The facts about a version that cases state, and how to read them from harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRead(ResolvedExpectation):
    """A read of a version's protocol and metadata instead of its rows. Only harness's own readers support it.

    Attributes:
        expected: One row per fact with columns `name` and `value`. Values are JSON.
    """

    def rows(self, location: str) -> pa.Table:
        """Return the facts as harness reads them.

        Raises:
            HarnessError: As for `harness.open_table` and `Table.snapshot`.
        """
        snapshot: Any = open_table(location).snapshot(self.at.moment)
        state = snapshot._selection.snapshot.state
        assert isinstance(self.expected, pa.Table)
        return _facts({name: _FACTS[name](state) for name in self.expected["name"].to_pylist()})


def _facts(facts: Mapping[str, object]) -> pa.Table:
    values = [json.dumps(value, sort_keys=True) for value in facts.values()]
    return pa.table({"name": list(facts), "value": values}, pa.schema([("name", pa.string()), ("value", pa.string())]))


class _UnknownKind(Exception):
    """A case of a kind that is not run. The text is the kind."""


def load_cases(directory: Path) -> Cases:
    """Return the cases of a directory, sorted by name.

    Raises:
        RequestError: There is no case, or a file of a case cannot be read.
    """
    if (directory / INDEX).exists():
        suite = load_suite(directory)
        cases = [load_case(path) for path in suite.cases.values()]
        return Cases(directory=directory, cases=tuple(cases), not_run={}, features=suite.features)
    cases_by_name: dict[str, TableCase] = {}
    not_run: Counter[str] = Counter()
    for file, load in _files(directory):
        try:
            cases_by_name |= {case.scenario.name: case for case in load(file, directory)}
        except _UnknownKind as kind:
            not_run[str(kind)] += 1
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise RequestError(f"Cannot read the case: {type(error).__name__}: {error}", file=str(file)) from error
    if not cases_by_name and not not_run:
        raise RequestError(
            f"No cases: expected {INDEX}, folders with {_DAT}, or folders {_WORKLOADS}", file=str(directory)
        )
    unknown_kinds = {kind: f"{counted(number, 'case')} of an unknown kind" for kind, number in sorted(not_run.items())}
    return Cases(
        directory=directory,
        cases=tuple(cases_by_name[name] for name in sorted(cases_by_name)),
        not_run=unknown_kinds,
        features={},
    )


def _files(directory: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(directory.rglob("*.json")):
        if path.name == _DAT:
            yield path, _dat_cases
        elif path.parent.name == _WORKLOADS:
            yield path, _workload_cases


def _case(name: str, title: str, table: Path, reads: list[ResolvedExpectation]) -> TableCase:
    scenario = Scenario(
        name=name,
        path=None,
        title=title,
        format="delta",
        clauses=(),
        features=(),
        table={},
        history=(),
        expectations=(),
    )
    return TableCase(scenario=scenario, location=table, metadata_path=None, expectations=tuple(reads))


def _object(path: Path, directory: Path) -> dict[str, Any]:
    document = read_json(directory, str(path.relative_to(directory)))
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def _dat_cases(file: Path, directory: Path) -> Iterator[TableCase]:
    """Yield a case for the rows and a case for the metadata of the versions."""
    folder, info = file.parent, _object(file, directory)
    name = folder.name if folder == directory else folder.relative_to(directory).as_posix()
    rows: list[ResolvedExpectation] = []
    facts: list[ResolvedExpectation] = []
    for reading in sorted(path for path in (folder / "expected").iterdir() if path.is_dir()):
        if reading.name != "latest" and not (reading.name[0] == "v" and reading.name[1:].isdigit()):
            raise _UnknownKind(f"DAT reading {reading.name}")
        version = None if reading.name == "latest" else int(reading.name[1:])
        at, number = ResolvedSelector(version=version), len(rows) + 1
        rows.append(ResolvedExpectation(number=number, at=at, expected=_rows(reading / "table_content", directory)))
        metadata = _object(reading / "table_version_metadata.json", directory)
        metadata_facts = {
            "version": metadata["version"],
            "minReaderVersion": metadata["min_reader_version"],
            "minWriterVersion": metadata["min_writer_version"],
            "configuration": metadata["properties"],
        }
        facts.append(MetadataRead(number=number, at=at, expected=_facts(metadata_facts)))
    title = str(info.get("description") or info.get("name") or name)
    table = path_below(directory, str((folder / "delta").relative_to(directory)))
    yield _case(name, title, table, rows)
    yield _case(f"{name}/table_version_metadata", f"Metadata of: {title}", table, facts)


def _rows(folder: Path, directory: Path) -> pa.Table:
    """Return the rows of a folder of Parquet files below the directory of the cases."""
    parts = [path.relative_to(folder).parts for path in folder.rglob("*.parquet")]
    files = [folder.joinpath(*each) for each in sorted(parts) if not any(part[0] in "._" for part in each)]
    if not files:
        raise _UnknownKind("read without a file of expected rows")
    return pa.concat_tables([_file_rows(path, directory) for path in files], promote_options="permissive")


def _file_rows(path: Path, directory: Path) -> pa.Table:
    """Return the rows of a Parquet file from Spark. Its INT96 timestamps are unmarked instants."""
    data = read_below(directory, str(path.relative_to(directory)))
    with open_parquet(pa.BufferReader(data)) as file:
        rows, leaves = _read_batches(file, path), [file.schema.column(i) for i in range(len(file.schema))]
    instants = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    schema = [
        field.with_type(_with_utc_timestamps(field.type)) if field.name in instants else field for field in rows.schema
    ]
    return rows.cast(pa.schema(schema)).replace_schema_metadata(None)


def _read_batches(file: Any, path: Path) -> pa.Table:
    """Return the rows of a Parquet file.

    Raises:
        RequestError: The rows exceed a limit.
    """
    batches, size = [], 0
    if file.metadata.num_rows > MAX_ROWS:
        raise RequestError(f"Cannot read file: it has more than {MAX_ROWS:,} rows", file=str(path))
    for batch in file.iter_batches(_BATCH_ROWS):
        size += batch.nbytes
        if size > MAX_BYTES:
            raise RequestError(f"Cannot read file: its rows take more than {MAX_BYTES:,} bytes", file=str(path))
        batches.append(batch)
    return pa.Table.from_batches(batches, batches[0].schema if batches else file.schema_arrow)


def _with_utc_timestamps(type_: pa.DataType) -> pa.DataType:
    """Return the type with its timestamps in UTC."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_with_utc_timestamps(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_with_utc_timestamps(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(_with_utc_timestamps(type_.key_type), _with_utc_timestamps(type_.item_type))
    return type_


def _workload_cases(file: Path, directory: Path) -> Iterator[TableCase]:
    spec, folder = _object(file, directory), file.parent.parent
    name = file.stem if folder == directory else f"{folder.relative_to(directory).as_posix()}/{file.stem}"
    kind, expected = str(spec.get("type")), spec.get("expected") or {}
    if kind not in ("read", *_SNAPSHOTS):
        raise _UnknownKind(kind)
    if unknown := sorted(spec.keys() - _KNOWN_KEYS):
        raise _UnknownKind(f"{kind} with {unknown[0]}")
    at = _selector(spec)
    columns, where = spec.get("columns"), _condition(spec.get("predicate"))
    numbers = [f"{key} {expected[key]}" for key in _FILE_NUMBERS if key in expected]
    title = str(spec.get("description") or spec.get("name") or file.stem) + (
        f" ({', '.join(numbers)})" if numbers else ""
    )
    arguments: dict[str, Any] = {"number": 1, "at": at, "where": where}
    arguments["columns"] = None if columns is None else tuple(columns)
    refusal = _refusal(spec)
    if refusal is not None:
        # A version that does not exist has no rows either, so this read works with every reader.
        read = ResolvedExpectation(**arguments, expected=refusal)
    elif "expected" not in spec:
        raise _UnknownKind(f"{kind} without an expectation")
    elif kind == "read":
        rows = _rows(folder / "expected" / file.stem / "expected_data", directory)
        if rows.num_rows != expected.get("rowCount", rows.num_rows):
            raise _UnknownKind("read with a rowCount that differs from its expected rows")
        read = ResolvedExpectation(**arguments, expected=rows)
    else:
        read = MetadataRead(**arguments, expected=_facts(_stated_facts(expected)))
    yield _case(name, title, path_below(directory, str((folder / "delta").relative_to(directory))), [read])


def _refusal(spec: Mapping[str, Any]) -> ExpectedError | None:
    """Return the expected error of a case. Readers may use any error class."""
    version = spec.get("version")
    if "error" not in spec and not (isinstance(version, int) and version < 0):
        return None
    code = str((spec.get("error") or {}).get("errorCode", "a version that cannot exist"))
    # A reader may decline these tables.
    declined = any(word in code.upper() for word in ("UNSUPPORTED", "FEATURE", "PROTOCOL"))
    return ExpectedError("UnsupportedError" if declined else "HarnessError", match=code)


def _selector(spec: Mapping[str, Any]) -> ResolvedSelector:
    text = spec.get("timestamp")
    if text is None:
        return ResolvedSelector(version=spec.get("version"))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _UnknownKind("timestamp that is not ISO 8601") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return ResolvedSelector(timestamp_ms=round(moment.timestamp() * 1000))


def _condition(predicate: str | None) -> str | None:
    """Translate a predicate from Spark's SQL to DuckDB's."""
    if predicate is None:
        return None
    try:
        return sqlglot.transpile(predicate, read="spark", write="duckdb")[0]
    except sqlglot.errors.SqlglotError:
        raise _UnknownKind("predicate that cannot be parsed") from None


def _stated_facts(expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about a snapshot that a case states, except the creation time, which a copy does not keep."""
    protocol, metadata = expected.get("protocol") or {}, expected.get("metadata") or {}
    facts = {
        **protocol,
        **{name: sorted(protocol[name]) for name in ("readerFeatures", "writerFeatures") if protocol.get(name)},
        **{name: value for name, value in metadata.items() if name not in ("format", "createdTime")},
    }
    if "format" in metadata:
        facts["provider"] = metadata["format"]["provider"]
    if "schemaString" in metadata:
        facts["schemaString"] = json.loads(metadata["schemaString"])
    if unknown := sorted(facts.keys() - _FACTS.keys()):
        raise _UnknownKind(f"snapshot with {unknown[0]}")
    return facts
