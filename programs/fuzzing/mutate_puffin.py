"""Mutators of Puffin files: the footer's document, flags, and lengths, and the blobs, with a corrected frame."""

import json
from random import Random

import drawn_values
import mutate_json
import mutate_roaring

MAGIC = b"PFA1"


def footer(data: bytes, rng: Random) -> bytes:
    """Change the document, flags, length, or magic of the footer."""
    before, payload, flags = _split_file(data)
    match rng.randrange(10):
        case 0:
            flags = drawn_values.flipped(rng, flags)
        case 1:
            return before + MAGIC + payload + _size(drawn_values.integer(rng, len(payload))) + flags + MAGIC
        case 2:
            payload = drawn_values.blob(rng, payload)
        case _:
            payload = mutate_json.document(payload, rng)
    return before + MAGIC + payload + _size(len(payload)) + flags + MAGIC


def blobs(data: bytes, rng: Random) -> bytes:
    """Change one blob, perhaps with another size. The footer is updated, but manifests are not."""
    before, payload, flags = _split_file(data)
    document = json.loads(payload)
    blob = rng.choice(document["blobs"])
    start, end = blob["offset"], blob["offset"] + blob["length"]
    changed = mutate_roaring.blob(before[start:end], rng)
    for entry in document["blobs"]:
        if entry["offset"] > start:
            entry["offset"] += len(changed) - (end - start)
    blob["length"] = len(changed)
    payload = json.dumps(document).encode()
    return before[:start] + changed + before[end:] + MAGIC + payload + _size(len(payload)) + flags + MAGIC


def _split_file(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the bytes before the footer, the footer's document, and its flags."""
    size = int.from_bytes(data[-12:-8], "little")
    start = len(data) - 12 - size
    if data[-4:] != MAGIC or start < 8 or data[start - 4 : start] != MAGIC:
        raise ValueError("no Puffin file")
    return data[: start - 4], data[start:-12], data[-8:-4]


def _size(value: int) -> bytes:
    return (value % 2**32).to_bytes(4, "little")
