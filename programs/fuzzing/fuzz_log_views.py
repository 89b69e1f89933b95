"""Views of a Delta log, which stores most information twice: in commits, in checkpoints, and in compacted commits.

A view hides all but one of these. If they contradict each other, readers cannot tell which is wrong, and may use any of
them.
"""

import re
from collections.abc import Iterator, Mapping

from fuzz_subjects import Changes

_CHECKPOINT = re.compile(r"_delta_log/(\d{20})\.checkpoint\.(.*)")
_COMPACTED = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")
_OF_VERSION = re.compile(r"_delta_log/(\d{20})\.")
_NOTHING = b'{"commitInfo":{}}\n'


def other_views(image: Mapping[str, bytes], version: int | None = None) -> Iterator[Changes]:
    """Yield the changes to a table for each view of its log, except the view of its commits.

    Other tables have no views.

    Args:
        image: The files of the table.
        version: The version to read. None for the latest. An older version may be read from commits, while the latest,
            which must be valid too, is read from files that replace other commits.
    """
    checkpoints = {name: (match[1], _whole(match[2])) for name in image if (match := _CHECKPOINT.fullmatch(name))}
    for base, kind in sorted(set(checkpoints.values())):
        older = [name for name in image if (match := _OF_VERSION.match(name)) and match[1] < base]
        others = [name for name, other in checkpoints.items() if other[0] == base and other[1] != kind]
        hidden = dict.fromkeys((*older, *others))
        yield hidden
        yield from ({**hidden, **view} for view in _compacted(image, base))
    yield from _compacted(image, "0" * 20)
    if version is not None:
        later = [name for name in image if (match := _OF_VERSION.match(name)) and int(match[1]) > version]
        ends = [name for name in image if (match := _COMPACTED.fullmatch(name)) and int(match[2]) > version]
        if ends or any(name in checkpoints for name in later):
            yield dict.fromkeys((*later, *ends))


def _compacted(image: Mapping[str, bytes], since: str) -> Iterator[Changes]:
    """Yield views with one compacted commit of versions from `since` on. Its last version contains everything."""
    for name, data in image.items():
        match = _COMPACTED.fullmatch(name)
        if match and match[1] >= since:
            versions = [f"_delta_log/{version:020d}.json" for version in range(int(match[1]), int(match[2]))]
            yield {**dict.fromkeys(versions, _NOTHING), f"_delta_log/{match[2]}.json": data}


def _whole(ending: str) -> str:
    """Return the common beginning of the parts of a multi-part checkpoint, given the end of their names."""
    part, _, rest = ending.partition(".")
    return rest if part.isdigit() else ending
