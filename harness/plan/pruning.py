"""How far planning may skip what a read need not open."""

from __future__ import annotations

import enum


class Prune(enum.Enum):
    """What planning may skip.

    OFF: nothing. FILES: data files that cannot hold a wanted row, by partition and statistics. ALL: manifests too, by
    summaries that some writers get wrong (iceberg 3.9); Delta tables have none.
    """

    OFF = "off"
    FILES = "files"
    ALL = "all"
