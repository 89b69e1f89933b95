#!/usr/bin/env python3
"""A row that a deletion vector deletes is gone

Scenario daft-delta-deletion-vectors of harness. The rules:
- delta D1: Descriptor. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-descriptor-schema
- delta D4: Vectors in the log. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-descriptor-schema
- delta P2: Unknown reader features. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 2}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VqJY4`Xo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?Aff2F=eo`pxCV0fdlkfj<A$V^qG9Ysfe3)6kUl^m%#4{Zeaur?d|c5s
HFiN<<o6i2B(J7*Ttz0Bt*m`qdpOp2zsxI!aX=`Y5Hq6*M@ChRPs_*QXwp3b4pNLv+BA2;17r`9;X^Q0vrA~G5N#q2#Km;3Tnz?g
_-SIHb{q_Y2HTF+;!Ej*O6};`sOa9^r<XZJ8``YP=~;iB6l#ZirI7%S3jW2Rg0N~6WN#`ynW~3gawB{i`@sakH?T)fROxyV`VdOH
@UFAv-GHKU7&s9j6tKc5wY4j7pWR!R4-F(T{y|zC$i&bb89$X}Y5jhhvLRLZ2>_5QiH^_@k{p0~{9?=;DIr8?|INs**0RDzT%n%i
<_GuR_x2%JRTQIF&Ch1nO{7<Oo>p4VZ^)h23VQ`B=vvLxKb*Y&MQWQ8=**+daDXkxj3=X3)$4)i2dkhQdaSN+zB_v2pd1zUddSUq
jR~G9WP|Ji@Va9!#rPfyMPF{^i_<ug*c2qQG2w6;W~8b9QC7Z^$v~|Rr1Nd71&eD2S{9Hnm$A6Ub%kTYvi^>z1Y$cZDo~00dvH+f
?@Et5_kL6z;TD&t+sw!nKSZxG&4Gy|G-kIt4drInMqT+Q&I(D1G$=>R8A81E`;EK6FN}~(xBgpRDFHW5UctZCf)j~m&?A<#NQN7l
!hjWqx(9AV6j5KF+#KULRdAs&-)A+a003<cK<>*^Bjp*nbuzW;V}A%W<W4eQ4<Ifi=<ibk1`3QTD6GqF$!J5>;OA|%K*EIe9X719
f_hv(*;Zw(=|mvoD%B{h`GaFGSz&EL)}wC^Y?F@A7K{u9BdEOK!#*1+Za7g~;cX+el%<~#w531Kf+eK+$EV|nb}G5vMyWS@YpTfZ
a{m$enb2WLBKVapA=1vW3`QELGRBPZu@)qNRg}S;-_|N?6n??~NL;;zAsa{239ve1U_h(-f6ujd)99_whLWL&N5s$8uh~eNIuZC-
abQ{iKvq*}@`WvV%lD_FVnsa&wR5PSwl;w7YqEYKz!5L}nn;_Ol->UMC~GcVDkb|jhiHO${^yI(hP1CP{oQ}kf7oJDVQP$Ze6P1w
I~cG%2>p#N#BfrKwI{{|R8-U+aqyue)xIIB{UK5^7FwOZT4GQ&|G{Si=3CSfc4O#4nOfb0{A}e*{3U`d%*GA~U8Mt8ys@$uf1fI)
0;&d5BLJm>dhRgi>6eIw@ryCH(jpULaG|9dFq{i!KeT!?q}=ERDlkd<SpmTdgd4F)vV~1N1wW=Z3jIq@5SD_883Zk7*i`@kc<wsf
tBq%o00GztfS>^YMB8#8vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('daft-delta-deletion-vectors', __doc__, TABLE)
