#!/usr/bin/env python3
"""A filter on a column with a dot in its name is not one on a field of a struct

Scenario spark-delta-dotted-names of harness. The rules:
- delta T1: The schema. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: columns a.b where "a.b" = 1
Must give 1 row in any order; all in expected/1.jsonl: a.b int32
{"a.b": 1}
-- DuckDB
INSTALL delta; LOAD delta;
SELECT "a.b" FROM delta_scan('$ROOT/table') WHERE "a.b" = 1;
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").load('$ROOT/table').where('`a.b` = 1').select(*('`a.b`',)).show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT "a.b" FROM delta.default.t WHERE "a.b" = 1;
-- ClickHouse
-- clickhouse local, started in /
SELECT "a.b" FROM deltaLakeLocal('$ROOT/table') WHERE "a.b" = 1;
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
print(QueryBuilder().register("t", table).execute('''SELECT "a.b" FROM t WHERE "a.b" = 1''').read_all())
-- Polars
import polars as pl
print(pl.scan_delta('$ROOT/table').filter(pl.sql_expr('"a.b" = 1')).select(*('a.b',)).collect())
-- Daft
import daft
print(daft.read_deltalake('$ROOT/table').where(daft.sql_expr('"a.b" = 1')).select(*('a.b',)).to_arrow())
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
HOME = "/".ljust(LENGTH, "_")  # the root in the script
ROOT = "$ROOT"  # the root in the story


def place(directory: str, name: str) -> str:
    """The root of a table below a directory. Raises ValueError if the directory cannot hold it."""
    root = os.path.join(os.path.realpath(directory), name)
    if len(root) > LENGTH:
        raise ValueError(f"{root} is longer than {LENGTH} characters: choose a shorter directory")
    if not re.fullmatch(r"/[\w./-]+", root, re.ASCII):
        raise ValueError(f"{root} has signs that formats write in other ways: choose a directory of ASCII letters")
    return root.ljust(LENGTH, "_")


def rewritten(data: bytes, old: str, new: str) -> bytes:
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
                file.write(rewritten(content.read(), HOME, root))
            os.utime(path, (member.mtime, member.mtime))  # of a log file of Delta, the time of its version


def main(name: str, story: str, table: str) -> None:
    """Write the table below the directory that the command line names, or the current one, and print the story."""
    try:
        root = place(sys.argv[1] if len(sys.argv) > 1 else ".", name)
        os.makedirs(root)
    except FileExistsError:
        sys.exit(f"{root} is there already: remove it, or name another directory")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    write(table, root)
    print(story.replace(ROOT, root))


TABLE = """
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;3xkBm0bWbo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_VE<Cpg@7CiGl(v%YaTWBY*^^##x!y56?<GcW<HQ0BqPt0qyyddt3lV(oPXRn;A66{cQdtkJ3HElvQZ#IpjQ4g>F?T$
hl=k11#jdq^<m!QaUG;hVjLB?%@6uC)T9`B<Zm!zYPf}Kws{Q=U)m9HB6r*>9O3GXDTi6uu?pEBNH=7y)7#@8M3oVb*^XB*hSYB5
_r9!H=?>+IwL$>ajecCLGN^sg-Ez67(74@GYU`Kta{est$Seu~fV1}xCt4tj%W@z4*u#j?q%FCK<G6Z<cvhBD>(-PcExndn|Fjpj
QB!`Ja1GIf?x21|0#|gFyJ6^Cmdmt0uemhkf8N78XziIZu-xloO)K;~e(Nm);c`UiQvsAPJn^Mo5ozLX7fRX|{;P9S`n2hl6w-ll
2Z(%<h0Hkg`K7LG@myF=fXoJ(yz8BDRJ6C`I6h2tU+ffB29iydWa}rQi=;PFKGjQ6=64K8*(BlN=tfUYZ1kvF&zx8P0XBgnpIv1h
No(D3y!c1~m$X79N^5eTCn!OR5FCDkg`VhAY00unDr@b8maa}pN5lP>nwBflS}ynW0pI-H^YQ;v^X5{7pBJFGM)`hw>rrjw@AYyh
A%v<2M!v@Oe$0?|;F@6o$-M~Ngb$qO%Qj9MKpg{Jb$+qS&7vb4x|6*reDvm-0^^KC&HFZ<BAFU|%0cA3@mHc){Vo-g+7HhR=F+7Y
g|8ghFJ(zlZSu208g1Oj;Y!OYZ2)EoDOk@8r_t#^yXt+><Kv~xp06Dqa1EZ+Ju|<THSB9O$>q0!ZG~%!>jzIbp0o9r3!(OH&5bmE
N+PM;S9Sjy2$rr;3RP0~A(d%ay~3$z?2TiSCpxu3FMiw=XM1q@24W#V2pVL=O*9snFzEQ9fMZHBL<l6Kpf=r%GGJ*<aGwcKvvikt
<m5%j-22a(>&CE)ZzsG%dnB<#r#=U@suQ7Av8-pyGB76!kh{hvpjvJUHP-C4Fm&ObT$gw<*<hbH!l8-r9DR5~Upw3{=F-Jk<u~Be
XPy0=^dDDe;=WPzF!Z!xlhc}l8BymjoIXDG*pxA84%RdNjkP&7w8PLJIXU?ESyD0llQ`gs{~7-0Nv}+zTy9hV00000xD_EWvx*lj
00FTFfKUJcmQV&EvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('spark-delta-dotted-names', __doc__, TABLE)
