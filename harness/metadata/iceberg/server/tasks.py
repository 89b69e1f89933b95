"""The files, deletes, and conditions of a plan that a server made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from harness.metadata.iceberg.manifests import DataFile
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A data file to read.

    Attributes:
        file: The file. It has no statistics: `statistics` holds them.
        deletes: Indexes into `ServerPlan.deletes` of the deletes that apply to the file, without repetition.
        residual: The condition that the server says rows must still satisfy, in Iceberg's JSON. None if it says
            nothing.
        statistics: The counts and bounds of the file as the server sent them: `value-counts`, `null-value-counts`,
            `nan-value-counts`, `lower-bounds`, and `upper-bounds`.
    """

    file: DataFile
    deletes: tuple[int, ...] = ()
    residual: Any = field(default=None, hash=False)
    statistics: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """A plan that a server made.

    Attributes:
        tasks: The data files, in the order of the server. A file occurs twice if the server lists it twice.
        deletes: The delete files and deletion vectors. Equal ones of different pages are one.
    """

    tasks: tuple[FileTask, ...] = field(repr=False)
    deletes: tuple[DataFile, ...] = field(repr=False)
