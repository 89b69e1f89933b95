"""What one Avro file has claimed so far that its bytes do not back."""

from __future__ import annotations

from harness.limits import Limits
from harness.records import dataclass


@dataclass(slots=True)
class Tally:
    """Counts of one file, held against the limits. empty: values that took no byte."""

    limits: Limits
    file: str
    empty: int = 0

    def items(self, count: int) -> None:
        """Counts the items that a list or map has by now.

        Raises:
            LimitError: they are more than `limits.items`.
        """
        if count > self.limits.items:  # asked for each list of each record
            self.limits.check("items", count, "items of one list", file=self.file)

    def nothing(self) -> None:
        """Counts a value that took no byte.

        Raises:
            LimitError: there are more than `limits.empty_values`.
        """
        self.empty += 1
        if self.empty > self.limits.empty_values:
            self.limits.check("empty_values", self.empty, "values without a byte", file=self.file)
