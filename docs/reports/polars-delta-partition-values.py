#!/usr/bin/env python3
"""Partition values are those of the log, whatever the folders of a file are called

Scenario polars-delta-partition-values of harness. The rules:
- delta V2: Null and the empty text. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, p string
{"id": 1, "p": "x"}
-- DuckDB
INSTALL delta; LOAD delta;
SELECT * FROM delta_scan('$ROOT/table');
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").load('$ROOT/table').show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT * FROM delta.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM deltaLakeLocal('$ROOT/table');
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
print(QueryBuilder().register("t", table).execute('''SELECT * FROM t''').read_all())
-- Polars
import polars as pl
print(pl.scan_delta('$ROOT/table').collect())
-- Daft
import daft
print(daft.read_deltalake('$ROOT/table').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;3xkBXk7p@o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6XxXQbgQaC)9k*35W4`8Ym%O?Oz`2+tkgyHT;J3sIu6|c&66VY5j-$uv^wwFjGo47SRb0~;;p)Zpqz8ky!uS{E^~<|8
*McAy_ihpEPWJQJo!hifdu~$MI}7*o4eC^p6L92;58>6T&F38(n9o*>r4&Q%&ak#I`bQ%D(9#*-k~v&ZTi9MGZlLQ^KgdTnF4{o(
*KN?3%CgTRW3M(rl+ZW-61Avv!+3U<8}`)0X(u3{=@{oh(30n}K^FBxe_$!yatAflBc%;b`t)hcQ<Me`Cc{z3um~5c2m5(IkLb!?
hG-8^-032h*+fe5zzzcGKknj<^E(s`t0_k<SIw&FAvA7~n8^-}C8MIP?>33hQxA}|9^M4yz#Nt*uC-`CQ!>6yGsGw5UBQ!agiTOJ
fP+^M<ln@F<NyxMDl}|S;p~hj@uM^2Zh88^`#otDXZ>trM;SgRVEuB6<YqaAPbPT1@mu5_75$eB;T(<04{6tSJ#h39h*&*$lr){*
5(nWJ4E%iV&Wnck!;Tt#07HnEHN?Dq!<3E*RhK!une*`Tq)lCE-mUHiA$D}X%9EkX+#xCe{FYqRH+%K)jSz$3-TAu$gNhLgHxbaB
1Nas-qL#I)9E~9`9}_k3gIwOa<+kIg98NFIHAgAriCQ`m+;p@)Bz>q_-UO!9vM=jEACgDyu!n69gp{<3+3025bN$R$_UtWKK7^if
Y7)!qBopDW6&6$Iv(zPH9CM3L<d|swfpJ`M#llJHJu%+>^ub1f=`^O#V4D&)^evX%2C0uT*<S@#v*Yckq~<eec22m|9#qIqh;1LA
O3u@}_wd*<Kg<KZG@!U}(YSW5GICmy>Ywad2Bi#k+`}t3!k%&in7{>UkM+y;)pUz%@PHGPimKgPcYb?63?gqgjH;aO`xXeP*D&VB
1C#()=YY>A)rBy_;$Xuj|Bd8zWvbDv+?q=F)UFAit0E=hv!3b-oOQJMWcaX#HQFtWQ6`L4L)uaZ<XND7j0L$NBXIt{ox6U@ShT5P
kPc|!xD{{}m9C^Q${sxrgQoT&6jlHL|HW5Kt=?DG00D#tfKUJch{myXvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('polars-delta-partition-values', __doc__, TABLE)
