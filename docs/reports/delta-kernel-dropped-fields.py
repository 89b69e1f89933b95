#!/usr/bin/env python3
"""A struct that a file stores without any of its fields of today is a struct of nulls

Scenario delta-kernel-dropped-fields of harness. The rules:
- delta T8: Structs that lack fields. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 2 rows in any order; all in expected/1.jsonl: id int64, s struct<b: int32>
{"id": 1, "s": {"b": null}}
{"id": 2, "s": null}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vq{9OPto(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%xUk~P%S?yS%fFcCtk^U8Dj-bG4!ts@($$Os#l?bafrouIxSN89{hxQ!SwF5!}A_%s5eWNX&4Cd%-+gFTDrTKDD0j3Iw
@21`p?GvB4gh32+AZIn($J`mn@%%)@=OZ?`!w;YG(km8jb>wy#Z$=>9tk*%jG{2U!clf6{EJPofAeuh0=e6^zNPSF#4u%xG=~e`J
?i*+X0tj6X;obJ&K=uu)EZ?nWOFFI{CT~so_$F*PgMl(Yo{xU(WKe{?=<m5j_2l?yOXd%}P?EmAZOTJS@MdMx@(uc0GaO@B++}tU
@KRydbUk&2RZN5zB%2QmNn?~u3Hjo?8nx^$F^a$JNQXaLt`BybzNqvZ8oMkV9A~|p;KdqTzP!M=&Y!KOy`kCA0DUVs7zkVj1+!&y
C*p!X`Ye4xAZ>NL#n7~jOW{RtJ@q-Q)g06&PTn8PyDHOwWJ+T>pcUNY>V5!SXpzAL%y+xa^0P$!WVl2e3o%q1vIWoS7Rkponh^WW
>_=D$p|rmDfm$69!<g`T1hpqal0O(py$&`h{HO41bWrP2J|mwVl&uE{aHzl4+|+WRGJiW*3xGu}fyMkkHyj1VT9_=1qPZK{dzNiE
Matsbxj@-4m=G-Bt2{3ze<`K*TSyd3)kb^^zS<Pa$hBB?k42be84v@S3P04;)~@O8sF=^n<V54nfDXA)WmQrxa7_%21Pb<-<#b(P
QEGuybP>X(Hh4>aJ3G9a%hT5<_5&pXf}cERy^NG2#w@*7ZZmD+fESQW%sf1je{vQI<g<)*e9;XfP;|8<uGw52ypvA&q*0iYyPzgq
=*u5$0{`2vD44A{FmTx@Ppm;f``%j*wWkl!2KGL;a_xY_;VmD|T|Y1Nh$6y;C8UeDzqbiJd{yx~1aS*9A;~jjCd694XFD7DYKR{^
635?=RNLWXqkumAp6`Sq^4|<w-T3=?xsG|#>EaUhy;LBj$BBt5M^}Fp`Pp@yA5lD-cotWA{&?XzuEw&rpPa02@4^az!xTYK-VwQm
!HcL)TX&^Hs6mxBa>j>!*|7cnBqt1ZRV^{aUIAL6r<xHI<tDcXJu~aEsb8`_wdst)szX5vB-9qU^&R?QoPzz+2`BMU>^R)OfO{*`
b<oExs$S0OIZ(Fpu(=!aFJGG*lfy>HFTgsHXOf%W2fEZ)Hx=3`QwFj7<Td<D(=nkzXxk|XK?7W6NC_^C*kf}6%a1^LP@rD}nx7qc
AzZ)fry6*t@%f`>X6=l39YOLfFpnt}-#6`mN2KgRLU_PK`l)s7{N&h#to}~$ir(r3R*;rUEe1fk^ZL*yswn|R`3ni*z19eW@0GKU
0*ruxP33AV`_5bn7FjOO-9fW>{)R89dzbpJD1}oAcHY4%AguYX@%NYy4%hYydvYJJYK=G!R`eVK@!aZv(nm;+kOo19AW%dxav}{L
t9*XTRy{re7B$^*RHYXGB9&qs&?Vc`md;eMO_0-IUEwG<cFvAI@}8zl(XV6RnFR(#(IX$3QDRtZhU){a(ULefj1VBrfJCEVpB}+Z
^_Hx7@N7D=vq&hRHcWG1QDgtQ5}iO{cLp{9YR=w#^UQd~00Ec^fS>^YNP_BBvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('delta-kernel-dropped-fields', __doc__, TABLE)
