"""A Delta log says most things twice: in commits, in checkpoints, in compacted commits. Views hide all but one of them.

Where they contradict each other, no reader can tell which of them lies, and any of them may be believed.
"""

import re
from collections.abc import Iterator, Mapping

from fuzz_subjects import Changes

_CHECKPOINT = re.compile(r"_delta_log/(\d{20})\.checkpoint\.(.*)")
_COMPACTED = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")
_OF_VERSION = re.compile(r"_delta_log/(\d{20})\.")
_NOTHING = b'{"commitInfo":{}}\n'


def other_views(image: Mapping[str, bytes], version: int | None = None) -> Iterator[Changes]:
    """What to change in a table for each view of its log but that of its commits; none, if it is no Delta table.

    version: that is read; None: the latest. An older one may come from commits, while the latest, which must be sound
    too, comes from what stands for other commits.
    """
    checkpoints = {name: (found[1], _whole(found[2])) for name in image if (found := _CHECKPOINT.fullmatch(name))}
    for base, kind in sorted(set(checkpoints.values())):
        older = [name for name in image if (found := _OF_VERSION.match(name)) and found[1] < base]
        others = [name for name, other in checkpoints.items() if other[0] == base and other[1] != kind]
        hidden = dict.fromkeys((*older, *others))
        yield hidden
        yield from ({**hidden, **view} for view in _compacted(image, base))
    yield from _compacted(image, "0" * 20)
    if version is not None:
        later = [name for name in image if (found := _OF_VERSION.match(name)) and int(found[1]) > version]
        ends = [name for name in image if (found := _COMPACTED.fullmatch(name)) and int(found[2]) > version]
        if ends or any(name in checkpoints for name in later):
            yield dict.fromkeys((*later, *ends))


def _compacted(image: Mapping[str, bytes], since: str) -> Iterator[Changes]:
    """Views by one compacted commit of versions since one: its last version says all of it, those before nothing."""
    for name, data in image.items():
        found = _COMPACTED.fullmatch(name)
        if found and found[1] >= since:
            versions = [f"_delta_log/{version:020d}.json" for version in range(int(found[1]), int(found[2]))]
            yield {**dict.fromkeys(versions, _NOTHING), f"_delta_log/{found[2]}.json": data}


def _whole(ending: str) -> str:
    """What the parts of a checkpoint in parts have in common, by the end of their names."""
    part, _, rest = ending.partition(".")
    return rest if part.isdigit() else ending
