"""What is written stays inside one directory, whatever paths are given: scenario files may come from strangers."""

from __future__ import annotations

from pathlib import Path

from harness.errors import RequestError


def inside(directory: Path, path: Path) -> Path:
    """`path`, if it is in the directory once links and `..` are followed.

    Raises:
        RequestError: it is not.
    """
    if not path.resolve().is_relative_to(directory.resolve()):
        raise RequestError(f"Cannot write {path}: it is outside of {directory}, in which the table is built")
    return path
