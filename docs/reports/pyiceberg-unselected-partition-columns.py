#!/usr/bin/env python3
"""A filter on an identity partition column that a file lacks finds its rows, whether the column is selected or not

Scenario pyiceberg-unselected-partition-columns of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: columns id where region = 'eu'
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 1}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT "id" FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json') WHERE region = 'eu';
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').where("region = 'eu'").select(*('`id`',)).show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT "id" FROM iceberg.default.t WHERE region = 'eu';
-- ClickHouse
-- clickhouse local, started in /
SELECT "id" FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json') WHERE region = 'eu';
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan(row_filter="region = 'eu'", selected_fields=('id',)).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').filter(pl.sql_expr("region = 'eu'")).select(*('id',)).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').where(daft.sql_expr("region = 'eu'")).select(*('id',)).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vts9gXuo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oR1cRmJ9~Z(M-JDnY9XliNzr8
lg;w5hzV@aOD27su(G>WMz3lP7p7*0L!~im^l;3u%He9@y3c|cmGv3iDW(oL#s&`v4iHnCBd_o`1SHPW5_yR-f}5AEl1Ow7ua9=@
Pxk!&2rr+uK6B*tC8d@?Q&dLjZdC1}BI3^q60lrtgykB6d?WG%R2ci-pxp1{R7ndSWNjvll)gvyt_ql}ajOXV8=X$eXD04od4Ur_
iGdo1CjMr_J#OB$K-j!1GZD^=8eD&^nYmwaqjwOpD6^9J*UiWR&`iCPrWe8du(2{w+@XMfi$qsWvew|!tOwxE$)WaLEY^E~y|K{$
sd|)Ony!1B?Pi-X)0teQVfTR+c1E^6S3l4T%%YrtZ{8z$O`5*Fh}epFB$47P6Jh)pf@N}XC`S^GN8t%q*y!=_VWR?X=*8v{ks5q&
!*OXrG0{R4D^yTGzO#OYGv?rL^3q<1>a;p&+Q-n(Tf#zB^=)oeB(IBJC*D(0@lV~I*-3T?r2hg^Eo5OF2To@%`n+lCkIhI&BmH<-
^7vyN{P6Mi5R_~bF3|0lleBb`%Tip9uxz&I@kPmj0?tp;)v-Yyh>-2iIdK)=r=?!+7fn}D)rTx1EW5>NT3M{u+R-W2iymexYvr`^
PnQbPg6L`cLn3a#JKzbMA)+Bd1SIDmO*)?kg)LP-(Zk6gj<76gz~Wmils#>-2AP^QGXmZeWsOxu58+$26XsWyz#OucaaMU|uq$s1
$51_j`g5kv5u39<MzUV!_ab9bl^b>=E|vI#%>BipEWEpMgP&kjR8CaCH6QI<BE{D<AXX-0Z7mCb)t`37NhMlynzF#^3dCJcKx|8Y
Ha7qQJk<Av@eWUzFejdQpY*BSJqk|9(4Gd3*9sIP188<)_lkBM<+MGi|Dy!oFUI7(W<K$*)|a66alal;6_^$I68jp8t0}s3>~&rs
M`;Pkqv3g1(F<wF%#wb)b#;{n^PDR(-F9?r-DxbYd?^7(ZAF=<lLtgoA&TL~s-uOuM7Y3_k#f~0?m$2l@%ddsXIcQOKP+N(02_8$
ez~|OT_`ciQ9*;4kQHUHPM@>GvGHs9pT(sw*1BO7Zb0FS!*q0RkLHXYc)A&>>q2XSP--L|X`-UqU`8#Nh!8~hD&tgG4)&+P?ho>C
V$rHxc+41x5_HT>bLyUbfsvvhg40<O*^jVWenNaz-unoA0P!w>h^WoPuwCn{@5}Am<DVZh@tR@0E$UYx4<R%_Y5!po&*Vv#oO-*x
wkag!mJBjH{+`WPCCB?GV976kpqwSp-<72H=|StQuj;iui7M+?8A%H~Fb*8{q5pKk`9>tW;C<5o@u9T$H2AHgF`$5VEq>nd!5wGu
Y@SS4hLBevv#-z^F-bstf(yhMC9frja?cchCjdLmR9pbjG7*3=K(!|HUczmw^7`>!`5ywXyA$$|mYsDK9lz*iy%lS|v9okYCu6vk
o3O}d;RJ*R?CyuIFn`F)ta5><87e@2UJM1RDy+&;18Y)bpA-H8z6aQlbo13BRE)jh*2nBlrPwra=oGS}Eu=mhI8ow93G3Y8+B$=&
b8C{T5J`fBUz|V{!LwLRN9%pCR+5|5NpPGFguJ-UHic&?o*7EJ_4i}`3<Xc<1%d1#+953gbh^1XRk}>k6?@~x*%SdvkLA8x1=zPq
y;MPay>Y$XkDLz8;VHZ$#*Ymz2g9a);Uk<a&r)R6|6vtNk05sNLc*?ONRt<BII)B|a;WI&-vrM3HCTbBS&1u4;U`^#`B)TI0nbfE
71FfC+nQobS;L+vNY_jjgCn5h4>vwTFd^kKM9vpf>X|<K+43$=S^o&S6nEt(z5QE1uwW>!uQF@?(rCfVlEaHGitwtg%Fu&Tp6D@I
dfQMChJCAKS5mhYJrSs(wT(qeokW0%AJV=n>t)UF2H%2Jn7Q)I%=fjO`s3E(q^SG&0<ih2qn!Ahtgs28Jl}@)7JE&t06*wm(;|Qg
V2750qd+93wd-$dHo5E0k!?^xJD<NbMF$b{#cdIFzlhpMZ)~*%(1G4>gA3wVVYIDYG<P8jMAC{{gJD7-oddr35Y1dFqh?XFG3RYp
yuwJ?NbpxuJ=KyFebLm@^x;14m?3raXDZiQSVkTcJ?0a|IN+^&L2l4qo~^Ck{!-Ow!-%7^O=2%q;r(tOA;dz}X{;v>p|n%-iX7?=
SLqp#S=Lgp{bq3v()Ibw(jKeDTK{?;17|1sB1Kd*QiVDc+~e9ZD*~KvHAoRZn@o~h;A4cKM#p_JXMR;p61wtmnJJqw$_vH{VQe`3
3rbQrlNUp+Vp8&>udQsb;nOhCY>@HJiGb4xyv~)8ln+TTn&-l}F-ULlC@)-4B&{G6at=;u?z*M7o^070m30ZkX~Jj#Nq}Aj(5y2u
00G1gfS>^Yw8ci|vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('pyiceberg-unselected-partition-columns', __doc__, TABLE)
