#!/usr/bin/env python3
"""A filter on a column leaves its NaN a NaN, which is above every number

Scenario deltalake-nan-filters of harness. The rules:
- delta F8: NaN. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns where x < 2
Must give 1 row in any order; all in expected/1.jsonl: id int64, x double
{"id": 1, "x": 1.5}
-- DuckDB
INSTALL delta; LOAD delta;
SELECT * FROM delta_scan('$ROOT/table') WHERE x < 2;
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").load('$ROOT/table').where('x < 2').show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT * FROM delta.default.t WHERE x < 2;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM deltaLakeLocal('$ROOT/table') WHERE x < 2;
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
print(QueryBuilder().register("t", table).execute('''SELECT * FROM t WHERE x < 2''').read_all())
-- Polars
import polars as pl
print(pl.scan_delta('$ROOT/table').filter(pl.sql_expr('x < 2')).collect())
-- Daft
import daft
print(daft.read_deltalake('$ROOT/table').where(daft.sql_expr('x < 2')).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VpxLp7;o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6XxXQbgQaC)9k*35W4`8Ym%O?Oz`2+tkgyHT;J3sl)eT`SBV>$`d)_y*>kRVfo#oD>SpD)a2~u0X82*3*FJ;fWOYw>T
NJ2@2YZ`L<Zay#;iwx`aOPcbTv)Y2?D2TZ|0R+mk9ArSORkVfF7I!iw42!>HO~!WMo-OaQrroraigVNPlp;Rn%vhXHn@o)T98bBB
EGB7<DW?DMjwSE{Ns8f>263Y4D)C<iJM`W~p0%D>-VYF*sh5r3WAW)S;3v5Irb8qGz30c|mH>qH3lK>vDk<tDiha}M*16(CM5AKR
3Ql<_7wDIV1kie_ZxBBbM0Bz1ZptBO2sJ}|c3Opca^aKD?B{UDp|Fy#KS@x_2Pk+ky3+NeQA?6_$LJUkLzDgP>eRr~i6w63uRIQ#
dirYA3)AZPB0~8VLhPL5SD=>+hw1C)+T^$BsM^;dlVl-h9N#BsC;k>JcS9Lm`&8)7Ubc82eb%&h%u$R#OtLH6&BPpfQrH%IJ?mav
=;{jEwr>+3slGSU0LLOlv_rP47w*C;!*QSs*oak25%pF{s=X+TKQa0d!UNvt_f1q6rlsPUA;pbWr=nQTO>K8ECK?BxASuL@_jtJI
PlL7NXe$d<kuCD-1@qREl?D0#uW(hao{ik~t3`eexAau9GM$kyj<Sksq|$^R3lbRKbB`*f*szh{%7(S@iZf+i7FuFUgVb@xN!Y|G
oj}&3QS#mE!p?PfT|YGg2+tveP{{gM?RlOi3B7t@_n7Kh=!>DIK*wIF##GZuN~|cG1v;~bc>!#31n|)3>45?A{k(Oz(5ON^--2M~
k<8qK>+Mf0ltgV;V8T&Fm<RhbWz`e2*ZNO}mi#PW?etaJas0E*Djsyy5<1!aHDzGD3cxeij>hdZQuV38>$s&Wnvo<VaI55|<=JCy
R+x_v8=M52%4(HShuMAm_7P>X@^({S$~?mf_q>Ev20d+_ctHRQ`AXS%^V>B|YE`p=yG%|3Si~&<)$-pZ-z!iU?E`F1lXl~RwVJD(
g*HA3!{<2)A<6NbniQUJPSrB!(BD3Si&lp6_##D;Lh{5%0;O)?x4m|xf@<*2ahyNIMmF=v$hj)GI22NiJUE$>zub7a9<Gx0+ul6j
R@XC*R}v0PBrN7nRV&buLQG_bOo^BPOnmEm1GQ*b00GnofS>^Y?u_8ovBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('deltalake-nan-filters', __doc__, TABLE)
