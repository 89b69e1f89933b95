"""Mutators of JSON documents by value, key, and shape.

Objects may repeat a key, and JSON inside texts is changed too.
"""

import copy
import gzip
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import drawn_values

Place = tuple[list[Any], int]
"""The position of a value: a list that is changed in place, and an index."""


class JsonObject(list[Any]):
    """An object as a list of [key, value], so that keys may be repeated."""


class JsonNumber(str):
    """A number as text, which Python need not be able to represent."""

    __slots__ = ()


class Embedded(list[Any]):
    """A text that contains a JSON document, as a list with that document."""


def document(data: bytes, rng: Random) -> bytes:
    """Change a file with one document once or twice. A compressed file is compressed again."""
    packed = data[:2] == b"\x1f\x8b"
    root = [parse(gzip.decompress(data) if packed else data)]
    for _ in range(rng.choice((1, 1, 2))):
        change(root, rng)
    written = dump(root[0]).encode("utf-8", "surrogatepass")
    return gzip.compress(written, mtime=0) if packed else written


def lines(data: bytes, rng: Random) -> bytes:
    """Change one document of a file with a document per line, or remove, repeat, or move lines."""
    texts = [line for line in data.split(b"\n") if line.strip()]
    if not texts:
        raise ValueError("no lines")
    place = rng.randrange(len(texts))
    match rng.randrange(8):
        case 0:
            del texts[place]
        case 1:
            texts.insert(rng.randrange(len(texts) + 1), texts[place])
        case 2:
            texts.append(texts.pop(place))
        case _:
            texts[place] = document(texts[place], rng)
    return b"".join(text + b"\n" for text in texts)


def change(root: list[Any], rng: Random) -> None:
    """Change one value somewhere below `root` in place."""
    places = list(_places(root))
    inside, index = rng.choice(places)
    value = inside[index]
    parts = value if isinstance(value, list) and not isinstance(value, Embedded) else []
    match rng.randrange(10):
        case 0 | 1:
            inside[index] = _odd(rng)
        case 2:  # the value of another position, inserted as a copy, because it would be infinite below itself
            source, at = rng.choice(places)
            inside[index] = parse(dump(source[at]))
        case 3 if parts:
            del parts[rng.randrange(len(parts))]
        case 3:
            inside[index] = None
        case 4 if parts:  # a repeated key or item, with its own value or another
            part = rng.choice(parts)
            again = [part[0], rng.choice((part[1], _odd(rng)))] if isinstance(value, JsonObject) else part
            parts.insert(rng.randrange(len(parts) + 1), copy.deepcopy(again))
        case 4:
            inside[index] = [value, value]
        case 5 if isinstance(value, JsonObject) and value:
            pair = rng.choice(value)
            names = (pair[0].swapcase(), pair[0] + "s", drawn_values.text(rng, pair[0]), rng.choice(value)[0])
            pair[0] = rng.choice(names)
        case 6:
            inside[index] = _wrapped(value, rng)
        case _:
            inside[index] = _nudged(value, rng)


def parse(data: bytes | str) -> Any:
    """Return the document with JSON objects, numbers, and texts as the classes of this module.

    Raises:
        ValueError: The text is not JSON.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: JsonObject([key, _entered(value)] for key, value in pairs),
        parse_int=JsonNumber,
        parse_float=JsonNumber,
        parse_constant=JsonNumber,
    )
    return _entered(decoder.decode(data if isinstance(data, str) else data.decode("utf-8")))


def dump(value: Any) -> str:
    """Return the text of a parsed document."""
    match value:
        case JsonObject():
            return "{" + ",".join(f"{json.dumps(key)}:{dump(item)}" for key, item in value) + "}"
        case Embedded():
            return json.dumps(dump(value[0]))
        case list():
            return "[" + ",".join(map(dump, value)) + "]"
        case JsonNumber():
            return str(value)
        case _:
            return json.dumps(value)


def _entered(value: Any) -> Any:
    """Return the value with parsed texts if they contain an object or a list. Objects are processed while parsing."""
    if isinstance(value, list) and not isinstance(value, JsonObject):
        return [_entered(item) for item in value]
    if isinstance(value, str) and not isinstance(value, JsonNumber) and value[:1] in ("{", "["):
        try:
            return Embedded([parse(value)])
        except ValueError:
            return value
    return value


def _places(value: Any) -> Iterator[Place]:
    """Yield the position of every value below a list."""
    for index, item in enumerate(value):
        if isinstance(value, JsonObject):
            yield item, 1
            if isinstance(item[1], list):
                yield from _places(item[1])
            continue
        yield value, index
        if isinstance(item, list):
            yield from _places(item)


def _nudged(value: Any, rng: Random) -> Any:
    """Return another value of the same kind, or an object or list with one part less."""
    match value:
        case bool():
            return not value
        case JsonNumber():
            whole = value.lstrip("-").isdigit()
            return JsonNumber(drawn_values.integer(rng, int(value)) if whole else f"-{value}")
        case Embedded():
            return drawn_values.text(rng, dump(value[0]))
        case str():
            return drawn_values.text(rng, value)
        case list() if value:
            del value[rng.randrange(len(value))]
            return value
        case _:
            return _odd(rng)


def _wrapped(value: Any, rng: Random) -> Any:
    """Return the value in a list, in an object, as text, or nested deeply in lists."""
    depth, text = rng.choice((1, 1, 1, 3000)), dump(value)
    deep = JsonNumber("[" * depth + text + "]" * depth), JsonNumber('{"a":' * depth + text + "}" * depth)
    return rng.choice((*deep, JsonObject([["value", value]]), text))


def _odd(rng: Random) -> Any:
    match rng.randrange(8):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2 | 3:
            return JsonNumber(drawn_values.integer(rng))
        case 4:
            return JsonNumber(rng.choice(("1.5", "-0.0", "1e400", "1E2", "NaN", "-Infinity", "0.1e-400", "9" * 5000)))
        case 5:
            return rng.choice((JsonObject(), [], [None], JsonObject([["", None]])))
        case _:
            return drawn_values.text(rng)
