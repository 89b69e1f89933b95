"""A plan as text for people, and as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import size_text, without_secrets
from harness.metadata.model import drawing
from harness.metadata.model.frames import html_preformatted
from harness.metadata.model.text_tables import record_lines
from harness.metadata.plan.deletes import key_fields
from harness.metadata.plan.layout import layout
from harness.storage.paths import redact

if TYPE_CHECKING:
    from harness.metadata.plan.scan_plan import ScanPlan

_SHOWN_FILES = 20


def as_dict(plan: ScanPlan) -> dict[str, Any]:
    """Return the plan as plain values: lists, dicts, texts, ints, and internal values (including bytes)."""
    return {
        "table": redact(plan.table),
        "format": plan.format,
        "snapshot_id": plan.snapshot,
        "schema_id": plan.schema.id,
        "columns": [{"id": f.id, "name": f.name, "type": str(f.type)} for f in plan.columns],
        "filter": None if plan.filter is None else plan.filter.sql,
        "totals": totals(plan),
        "trusted": list(plan.trusted),
        "guarded": list(plan.guarded),
        "warnings": list(plan.warnings),
        "files": [_file(plan, row) for row in plan.files.to_pylist()],
        "skipped": plan.skipped.to_pylist(),
        "position_deletes": [
            {name: getattr(d, name, None) for name in ("kind", "path", "offset", "length", "record_count")}
            | {"files": list(files)}
            for d, files in plan.position_hits()
        ],
        "equality_deletes": [
            {
                "path": d.path,
                "format": d.format,
                "key_ids": [key_fields(key)[-1].id for key in d.keys],
                "keys": [f.name for f in d.keys],
                "sequence_number": d.sequence_number,
                "partition": None if d.partition is None else plan.partitions[d.partition].by_name(),
                "global": d.partition is None,
                "record_count": d.record_count,
            }
            for d in plan.equality_deletes
        ],
    }


def totals(plan: ScanPlan) -> dict[str, Any]:
    """Return the totals of a plan: files considered, read, and skipped with the reasons; rows and bytes as recorded."""
    counts, sizes = plan.files.column("record_count").to_pylist(), plan.files.column("size").to_pylist()
    return {
        "manifests": plan.counts.manifests,
        "manifests_skipped": plan.counts.manifests_skipped,
        "files_considered": plan.counts.files,
        "files_read": plan.files.num_rows,
        "files_skipped": len(plan.skipped),
        "skipped_by": dict(sorted(plan.skipped.reasons().items())),
        "records_before_deletes": None if None in counts else sum(counts),
        "bytes": None if None in sizes else sum(sizes),
        "files_with_deleted_positions": plan.files.num_rows - plan.files.column("positions").null_count,
        "files_with_equality_deletes": sum(
            1 for scope in plan.files.column("delete_set").to_pylist() if plan.delete_sets[scope]
        ),
        "position_deletes": len(plan.position_hits()),
        "equality_deletes": len(plan.equality_deletes),
    }


def as_html(plan: ScanPlan) -> str:
    """Return the picture and the text of a plan as HTML, for notebooks."""
    return drawing.as_html(layout(plan)) + html_preformatted(as_text(plan), in_notebook=True)


def as_text(plan: ScanPlan, width: int | None = None, picture: Sequence[str] = ()) -> str:
    """Return the plan as text: totals and a picture, then tables of files, skipped files, and deletes, 20 rows of each.

    Args:
        plan: The plan.
        width: Maximum width of tables in cells; None for no maximum.
        picture: The lines of the picture.
    """
    sums = totals(plan)
    rows, size = sums["records_before_deletes"], sums["bytes"]
    by_reason = ", ".join(f"{n} by {reason}" for reason, n in sums["skipped_by"].items())
    skipped_manifests = sums["manifests_skipped"]
    read_manifests = sums["manifests"] - skipped_manifests
    has_manifests = read_manifests or skipped_manifests
    manifests = f"; manifests {read_manifests} read, {skipped_manifests} skipped" if has_manifests else ""
    lines = [
        f"{plan.format} table {plan.table}",
        f"snapshot {plan.snapshot if plan.snapshot is not None else 'none'}, schema {plan.schema.id}",
        *([] if plan.lifetimes is None else [f"{plan.lifetimes}"]),
        f"columns {', '.join(f.name for f in plan.columns)}",
        f"filter {plan.filter.sql if plan.filter is not None else 'none'}",
        f"files {sums['files_read']} read, {sums['files_skipped']} skipped{f' ({by_reason})' if by_reason else ''} "
        f"of {sums['files_considered']}{manifests}",
        f"rows {'unknown' if rows is None else f'{rows:,}'} before deletes, "
        f"{'unknown bytes' if size is None else size_text(size)}",
        f"deletes {sums['position_deletes']} positional on {sums['files_with_deleted_positions']} files, "
        f"{sums['equality_deletes']} equality on {sums['files_with_equality_deletes']} files",
    ]
    lines += [f"trusted {', '.join(plan.trusted)}"] if plan.trusted else []
    lines += [f"guarded {sentence}" for sentence in plan.guarded]
    lines += picture
    read_files = [_read_file(plan, n, row) for n, row in enumerate(plan.files.to_pylist()[:_SHOWN_FILES])]
    lines += _section("read", read_files, plan.files.num_rows, width)
    skipped = [
        {"file": s["path"], "rows": s["record_count"], "bytes": s["size"], "by": s["reason"]}
        for s in plan.skipped.to_pylist(_SHOWN_FILES)
    ]
    lines += _section("skipped", skipped, len(plan.skipped), width)
    positional = [
        {
            **{"file": d.path, "kind": d.kind, "positions": d.record_count, "offset": getattr(d, "offset", None)},
            "of": _numbers(files),
        }
        for d, files in plan.position_hits()[:_SHOWN_FILES]
    ]
    lines += _section("deleted positions", positional, sums["position_deletes"], width)
    equality = [
        {
            **{"#": f"#{n}", "file": d.path, "keys": [f.name for f in d.keys], "sequence": d.sequence_number},
            "partition": "all" if d.partition is None else str(plan.partitions[d.partition]),
        }
        for n, d in enumerate(plan.equality_deletes[:_SHOWN_FILES])
    ]
    lines += _section("equality deletes", equality, len(plan.equality_deletes), width)
    lines += [f"warning: {warning}" for warning in plan.warnings]
    return without_secrets("\n".join(lines))


def _file(plan: ScanPlan, row: dict[str, Any]) -> dict[str, Any]:
    partition = plan.partitions[row.pop("partition")]
    scope, has_positions = plan.delete_sets[row.pop("delete_set")], row.pop("positions") is not None
    texts = {"physical": redact(row["physical"]), "partition": partition.by_name()}
    del row["commit_version"]
    return {**row, **texts, "has_positions": has_positions, "equality_deletes": list(scope)}


def _read_file(plan: ScanPlan, number: int, row: dict[str, Any]) -> dict[str, Any]:
    partition, equality = plan.partitions[row["partition"]], plan.delete_sets[row["delete_set"]]
    deletes = ["positions"] if row["positions"] is not None else []
    deletes += [f"equality {_numbers(equality)}"] if equality else []
    return {
        **{"#": f"#{number}", "file": row["path"], "rows": row["record_count"], "bytes": row["size"]},
        "deletes": ", ".join(deletes),
        "partition": str(partition) if partition.values else "",
        **{"sequence": row["sequence_number"], "format": row["format"]},
    }


def _numbers(places: Iterable[int]) -> str:
    """Return references to items in a list of the report as text, for example `#0, #2` for files under `read`."""
    return ", ".join(f"#{place}" for place in places)


def _section(title: str, rows: list[dict[str, Any]], total: int, width: int | None) -> list[str]:
    more = [f"  … and {total - len(rows):,} more"] if total > len(rows) else []
    return [f"{title}:", *record_lines(rows, "  ", width), *more] if rows else []
