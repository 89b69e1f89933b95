"""A trace as a JSON document, see `docs/reference/json.md`."""

from __future__ import annotations

from typing import Any

from harness.trace.model import CandidateFile, MissingReport, RowDelete, RowEvent, RowVersion, Trace, TracedRow

FORMAT = 1
"""The version of the document. It changes if a key is removed or changes its meaning."""


def to_dict(trace: Trace) -> dict[str, Any]:
    """Return a trace as plain values."""
    used = {event.commit for row in trace.rows for event in row.events}
    ends = [trace.commits[place].id for place in (0, -1)] if trace.commits else [None, None]
    return {
        "format": FORMAT,
        "kind": "trace",
        "table": trace.table,
        "table_format": trace.format,
        "condition": trace.condition,
        "from": ends[0],
        "to": ends[1],
        "commits": [
            {"id": each.id, "timestamp_ms": each.timestamp_ms, "operation": each.operation, "writer": each.writer}
            for each in trace.commits
            if each.number in used
        ],
        "rows": [_row(trace, row) for row in trace.rows],
        "gaps": list(trace.gaps),
        "missing": None if trace.missing is None else _missing(trace.missing),
    }


def _id(trace: Trace, number: int | None) -> int | None:
    """Return the id of a commit, or None for no commit and for the state before the range."""
    commit = None if number is None else trace.commit(number)
    return None if commit is None else commit.id


def _row(trace: Trace, row: TracedRow) -> dict[str, Any]:
    return {
        "sentence": row.sentence,
        "visible": row.is_visible,
        "followed_by": row.followed_by.value,
        "row_id": row.row_id,
        "values": dict(row.texts),
        "versions": [_version(trace, version) for version in row.versions],
        "events": [_event(trace, event) for event in row.events],
    }


def _version(trace: Trace, version: RowVersion) -> dict[str, Any]:
    return {
        "file": version.file,
        "position": version.position,
        "row_id": version.row_id,
        "sequence_number": version.sequence_number,
        "partition": version.partition,
        "added": _id(trace, version.added),
        "removed": _id(trace, version.removed),
        "delete": None if version.delete is None else _delete(trace, version.delete),
        "values": dict(version.texts),
    }


def _delete(trace: Trace, delete: RowDelete) -> dict[str, Any]:
    return {
        "kind": delete.kind.value,
        "path": delete.path,
        "offset": delete.offset,
        "sequence_number": delete.sequence_number,
        "keys": dict(delete.keys),
        "added": _id(trace, delete.commit),
    }


def _event(trace: Trace, event: RowEvent) -> dict[str, Any]:
    return {
        "kind": event.kind.value,
        "commit": _id(trace, event.commit),
        "version": event.version,
        "candidates": event.candidates,
        "text": event.text,
    }


def _missing(report: MissingReport) -> dict[str, Any]:
    return {"sentence": report.sentence, "files": [_file(each) for each in report.files]}


def _file(file: CandidateFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "decision": file.decision.value,
        "sentence": file.sentence,
        "partition": file.partition,
        "bounds": dict(file.bounds),
        "visible": file.visible,
        "deleted": file.deleted,
        "false": [
            {"column": each.column, "recorded": each.recorded, "value": each.value, "position": each.position}
            for each in file.false
        ],
    }
