#!/usr/bin/env python3
"""A partition value is that of the log, though the file holds the column

Scenario daft-delta-partition-values of harness. The rules:
- delta V1: The log says the value. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization
- delta V2: Null and the empty text. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, p string
{"id": 1, "p": null}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VpwOs%*o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6cfNA;fGWvS&qw*c+dTn0X~;8nl<WX9hIX@HXd>}0rGa**@6j{2cmiicO*W)__`2U)6%fxi9-nR*_UAxrC@S06Zk3Al
MFFnlF{NC52D2Fv9jUM)j2;$|`EFtqQ;{Ef;URg5iq-)(ME$BBrs2kXA}a(EtLYqi4b)e^in8x-D3%*cxF@pnF5@P*{0jc|w=1a?
jZ$2x!|mIBVzw?36ARkD<bE`Tx+NDWA;j5M$`$)xpwvS$8d1{(1P!GG2qvpphjezCtdtz3AdOV0EJfm(B?ql2M&;t*Jp;|er4C=t
4_L;ysuzR};9MCVMtLc%^{-^|=X%#qUt-EyVkCIpJs**yHr@7-A@gx$n|aZ=Ahv^coCz-=yrin#Hz70JTtCIY@56(AVb2guzZ}Ih
`ZOQ0<mu8=<w@Q?aGRE)Te?%!O0ns{Vt(UvlFA7#?u<dH)C}(nV+i?85LccCs^v2w!;PCso%oz`Y|=T@Vl%c9wl%<6ZzeF(CuE$^
545sxIIjC7Is<sPD05|GeLA761&q+fI2{~3nL6HU_~ETo|IUMxPM!p8y<D2vm2n9`undJ6wjV*lWBoIEJlhC?*#qBC-4v%x$wcvd
c*P+H^Bw-3O8#BweMcq5pfg~)D_a0>o#NE1t7k5a-`stC_@;_alT-QbHSMyTVUCBF+6um;aeCF%J%UT2kx)~MkyfG-yG^j8j?o3v
K)*iS9o=p>>#Sz1Eu7nSp!~CYcGzUrk?Wb(flT>{zKl0Ub>oqryQ<Q~B1Po>e!mw86ax~@)xzu|g1t-UF~ZV!nzWHa-L_KK>LH&`
ON=nVGUoGgs48vnmZBv`W}*g^<~flZHH#sATIPdM55;9g5_l~u&4knSwE83>DkAJ$Pmlp>N^*geD1=zrr?7s_p<6Zv7-{D&@+)0!
Y)pljbJLTJWzdD!7wFSBxE?2Y(gyyELY(mHMg-7>NW>CKX{bo+6Ul>UBy+Apu!fC-8A7VRe}Z`<^BS`**?`nwaj}xrnpd+#5luJU
(Oh4ke8fU_8mWJ|MtI(}Gt}pRq|UX*RXN|wmskL_jL=5!XQ^?%#~S_=HOzX?uwDD{XbsFK3Rc0&xcnVc)YX@H|BF9c0&WG<4%}iT
n8u5(JrTE>a)En?VmRTg1D#+1000001>vVx7e{uj00GelfS>^YT^%ijvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('daft-delta-partition-values', __doc__, TABLE)
