#!/usr/bin/env python3
"""A timestamp as INT96, of a year that nanoseconds in 64 bits do not reach

Scenario pyiceberg-int96-timestamps of harness. The rules:
- iceberg 6.9: INT96. https://github.com/apache/parquet-format/blob/master/README.md#types

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: t timestamp[us]
{"t": 43012080000000000}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT * FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan().to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VtK3xDZo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I1oI~WpQvkaT|aeV8MB<0bYGLef}7eM<#iMBfr!G56GVwzBL-EbKy-t|;c)i^8tix1Fps$pnW4#}PO(^KYA*WLgXL?1
DUF95v?&TLdsKz%;FkzcCofS}RWYj_$NV@NE#FHz4$9m4V<>%F?gyT3*nbPwD@TPDnL4-#qu=o`;z8)+i?lXUm_j%vlZx*#{a0b4
w!&U0<DBvC^D{%h%NG2pyhxn;8MY3~W%rn?L^UPxC%wcKJ*4BbHIwsj|JQMcX~0?FQm7%xd9dnBuFZVrz2Ab-K|Tvl*I$fx^F8Fc
`_8uS;2Oi6Ym6r-gZ9;JzF}<4x+o>`34Vb5-MtI<2LdVP-c6BII<tH`A#jz&PO-l*EccDpUDzYmp7pGBZ7GjQKQ(=w0zpO|7PD$L
9ht>4suw8!Fm2e{Y+O8cejhW(8KY7lunro<u~M8AuIUrok|2uZ>tM2qodbYt=kPcgZ@dK?D<aEX;PDvdJtYtN6>?^)%Ic~TIy`m5
NWDUj%*b*Jxp)!c)ys`SYlrvjN_#xxNK+s*pzo}Nv5UT&)bjqCM?cc4m9gJ|7*Ud|#WC&lY9xh$ht~3)Q5WDJKuSlNmP>wG6{ouf
JVDJ!;D=3rkPj25)MUL;sVi-jI;0lHX$loZIXB1Wl3I!&xB$7LRlx0?H%fiFqTrXgy6s?uqd0Y#t&?OWVG!(&U!Gu29L407>;4#@
DMi_tgtzNbNR+{6c4~v(J^nMT_5?Hq!-;Zf^8vUh;{>-_Clae#!umz$B_I?WOha9tLiy=3DJmf7!xY;8!UdJM+|@x-#qHQ;#nHS}
1o#1%nShEpeRH--1WSVrn^^XiE8WjeS!T50vAke?-~_Q(^>455BrtCO415vT<}>XfZ``2SsbBqIMB2>%k{9wr7Y);H!>s~442k${
`l&Sv5hvYPcPTvy@!VUAB*Bq>D%|)5lrv{S{OCO%)~Xx6$o3tz{BxSdF_Sg_lskeZaBU(AY9%i`R#4)?kmAJhfeDZR<~m93`+7MI
rTl9jV@Wa;i98dkyyS=o{_Ex+{!<6xlJ)6Y$wa_%M6F0iuFL^v*AK)6-~>@-7hrcZjV^Z(OINTtlZ#i_zbjfai-q{aK;rG-QCW!E
(O*=q(9?}y)!5C7N%G=wm@P3;KL212rxF!mikL+DK94PdQ=Kld33i4c#RZXJYILVS>pOeJ)pS}fxpk)o)W@M^oe#kh3+Bn}d&3;r
m^|g1cA(J}<FzkVn+uf%P4&RdmZ%wXporcvX3gEi=W~B-tWu!mf!=N9P6$kqv07c31e9dG(xf%MHJ&$D^WP`_IIAf%Gvloz*j7}@
MuPK^w$N1NK#d6#W;{}c()rM^KM*G^+d=Pw{ioYKh@>jcAA*09z@Styt#I;b-eW<g_96+Nd@DF7$2_bIN|JU296wP_PZW^E(5;qE
p%R=73oE}R<)gdQCQPLYBFRX3&E}8lUlwZhav_`iLi1o;Revr(*(6@Pt8eA|juy>}99@EhZG<^Tl-J&QK4-5OOZAKF-R!Yfl8F-H
;2_8Xy-1B-Vvia8-xOM_@j4Ke<;6XH97bRn2{ScB%uHR(->v><U+V4+>LJBrfff^)zDy;LeW3{f&@boQ9!w9MZBX1eq^Sx4t&8`+
cK(xSbDDY7rgM0N!4ZQgsl_q?QU+D~R7feN@heDDfCbFzHHLMu84sKAs7C0aok#1cbBVtR6Gu5Zl;)qq2KAD{HrVL{7sP^F63W=I
Gyr?D___vs+D@G$DdEp&2!hsRFacPFQ192YX%nVkJZMG}E!{c@3&~MCdaQ_mLnXVng?o}D0s|LIUlcgjPIY`Bmh{xz%iRdHFW(B{
CDEE50qx%Vz=|x*|BML;`mU!+v^ky~Hw47;qYW1)8U$o>;G4-tVj>|X!|ilWe*KEHw<=C#jl3H9s!4GXke&jPqi*On+~RVhyShnp
H{eIe4_E-#ys{RCf(Jlg{0n31Bo$`?2Kt_`%O7T%xI}+H9Q~2`1?du$FB6gprvz-4o==E`A`xIxIb7n-OGL^zY@RX0e5xi0lvhCq
-K(RuD|It$zh$I#<mqgvEPs(6^^ftS2z?$?0FjA+Bpa-6f9_$rspQ2cEJ01FBTxMC`%ul#2BtyD;+7-%>QfB6Elsti_*@r}Xd>SI
UQ3$V4YEA5FepwJw~VDp^N{Vy$a@FnQ)+lOB`=TdEqQG|KFyF5tuGbko1vawVG?J4FM3NT%ZK`6e}s2FL;_bAoHRhSm3se|s#-nX
j|R9ah?5$vtCQ5tc2n901~)3Vu_Ut6fzUNp)H^o8FGno9&b`Q(G-)vB00000toe;+N-?~y00G(#fS>^Y?~nT8vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('pyiceberg-int96-timestamps', __doc__, TABLE)
