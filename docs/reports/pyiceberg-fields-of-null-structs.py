#!/usr/bin/env python3
"""A required field of a null struct is null for a filter

Scenario pyiceberg-fields-of-null-structs of harness. The rules:
- iceberg 3.20: Bounds are outer limits. https://iceberg.apache.org/spec/#bound-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: columns id where s.a IS NULL
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 2}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT "id" FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json') WHERE s.a IS NULL;
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').where('s.a IS NULL').select(*('`id`',)).show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT "id" FROM iceberg.default.t WHERE s.a IS NULL;
-- ClickHouse
-- clickhouse local, started in /
SELECT "id" FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json') WHERE s.a IS NULL;
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan(row_filter='s.a IS NULL', selected_fields=('id',)).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').filter(pl.sql_expr('s.a IS NULL')).select(*('id',)).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').where(daft.sql_expr('s.a IS NULL')).select(*('id',)).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vt+FbxLo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?Aff2F=eo`pxCV0fdlkfj<A$V^qG9YsfemGaa_SXOblP%`nbb}W05C9j
*^5Ly_J|0genPwNw~*WL=6-aR$<^++sw>4tF2f^eLz>mYn;Ka=TjS-56CY-ob>b39off0LW|!q%ziGD{fWYK><4+9sJtfGeSPM?Y
Euham`yH!*L%$#QL#lcghkai_m*Ib?PDVsd2;G-{dCeD85{B_YD(7}k;uPT+#;b#vI-HvIHpeZ3NW49D0#SIGM8B|u-b7ov*ICFj
dqD8i^Fiv|%tTku`uk-K>D53}LTlSxK42V+E3j<ArTkCkXEG{3y8cmMI5Q@nQSpr*Ru4$HRpy4gMA6tc9QQp{S2Izw;J)>?xq>Ju
T{=M%%LXM{m!xw#D~JpxceGtl2z_Hc7X<HGQ>*uFDrW>6d+cp00BoMxzZx<4$*Yg0EVP`5R{+F7J%})N;dSx&c?aj!@y)pf7}P-#
Yq6Z<Hx^A0Bm#HTT_GN4wy=w-j@^E!j@fL5wIW^1xyI0oG#26<H=P+}k~@dZFjx`5>%4VH?V(R%Awh~+W!;A{2$MDOHt%C1E8OKz
{(^>^(bMSqL(C(KUsmUUOH1B*FuhejG(<Mh;w~gN_P-L2_m-<6Q0+S>BuVcM0hqU{nKH`V!%Imv$5IvpOIZ*gR!pYvQhk{G_$`An
YjLFbWZOaafdKIB<2Y`y`4CwlsY4f*Wlj)HD!;4xaGg&zu%TqmF^0i%TOrvdgDGS$JC$$qb#Z@{lDnpE>)1{lsf;3pqPEM1^wqg#
REbJFrJ$#-mJs)uqMQP&j%bDH|B<aC8V9HVHRuX&c}Qip{idULMflW?f0PEgKDvYA73+)Mskx;&(T0!NpzgpLr}(u~Hl8uly<a7U
Rh}x>WjIEUxxvcnj@{(Kh(QXgjo@Kz+w)l$Qdc^C&0^+|?(jDXq3W*Cs~#0eq@mVN3f>~QGdi;=)Yzwk{^54`*XLNXBNqj0s|=4s
uF)(}gu;X#a<lE*t+tq3-_5d4ZW3ye?Pap?f_@oLKa;LqS{oWUTrxTPjzKw<KMrojC5Aw>Q4W}#FXjK3XT%;f?p@fP^?NOKHn$+i
0s$4bOgKd`5vi&*UD1kf|FA1ML?pkAuoQ`9u+lp*&H+9c=isUeBYp@l0PLY*w7A>2q=}ks`L!Nyz4UAki~P3-r6tT-<Tl4}R1<Z-
7yg<l8lGo>4thzh!jBdc0A`v^1C8H<a7Vp({U^w*h*MQ3CC<eyXSk4AmBg%y%Y6x=tr=(Sz-#hr2cV(+-vfceKQgJ0l*Pb3L&Ml+
7Wt0xVGKkP$EhX+P+zxC-lRyq@dwJIhX$T)UCEsCMY5mo_6OjpL}6#+A4^6Y;s0-upw@eID%X6{hR=T;u(pkX@GQr)a&liaE=FZ&
?15PQ`1hz0tA@uAotIrGC?}qXNUVx@W%xlgl>7NlAlx)m;%Kj60Pht(pm1Ovt_ZamMi(p9YKIMv8a&gBNAme>JVO-m58~0ae0!Q7
AQK-=C>hoqh3Em>*J6;W)^F1;8|)9q1QGr;Q_{wV??+UUT$=HZ0Vsde<8$5H%Xl^+eWnl~z(~qc@hw25E|axKdeVQ$p)b{nSLRNE
{~v^tJ1#z+!)7oiY@EnFJ1{*Upj~f=Y}8qgQu<~N7*4*MbY?{G3(febz=C5UdUi(QpsLtk!JZ4rw9k0{F=+-3jN96IXcVI<bx?>q
n_7nCjB7G@nBGe7En%#0*rYpboEr+Y%tXoZQLwkQ?j2!iPZ#i+m)ha+Oc<PNT)j_-pg>$@+(~x0dv8r#G1x?tp<-nf2KLo%W2SiU
xdo)3g_x&cMF2Inpy<=jC8!~;h%n{?I0$L!S@P1ye`!d$Cjp!HijFapq%v3TFN$g}+Q{?9Cv|#Ct&JnB`V6Y$dd^{WpL(gB2fV+H
vQO*+rT^Rh({B>;XSQiCWOFidtnr=9M5n)qZG~3ji#d^UWkSdkW~NoL5AW?sb+oJJUZn{hof%hjvfi$UD~yVkxT`x>z<0Vl^0@yX
tbb4n?b2~CuE4P<hsY^`^zE_6)W&7Ij;@d(enJv>*}@ICokUectFULbdrTy|X@k46m^Frp)5xAqNLLjR_Jz_@Slu6slBwOeT)Jr8
i4!-}79_Ka`K@0pTp*CnL=-fDNSYJnI{;cCYKtKlk9Ii*blFo?moX&KOISkxh`1{GmxKyHVp91a4KfyPBYhnB4F#Y;RIsA4^h4F}
oCC~w@>I%6c3EBV-K{u1syigQ9g0~sQ5ws)QQZdDsxmvN#laAqh;nH;k_!f~cY^BH$D*QGossdrlCBLePeR<oFD>HTuVEzr(;{^@
@<+{IG2`D!xsWdm)qV1P)ilDxPJ3HES_t8*MqrK>HKm`DW982H@HN1TLd9bWA4!n`{i0Ah_xlxC!zKc!JXzn&oSZ-cD^)Ypr<ipy
AJx@zfdzan@TF@zjn^r8dxe29Da4}id*pWgv}XU`Ja^7Kf@#nzP5=M^`23mNZ3VdQ00H(7fS>^Y5@YnQvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('pyiceberg-fields-of-null-structs', __doc__, TABLE)
