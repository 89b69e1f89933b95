"""What a slice is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.errors import RequestError
from harness.filters.column_binding import bind_columns
from harness.filters.predicate import Filter
from harness.model.schema import Field, Schema
from harness.slices.masking import Mask
from harness.slices.pseudonyms import Pseudonyms


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """What a slice is asked to hold.

    where: a boolean SQL expression, or a filter for the snapshot's schema; None: all rows.
    last: so many of the newest snapshots, up to the one that is read.
    columns: names of the columns that it has; None: all.
    exact: whether it has no other rows than those that `where` lets through.
    sample_rows: so many of these rows, chosen by `seed`; None: all.
    compact: whether deleted rows are gone, and with them the deletes.
    follows: where the filter comes from, if it was made of the rows of other slices.
    anonymise: the key that chooses other values for all of its own; None: they stay.
    max_bytes: how large the files of the source may be that are fetched; None: as large as they are.
    """

    where: str | Filter | None = None
    last: int = 1
    columns: tuple[str, ...] | None = None
    exact: bool = False
    sample_rows: int | None = None
    seed: int = 0
    compact: bool = False
    follows: tuple[str, ...] = ()
    anonymise: str | None = field(default=None, repr=False)
    max_bytes: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_number(self.last, "last", 1)
        if self.max_bytes is not None:
            _check_number(self.max_bytes, "max_bytes", 0)
        if self.sample_rows is not None:
            _check_number(self.sample_rows, "sample_rows", 1)
        _check_number(self.seed, "seed", 0)
        if self.anonymise is not None and not self.anonymise:
            raise RequestError("Invalid anonymise='': expected a key", options=("anonymise",))
        single = {
            "sample_rows": self.sample_rows is not None,
            "compact": self.compact,
            "anonymise": self.anonymise is not None,
        }
        for name, asked in single.items():
            if asked and self.last > 1:
                raise RequestError(
                    f"Cannot pull {self.last} snapshots with {name}: which rows are there differs between them; "
                    "leave one of both out",
                    options=(name,),
                )
        if self.columns is not None and not self.columns:
            raise RequestError("Invalid columns: expected at least one name", options=("columns",))

    @property
    def cuts_rows(self) -> bool:
        """Whether data files may lose rows."""
        return self.exact or self.compact or self.sample_rows is not None

    @property
    def rewrites_vectors(self) -> bool:
        """Whether deletion vectors are written anew."""
        return self.cuts_rows or self.anonymise is not None

    @property
    def rewrites(self) -> bool:
        """Whether data files may change."""
        return self.rewrites_vectors or self.columns is not None

    def bound_columns(self, schema: Schema) -> tuple[Field, ...] | None:
        """The columns of the slice; None: all that files have. Of an anonymised one they are those of the schema."""
        if self.columns is not None:
            return bind_columns(self.columns, schema)
        return None if self.anonymise is None else schema.fields

    def mask(self) -> Mask | None:
        """What becomes of values; None: they stay."""
        return None if self.anonymise is None else Mask(Pseudonyms(self.anonymise))

    def as_dict(self) -> dict[str, Any]:
        """The request as plain values, for the note; what was not asked is left out, and so is what tells values."""
        asked = {
            "where": self.where if isinstance(self.where, str) and self.anonymise is None else None,
            "last": None if self.last == 1 else self.last,
            "columns": None if self.columns is None else list(self.columns),
            "exact": self.exact or None,
            "sample_rows": self.sample_rows,
            "seed": None if self.sample_rows is None else self.seed,
            "compact": self.compact or None,
            "follows": list(self.follows) or None,
            "anonymised": self.anonymise is not None or None,
        }
        return {name: value for name, value in asked.items() if value is not None}


def _check_number(value: object, name: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"Invalid {name}={value!r}: expected a number from {least} on", options=(name,))
