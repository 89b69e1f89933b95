"""A difference that a property test found, written to a directory so that others can reproduce it.

    with reproducing(directory):
        read.assert_same(model=read.by_model(), duckdb=read.by("duckdb"))

This writes to a new folder of `directory`: `table/`, the minimal table; `scenario.yaml`, which makes the table and
expects the model's rows, for `harness scenarios run`; `query.sql` and `expected.txt`, if the result of a query differs;
and `README.md` with the command and the difference.
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scenario_text import dump

from drawn.agreement import Disagreement, build_table, describe_shape, scenario_of
from drawn.models.model import scenario_rows
from drawn.reads import ReadShape, answer, reads_of


@contextmanager
def reproducing(directory: Path | None) -> Iterator[None]:
    """Write a repro directory for a `Disagreement` that is raised inside, and add its path to the exception's notes.

    Args:
        directory: The parent of a folder for each difference. None to write nothing.
    """
    try:
        yield
    except Disagreement as found:
        if directory is not None:
            found.add_note(f"Repro directory: {write_repro(found, directory)}")
        raise


def write_repro(disagreement: Disagreement, directory: Path) -> Path:
    """Write the repro directory of a difference and return its path."""
    drawn, shape = disagreement.drawn, disagreement.shape
    digest = hashlib.sha256(f"{dump(scenario_of(drawn))}{shape}".encode()).hexdigest()
    place = directory / f"{drawn.format}-{digest[:8]}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    plain = [shape] if isinstance(shape, ReadShape) else [ReadShape(at=r.at, where=r.where) for r in reads_of(shape)]
    (place / "scenario.yaml").write_text(dump(scenario_of(drawn, plain)), encoding="utf-8")
    command = f"harness scenarios run scenario.yaml --engines {disagreement.engine}"
    with build_table(drawn, place) as history:
        if not isinstance(shape, ReadShape):
            columns, rows = answer(drawn.model, shape)
            lines = [[column.name for column in columns], *scenario_rows(columns, rows)]
            (place / "query.sql").write_text(f"{describe_shape(shape, history)}\n", encoding="utf-8")
            (place / "expected.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            command = f'harness sql --engine {disagreement.engine} --table t=table "$(cat query.sql)"'
    text = (
        f"# {disagreement.engine} and the model differ\n\n    {command}\n\n## Difference\n\n```\n{disagreement}\n```\n"
    )
    (place / "README.md").write_text(text, encoding="utf-8")
    return place
