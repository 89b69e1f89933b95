"""The part of a scenario's script that runs: it writes the table below a directory, and prints the story.

`harness.suite.script` copies the code into each script. So the code takes the standard library alone, of
Python 3.8 or later.
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

# Paths in a table stand behind lengths, in pages, statistics and sums of sizes: of JSON, Avro, Parquet, ORC and Puffin.
# So the table's root has LENGTH characters everywhere: the name of its last directory is filled up. Bytes take the
# place of as many bytes, and nothing else in the table changes.
LENGTH = 200
SCRIPT_ROOT = "/".ljust(LENGTH, "_")  # the root in the script
STORY_ROOT = "$ROOT"  # the root in the story


def table_root(directory: str, name: str) -> str:
    """The root of a table below a directory. Raises ValueError if the directory cannot hold it."""
    root = os.path.join(os.path.realpath(directory), name)
    if len(root) > LENGTH:
        raise ValueError(f"{root} is longer than {LENGTH} characters: choose a shorter directory")
    if not re.fullmatch(r"/[\w./-]+", root, re.ASCII):
        raise ValueError(f"{root} has signs that formats write in other ways: choose a directory of ASCII letters")
    return root.ljust(LENGTH, "_")


def relocate(data: bytes, old: str, new: str) -> bytes:
    """The content of a file of the table at another root."""
    if data[:2] == b"\x1f\x8b":  # metadata of Iceberg, whose size is recorded nowhere
        try:
            return gzip.compress(gzip.decompress(data).replace(old.encode(), new.encode()), mtime=0)
        except (OSError, EOFError, zlib.error):  # damaged on purpose
            pass
    return data.replace(old.encode(), new.encode())


def write(table: str, root: str) -> None:
    """Write the files at a root. table: an archive as text."""
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
            os.utime(path, (member.mtime, member.mtime))  # of a log file of Delta, the time of its version


def main(name: str, story: str, table: str) -> None:
    """Write the table below the directory that the command line names, or the current one, and print the story."""
    try:
        root = table_root(sys.argv[1] if len(sys.argv) > 1 else ".", name)
        os.makedirs(root)
    except FileExistsError:
        sys.exit(f"{root} is there already: remove it, or name another directory")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    write(table, root)
    print(story.replace(STORY_ROOT, root))
