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
"""The key of the warnings in the rows' metadata, which are sentences as JSON."""
_TEXT_LENGTH, _CONTEXT_LENGTH = 1 << 16, 1 << 12
"""The most characters of a message, and of a name in it."""
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
    """Return the rows of a table that somebody else wrote, read in a separate process with few rights.

        harness.read_untrusted("upload/orders", where="total > 100")
        harness.read_untrusted("upload/orders", query="SELECT region, sum(total) FROM t GROUP BY ALL")

    DuckDB does the whole read in a worker process, as with `open_table(untrusted=True)`. The worker has no network, no
    other programs, no environment variables of this process, and no files except the table's. `bounds` limits its
    memory, time, open files and output. It returns validated Arrow data, or one error on one line. Starting it takes
    half a second.

    Args:
        location: A local directory or metadata file.
        columns: As for `Snapshot.plan`.
        where: As for `Snapshot.plan`.
        query: A query instead of `columns` and `where`. The table is `t` in it.
        at: As for `Table.snapshot`.
        bounds: The limits of the worker. None: `harness.Bounds()`.
        waived: Limits that need not be enforced if the system cannot enforce them, for example `["memory_bytes"]`; see
            `harness.untrusted.bounds.WAIVABLE`.
        options: Keyword arguments that `TableOptions` describes, as for `open_table`. Commits that only the catalog has
            are sent to the worker.

    Returns:
        The rows.

    Raises:
        RequestError: A limit cannot be enforced on this system and is not waived; the table is not on a local disk; or
            as for `open_table`, `Snapshot.plan`, and `sql`.
        LimitError: The worker exceeded one of its bounds, or a file one of `limits`.
        EngineError: The worker crashed or was killed, its answer is not valid Arrow data, or DuckDB failed.
        HarnessError: As for `open_table` and `Snapshot.to_arrow`.
    """
    if query is not None and not (columns is None and where is None):
        raise RequestError(
            "Cannot use query together with columns or where: put them into the query", options=("query",)
        )
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
    rows, text = _decode_rows(finished.output, (bounds or Bounds()).output_bytes)
    for sentence in text:
        warn(sentence)
    return rows


def _json_moment(at: When) -> int | str | None:
    """Return `at` as a JSON value."""
    moment = parse_moment(at)
    if isinstance(at, datetime):
        return f"timestamp={at.isoformat()}"
    return at if isinstance(at, str) or moment is None else int(at)  # type: ignore[arg-type]  # NumPy's integers too


def serve(request: dict[str, Any], output: BinaryIO) -> int:
    """Read the table in the worker: write rows as an Arrow stream and return 0, or an error as JSON and return 2."""
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", HarnessWarning)
            rows = _read(request)
        text = _limit_warnings([str(each.message) for each in notes if issubclass(each.category, HarnessWarning)])
    except HarnessError as error:
        output.write(json.dumps(_error_document(error)).encode())
        return 2
    rows = _with_metadata(rows, {**(rows.schema.metadata or {}), _WARNINGS_KEY: json.dumps(text).encode()})
    if sum(column.num_chunks for column in rows.columns) > MOST_ARRAYS >> 4:
        rows = rows.combine_chunks()
    with pa.ipc.new_stream(output, rows.schema) as writer:
        writer.write_table(rows)
    return 0


def _read(request: dict[str, Any]) -> pa.Table:
    import duckdb

    from harness.queries.sql import sql
    from harness.table import open_table

    ratified = request["ratified"]
    table = open_table(
        **request["open"],
        ratified=None
        if ratified is None
        else [(version, name if content is None else b64decode(content)) for version, name, content in ratified],
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
    """Return the first warnings, up to `_TEXT_LENGTH` characters in total, and a sentence that counts the rest."""
    head: list[str] = []
    budget = _TEXT_LENGTH
    for number, sentence in enumerate(sentences):
        if len(sentence) > budget:
            return [*head, f"There are {len(sentences) - number} more warnings, which are too long to show"]
        budget -= len(sentence)
        head.append(sentence)
    return head


def _worker_error(finished: WorkerResult) -> HarnessError:
    """Return the error that a worker reports, as a harness error with printable texts."""
    try:
        if len(finished.output) > DOCUMENT_BYTES:
            raise ValueError("too long")
        text = json.loads(finished.output)
        kind = getattr(harness.errors, text["kind"], None)
        if not (isinstance(kind, type) and issubclass(kind, HarnessError)):
            raise ValueError(text["kind"])
        context = {name: _printable(text[name]) for name in ("cause", *_CONTEXT) if text.get(name) is not None}
        options = tuple(_printable(name) for name in text["options"])
        return kind(
            _printable(text["message"]) + refused_calls_text(finished.refused_calls), options=options, **context
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _broken_output("its error is not a harness error")


def _printable(value: object) -> str:
    """Return a value as printable text of limited length."""
    return visible(str(value)[:_TEXT_LENGTH])[:_TEXT_LENGTH]


def _decode_rows(output: bytes, most_bytes: int) -> tuple[pa.Table, list[str]]:
    """Return the rows and the warnings. A row that needs no bytes counts as one bit of `most_bytes`."""
    try:
        rows = read_stream(output, most_bytes=most_bytes, most_rows=8 * most_bytes)
        metadata = dict(rows.schema.metadata or {})
        warned = metadata.pop(_WARNINGS_KEY, b"[]")
        if len(warned) > DOCUMENT_BYTES:
            raise StreamError("its warnings are too long")
        text = [_printable(sentence) for sentence in json.loads(warned)]
    except (ValueError, TypeError, RecursionError) as error:
        raise _broken_output(visible(str(error))) from error
    return _with_metadata(rows, metadata or None), text


def _with_metadata(rows: pa.Table, metadata: Mapping[bytes, bytes] | None) -> pa.Table:
    """Return the rows with other metadata. pyarrow's own method loses the row count of a table without columns."""
    if rows.num_columns:
        return rows.replace_schema_metadata(metadata)
    batches = [batch.replace_schema_metadata(metadata) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, rows.schema.with_metadata(metadata))


def _broken_output(why: str) -> EngineError:
    return EngineError(f"Cannot read what the process for the untrusted table returned: {why}", cause="Broken")
