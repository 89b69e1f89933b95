"""Answers about a table that a reader gets from listings, catalogs, planning servers, and workers.

Each answer is kept as a file next to the table's files, with a name that starts with its target, for example
`catalog:…`. Mutants of answers are therefore drawn, reduced, and written like mutants of files. An `Answers` object
reads them.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from fuzz_assessment import Assessment
from fuzz_catalogs import Catalogs
from fuzz_contained import Contained
from fuzz_listings import Listings
from fuzz_plans import Plans
from fuzz_reading import Outcome
from fuzz_subjects import Changes, Image, Subject, SubjectRead


class Answers(Protocol):
    """The answers about one table."""

    image: Image

    def files(self, read: SubjectRead) -> list[str]:
        """Return the names of the answers that a read may get."""

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """Return the outcome for a user if the answers have these changes."""

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess an outcome. `original` is the outcome without changes."""


KINDS: Mapping[str, Callable[[Subject], Answers]] = {
    "listings": Listings,
    "catalog": Catalogs,
    "plans": Plans,
    "worker": Contained,
}
"""Classes of answers by target."""


def target_of(changes: Changes) -> str | None:
    """Return the target whose answers are changed, or None if files of the table are changed."""
    target = next(iter(changes), "").partition(":")[0]
    return target if target in KINDS else None
