#!/usr/bin/env python3
"""In id mode a column is found by its field id, whatever the file calls it

Scenario deltalake-column-mapping-by-id of harness. The rules:
- delta T11: Mode `id`. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#reader-requirements-for-column-mapping

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 1}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;3xkBr(FOto(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oQb;xQnJOHCOWQ6C|S7C++ZW~
+y2H3S^dV()iv=jtDZ%P!7dp8i1N16RJpLMxtc$#m<A4g?Vn;qzTG=TNIr3bE9uXwSRv_+`Nu2!*R(rJ%&FV^zyTt7sE-ngkV({>
+n19jykpA$>H5&l{zvEILkFq+cyC4?02ssYS^JsX`?)vQf{qGMz^G?WV66#Tg}w?7*hXQ#>DR~ieP9xEpt`bSmQNZ>cXai@IF@BJ
7bIRiQkXh_+;dqYXBAdxNlSk8v_`b{Kd_P(*60J^yuRh9S<9#S>G8=E3-D5KtH0{Uo_S<@mQUk`%w&pZ+);I@m<GA^s}|+8X8ABo
qyO!?4Az4|UOV)<<6Tq1w)`Fl#z^c<AW#11Tmi3t<&r4~fwz+sT)d9WUu>2yKumtuzNGLcMilw0iq>LJ@@vKa)~1L1=)P0=p;W9P
;?+jLndAEgpwtCO#0UiqLSd7?p=b=pcO6$T;yIDPK)x8yKr076dWtf<>l7jo0-Jnxf*ZuWFYCkh^kr?lAezQ=!UlWm?tBgj)`?QZ
wQc6CnkJ~Rtjs+No$8P56^fF>^rX*`oXLg`FavHDA@DQjR0tY9<?k3)0t|=oi^3o(VoUWq8_Cl9n~}P=k+T#|n_m~#u{f!bS*O%>
O9nyvE2A*%pEr~*v<fZ|(%|6-6``ocDyN3_wSzd2Iv`HACTcHH{G-9TuY6UK5$<S~0>{1r_~Mf=7q$Nk&fu-AXI10(SXvM}%YMQp
DW1Bhrb%<3Ids(r`DR#4?h#9}gJgV=UR{*i^|_mMJ&@4-767wRB?GRxD&sJ&%tBgrt@zL?GkHVrP9pd*i+D=+8^XG?*D5NWBU`Kf
OE#+5LaJBQ>mw^Ql`_Y0|2!y_v|C1x(J4Au2HaCx6>}H+tTU#p|49G?Ye7O-Y_w;qM2B`^9vwztSbR*CoKOXOhUyW{7JKs4hRFvR
Lx633*GP`$VMxW&ez^$WMTk0a>d@5K|AO^5c#nYRA_%yV??$)@PL$EqH)N{~Dfp%QUrduB6SQv5xt2bjAhVF86Ui($-w)||4(M4N
RGY!tK>PpzcsuJ1aV2IO00F}XfKUJcT>R{3vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('deltalake-column-mapping-by-id', __doc__, TABLE)
