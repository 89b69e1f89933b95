"""Mutators of listings of a folder, and of requests for its files: stale, incomplete, repeated, or of other files."""

import json
from random import Random
from typing import Any

import drawn_values
import mutate_json

Entry = dict[str, Any]

_SIZES = (0, 0, 1, -1, 2**31, 2**63, None)
_TIMES = (0, -1, 1, 2**31, 2**40, 1e18, None, "2024-01-01T00:00:00Z", "2024-01-01", "no time", "9999-12-31T23:59:59Z")


def listing(data: bytes, rng: Random) -> bytes:
    """Apply one or two changes to a folder's listing."""
    entries: list[Entry] = json.loads(data)
    for _ in range(rng.choice((1, 1, 2))):
        if not entries or rng.random() < 0.05:
            return mutate_json.document(data, rng)
        _change(entries, rng)
    return json.dumps(entries).encode()


def look_ups(data: bytes, rng: Random) -> bytes:
    """Change requests for single files: a file is missing, exists although it should not, or is another one."""
    entries: dict[str, Entry] = json.loads(data)
    if not entries:
        raise ValueError("no files")
    path = rng.choice(sorted(entries))
    match rng.randrange(4):
        case 0:
            del entries[path]
        case 1:
            entries[_near(path, rng)] = entries[path]
        case 2:
            entries[path], entries[other] = entries[(other := rng.choice(sorted(entries)))], entries[path]
        case _:
            entries[path] = _changed(entries[path], rng)
    return json.dumps(entries).encode()


def _change(entries: list[Entry], rng: Random) -> None:
    """Change a listing in place: remove, repeat, or move entries, or replace them with other files."""
    place = rng.randrange(len(entries))
    entry = entries[place]
    match rng.randrange(10):
        case 0:
            del entries[rng.choice((place, len(entries) - 1))]
        case 1:
            for gone in sorted({rng.randrange(len(entries)) for _ in "abc"}, reverse=True):
                del entries[gone]
        case 2:  # missing pages at the end, at the start, or in the middle
            start, end = sorted((rng.randrange(len(entries) + 1), rng.randrange(len(entries) + 1)))
            entries[:] = rng.choice((entries[:start], entries[end:], entries[:start] + entries[end:]))
        case 3:
            again = rng.choice(([entry], [_changed(entry, rng)], list(entries)))
            entries[place:place] = again
        case 4:
            entries[:] = rng.choice((entries[::-1], rng.sample(entries, len(entries))))
        case 5 | 6:
            entries[place] = _changed(entry, rng)
        case 7 | 8:
            originals = [entry] if rng.random() < 0.6 else []
            entries[place : place + 1] = [{**entry, "name": _near(entry["name"], rng)}, *originals]
        case _:
            originals = [entry] if rng.random() < 0.5 else []
            entries[place : place + 1] = [*originals, {**entry, "name": _outside(entry["name"], rng)}]


def _outside(path: str, rng: Random) -> str:
    """Return a name in another folder."""
    folder, _, name = path.rpartition("/")
    return rng.choice(
        (
            f"{folder}/../{name}",
            f"/etc/{name}",
            name,
            f"{folder}/{name}/{name}",
            f"{folder}/deep/{name}",
            f"{folder}//{name}",
            f"{folder}x/{name}",
            f"s3://bucket/{name}",
            drawn_values.text(rng, path),
        )
    )


def _changed(entry: Entry, rng: Random) -> Entry:
    """Return a file with another size or time, or an entry that is not a file."""
    match rng.randrange(5):
        case 0 | 1:
            return {**entry, "size": rng.choice((*_SIZES, drawn_values.integer(rng, entry.get("size") or 0)))}
        case 2 | 3:
            return {**entry, "mtime": rng.choice((*_TIMES, (entry.get("mtime") or 0) + rng.choice((-1e4, 1e4))))}
        case _:
            return {**entry, "type": rng.choice(("directory", "other", "link", "File"))}


def _near(path: str, rng: Random) -> str:
    """Return a name that is similar to that of a commit, checkpoint, metadata file, or hint."""
    folder, _, name = path.rpartition("/")
    digits = "".join(filter(str.isdigit, name.partition(".")[0])) or "0"
    number = int(digits)
    step = number + rng.choice((-1, 1, 1, 2, 100, 2**31, 10**19))
    near = rng.choice(
        (
            name.replace(digits, f"{max(step, 0):0{len(digits)}d}", 1),
            name.replace(digits, f"0{digits}", 1),
            name.replace(digits, digits[1:], 1),
            name.replace(digits, f"+{digits[1:]}", 1),
            f".{name}",
            f"{name}.tmp",
            f"{name}.crc",
            f"_{name}",
            name.upper(),
            f"{name} ",
            f"{name}\n",
            f"{name}\0",
            name.replace(".", "", 1),
            name.replace(digits, "".join(chr(0x660 + int(digit)) for digit in digits), 1),
            name.replace(".json", ".checkpoint.parquet"),
            name.replace(".json", f".{step:020d}.compacted.json"),
            name.replace(".json", ".checkpoint.0000000001.0000000001.parquet"),
            name.replace(".metadata", ""),
        )
    )
    return f"{folder}/{near}"
