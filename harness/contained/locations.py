"""The directories that a table may be read from, before it is opened: what a worker is confined to."""

from __future__ import annotations

import os
from collections.abc import Iterable

from harness.catalogs.names import may_be_name
from harness.errors import RequestError
from harness.storage.gate import refuse_no_name
from harness.storage.paths import is_local, local_path, shown
from harness.storage.roots import metadata_root


def directories_of(locations: Iterable[str], roots: Iterable[str] = ()) -> tuple[str, ...]:
    """The directories of tables and other roots: absolute, as they are spelled and with links resolved.

    locations: of tables; of a metadata file, the table around it counts, as `harness.storage.roots` has it.

    Raises:
        RequestError: one of them is not on a local disk, or the name of a table in a catalog.
    """
    found: dict[str, None] = {}
    for location in locations:
        if may_be_name(location):
            raise RequestError(
                "Cannot read an untrusted table by name: there is no such path, and no catalog is asked where it is "
                "read; give its path",
                table=location,
            )
        refuse_no_name(location)
        path = _local(location)
        for spelled in (path, os.path.realpath(path)):
            found[metadata_root(spelled) if os.path.isfile(spelled) else spelled] = None
    for root in roots:
        refuse_no_name(root)
        found |= dict.fromkeys((_local(root), os.path.realpath(_local(root))))
    return tuple(found)


def _local(location: str) -> str:
    path = local_path(location)
    if not is_local(path):
        raise RequestError(
            "Cannot read an untrusted table that is not on a local disk: there is no network where it is read; copy it "
            "to a directory first",
            table=shown(location),
        )
    return os.path.abspath(path)
