#!/usr/bin/env python3
"""In name mode a column of another name is not the table's, whatever its field id

Scenario delta-kernel-rust-name-mode of harness. The rules:
- delta T10: How columns are found. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#reader-requirements-for-column-mapping

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: a int64, b int64
{"a": 1, "b": null}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VqFI@mKo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6XxXQbgQaC)9k*35W4`8Ym%O?Oz`2Ru8Fs#oWc9v`I9u7NAWJ;#8`GF9E(&HZ+HKf>WyOH?B-UwQEJZZJMd?(k?;^36
8xF*gUQGXw0++_cRvp^O(%y!HyqLqwpO@cavEh56_h8y1R}HX?Pi$he6@&E|Z=b6BbNRUo2c|yb>R)wf!AQPU<7iJWg*LSo=N`Y?
u-DRbIPEv>90<0Wy4>JvFBB$)I>|g1aU~SFksJ&a=MbBwFT(-RvG6i#jk}Hj=;A9_8rdOhY*~2<D#LCiYx01ZgMt`(@(DrVAClkd
BjcMqlLuHG=q<F<#@m*xRwBn$u$G4^fGoBIL(rU+M}bi%c2MwwuKe&Zd>=daNL;PA#+2BLGVuzB&}g}XN@&@{S<;vnqW!s+ClZ2S
s?&3mt^1;2e|y6%>&4pW<3?Z|yyCg_Y5Zl-C8-$SdHQ~nhdh$efFD<b*c5I}K=`NvmY8IyUT|C7TuhT7loHIj8L>IKP%(d^xSV3=
RosuurY<K_6ji#d<e4cfv_(jO)<%%rLL&xfhv(w;#@ynIC#r=M9YA#+0JFJozQ=(Vn6rINQ`2!tC9tXNP^(fhiAQ3EBd3<KQOV{c
kF`MJ^S2gW=X6xX2evph2vF9-g~E$2#J~)24!i#V{}7y{q*kF1GUe2&A74C@V$U8&PIz4yu;P+8H&vw640o{W^>+k&3wh7o2Vn4T
sB+<ohv^ivDv(hCUC7If>G7zvAC)xaKP8d_t%(cFV}1i_^X(ol%9!>IWdVd<+sz&R76#Ccf?5o*!j&)uQWugexmYBNy74x>CVdZC
nN24@0(dOn>XQR*!i>HgDa&^3Da*R!FX`3eCg$CT5(5gr$~L^<tvXM#y)q#%0gnK5)>D%KQIk14y&M?B*LGp+@b4%<d!#GLLHo-;
f*S<5@9i~Fe=Y55ru=`6zXMt-AQJ5)orIpeSY|I;xrc4#C#=IhFndoho&)w=v(|1H17p`e7vV`1ow9Ap9-@g>h6dPxLyOi?H=M;l
r7z}}Kyl>d%+j6kba@;$M0O<fw+UULcSXX#Le_qfNO=4s{UyPPkPc*@0hs7?E@l>$@E9~3Ra(}ePI<eBd|b!rm6GQj*L_P%+B0=K
a&a=H*Tgbff+|rByhaE7uh&kq;)Tl;lPS?I?XGjzhCNpKVAL9z26R5QH{hZ0eK;kQ4KZr;cIqOlelF2}$R#5b;-|cA--)3|?G53p
)58|bw;BTt7JG7W7s(_(Z52SEh&i56t#S?!r$S1McVCdOASPInuR`!GbH)+z(WFVLdmKOqw^fdses}-?f0VM0G>6tL00GMgfS>^Y
ajP(;vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('delta-kernel-rust-name-mode', __doc__, TABLE)
