"""Storage options by path: plain options for whole stores, and options under a URI for the paths that start with it.

A catalog lends credentials by prefix, and a user sets options by bucket. Both follow one rule: the longest URI that a
path starts with supplies all options of the path. The options of shorter URIs are ignored. Paths and URIs are compared
as text, as the Iceberg REST specification requires, except that the whole bucket must match: `s3://lake/t` is a prefix
of `s3a://lake/t2/f`, but `s3://lake` is not a prefix of `s3://lake2/f`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.storage.paths import canonical_path


class Owners:
    """The URIs of options, with a fast search for the longest URI that a path starts with."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Index the URIs in `keys`.

        Args:
            keys: URIs, which may be only a scheme, for example `s3://`. Keys that are no URIs are ignored.
        """
        self._keys: dict[str, str] = {}
        for key in keys:
            if "://" in key:
                self._keys.setdefault(_start(key), key)
        self._lengths = sorted({len(start) for start in self._keys}, reverse=True)

    def of(self, path: str) -> str | None:
        """Return the longest URI that a path starts with, or None. The path may also be another URI."""
        if not self._keys:
            return None
        target = canonical_path(path)
        text = f"{target.store}{target.path}/"
        return next((self._keys[text[:n]] for n in self._lengths if text[:n] in self._keys), None)


def _start(key: str) -> str:
    """Return the text that all paths below a URI start with."""
    root = canonical_path(key)
    is_whole = not root.path and not root.store.endswith("://")
    return f"{root.store}{root.path}{'/' if is_whole or (root.path and key.endswith('/')) else ''}"


def options_at(
    path: str, options: Mapping[str, Any], stores: Collection[str] | None, owners: Owners | None = None
) -> dict[str, Any]:
    """Return the options that apply to a path.

    Args:
        path: A physical path.
        options: Plain options, and mappings of options under URIs.
        stores: The stores to which the plain options apply. None means all.
        owners: The URIs in `options`, for callers with many paths.
    """
    owner = (owners or Owners(options)).of(path)
    if owner is not None:
        return dict(options[owner])
    return plain(options) if stores is None or canonical_path(path).store in stores else {}


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain options, which apply to whole stores."""
    return {key: value for key, value in options.items() if "://" not in key}


def overridden(options: Mapping[str, Any], overrides: Mapping[str, Any], store: str) -> dict[str, Any]:
    """Return options, after replacing some of them by options that take precedence.

    An override under a URI replaces all options whose URIs start with it. A plain override replaces the options of the
    same name that apply to its store.

    Args:
        options: The options.
        overrides: The options that take precedence.
        store: The store of the plain overrides.
    """
    above, owners = plain(overrides), Owners(overrides)
    merged: dict[str, Any] = {}
    for key, value in options.items():
        if "://" not in key:
            merged[key] = value
        elif owners.of(key) is None:
            merged[key] = {**value, **above} if canonical_path(key).store == store else value
    return {**merged, **overrides}
