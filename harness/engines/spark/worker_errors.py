"""Errors that cross from an executor to the driver, which gets no more of them than text.

The text carries the error's parts behind a mark, so that the driver raises the class that a read in its own process
would have raised, with the same table and file.
"""

from __future__ import annotations

import base64
import json
import re

from harness import errors
from harness.errors import EngineError, HarnessError

_MARK = re.compile(r"\[harness:([A-Za-z0-9_-]+=*)\]")
_LACKING = re.compile(r"No module named '(harness|numpy|pyarrow|fastavro|fsspec|pyroaring)\b")


def unwrap(error: BaseException) -> HarnessError | None:
    """The error that an executor raised, out of what Spark made of it; None: it was none of harness's.

    `error` may be Spark's exception, or one that was raised from it.
    """
    for text in _texts(error):
        found = _MARK.search(text)
        if found is not None:
            return _decoded(found.group(1))
        lacking = _LACKING.search(text)
        if lacking is not None:
            return EngineError(
                f"Cannot read files on Spark's executors: their Python has no module {lacking.group(1)!r}; install "
                "lakeharness there, and name that Python in PYSPARK_PYTHON before the session is made",
                cause="MissingModule",
            )
    return None


def _texts(error: BaseException) -> list[str]:
    texts, seen = [], set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        texts.append(str(following))
        following = following.__cause__ or following.__context__
    return texts


def _decoded(encoded: str) -> HarnessError:
    parts = json.loads(base64.urlsafe_b64decode(encoded))
    found = getattr(errors, parts.pop("class"), HarnessError)
    assert isinstance(found, type)
    assert issubclass(found, HarnessError)
    return found(parts.pop("message"), **parts)
