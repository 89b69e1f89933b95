#!/usr/bin/env python3
"""Columns that are selected in another order than the file's keep their values

Scenario iceberg-rust-column-order of harness. The rules:
- iceberg 5.1: Columns are found by id. https://iceberg.apache.org/spec/#column-projection

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: columns b, a
Must give 1 row in any order; all in expected/1.jsonl: b int32, a int32
{"b": 2, "a": 1}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT "b", "a" FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').select(*('`b`', '`a`')).show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT "b", "a" FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT "b", "a" FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan(selected_fields=('b', 'a')).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').select(*('b', 'a')).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').select(*('b', 'a')).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VtdtCrBo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6K}A5Bp*t^Q6scqqOsX9brbfqKBUm6o`=YZJY7F`63#R196}Vh-nqY@xn%7EZkVnh}QcY7chjqKO`?#DCJFDcD^3ZEc
+jEYXq#6IphiZb0i-*u}2qM+Fh_rc0i#_uWo_j&&thlI4h4L4?Mx$d;FGfvX0;3Wv0iGPoq}s|>haRxo{2I%ilq7$)HD?vdC}XZ%
cOKA*<0zT?>-*S9mnltl!U)toFqsp%$vF8FV5q=E<gP+)?XhT1qx{Jx;DO-Q5s0bKacqX@?D-Wlh>vNP;k>1B2IA&U>V(V7DJ{$>
IF3qk^Ung<rEkaDw%Sbc2GSfk5Mhvg0Tkb6*@%U8H1!aW{|^7j6dGZmZQL{J!H<WE4|w9K)Qi+#=@{;V<32xnA_!aJ;Ki5FqwqPO
^nenv^F%CK8UU_rJx=Y#A)LU_Us)3a8m^X;+Vl|*b-S@()<<&_y03_ZX`g`7kCVIxa67dRk~<c1C1`fP&CyLG%CJ5MrP%Vqz^=N&
ObQ=f+f`4g%6~#oV!?!vkPm)zaY4W9q&NAGm(vSJ*$^HyVzS%*2Gzi*bp4%V)Yjo)U7VJn`Ry$x&n@qb#6R+MmX$fG;*tB>D1#Zj
pu)#&%jLl=*=ZmHE<>XAaWN{zMMF<+4_hc`Vqhg9UkB;{AupZ+L#V}H&0IU)G>HX*lLG^juv8C{#ZZY)MRo~vrT>)e)tc!_PmhZp
=IHDZe#z>%ClU31Xa-PgKki8+!?f+OLK_YB4NxVV4>9gys#(A32i6q<+5BA215zjQF)T9s&G$)mF74@>gMGh1?>kpQC)=f4ifxGx
G80sKmj*5SX$7rkYefwd#;LW#tQl29e__&V!fep}!5ZZ0F7pyciCd!_#wr?hUF&qg%-f%`!e2Ho)nfe11u|kll@?rG^J26{p(!Ur
iYPm-PQCAuahP_Ur-Cd{bWWoI1WhM(;4g{iazxB=pOCq+!~8RO?!*lKCnI&M3WADS$6LP(KTlux+d<v-2D+7t&J9yq_YZ|TxPeg<
<{Mkk)Ii)*nu@g(;o~-F$W7Q+dU8+#FqVlO_EAqb(Av<?8!Z49ki_!ql@V)$4np}RsBXa<t1h(^{W;zKPf&ou0${5T^oiiw8aD-`
CoQBMs&%DS;wJRflPaBCrAyuRh<skAObI|+wr|(bPN*ywfO7>e*Lq|6&8<qtJeDtu2{jPii1JG-2l=gb-IIF~BNZ;MM%Tn?Y-c9=
pso_<+}@lAH|zKK{1`G+xhD1cpP^sot_Bd2G_0*wX+0s3BF8DN5F|D0jUKLtGv+i6C<}4UG7cz1g_d~z`%x%Rawk#rG_!DoQlYDT
Vpvh3t|=c)k@E~Qa3xM`c-cdfn&IYNemD|J87Y>inOw<pSRh37CGeoh0kymo?p--%d)KG|ZuIK5ch7Oucim|b^Tl>6r|%1|zsNP+
Kx+bMHSF9trm#xOgLz8w|6`uB%FwBP;b#utgZHrp!eAhIi4{EmF*xP`@Io&{=Q)rNpSeU+Vkoc@2#130MHFO*<!YWbWS0)_|Fppv
Z)sp{eYO4D>0PZ|kAH1F@W()JXtSs4F5sAlsaO!PY<;4bnOWNU0$>*g_3PWL$2vXcP%wCBn%H!ZIHX{)rMGzvO<+7WhTB~zJ`q5e
-yeML=C9LvT=3U~+GrTQ`)8W@f@taILzL*)S!}P98PYmTul51(C{eE(i5{D7x#=qWOZS+>wed3!X(V$5^a-%F2eoZ;CqiaDK{*yZ
zYNzP4$xZMQ_ASQ%(OQc7<YTF_`Up~);0_3!%**CzzO8WT3+iz98{JoT*v%v7R!rp!$4O^h1cw-U1{~O;BRJEFIgae-*8#$htWP9
j&9ZAh8_Dp*A8SP4kB}s(4XDbSZ&fq9(Okg;zj}=uVg79t~iu4kU`p_zv*2jl){*1dbAj=Yznc%-jSK*@7RqN#$#PfJ1XkbfzGVo
`oYlhw#HGy3?ZHCP@3~sU)5#0s<e8e5uHFS>No!fvpiSE2hgoA+q6KSgF72=ZqrI4y@-h{ix(O*gMRujCYCt)Ko0q7_nqMt+Hi|k
sx^p*6#KAZvI9h}T`b$B6n*s|!u$uy-JVTog3Uc3yaB3eMI(1V1|x0b0+-%ZUwf4+!()o-$fkwR@sF<DKF0|KuH0Z_^bbS&zTK7;
!t*3eI~RyeD~-0L_1`HK)U^hpBL>+NCe&gn9qWe;h2gTUXOYn?z2EB)N=4`SAJ-?xQsAa?i+&K2b_r&1kXuL*-83_$I1~gaO(vu`
`uVpbuIqN0^vIYQ!xMTZ<ZJD0nJso99i_kryTAFc@QCeyb{^q(UTx^~6zK$`K2%cY{(EDdtwx*`uL1K_S}AqfL#PxJ(2#=rqVnB~
)1#3k7Jv4UPm==0`G^j4fix0?@&2=l5&!@I08&^+`5>+n00EZ|fS>^Y?Y~@XvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('iceberg-rust-column-order', __doc__, TABLE)
