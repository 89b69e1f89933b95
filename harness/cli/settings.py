"""`--set NAME=VALUE`: rare arguments of `harness.open_table` and `harness.read_untrusted`, by their names in Python."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from harness.metadata.plan.read_options import Ratified
from harness.storage import limits
from harness.tools.contained.bounds import Bounds, check_waived, parse_bounds
from harness.tools.contained.bounds import names as bounds_names

_FLAG_MEANINGS = {
    "allow_version_guess": "In a directory without a version hint, take the highest version.",
    "allow_checkpoint_only": "Read a Delta table whose newest checkpoint lacks its own commit.",
    "allow_duplicate_files": "Read a data file twice that is listed twice.",
    "lenient_delete_partition": "Deletes by position hit files of any partition, by their path.",
    "enforce_retention": "Refuse versions of a Delta table older than the table keeps deleted files.",
    "published_only": "Read a Delta table that a catalog manages as far as it is published, which may be older.",
}
FLAGS = tuple(_FLAG_MEANINGS)
"""Settings that are true or false."""
MEANINGS = {
    **_FLAG_MEANINGS,
    "max_version": "The latest version of a Delta table, as the catalog says that manages it.",
    "ratified": "With max_version, a staged commit that the catalog ratified, by the name of its file, or VERSION=FILE "
    "for a commit that only the catalog holds, copied to a file. Repeatable.",
    "format_hint": "The format, iceberg or delta, where the location does not tell.",
    "limits.NAME": "The most that the metadata may ask for, such as limits.document_bytes=1_000_000_000, for tables "
    "that you trust.",
    "bounds.NAME": "With --untrusted, the most that the process may use, such as bounds.memory_bytes=8_000_000_000.",
    "waived": "With --untrusted, run also where the system cannot enforce this limit, such as network. Repeatable.",
}
"""Settings by name."""
_LISTS = ("ratified", "waived")
_FORMATS = ("iceberg", "delta")
SETTINGS = (
    *(name for name in MEANINGS if "." not in name),
    *(f"limits.{name}" for name in limits.names()),
    *(f"bounds.{name}" for name in bounds_names()),
)
"""Names for `--set`."""
_SAME = (
    "at", "cache_dir", "catalog", "columns", "compact", "dialect", "engine", "follow", "keys", "last", "max_bytes",
    "outside", "path_map", "prune", "sample_keys", "sample_rows", "seed", "untrusted", "verbose", "where",
)  # fmt: skip
OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in _SAME},
    **dict.fromkeys(("snapshot_id", "version", "timestamp", "ref"), "--at"),
    **{"storage_options": "--storage-option", "allowed_roots": "--allow-root"},
}
"""Options of their own, by the name of the argument in Python."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of `--set`.

    opening: arguments of `open_table`. bounds, waived: of the worker for strangers' tables.
    """

    opening: dict[str, Any]
    bounds: Bounds | None
    waived: frozenset[str]

    @classmethod
    def of(cls, texts: Sequence[str] | None) -> Settings:
        """The settings in texts of the form NAME=VALUE.

        Raises:
            typer.BadParameter: a name is unknown, a value is given twice or of the wrong type.
            RequestError: a number is none, or no limit can be waived under a name.
        """
        given: dict[str, list[str]] = {}
        for text in texts or ():
            name, separator, value = text.partition("=")
            if name not in SETTINGS:
                raise typer.BadParameter(f"--set {name}: there is no such name; {_hint(name)}")
            if not separator:
                raise typer.BadParameter(f"--set {name}: expected {name}=VALUE")
            if name in given and name not in _LISTS:
                raise typer.BadParameter(f"--set {name} is given twice")
            given.setdefault(name, []).append(value)
        opening = {name: _value(name, values) for name, values in given.items() if "." not in name and name != "waived"}
        if limited := _below("limits", given):
            opening["limits"] = limits.parse_limits(limited.items())
        bounded = _below("bounds", given)
        return cls(opening, parse_bounds(bounded.items()) if bounded else None, check_waived(given.get("waived", [])))

    def check_trust(self, *, untrusted: bool) -> None:
        """Refuses limits of a worker where there is none."""
        if not untrusted and (self.bounds or self.waived):
            raise typer.BadParameter("--set bounds.NAME=VALUE and --set waived=NAME are for --untrusted")


def _below(group: str, given: dict[str, list[str]]) -> dict[str, str]:
    return {name.partition(".")[2]: value for name, (value, *_) in given.items() if name.startswith(f"{group}.")}


def _value(name: str, values: list[str]) -> Any:
    """The value of an argument of `open_table`."""
    text = values[0]
    if name in FLAGS:
        if text.lower() not in ("true", "false"):
            raise typer.BadParameter(f"--set {name}={text}: expected true or false")
        return text.lower() == "true"
    match name:
        case "max_version":
            if not text.isdecimal():
                raise typer.BadParameter(f"--set {name}={text}: expected a version, a whole number from 0 on")
            return int(text)
        case "format_hint":
            if text not in _FORMATS:
                raise typer.BadParameter(f"--set {name}={text}: expected {' or '.join(_FORMATS)}")
            return text
        case _:
            return list(map(_ratified_commit, values))


def _ratified_commit(text: str) -> Ratified:
    """A commit that a catalog ratified: the name of its file, or VERSION=FILE with its content."""
    version, separator, path = text.partition("=")
    if not separator or not version.isdecimal():
        return text
    try:
        return int(version), Path(path).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"--set ratified={text}: {error.strerror}") from error


def _hint(name: str) -> str:
    """The nearest name, or all names."""
    python = name.lstrip("-").replace("-", "_")
    if python in OPTIONS:
        return f"give {OPTIONS[python]}"
    near = [each for each in SETTINGS if each.partition(".")[2] == python]
    near = near or difflib.get_close_matches(python, SETTINGS, 1, 0.7)
    if near:
        return f"did you mean {near[0]}?"
    group = [each for each in SETTINGS if each.startswith(f"{name.partition('.')[0]}.")]
    return f"there are {', '.join(group or MEANINGS)}"
