"""Paths as text: local or not, recorded and physical.

A *recorded* path is the string in the metadata. It is a file's identity: deletes match it, `_file` shows it, and it
is never normalised (iceberg 1.14). The *physical* path is where the bytes are now: a plain local path, or a URI that
fsspec opens. They differ when a table was copied (iceberg 1.11); `PathMap` turns the one into the other.
"""

from __future__ import annotations

import os
import re
from dataclasses import field

from harness.errors import PASSWORD
from harness.records import dataclass

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
"""The scheme of a URI with an authority, at the start of a path."""
_LOCAL = re.compile(r"(?:file:(?://(?:localhost)?(?=/))?)?(?:(?:\./+)+(?=.))?", re.IGNORECASE | re.DOTALL)


def local_path(path: str) -> str:
    """`path` without the prefix of a local URI: `file:/x`, `file:///x` and `/x` are one file, and so are `./x` and `x`.

    No percent-decoding.
    """
    return path if path.startswith("/") else _LOCAL.sub("", path, count=1)


def is_local(path: str) -> bool:
    """Whether `path`, physical, is on the local file system."""
    return path.startswith("/") or SCHEME.match(local_path(path)) is None


def shown(location: str) -> str:
    """A location without what may be secret: a user with a password before the host, a signature after `?`."""
    match = SCHEME.match(location)
    if match is None:
        return location
    location = PASSWORD.sub("", location)
    authority, slash, path = location[match.end() + len("://") :].partition("/")
    user, _, host = authority.rpartition("@")
    # `abfss://container@account` names a container.
    return f"{match[0]}://{host if ':' in user else authority}{slash}{path.partition('?')[0]}"


def absolute(path: str, base: str) -> str:
    """`path`, physical, as one that no later change of the process's directory moves.

    base: the local directory, absolute, at which relative paths start. What is absolute, or a URI, comes as it is.
    """
    if path.startswith("/"):  # nearly always, and this is asked of every file of a table
        return path
    plain = local_path(path)
    return path if not is_local(plain) or os.path.isabs(plain) else os.path.join(base, plain)


def join(directory: str, *names: str) -> str:
    """`directory`/names…, with exactly one slash between the parts."""
    return "/".join((directory.rstrip("/"), *names))


@dataclass(frozen=True, slots=True)
class PathMap:
    """Prefix replacements from recorded to physical paths (iceberg 1.12).

    prefixes: (recorded prefix, physical prefix) pairs, tried in order, the first that matches wins. A prefix matches
    only at a path-component boundary. Paths that no prefix matches stay as recorded.
    said: how many of the first prefixes the caller gave; the others follow from the table's own move.
    base: where relative paths start, recorded ones and physical prefixes alike: the process's directory when the table
    was opened. Rows are read later, and partly by processes that are elsewhere (Spark's).
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    said: int = 0
    base: str = field(default_factory=os.getcwd)

    def physical(self, recorded: str) -> str:
        """Where the file that the metadata calls `recorded` should be; never a relative path."""
        plain = local_path(recorded)
        for old, new in self.prefixes:
            prefix = local_path(old).rstrip("/")
            if not prefix:  # the root, or nothing, is a prefix of everything: that would be no mapping but a guess
                continue
            if plain == prefix or plain.startswith(prefix + "/"):
                return absolute(new.rstrip("/") + plain[len(prefix) :], self.base)
        return absolute(plain, self.base)
