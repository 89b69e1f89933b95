"""Numbers and byte strings as Avro encodes them: little-endian groups of seven bits with the sign in the lowest bit."""

from __future__ import annotations

DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What decoders raise for bytes, or a schema, that are not what they must be; their callers name the file."""


class FieldError(ValueError):
    """Damage in a field; `path` is the names from the top. Only between decoders and those who call them."""

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def within(name: str, error: Exception) -> FieldError:
    """The error of a field's decoder as one that knows the field's name too."""
    path = error.path if isinstance(error, FieldError) else ()
    return FieldError((name, *path), reason(error))


def reason(error: Exception) -> str:
    """What a decoder's error says, in words."""
    if isinstance(error, FieldError):
        return error.reason
    if isinstance(error, IndexError):
        return "the data ends inside a value"
    if isinstance(error, UnicodeDecodeError):
        return "text is not UTF-8"
    return str(error) or type(error).__name__


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """An int or long, and the position after it.

    Raises:
        IndexError: the data ends inside the number. ValueError: it has more than ten bytes.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    # Ten bytes hold 70 bits. Some writers use them for ids beyond a long, which their metadata has in full, too.
    if shift > 63:
        raise ValueError("a number has more than ten bytes")
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """A number without a sign, of the same groups, and the position after it.

    Raises:
        IndexError: the data ends inside the number. ValueError: it has more than ten bytes.
    """
    zigzag, position = decode_long(data, position)
    return (zigzag << 1) ^ (zigzag >> 127), position


def decode_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """A byte string, and the position after it. Raises `IndexError` if the data ends inside."""
    length, position = decode_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise IndexError(end)
    return data[position:end], end


def decode_string(data: bytes, position: int) -> tuple[str, int]:
    """A text, and the position after it. Raises `UnicodeDecodeError` if it is not UTF-8."""
    length, position = decode_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise IndexError(end)
    return data[position:end].decode(), end
