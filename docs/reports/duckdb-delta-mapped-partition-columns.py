#!/usr/bin/env python3
"""Partition values stand in the log under the physical name of the column

Scenario duckdb-delta-mapped-partition-columns of harness. The rules:
- delta T12: Physical names in the log. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#column-mapping
- delta V1: The log says the value. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, region string
{"id": 1, "region": "eu"}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VqC0zhAo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I5!3d)4n9%KHqwGOa1!srT^xW0;T*rzrLdRgXteW$nPE`_V|}kLCMiC@GHkJ07Y#2ndv4=AkmV9HfTb^Qh}w)cmrP<)
l_--i=}G!h!zWo*^t+>9>p33s;lMUPSH2zEBnx75xOSH7PN@a=8blreBK(e>7N}%aXu?izLvbzTI~b;UU!V{DHp^3pNKy|20_}Jh
Z?@Zj%Oxrv9%Q5ca48@=lc{Lrtfg=OQ!TfO`k#*^KnHFc(iiPTO<gL|ux*bUYQ81Xw}`h#>l{hX5!B=`C%f)W_PIWRO-$x!rA~-e
kzx~BM)92%m-iv8253U}vbVX_3rNbx*NXVQ8_V-V&*7wPlmo<8I2TOMI>1iT<n$h+Rwj&tgMZ1l%Znv!0P}N*zx`$g{ZBs*hH+OS
(?6-D!ih*?S25e?YI11`9YEyss8shnhW?L}*7j41Le`@P>8Mvaa8cW#+se>Gs@*&dPkl5-{?!ZE%vZ1Q&HyXWKUpPrYDwqKVUgq7
pzSdF<+(QxB@Ayk<ZBlLEEUyknCc`$mG=WEHUO+R6>rAL*!Uf8me-b76Gf5_<p|dT3*O9Su<WeVl$x7(hH=rV6xOULu@o=C`h@ZV
Y7Z${BUo^sm(aTjOmLlU=k*2z!V@$0Twf7i3$n8p2CBC`Rjiesm_U?76>>&p2D?pW*90GFb?Z|@-mCOObe-Bt6ukI~7V(`Vg<Chl
5K}k+K2H5AJR{|uWns09k6+2+@n9&cB-e1~uNVK@XZGQL&Ey*SdI<5P=h+!ji2ZFQ3R*t?Gqms|LaZ7a_{R2Y!w(O)7^jVS*6Znu
{J0Pij*!i)+ec<mG}0Q8X#)(H=XvuX9J)i8d~i7Z*c|LcbvVpTAE*NZ)Iu8O`d0)<I;438K`Z`7Hupoyh3lr<nGcF>E{<XzMJ5IQ
A{M?H2<vN_4-&h&>%Ex(uJ4T<ojk&Ve~~vk5m@4c3*omYSe%{Akk05GjHE)TXpF-#tQ?)2(A~$wn)u8;2OIASMs2otBmq!|zAE$j
tOjr+6;_Su!B)_ATYV0~QmvPO;v^k;^L4A|g5EU03OjV9iG%Bfj55zIRFO=M*cT=d!g;wl5mO`r^1DPelkNK&zHndSH~1BfKuAHe
iTli^|5+y~R6=$wZiXCfV(e4iGR-|TG1r>gF~r?Thm9sWInI_AvUBnJsK?ixoe+}Dirn6v=6`E)q7UskEZ-dG0cf>l8@mjJ6$G=>
<D778Ez>lgLczZgUmTrJ)VvT@ImwKabo9zcntyjvs4ZekJhLEpM`hiaP^Pu!B=vs)00000sstp!knBg300F@WfS>^Y7l^9_vBYQl
0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-delta-mapped-partition-columns', __doc__, TABLE)
