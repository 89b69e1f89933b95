"""How rows are compared: all that a caller may say, but for the sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from harness.differ.canonical import SignedZeros
from harness.differ.closeness import line_of
from harness.differ.exact import Difference, keyed_difference, multiset_difference
from harness.differ.relaxations import NOTHING, Relaxations
from harness.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How rows are compared; `harness.compare` says what each means."""

    keys: tuple[str, ...]
    max_rows: int
    signed_zeros: SignedZeros
    few: int
    relaxations: Relaxations = NOTHING
    group_by: tuple[str, ...] = ()
    sample_keys: int | None = None

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            RequestError: a number is negative, or something is asked that needs keys.
        """
        if self.max_rows < 0 or self.few < 0:
            raise RequestError(f"Invalid max_rows {self.max_rows} or few {self.few}: expected no negative number")
        if self.sample_keys is not None and (self.sample_keys < 1 or not self.keys):
            raise RequestError(
                f"Invalid sample_keys {self.sample_keys}: expected a positive number, and keys",
                options=("sample_keys",),
            )
        self.relaxations.check(self.keys)

    def check_columns(self, columns: Sequence[str], left: pa.Schema, right: pa.Schema) -> None:
        """Refuse names that no compared column has, and tolerances that its values do not have.

        Raises:
            RequestError: of a tolerance or a group.
        """
        for what, names in (("a tolerance of", self.relaxations.tolerances), ("groups by", self.group_by)):
            for name in names:
                if name not in columns:
                    raise RequestError(
                        f"Cannot use {what} {name!r}: both sides must have it, in comparable types; compared columns "
                        f"are {', '.join(map(repr, columns)) or 'none'}",
                        field=name,
                    )
        for name, tolerance in self.relaxations.tolerances.items():
            line_of(name, left.field(name).type, right.field(name).type, tolerance)

    def difference(self, left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Difference:
        """The differences of rows in memory."""
        if self.keys:
            return keyed_difference(
                left,
                right,
                columns,
                self.keys,
                max_rows=self.max_rows,
                signed_zeros=self.signed_zeros,
                tolerances=self.relaxations.tolerances,
            )
        return multiset_difference(left, right, columns, max_rows=self.max_rows, signed_zeros=self.signed_zeros)
