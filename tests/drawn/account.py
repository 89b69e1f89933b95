"""The draws and comparisons of a run of properties: counted by kind of table, printed, and held against floors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from drawn.predicates import columns_of
from drawn.reads import Shape, name_of, reads_of
from drawn.strategies.histories import DrawnHistory
from harness.errors import UnsupportedError

TABLES = "tables"
HIDING = "deletes hide rows"
GROUPS = "several row groups in a file"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Account:
    """Counts by name, for each kind of table, in the order in which they came."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def add_table(self, kind: str, drawn: DrawnHistory, shape: Shape) -> None:
        """A table of which all engines read a shape: what it holds, and which deletes hide rows of that read."""
        model = drawn.model
        hiding = frozenset[str]().union(*(model.hiding(read.at) for read in reads_of(shape)))
        snapshots = sum(at.kind in ("snapshot", "version") for at in model.points())
        self._counts(kind).update({TABLES: 1, "snapshots": snapshots, HIDING: bool(hiding)})
        self._counts(kind).update(hiding)
        self._counts(kind)[GROUPS] += any(map(_has_groups, drawn.operations))

    @contextmanager
    def read(self, kind: str, shape: Shape, engine: str) -> Iterator[None]:
        """Counts what is read inside, or that Spark refuses it."""
        try:
            yield
        except UnsupportedError as error:
            reason = re.sub(r"""['"`].*?['"`]""", "…", error.message)
            self._counts(kind).update([REFUSED, f"{REFUSED}: {reason[:100]}"])
            return
        filters = [(r.columns, columns_of(r.where)) for r in reads_of(shape) if r.where is not None]
        hidden = any(shown is not None and not by <= {*shown} for shown, by in filters)
        names = [f"{engine}: reads", f"{engine}: {name_of(shape)}"]
        self._counts(kind).update([*names, *["filtered"] * bool(filters), *["by a column not shown"] * hidden])

    def total(self, name: str) -> int:
        """A count over all kinds of table."""
        return sum(counts[name] for counts in self.counts.values())

    def share(self, name: str, of: str = TABLES) -> float:
        """A count as a part of another; 0 where there is none."""
        return self.total(name) / (self.total(of) or 1)

    def add(self, other: Account) -> None:
        """Adds the counts of another run."""
        for kind, counts in other.counts.items():
            self._counts(kind).update(counts)

    def to_json(self) -> str:
        """The counts as `of_json` takes them, to leave a process."""
        return json.dumps(self.counts)

    @staticmethod
    def of_json(text: str) -> Account:
        """The account that `to_json` wrote."""
        return Account({kind: Counter(counts) for kind, counts in json.loads(text).items()})

    def shown(self) -> str:
        """A table with a line for each count, and a column for each kind of table."""
        names = sorted(dict.fromkeys(n for counts in self.counts.values() for n in counts), key=_place)
        lines = [("", [*self.counts, "all"])]
        lines += [(n, [*(str(c[n]) for c in self.counts.values()), str(self.total(n))]) for n in names]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:{width}}  {''.join(f'{cell:>11}' for cell in cells)}" for name, cells in lines)

    def _counts(self, kind: str) -> Counter[str]:
        return self.counts.setdefault(kind, Counter())


def _place(name: str) -> tuple[bool, bool]:
    """Tables first, then reads, refusals last; as they came within these."""
    return name.startswith(REFUSED), ":" in name or name in ("filtered", "by a column not shown")


def _has_groups(operation: Mapping[str, Any]) -> bool:
    """Tells whether an operation writes a file of more rows than a row group of it has."""
    ((_, value),) = operation.items()
    files = value.get("files", value.get("add", ())) if isinstance(value, dict) else value
    files = files if isinstance(files, list) else ()
    return any(isinstance(f, dict) and len(f.get("rows", ())) > f.get("row-group-size", 1 << 20) for f in files)
