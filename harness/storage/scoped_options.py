"""Storage options by path: plain options for whole stores, and options under a URI for the paths that start with it.

A catalog lends credentials by prefix, and a user sets options by bucket. Both follow one rule: of all URIs that a path
starts with, the options of the longest apply, and nothing of the others. The comparison is textual, as in the Iceberg
REST specification, but ends at the bucket: `s3://lake/t` is a prefix of `s3a://lake/t2/f`, and `s3://lake` is none of
`s3://lake2/f`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.storage.paths import canonical_path


def owner_of(path: str, keys: Iterable[str]) -> str | None:
    """Return the longest URI that a path starts with, or None.

    Args:
        path: A physical path, or another URI.
        keys: URIs, which may be only a scheme, for example `s3://`. Other keys are ignored.
    """
    starts = [(_start(key), key) for key in keys if "://" in key]
    if not starts:
        return None
    target = canonical_path(path)
    text = f"{target.store}{target.path}/"
    fitting = [(len(start), key) for start, key in starts if text.startswith(start)]
    return max(fitting, key=lambda each: each[0])[1] if fitting else None


def _start(key: str) -> str:
    """Return the start of the text of all paths that belong to a URI."""
    root = canonical_path(key)
    is_whole = not root.path and not root.store.endswith("://")
    return f"{root.store}{root.path}{'/' if is_whole or (root.path and key.endswith('/')) else ''}"


def options_at(path: str, options: Mapping[str, Any], stores: Collection[str] | None) -> dict[str, Any]:
    """Return the options that apply to a path.

    Args:
        path: A physical path.
        options: Plain options, and mappings of options under URIs.
        stores: The stores to which the plain options apply. None means all.
    """
    owner = owner_of(path, options)
    if owner is not None:
        return dict(options[owner])
    return plain(options) if stores is None or canonical_path(path).store in stores else {}


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not under a URI."""
    return {key: value for key, value in options.items() if "://" not in key}


def overridden(options: Mapping[str, Any], overrides: Mapping[str, Any], store: str) -> dict[str, Any]:
    """Return options with others that take precedence.

    Options under a URI replace all options whose URIs start with it. Plain options replace the single options of the
    same names that apply to their store.

    Args:
        options: The options.
        overrides: The options that take precedence.
        store: The store to which plain options apply.
    """
    above = plain(overrides)
    kept: dict[str, Any] = {}
    for key, value in options.items():
        if "://" not in key:
            kept[key] = value
        elif owner_of(key, overrides) is None:
            kept[key] = {**value, **above} if canonical_path(key).store == store else value
    return {**kept, **overrides}
