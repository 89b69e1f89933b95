#!/usr/bin/env python3
"""NaN beside one number stays NaN

Scenario sail-delta-nan of harness. The rules:
- delta F8: NaN. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 2 rows in any order; all in expected/1.jsonl: id int64, x double
{"id": 1, "x": 1.5}
{"id": 2, "x": "NaN"}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vp#9aU~o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%jH$%OCzg9z(a=6fDLBTluNB?N6+&T^`L;uBy0jgRQ&A9n$03PONaAyy}m<)24x|-)Nk*j4URaNFR2ck9Z&$^(baXVSm
j=6NyYJhPDybp<4c50x{B*1=1>v6h03G(AX@2fAx-c>Z46++DQQ+$v4WB}pCVoll8o+m(Pr0)+#oy*J+8=hVOBL|-%vnt!f99(jD
x=qXR_MAZuhjJ(IgF~|oIYz&lQ@|lwbb@AE<VbF{a+O)vXSBO3moKOG+kMY3JNMpRFFs_pz|U{KG$$)19ZhXe^INTq6(hH*BL$wO
tEJi*!uJZ+u*WTNOO+{D;Z+FUQb&WB@DtG|5UkMzMZ90oyoU5YTE5<N1M&WEt9-ml@B@=Ck=fpkM^Xy&@?$8S;NkWu>)^IU3%XBw
)L{S>5dsl=y0q+SPp9r3@)4?ZXs{mYHNV~gyh>=cTi;PJBO%4mR_UWXsqW*hmu4YQ=sO2P=!lFLl5vZ%TAoH6R$AB3ylC+zp`>eh
tej-t&n-51o%=I!Pcc1Uj^6b$HpI6kES*6O0#yPKrZcdrYB=>dY0=FUpnf0b2Mnb8pbS{+Q_wNvZc!psxd0>0U@{BgjkIzlf6(i6
ao5(+*Aku0`YS{61iY`gmNQE9BZ62B&f8WRik9n|XrU#|+WGxA3+jU~0`Y{&<gjUXXhz0j8a8J3(59m!{#!#>F>@8<;=Bsgufbk_
1Py(3lEQx@9R~*iV*tACZ)}3U;p(O4m{Qh~ouY{VUqY?wB98oPACYV_<1AezBy)}RI_{P_xn2$SPzUvgtV9`kBgdoG#fWCS5@cfE
ue6`r^I~P3bBxEFo&uyR)pYS~2LVNubwxr^XKxA^2zf|QM)Nttv54=mUGd+hYgjdD)~6?=++vwtP2fY%tD46-AE;%Jox97OInzIP
Br#<14|e(gk;{{+Z3>R*=sC9U`R=HVajL{@(nalgyOR<x{rr_?%M7j<f9J{T4T$&bw-wc2wm9DhtR0H>q`VB!w+{$WgzGcuV%(2z
K&*-q&Ht3(?C%`fsQA!9i95?d1=`Im<OkHm)ykcLyRG_U>60q{NuzD))KzBhCv|Sjn-keS5Q%fXOw!byjQqg3>N!c7Qafj0?jTeY
!Wsy8F*Z<7!h2ozNka2+jqGFA@mily68pI6lvBLz_(%W%Mu_}gUwGFb00H0!fS>^YRmlrVvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('sail-delta-nan', __doc__, TABLE)
