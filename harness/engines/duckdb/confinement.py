"""What instances of DuckDB may use in a process that reads tables of strangers. Says it; loads no DuckDB."""

from __future__ import annotations

import os

from harness.storage.records import dataclass

_MOST_THREADS = 4
"""Each takes address space for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What instances may use of the machine; nothing else, and no SQL can change it.

    directories: whose files may be read, absolute, links resolved.
    memory_bytes: of buffers.
    scratch, scratch_bytes: the directory in which they sort what does not fit in memory, and how much of it.
    """

    directories: tuple[str, ...]
    memory_bytes: int
    scratch: str
    scratch_bytes: int


_confined: list[Confinement] = []


def confine(confinement: Confinement) -> None:
    """From now on, every instance that `duckdb_instance` makes in this process is confined; there is no way back.

    To be called before the first one is made.
    """
    assert not _confined
    _confined.append(confinement)


def settings() -> list[str]:
    """What is set, in this order, before the configuration is locked; nothing in a process that is not confined."""
    if not _confined:
        return []
    from harness.engines import sqltext

    (confinement,) = _confined
    # DuckDB holds a list of files against the directories before it takes them for patterns, and after.
    allowed = dict.fromkeys(form for path in confinement.directories for form in (path, sqltext.glob_free(path)))
    return [
        f"memory_limit = '{confinement.memory_bytes} B'",
        f"temp_directory = {sqltext.text(confinement.scratch)}",
        f"max_temp_directory_size = '{confinement.scratch_bytes} B'",
        f"threads = {min(_MOST_THREADS, os.cpu_count() or 1)}",
        f"allowed_directories = [{', '.join(map(sqltext.text, allowed))}]",
        "enable_external_access = false",
    ]
