"""How deep types may nest: what walks a type calls itself once per level, here and in the engines."""

from __future__ import annotations

from harness.limits import Limits
from harness.model.schema import Field, children


def check_nesting(fields: tuple[Field, ...], limits: Limits, *, file: str | None = None) -> None:
    """Refuses columns of more levels than `limits.nesting`.

    Raises:
        LimitError: names the file.
    """
    level, depth = fields, 0
    while level:
        depth += 1
        limits.check("nesting", depth, "levels of types", file=file)
        level = tuple(part for field in level for part in children(field.type))
