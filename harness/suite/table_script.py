"""The code that runs in a scenario's script: it writes the table below a directory and prints the description.

`harness.suite.script` copies this code into each script, so it only uses the standard library and runs on Python 3.8.
"""

import base64
import gzip
import io
import lzma
import os
import re
import sys
import tarfile
import zlib

# JSON, Avro, Parquet, ORC and Puffin store the lengths of paths, in pages, statistics, and total sizes. The table's
# root therefore always has LENGTH characters: the name of its last directory is padded. Replacing the root then keeps
# every length, so that nothing else in the table changes.
LENGTH = 200
SCRIPT_ROOT = "/".ljust(LENGTH, "_")  # the table's root in the script
STORY_ROOT = "$ROOT"  # the placeholder for the root in the description


def table_root(directory: str, name: str) -> str:
    """Return the root of a table below a directory.

    Raises:
        ValueError: The path is too long or contains characters that the formats escape.
    """
    root = os.path.join(os.path.realpath(directory), name)
    if len(root) > LENGTH:
        raise ValueError(f"{root} is longer than {LENGTH} characters: choose a shorter directory")
    if not re.fullmatch(r"/[\w./-]+", root, re.ASCII):
        raise ValueError(f"{root} has characters that the formats escape: choose a directory with an ASCII name")
    return root.ljust(LENGTH, "_")


def relocate(data: bytes, old: str, new: str) -> bytes:
    """Return the content of a file with its root replaced."""
    if data[:2] == b"\x1f\x8b":  # gzipped Iceberg metadata, whose size is not recorded anywhere
        try:
            return gzip.compress(gzip.decompress(data).replace(old.encode(), new.encode()), mtime=0)
        except (OSError, EOFError, zlib.error):  # damaged on purpose
            pass
    return data.replace(old.encode(), new.encode())


def write(table: str, root: str) -> None:
    """Write the table's files at a root. `table` is a base85-encoded archive."""
    data = lzma.decompress(base64.b85decode("".join(table.split())))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = os.path.join(root, member.name)
            content = archive.extractfile(member)
            if content is None:
                os.makedirs(path, exist_ok=True)
                continue
            with open(path, "wb") as file:
                file.write(relocate(content.read(), SCRIPT_ROOT, root))
            os.utime(path, (member.mtime, member.mtime))  # the time of a Delta log file is the time of its version


def main(name: str, story: str, table: str) -> None:
    """Write the table below the directory given on the command line, or the current one, and print the description."""
    try:
        root = table_root(sys.argv[1] if len(sys.argv) > 1 else ".", name)
        os.makedirs(root)
    except FileExistsError:
        sys.exit(f"{root} already exists: remove it, or name another directory")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    write(table, root)
    print(story.replace(STORY_ROOT, root))
