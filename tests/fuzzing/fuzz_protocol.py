"""What a worker and its parent tell each other, as JSON has it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fuzz_mutants import Mutant
from fuzz_subjects import Changes, Read


def told(mutant: Mutant) -> dict[str, Any]:
    """A mutant in words and plain values."""
    mutations = [f"{m.mutator} of {m.file}" for m in mutant.mutations]
    return {"name": mutant.name, "subject": mutant.subject, "read": plain(mutant.read), "mutations": mutations}


def plain(read: Read) -> dict[str, Any]:
    """A read as plain values."""
    return {"at": dict(read.at), "columns": read.columns, "where": read.where, "changes": read.changes}


def read_of(values: Mapping[str, Any]) -> Read:
    """The read that `plain` made plain."""
    columns, changes = values["columns"], values["changes"]
    return Read(
        at=values["at"],
        columns=None if columns is None else tuple(columns),
        where=values["where"],
        changes=None if changes is None else tuple(changes),
    )


def packed(changes: Changes) -> dict[str, str | None]:
    """Changes with bytes as base64."""
    return {name: None if data is None else base64.b64encode(data).decode() for name, data in changes.items()}


def unpacked(changes: Mapping[str, str | None]) -> dict[str, bytes | None]:
    """The changes that `packed` packed."""
    return {name: None if text is None else base64.b64decode(text) for name, text in changes.items()}
