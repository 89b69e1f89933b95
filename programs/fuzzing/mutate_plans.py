"""Mutators of the answers of a planning server: its tasks, deletes, ids, and credentials."""

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

import drawn_values
from mutate_http import framed, parts

LENT = "a-secret-that-a-server-lends"
"""The secret in the credentials of answers."""
_TASKS, _DELETES, _REFERENCES = "file-scan-tasks", "delete-files", "delete-file-references"
_IDS = (
    "../../tables",
    "..",
    ".",
    "",
    "a/b",
    "a/../../b",
    "%2e%2e",
    "plan-1?x=y",
    "plan-1#x",
    "plan-1\r\nX: y",
    "\x00",
    "\ud800",
    "é",
    "http://169.254.169.254/latest",
    "a" * 2000,
)
_ADDRESSES = ("http://169.254.169.254", "https://evil.example", "http://127.0.0.1:9", "//evil", "", "file:///etc")
_PREFIXES = ("", "/", "s3://", "s3://bucket", "s3://other", "listed://", "listed://table2", "file:///", "*", "\x00")
_MANY = 3000


def references(data: bytes, rng: Random) -> bytes:
    """Change, add, remove, or repeat an index of a delete, or exchange the indexes of two files."""

    def change(document: dict[str, Any]) -> None:
        tasks, count = document[_TASKS], len(document.get(_DELETES, ()))
        task, other = rng.choice(tasks), rng.choice(tasks)
        indexes = task.setdefault(_REFERENCES, [])
        odd = (-1, count, count + 1, 2**31, 2**63, 2**64, -(2**63), True, False, 0.0, 1.5, "0", None, [0], {}, "a")
        match rng.randrange(7):
            case 0 if indexes:
                indexes[rng.randrange(len(indexes))] = rng.choice((*odd, *range(count)))
            case 1 if indexes:
                indexes.pop(rng.randrange(len(indexes)))
            case 2:
                task[_REFERENCES] = rng.choice((None, 0, "0", {}, True, [], [[]], list(range(count)), [0] * _MANY))
            case 3:
                task[_REFERENCES], other[_REFERENCES] = other.get(_REFERENCES, []), task[_REFERENCES]
            case 4 if indexes:
                indexes.append(rng.choice(indexes))
            case _:
                indexes.append(rng.choice((*odd, *range(count))))

    return _changed(data, change)


def files(data: bytes, rng: Random) -> bytes:
    """Leave out, repeat, or move a file or a delete. Indexes of deletes stay right half of the time."""

    def change(document: dict[str, Any]) -> None:
        key = rng.choice([key for key in (_TASKS, _DELETES) if document.get(key)])
        items = document[key]
        place = rng.randrange(len(items))
        new = list(range(len(items)))
        match rng.randrange(4):
            case 0 | 1:
                new.pop(place)
            case 2:
                new.insert(rng.randrange(len(new) + 1), place)
            case _:
                new.append(new.pop(place))
        document[key] = [items[old] for old in new]
        if key == _DELETES and rng.random() < 0.5:
            for task in document[_TASKS]:
                indexes = [index for index in task.get(_REFERENCES, ()) if index in new]
                task[_REFERENCES] = [new.index(index) for index in indexes]

    return _changed(data, change)


def exchanged(data: bytes, rng: Random) -> bytes:
    """Exchange one or two values of two files or two deletes, such as the offsets and lengths of two vectors."""

    def change(document: dict[str, Any]) -> None:
        of_data = [task["data-file"] for task in document[_TASKS]]
        options = [items for items in (of_data, document.get(_DELETES, [])) if len(items) > 1]
        first, second = rng.sample(rng.choice(options), 2)
        keys = sorted({*first, *second})
        chosen = rng.sample(keys, rng.choice((1, 1, 2)))
        if "content-offset" in keys and rng.random() < 0.5:
            chosen = rng.choice((["content-offset"], ["content-offset", "content-size-in-bytes"], ["record-count"]))
        for key in chosen:
            first[key], second[key] = second.get(key), first.get(key)

    return _changed(data, change)


def partitions(data: bytes, rng: Random) -> bytes:
    """Change the partition or the spec of a file: its length, its form, or a value."""

    def change(document: dict[str, Any]) -> None:
        all_files = [*(task["data-file"] for task in document[_TASKS]), *document.get(_DELETES, [])]
        file, other = rng.choice(all_files), rng.choice(all_files)
        values = file.get("partition")
        values = list(values) if isinstance(values, list) else []
        odd = (None, True, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", "a", "NaN", "2024-01-31", [], {})
        match rng.randrange(7):
            case 0 if values:
                values[rng.randrange(len(values))] = rng.choice((*odd, drawn_values.text(rng)))
                file["partition"] = values
            case 1:
                file["partition"] = [*values, rng.choice(odd)]
            case 2 if values:
                file["partition"] = values[:-1]
            case 3:
                ids = [*range(1000, 1000 + len(values)), 999, "a"][: max(1, len(values) + rng.randrange(-1, 2))]
                file["partition"] = {str(id_): value for id_, value in zip(ids, [*values, 1, 2], strict=False)}
            case 4:
                file["spec-id"] = rng.choice((-1, 0, 1, 2, 99, 2**40, True, "0", None, 0.0))
            case 5:
                file["partition"] = rng.choice((*odd, [values], "[]", [None] * _MANY))
            case _:
                file["partition"], other["partition"] = other.get("partition"), file.get("partition")

    return _changed(data, change)


def tasks(data: bytes, rng: Random) -> bytes:
    """Change the status, the plan's id, or the plan tasks: loops, repeated tasks, and very many tasks."""

    def change(document: dict[str, Any]) -> None:
        named = document.get("plan-tasks") or []
        match rng.randrange(8):
            case 0:
                states = ("submitted", "completed", "failed", "cancelled", "Completed", "", None, 1, [], "x" * _MANY)
                document["status"] = rng.choice(states)
            case 1 | 2:
                document["plan-id"] = rng.choice((*_IDS, None, 1, [], {}, True))
                document["status"] = rng.choice((document.get("status"), "submitted"))
            case 3:
                document["plan-tasks"] = [*named, *named] or ["plan-1:1-2"]
            case 4:
                document["plan-tasks"] = [*named, rng.choice((*_IDS, "plan-1:0-1", "plan-1:1-2", None, 1, [], {}))]
            case 5:
                document["plan-tasks"] = [*named, *(f"{number}" for number in range(rng.choice((2, 250_000))))]
            case 6:
                document["plan-tasks"] = named[:-1]
            case _:
                document["plan-tasks"] = rng.choice((None, {}, "plan-1:1-2", 1, True, [named], []))

    return _changed(data, change)


def locations(data: bytes, rng: Random) -> bytes:
    """Name a file elsewhere: in another store, on another host, in another folder, or one that is no data file."""

    def change(document: dict[str, Any]) -> None:
        all_files = [*(task["data-file"] for task in document[_TASKS]), *document.get(_DELETES, [])]
        file, other = rng.choice(all_files), rng.choice(all_files)
        key = rng.choice([key for key in ("file-path", "file-path", "referenced-data-file") if key in file])
        path = file[key]
        folder, _, name = path.rpartition("/")
        root = path.partition("/data/")[0]
        file[key] = rng.choice(
            (
                f"http://169.254.169.254/{name}",
                f"https://evil.example/{name}",
                f"s3://other-bucket/data/{name}",
                f"listed://other/data/{name}",
                f"listed://table/../table2/{name}",
                f"listed://table2/{name}",
                f"{folder}/../../{name}",
                f"{folder}/../data/{name}",
                f"{root}2/data/{name}",
                f"{root}/metadata/v1.metadata.json",
                f"file://evil{path.partition('://')[2]}",
                f"file:///etc/passwd#{name}",
                f"{path}?x=y",
                f"{path}#x",
                f"{path}%00",
                f"{path}\x00",
                path.replace("/", "//"),
                path.replace("/data/", "/%64ata/"),
                path.partition("://")[2],
                other["file-path"],
                *drawn_values.PATHS,
            )
        )

    return _changed(data, change)


def credentials(data: bytes, rng: Random) -> bytes:
    """Lend credentials for other prefixes, with another address for a store, of other types, or very many."""

    def change(document: dict[str, Any]) -> None:
        entries = document.setdefault("storage-credentials", [])
        entry: dict[str, Any] = {
            "prefix": rng.choice((*_PREFIXES, "s3://bucket/t", None, 1, [])),
            "config": {
                "s3.secret-access-key": LENT,
                rng.choice(("s3.endpoint", "adls.account-host", "gcs.service.host", "uri", "token")): rng.choice(
                    (*_ADDRESSES, LENT)
                ),
                "s3.session-token-expires-at-ms": rng.choice(("0", "-1", "4000000000000", "9" * 40, "a", "1e400")),
            },
        }
        address = {"s3.endpoint": rng.choice(_ADDRESSES)}
        match rng.randrange(7):
            case 0 if entries:
                rng.choice(entries)["prefix"] = entry["prefix"]
            case 1 if entries:
                rng.choice(entries)["config"] = rng.choice(
                    (None, [], "a", {"s3.endpoint": [LENT]}, {"a": {"b": LENT}}, entry["config"])
                )
            case 5 if entries:
                one = rng.choice(entries)
                one["config"] = {**rng.choice((one["config"], {})), **address}
            case 6:
                document.setdefault("config", {}).update(address)
            case 2:
                document["storage-credentials"] = rng.choice((None, {}, LENT, [LENT], [[entry]], {"0": entry}))
            case 3:
                entries += [{**entry, "prefix": f"s3://bucket/{number}"} for number in range(_MANY)]
            case _:
                entries.append(entry)

    return _changed(data, change)


def counts(data: bytes, rng: Random) -> bytes:
    """Change a number, an id, or a format of a file, or add fields that nobody defined."""

    def change(document: dict[str, Any]) -> None:
        all_files = [*(task["data-file"] for task in document[_TASKS]), *document.get(_DELETES, [])]
        file = rng.choice(all_files)
        key = rng.choice(sorted(key for key in file if key not in ("file-path", "partition")))
        value = file[key]
        number = drawn_values.integer(rng, value if type(value) is int else 0)
        match rng.randrange(6):
            case 0:
                file[drawn_values.text(rng, key)] = value
            case 1:
                document["file-scan-tasks"][0]["residual-filter"] = rng.choice(
                    (False, True, None, {"type": "false"}, {"type": "eq", "term": "none", "value": "a"}, 1)
                )
            case 2:
                file.update({f"unknown-{place}": [number] for place in range(rng.choice((1, _MANY)))})
            case 3:
                file[key] = str(value)
            case 4:
                file.pop(key)
            case _:
                file[key] = rng.choice((number, number, None, True, [number], f"{number}", 1e400, float("nan")))

    return _changed(data, change)


def size(data: bytes, rng: Random) -> bytes:
    """Send very many tasks, or compressed content, of which some is very large after decompression."""
    head, content = parts(data)
    match rng.randrange(4):
        case 0:
            document = json.loads(content)
            tasks_ = document[_TASKS]
            path = tasks_[0]["data-file"]["file-path"]
            for number in range(_MANY):
                file = {**tasks_[0]["data-file"], "file-path": path.replace("/data/", f"/data/{number}-")}
                tasks_.append({"data-file": file})
            return framed(head, json.dumps(document).encode())
        case 1:
            return framed(head + b"\r\nContent-Encoding: gzip", gzip.compress(content, mtime=0))
        case 2:
            blanks = gzip.compress(b" " * (rng.choice((1, 80)) << 20), mtime=0)
            return framed(head + b"\r\nContent-Encoding: gzip", blanks)
        case _:
            return framed(head, b"[" * 1_000_000 if rng.random() < 0.5 else b" " * (70 << 20) + content)


def _changed(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return the answer with its JSON changed by a function, which may fail if the answer has no such parts."""
    head, content = parts(data)
    document = json.loads(content)
    change(document)
    return framed(head, json.dumps(document).encode())
