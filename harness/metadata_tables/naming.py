"""Which metadata tables there are."""

from __future__ import annotations

from difflib import get_close_matches

from harness.errors import RequestError

NAMES = {
    "iceberg": (
        *("snapshots", "history", "refs", "manifests", "files", "data_files", "delete_files", "entries", "partitions"),
        "position_deletes",
        *("metadata_log_entries", "all_manifests", "all_files", "all_data_files", "all_delete_files", "all_entries"),
    ),
    "delta": ("versions", "history", "files", "partitions"),
}
"""By format. Those with `all_` are of all snapshots of the table. Delta's `history` is another name of `versions`."""


def is_metadata_table(table_format: str, name: str) -> bool:
    """Whether tables of that format have such a metadata table, whatever the case of the letters."""
    return name.casefold() in NAMES[table_format]


def check_name(table_format: str, name: str) -> str:
    """The name in lower case.

    Raises:
        RequestError: the format has no such metadata table.
    """
    if is_metadata_table(table_format, name):
        return name.casefold()
    names = NAMES[table_format]
    near = get_close_matches(name.casefold(), names, n=1)
    hint = f"did you mean {near[0]}" if near else f"there are {', '.join(names)}"
    raise RequestError(f"There is no metadata table {name!r} of {table_format} tables: {hint}")
