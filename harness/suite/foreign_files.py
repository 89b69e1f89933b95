"""Files that other programs wrote: a suite, the results of a reader, or the rows in a reader's answer.

Each file must be a regular file below a given folder, reached without symbolic links, and of bounded length.
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
"""The largest file, and the largest size of its decoded rows, in bytes."""
MAX_ROWS = MAX_BYTES // 8
"""The largest number of values. A comparison uses 8 bytes per value, even if the file stores none."""
MAX_JSON_BYTES = 1 << 28
MAX_JSON_VALUES = 1 << 25
"""The limits for a JSON file. Each value may use up to 90 bytes of memory."""
_MAX_LENGTH = 4096
"""The longest name of a file below a folder, in characters."""
_SHOWN = 100
"""The number of characters of a name that messages show."""


def path_below(folder: Path, name: str, description: str = "the file") -> Path:
    """Return the path of a file or directory below a folder.

    Args:
        folder: A folder that the user named. It may be a symbolic link.
        name: A path relative to the folder, written by another program.
        description: A description of the file for messages.

    Raises:
        RequestError: The name is empty, absolute, or invalid, contains `..`, or passes through a symbolic link.
    """
    parts = {*name.replace(os.sep, "/").split("/")}
    is_absolute = os.path.isabs(name) or bool(os.path.splitdrive(name)[0])
    if not is_possible_name(name) or len(name) > _MAX_LENGTH or is_absolute or ".." in parts or not parts - {"", "."}:
        raise RequestError(f"Cannot read {description}: expected a path below {folder}, got {name[:_SHOWN]!r}")
    path = Path(folder, os.path.normpath(name))
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), os.path.normpath(name)):
        raise RequestError(f"Cannot read {description}: links are not followed", file=str(path))
    return path


def read_below(folder: Path, name: str, description: str = "the file", most_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file below a folder. The arguments are the same as for `path_below`.

    Raises:
        RequestError: As for `path_below`; or the file cannot be read, is not regular, or has more than `most_bytes`
            bytes.
    """
    path = path_below(folder, name, description)
    try:
        with open_regular(str(path)) as file:
            is_larger = os.fstat(file.fileno()).st_size > most_bytes  # a sparse file may have any size
            data = b"" if is_larger else file.read(most_bytes + 1)
    except HarnessError as error:
        reason = error.message.removeprefix("Cannot read file: ")
        raise RequestError(f"Cannot read {description}: {reason}", file=str(path)) from error
    except OSError as error:
        raise RequestError(f"Cannot read {description}: {error.strerror}", file=str(path)) from error
    if is_larger or len(data) > most_bytes:
        raise RequestError(f"Cannot read {description}: it has more than {most_bytes:,} bytes", file=str(path))
    return data


def read_json_text(folder: Path, name: str, description: str = "the file") -> str:
    """Return the text of a JSON or JSON lines file whose values fit into memory.

    Raises:
        RequestError: As for `read_below`; or the file is not UTF-8 or has more than `MAX_JSON_VALUES` values.
    """
    data = read_below(folder, name, description, MAX_JSON_BYTES)
    try:
        if count_values(data) > MAX_JSON_VALUES:
            raise ValueError(f"it has more than {MAX_JSON_VALUES:,} values")
        return data.decode()
    except ValueError as error:
        raise RequestError(f"Cannot read {description}: {error}", file=str(folder / name)) from error


def read_json(folder: Path, name: str, description: str = "the file") -> Any:
    """Return the value of a JSON file.

    Raises:
        RequestError: As for `read_json_text`; or the file is not JSON.
    """
    text = read_json_text(folder, name, description)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"Cannot read {description}: {error}", file=str(folder / name)) from error
