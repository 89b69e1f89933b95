"""Answers that a reader gets about a table: of listings, of catalogs, of the worker that reads in its place.

Each is kept as a file beside the table's own, under a name that begins with its target, such as `catalog:…`. So mutants
of it are drawn, made small and kept like those of files; what reads them is an `Answers`.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from fuzz_assessment import Assessment
from fuzz_catalogs import Catalogs
from fuzz_contained import Contained
from fuzz_listings import Listings
from fuzz_reading import Outcome
from fuzz_subjects import Changes, Image, Subject, SubjectRead


class Answers(Protocol):
    """The answers about one table."""

    image: Image

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """The outcome for a user, if the answers have these changes."""

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """The verdict on that. original: what a user gets without changes."""


KINDS: Mapping[str, Callable[[Subject], Answers]] = {"listings": Listings, "catalog": Catalogs, "worker": Contained}
"""Makers of answers, by target."""


def target_of(changes: Changes) -> str | None:
    """The target whose answers are changed; None: files of the table are."""
    target = next(iter(changes), "").partition(":")[0]
    return target if target in KINDS else None
