"""`harness.read_untrusted`: the rows of an untrusted table, read in a worker."""

from __future__ import annotations

import json
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO, Unpack

import pyarrow as pa

import harness.errors
from harness.errors import EngineError, HarnessError, HarnessWarning, RequestError, visible, warn
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.times import When, parse_moment
from harness.metadata.plan.read_options import TableOptions, catalog_answer
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import expanded
from harness.untrusted.arrow_messages import MOST_ARRAYS, StreamError, read_stream
from harness.untrusted.bounds import DOCUMENT_BYTES, Bounds, check_waived, readable_directories
from harness.untrusted.launching import LIBRARIES, WorkerResult, refused_calls_text, run

_WARNINGS_KEY = b"harness.warnings"
"""The key of the warnings in the rows' metadata: sentences as JSON."""
_TEXT_LENGTH, _CONTEXT_LENGTH = 1 << 16, 1 << 12
"""Most characters of a message, and of a name in it."""
_CONTEXT = ("table", "snapshot", "file", "field", "rule")


@validate_call
def read_untrusted(
    location: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    query: str | None = None,
    at: When = None,
    bounds: Bounds | None = None,
    waived: Sequence[str] = (),
    **options: Unpack[TableOptions],
) -> pa.Table:
    """The rows of a table that somebody else wrote, read in a process that can do little besides.

        harness.read_untrusted("upload/orders", where="total > 100")
        harness.read_untrusted("upload/orders", query="SELECT region, sum(total) FROM t GROUP BY ALL")

    The whole read is made in a worker process, by DuckDB, as of `open_table(untrusted=True)`: without a network, other
    programs, the environment of this process, or files but the table's; in memory, time, open files and output it is
    held to `bounds`. It gives back validated Arrow data, or one error in one line. A start takes half a second.

    Args:
        location: a local directory or metadata file.
        columns, where: as for `Snapshot.plan`.
        query: a query in place of those; the table is `t` in it.
        at: as for `Table.snapshot`.
        bounds: of the worker; None: `harness.Bounds()`.
        waived: limits that need not hold where the system cannot hold them, such as `["memory_bytes"]`; see
            `harness.untrusted.bounds.WAIVABLE`.
        options: Keyword arguments that `TableOptions` describes, as for `open_table`. The bytes of a commit that only
            the catalog has go to the worker.

    Raises:
        RequestError: a limit cannot be enforced on this system, and is not waived; the table is not on a local disk;
            or as for `open_table`, `Snapshot.plan` and `sql`.
        LimitError: the worker reached one of its bounds, or a file one of `limits`.
        EngineError: the worker crashed or was killed, its answer is no Arrow data, or DuckDB failed.
        HarnessError: as for `open_table` and `Snapshot.to_arrow`.
    """
    if query is not None and not (columns is None and where is None):
        raise RequestError("Cannot take a query with columns or where: say it in the query", options=("query",))
    path_map, roots = options.get("path_map") or {}, [str(root) for root in options.get("allowed_roots", ())]
    place = expanded(str(location))  # the worker has another home directory
    answer = catalog_answer(
        options.get("max_version"), options.get("ratified"), published_only=options.get("published_only", False)
    )
    limits = options.get("limits") or DEFAULT
    passed = {name: value for name, value in options.items() if name not in ("limits", "ratified")}
    request = {
        "open": {**passed, "location": place, "path_map": dict(path_map), "allowed_roots": roots},
        "ratified": None
        if answer is None
        else [
            (c.version, c.name, None if c.content is None else b64encode(c.content).decode()) for c in answer.ratified
        ],
        "limits": {name: getattr(limits, name) for name in Limits.__slots__},
        "at": _json_moment(at),
        "columns": None if columns is None else list(columns),
        "where": where,
        "query": query,
    }
    finished = run(
        f"{__name__}:serve",
        request,
        bounds=bounds or Bounds(),
        waived=check_waived(waived),
        directories=readable_directories([place], [*path_map.values(), *roots]),
        libraries=LIBRARIES,
    )
    if finished.code != 0:
        raise _worker_error(finished)
    rows, said = _decode_rows(finished.output, (bounds or Bounds()).output_bytes)
    for sentence in said:
        warn(sentence)
    return rows


def _json_moment(at: When) -> int | str | None:
    """Return `at` as a value of JSON."""
    moment = parse_moment(at)
    if isinstance(at, datetime):
        return f"timestamp={at.isoformat()}"
    return at if isinstance(at, str) or moment is None else int(at)  # type: ignore[arg-type]  # NumPy's integers too


def serve(request: dict[str, Any], output: BinaryIO) -> int:
    """The work itself, in the worker: rows as an Arrow stream and 0, or an error as JSON and 2."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", HarnessWarning)
            rows = _read(request)
        said = _limit_warnings([str(each.message) for each in told if issubclass(each.category, HarnessWarning)])
    except HarnessError as error:
        output.write(json.dumps(_error_document(error)).encode())
        return 2
    rows = _with_metadata(rows, {**(rows.schema.metadata or {}), _WARNINGS_KEY: json.dumps(said).encode()})
    if sum(column.num_chunks for column in rows.columns) > MOST_ARRAYS >> 4:
        rows = rows.combine_chunks()
    with pa.ipc.new_stream(output, rows.schema) as writer:
        writer.write_table(rows)
    return 0


def _read(request: dict[str, Any]) -> pa.Table:
    import duckdb

    from harness.queries.sql import sql
    from harness.table import open_table

    given = request["ratified"]
    table = open_table(
        **request["open"],
        ratified=None
        if given is None
        else [(version, name if content is None else b64decode(content)) for version, name, content in given],
        limits=Limits(**request["limits"]),
        untrusted=True,
    )
    snapshot = table.snapshot(request["at"])
    if request["query"] is None:
        return snapshot.to_arrow(columns=request["columns"], where=request["where"])
    try:
        return pa.table(sql(request["query"], {"t": snapshot}))
    except duckdb.Error as error:
        raise EngineError(f"DuckDB cannot run the query: {error}") from error


def _error_document(error: HarnessError) -> dict[str, object]:
    context = {name: value and str(value)[:_CONTEXT_LENGTH] for name in _CONTEXT for value in (getattr(error, name),)}
    kind, message = type(error).__name__, error.message[:_TEXT_LENGTH]
    return {"kind": kind, "message": message, "cause": error.cause, "options": error.options, **context}


def _limit_warnings(sentences: Sequence[str]) -> list[str]:
    """The first of the sentences, so that all are no longer than one text may be."""
    kept: list[str] = []
    left = _TEXT_LENGTH
    for number, sentence in enumerate(sentences):
        if len(sentence) > left:
            return [*kept, f"There are {len(sentences) - number} more warnings, which are too long to be told"]
        left -= len(sentence)
        kept.append(sentence)
    return kept


def _worker_error(finished: WorkerResult) -> HarnessError:
    """The error that a worker tells of: of a class of harness's own, with printable texts."""
    try:
        if len(finished.output) > DOCUMENT_BYTES:
            raise ValueError("too long")
        said = json.loads(finished.output)
        kind = getattr(harness.errors, said["kind"], None)
        if not (isinstance(kind, type) and issubclass(kind, HarnessError)):
            raise ValueError(said["kind"])
        context = {name: _printable(said[name]) for name in ("cause", *_CONTEXT) if said.get(name) is not None}
        options = tuple(_printable(name) for name in said["options"])
        return kind(
            _printable(said["message"]) + refused_calls_text(finished.refused_calls), options=options, **context
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _broken_output("its error is none of harness's")


def _printable(value: object) -> str:
    """Any value as printable text of limited length."""
    return visible(str(value)[:_TEXT_LENGTH])[:_TEXT_LENGTH]


def _decode_rows(output: bytes, most_bytes: int) -> tuple[pa.Table, list[str]]:
    """The rows, and the warnings. most_bytes: of the rows; a row of no bytes counts as one bit."""
    try:
        rows = read_stream(output, most_bytes=most_bytes, most_rows=8 * most_bytes)
        metadata = dict(rows.schema.metadata or {})
        warned = metadata.pop(_WARNINGS_KEY, b"[]")
        if len(warned) > DOCUMENT_BYTES:
            raise StreamError("its warnings are too long")
        said = [_printable(sentence) for sentence in json.loads(warned)]
    except (ValueError, TypeError, RecursionError) as error:
        raise _broken_output(visible(str(error))) from error
    return _with_metadata(rows, metadata or None), said


def _with_metadata(rows: pa.Table, metadata: Mapping[bytes, bytes] | None) -> pa.Table:
    """The rows with other metadata. Of rows without columns, pyarrow's own call forgets the number."""
    if rows.num_columns:
        return rows.replace_schema_metadata(metadata)
    batches = [batch.replace_schema_metadata(metadata) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, rows.schema.with_metadata(metadata))


def _broken_output(why: str) -> EngineError:
    return EngineError(f"Cannot read what the process for the untrusted table gave back: {why}", cause="Broken")
