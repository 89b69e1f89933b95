"""Edits beyond table operations: values in documents, addressed by pointers, and damaged files.

A pointer consists of keys and list indexes separated by `/`. `-` as its last part appends to a list. Pointers also lead
into texts that contain JSON: `3/add/stats/numRecords`, `1/metaData/schemaString/fields/0/name`. A `/` in a key is
written as `~1`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.suite.scenarios.arguments import Arguments
from harness.writing.delta.values import json_text
from harness.writing.local_files import check_inside, copy_with_time, corrupt, replace_by_directory, set_time, truncate

_REMOVED: object = object()
_DAMAGE_KINDS = ("delete", "truncate", "corrupt", "copy", "write", "enclose")


def edit(document: object, changes: Mapping[str, object], removals: Sequence[str], place: str) -> None:
    """Set values of a JSON document in place, then remove values, both by pointers.

    Raises:
        RequestError: A pointer does not lead to a value.
    """
    for pointer, value in changes.items():
        _edit(document, _steps(pointer), value, f"{place}, pointer {pointer!r}")
    for pointer in removals:
        _edit(document, _steps(pointer), _REMOVED, f"{place}, pointer {pointer!r}")


def edit_lines(path: Path, changes: Mapping[str, object], removals: Sequence[str], place: str) -> None:
    """Edit a file with a JSON document in each line, as a list of documents. The file's time does not change."""
    time_ns = path.stat().st_mtime_ns
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    edit(lines, changes, removals, place)
    path.write_text("".join(f"{json_text(line)}\n" for line in lines), encoding="utf-8", newline="\n")
    set_time(path, time_ns // 1_000_000)


def damage(arguments: Arguments, root: Path, within: Path, targets: Callable[[str], Iterable[Path]]) -> None:
    """Damage files of a table as specified by `break`. The times of the files do not change.

    delete: TARGET; truncate: TARGET, to: bytes (negative: that many fewer); corrupt: TARGET, at: offset, xor: bits;
    copy: TARGET, to: PATH; write: PATH, text: TEXT or bytes: HEX; enclose: TARGET (replaces the file with a directory
    that contains it).

    Args:
        arguments: The mapping of `break`.
        root: The table's directory, to which a PATH is relative.
        within: The only directory whose files may be changed.
        targets: A function that returns the files of a TARGET.

    Raises:
        RequestError: The target does not exist or is outside `within`, or the kind of damage is unknown.
    """
    kinds = [kind for kind in _DAMAGE_KINDS if arguments.has(kind)]
    if len(kinds) != 1:
        raise RequestError(f"Invalid {arguments.place}: expected one of {', '.join(_DAMAGE_KINDS)}")
    (kind,) = kinds
    subject = arguments.text(kind)
    if kind == "write":
        path = check_inside(within, root / subject)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            bytes.fromhex(arguments.text("bytes")) if arguments.has("bytes") else arguments.text("text").encode()
        )
    else:
        change = _change(kind, arguments, root, within)
        for path in targets(subject):
            change(check_inside(within, path))
    arguments.finish()


def _change(kind: str, arguments: Arguments, root: Path, within: Path) -> Callable[[Path], None]:
    match kind:
        case "delete":
            return Path.unlink
        case "enclose":
            return replace_by_directory
        case "truncate":
            size = arguments.integer("to")
            return lambda path: _keep_time(path, lambda: truncate(path, size))
        case "corrupt":
            at, bits = arguments.integer("at"), arguments.typed(int, "xor", 0xFF)
            return lambda path: _keep_time(path, lambda: corrupt(path, at, bits))
        case _:
            target = check_inside(within, root / arguments.text("to"))
            target.parent.mkdir(parents=True, exist_ok=True)
            return lambda path: copy_with_time(path, target)


def _keep_time(path: Path, change: Callable[[], None]) -> None:
    time_ms = path.stat().st_mtime_ns // 1_000_000
    change()
    set_time(path, time_ms)


def _steps(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _edit(document: Any, steps: list[str], value: object, place: str) -> None:
    step, *rest = steps
    key = _key(document, step, place)
    if not rest:
        if value is _REMOVED and isinstance(document, dict) and key not in document:
            raise RequestError(f"Nothing to remove at {place}")
        if value is _REMOVED:
            del document[key]
        elif isinstance(document, list) and key == len(document):
            document.append(value)
        else:
            document[key] = value
        return
    inner = document[key] if isinstance(document, list) else document.get(key)
    if inner is None:
        if value is _REMOVED:
            raise RequestError(f"Nothing to remove at {place}")
        inner = document[key] = {}
    if isinstance(inner, str):
        try:
            parsed = json.loads(inner)
        except ValueError as exc:
            raise RequestError(f"Invalid {place}: {step!r} is a text that is not JSON") from exc
        _edit(parsed, rest, value, place)
        document[key] = json_text(parsed)
    else:
        _edit(inner, rest, value, place)


def _key(document: object, step: str, place: str) -> Any:
    match document:
        case dict():
            return step
        case list() if step == "-":
            return len(document)
        case list() if step.isdigit() and int(step) < len(document):
            return int(step)
        case _:
            raise RequestError(f"Invalid {place}: {step!r} does not exist")
