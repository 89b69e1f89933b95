"""Bugs of servers that plan scans, for `LakeCatalog`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.errors import RequestError
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.testing.lake_catalog_plans import Page, PlannedTask, ServerScan


class PlanFault(enum.Enum):
    """A bug of a server that plans scans. Everything else in the plan stays right.

    Some plans cannot show a bug: for example, deletes can only be lost if the table has deletes. `LakeCatalog.planted`
    lists the bugs that changed a plan. The first four are bugs of released software.
    """

    DROPPED_RESIDUALS = "dropped-residuals"
    """Each file has the residual filter `true`, so a client that trusts it returns rows that the filter excludes
    (delta#6052)."""
    IGNORED_DELETES = "ignored-deletes"
    """The delete files are listed, but no file refers to them (delta#7562)."""
    LAST_VECTOR = "last-vector"
    """Each file with a deletion vector in a Puffin file gets the last vector of that Puffin file (iceberg#17497)."""
    DELETES_OF_FIRST_PAGE = "deletes-of-first-page"
    """Only the first answer has deletes. Answers to requests for plan tasks have no deletes (gravitino#12241)."""
    MISSING_FILE = "missing-file"
    """The last data file is missing."""
    REMOVED_FILE = "removed-file"
    """The plan also lists a data file of an earlier snapshot that a later snapshot removed."""
    FILE_TWICE = "file-twice"
    """The first data file is listed twice."""
    OTHER_EQUALITY_DELETE = "other-equality-delete"
    """A data file has an equality delete of another file instead of the right equality delete."""
    VECTOR_OFFSET = "vector-offset"
    """The first deletion vector begins one byte later."""
    VECTOR_LENGTH = "vector-length"
    """The first deletion vector is one byte longer."""
    WIDER_RESIDUAL = "wider-residual"
    """The first residual filter lacks the right part of an AND. A residual that is no AND becomes `true`."""
    PARTITION = "partition"
    """The first data file whose partition can be changed has another value, or null, for a partition field."""
    STATISTICS = "statistics"
    """The first data file has one more null in each column with a null count. The request must select statistics."""


def parse_fault(fault: PlanFault | str) -> PlanFault:
    """Return a fault, or raise RequestError if no fault has that name."""
    try:
        return PlanFault(fault)
    except ValueError:
        names = ", ".join(each.value for each in PlanFault)
        raise RequestError(f"Unknown fault {fault!r}: there are {names}") from None


def plant(fault: PlanFault, tasks: Sequence[PlannedTask], scan: ServerScan) -> list[PlannedTask]:
    """Return the files of a plan with a fault, or the same files if the plan cannot have the fault."""
    change = _CHANGES.get(fault)
    return list(tasks) if change is None else list(change(tasks, scan))


def plant_in_page(fault: PlanFault, page: Page, number: int) -> Page:
    """Return a page of a plan with a fault, or an equal page if the page cannot have the fault."""
    match fault:
        case PlanFault.IGNORED_DELETES:
            return replace(page, tasks=tuple(replace(task, deletes=()) for task in page.tasks))
        case PlanFault.DELETES_OF_FIRST_PAGE if number > 0:
            return Page.of_tasks([replace(task, deletes=()) for task in page.tasks])
        case _:
            return page


_Tasks = Sequence[PlannedTask]


def _drop_residuals(tasks: _Tasks, _: ServerScan) -> Iterator[PlannedTask]:
    for task in tasks:
        yield task if task.residual is None else replace(task, residual=True)


def _use_last_vectors(tasks: _Tasks, _: ServerScan) -> Iterator[PlannedTask]:
    last: dict[str, DataFile] = {}
    for delete in _vectors(tasks):
        if delete.path not in last or (delete.content_offset or 0) > (last[delete.path].content_offset or 0):
            last[delete.path] = delete
    for task in tasks:
        yield replace(task, deletes=tuple(last.get(delete.path, delete) for delete in task.deletes))


def _drop_last_file(tasks: _Tasks, _: ServerScan) -> Sequence[PlannedTask]:
    return tasks[:-1]


def _add_removed_file(tasks: _Tasks, scan: ServerScan) -> Iterator[PlannedTask]:
    yield from tasks
    removed = scan.removed_file()
    if removed is not None:
        yield removed


def _repeat_first_file(tasks: _Tasks, _: ServerScan) -> Sequence[PlannedTask]:
    return [*tasks[:1], *tasks]


def _swap_equality_delete(tasks: _Tasks, _: ServerScan) -> Sequence[PlannedTask]:
    keys = {delete.path: delete for task in tasks for delete in task.deletes if _is_equality_delete(delete)}
    for place, task in enumerate(tasks):
        current = next((delete for delete in task.deletes if _is_equality_delete(delete)), None)
        paths = {delete.path for delete in task.deletes}
        other = next((delete for path, delete in keys.items() if path not in paths), None)
        if current is not None and other is not None:
            deletes = tuple(other if delete is current else delete for delete in task.deletes)
            return [*tasks[:place], replace(task, deletes=deletes), *tasks[place + 1 :]]
    return tasks


def _move_vector(tasks: _Tasks, _: ServerScan) -> Iterator[PlannedTask]:
    return _change_first_vector(tasks, lambda vector: replace(vector, content_offset=(vector.content_offset or 0) + 1))


def _lengthen_vector(tasks: _Tasks, _: ServerScan) -> Iterator[PlannedTask]:
    return _change_first_vector(tasks, lambda vector: replace(vector, content_size=(vector.content_size or 0) + 1))


def _change_first_vector(tasks: _Tasks, change: Callable[[DataFile], DataFile]) -> Iterator[PlannedTask]:
    first = next(_vectors(tasks), None)
    for task in tasks:
        yield replace(task, deletes=tuple(change(delete) if delete is first else delete for delete in task.deletes))


def _widen_residual(tasks: _Tasks, _: ServerScan) -> Sequence[PlannedTask]:
    for place, task in enumerate(tasks):
        match task.residual:
            case None | True:
                continue
            case {"type": "and", "left": left}:
                wider = left
            case _:
                wider = True
        return [*tasks[:place], replace(task, residual=wider), *tasks[place + 1 :]]
    return tasks


def _change_partition(tasks: _Tasks, _: ServerScan) -> Sequence[PlannedTask]:
    for place, task in enumerate(tasks):
        for field_id, value in task.file.partition.items():
            values = [other.file.partition.get(field_id) for other in tasks if other.file.spec_id == task.file.spec_id]
            other_value = next((each for each in values if each != value), None)
            file = replace(task.file, partition={**task.file.partition, field_id: other_value})
            if file != task.file:
                return [*tasks[:place], replace(task, file=file), *tasks[place + 1 :]]
    return tasks


def _change_statistics(tasks: _Tasks, scan: ServerScan) -> Sequence[PlannedTask]:
    if not tasks or not scan.statistics:
        return tasks
    first, *others = tasks
    counts: Mapping[int, int] = first.file.null_value_counts or {}
    file = replace(first.file, null_value_counts={field_id: number + 1 for field_id, number in counts.items()})
    return [replace(first, file=file), *others]


def _is_equality_delete(file: DataFile) -> bool:
    return file.content is Content.EQUALITY_DELETES


def _vectors(tasks: _Tasks) -> Iterator[DataFile]:
    return (delete for task in tasks for delete in task.deletes if delete.format == "puffin")


_CHANGES: Mapping[PlanFault, Callable[[_Tasks, ServerScan], Iterator[PlannedTask] | Sequence[PlannedTask]]] = {
    PlanFault.DROPPED_RESIDUALS: _drop_residuals,
    PlanFault.LAST_VECTOR: _use_last_vectors,
    PlanFault.MISSING_FILE: _drop_last_file,
    PlanFault.REMOVED_FILE: _add_removed_file,
    PlanFault.FILE_TWICE: _repeat_first_file,
    PlanFault.OTHER_EQUALITY_DELETE: _swap_equality_delete,
    PlanFault.VECTOR_OFFSET: _move_vector,
    PlanFault.VECTOR_LENGTH: _lengthen_vector,
    PlanFault.WIDER_RESIDUAL: _widen_residual,
    PlanFault.PARTITION: _change_partition,
    PlanFault.STATISTICS: _change_statistics,
}
