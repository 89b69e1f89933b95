"""Files that other programs wrote: a suite, the results of a reader, the rows that a reader answers with.

Each file is a regular file below the folder that its reader was given, reached without links, and of bounded length.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, RequestError
from harness.metadata.files.documents import count_values
from harness.storage.gate import is_possible_name, open_regular

MAX_BYTES = 1 << 30
"""Bytes of a file, and of its rows once they are decoded."""
MAX_ROWS = MAX_BYTES // 8
"""Rows of all columns of a file: a comparison takes 8 bytes for each, even if the file has none for them."""
MAX_JSON_BYTES = 1 << 28
MAX_JSON_VALUES = 1 << 25
"""Bytes and values of a JSON file. A value takes up to 90 bytes of memory."""
_MAX_LENGTH = 4096
"""Characters of a name below a folder."""
_SHOWN = 100
"""Characters of such a name that a message shows."""


def path_below(folder: Path, name: str, what: str = "the file") -> Path:
    """Return the path of a file or directory below a folder.

    Args:
        folder: A folder that the user named. A link may lead there.
        name: A path from the folder on, which a program wrote.
        what: The content of the file, for messages.

    Raises:
        RequestError: The name is empty, absolute, or no possible name, it has a part `..`, or a part of it is a link.
    """
    parts = {*name.replace(os.sep, "/").split("/")}
    is_absolute = os.path.isabs(name) or bool(os.path.splitdrive(name)[0])
    if not is_possible_name(name) or len(name) > _MAX_LENGTH or is_absolute or ".." in parts or not parts - {"", "."}:
        raise RequestError(f"Cannot read {what}: expected a path below {folder}, got {name[:_SHOWN]!r}")
    path = Path(folder, os.path.normpath(name))
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), os.path.normpath(name)):
        raise RequestError(f"Cannot read {what}: links are not followed", file=str(path))
    return path


def read_below(folder: Path, name: str, what: str = "the file", most_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file below a folder. Arguments as for `path_below`.

    Raises:
        RequestError: As for `path_below`; the file cannot be read, is no regular file, or has more than `most_bytes`.
    """
    path = path_below(folder, name, what)
    try:
        with open_regular(str(path)) as file:
            is_larger = os.fstat(file.fileno()).st_size > most_bytes  # a sparse file may have any size
            data = b"" if is_larger else file.read(most_bytes + 1)
    except HarnessError as error:
        reason = error.message.removeprefix("Cannot read file: ")
        raise RequestError(f"Cannot read {what}: {reason}", file=str(path)) from error
    except OSError as error:
        raise RequestError(f"Cannot read {what}: {error.strerror}", file=str(path)) from error
    if is_larger or len(data) > most_bytes:
        raise RequestError(f"Cannot read {what}: it has more than {most_bytes:,} bytes", file=str(path))
    return data


def read_json_text(folder: Path, name: str, what: str = "the file") -> str:
    """Return the text of a JSON file, or of JSON lines, that stays below a limit of memory when it is parsed.

    Raises:
        RequestError: As for `read_below`; the file is not UTF-8, or has more than `MOST_JSON_VALUES`.
    """
    data = read_below(folder, name, what, MAX_JSON_BYTES)
    try:
        if count_values(data) > MAX_JSON_VALUES:
            raise ValueError(f"it has more than {MAX_JSON_VALUES:,} values")
        return data.decode()
    except ValueError as error:
        raise RequestError(f"Cannot read {what}: {error}", file=str(folder / name)) from error


def read_json(folder: Path, name: str, what: str = "the file") -> Any:
    """Return the value of a JSON file. Raises RequestError: as for `read_json_text`, or the file is no JSON."""
    text = read_json_text(folder, name, what)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"Cannot read {what}: {error}", file=str(folder / name)) from error
