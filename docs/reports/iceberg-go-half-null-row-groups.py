#!/usr/bin/env python3
"""A filter finds a row in a row group whose column is null in half of the rows

Scenario iceberg-go-half-null-row-groups of harness. The rules:
- iceberg 3.19: Unknown counts. https://iceberg.apache.org/spec/#scan-planning

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns where name = 'x'
Must give 1 row in any order; all in expected/1.jsonl: id int64, name string
{"id": 1, "name": "x"}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json') WHERE name = 'x';
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').where("name = 'x'").show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT * FROM iceberg.default.t WHERE name = 'x';
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json') WHERE name = 'x';
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan(row_filter="name = 'x'", ).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').filter(pl.sql_expr("name = 'x'")).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').where(daft.sql_expr("name = 'x'")).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vttz7^zo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6l6*|&CTi{EF<jdtF}hW8kjqXqkjveRP<?gE|6|2Gs2P%_-6!J&^U|AIzqHvdvksjbJUDiS##mn{ym=4`7H<wG>wMi_
MTojaLH;0`SBxLznofsD&ME`4WYh%XiyHisan#Pq*kR!PZ6k!~0&W2=9R?iC%Il3@PF}ELw_<O{MU2%E>Z6<MLVfUP+F9x>DF|4n
F5$N<<igmXEL&I6&rIM2AiY;d;>v94Wj2FJ5;AVrI+nr}abXL48+PU(+Q@d+sNL}9U}ifCWS-0aT;xQpbn0uPnX7$y_H{>Nr_K0w
&DN)?_$8EW+YU&2qTlucdr)-TieV1_W#&|11K7OS(BnBIqf&YE%e^7UaOq3IBY}?ISP4iu-1i-%i>M_72~@mF;m=Yu<2JBE#T`bN
(L^r1CP?plCO_R`{82zP0l9BbCwM3*U;fu8(j&HReMA~aW8yYSBVZo)i~aRncu0dWv|?XVo9Gke@jm9;>SP!Nb+P?Je`CVpuo*-F
E#1wWPyA(kIoN0`+Hu1p1%++^fN9Swh%K``={d}@aFz{k@D1Bu>4_`cSh9#sZhtfsi2mV|A^!~Ydc`CSdjqKArn(GXF#s{AvWW4J
B#3#Woqp@WW0o+QlKI&O*!3@!6G0~JtBNQbC%h{cvV1m#?%YleNc=?pHH=cOoA*kLic%WOUh^u(0h6FB`TM=0?n|-v%10d{CyDE^
Bpz_|{as@tf2GHG$bW`ia^WK<f_t2Nx@31w-Y-$PzE8c0|D>Ex+?Tf*S{f>TmOrW{aOk32{9wwK2DgtC`~m|b#rw7C`PZcwN?VuD
&mP$g3oUIsWEMgY4cIP>tc)b3cU>6RS^|yM%1I)yI7A_sw~DoF@S_J3<*$3}OiMux_ttgViFX)(`=e5I3>pjC5<Qajj~bk=;$Tm=
dK#UKdtDM?D7clSK7;9xs7jI!3wheQbg&8Oq_MPIO=i!@xwBC#S^h>Q`aU*xn4-+(sk`{^l-;?W{c}Dp{{x2iM$C>j2%Jfu<m{k|
zGLB-U$5~5<JD>&I8iU}vf{_4dGun~oGUo?Jn24~5g~#M#Wz=HG6rng+g|c<@)w-(DtE4HiK6IS8y~)q?I7TQ!%(^BwZ&hj+LJq3
ovS0VFsvi=q{Y|)@=acL4l)QC<Kz_uAYX>l!jY8~%i&j-JH#+DoVx=HD1doHm&5b%2b3=F0X-Av3DitmF&y4AS$08c!>(CG(H^F!
24x_fZC`ZF)wIQ|*AM_r_$W>{Af3Jp9{}7sG|HMx+&b$ly3Wp-PXjvrj1EZ3-8pTomX_jU2!*MS`BkDUxQku`w*W@PRG&mgklqs*
<Mwf;{`2>m$i}rlS>#6{6J0n(QKzu+yzqmg&O=t<A!GvFg{4A3Z4y51+5rS}swK8^F$@r8i%U?q1XC@D<>X(PL8$mQ%-m61f#cA=
pw0H%(CeD{Y6K?LB1%&2u1=#6!H)JSP52zk^>%eg$=JJ#DG|j=O${v%kldY>=d3GLGnq3QwZOYZ$WXH65Ct52mVDBx`i);#ypftl
r6)jBn6W8F7SxZfh5%m#^UJU>t!Mk9W!TV71zI5B0M-hA#NnAm7Ow$;D<5rV`kTix7MG&*X02lcs~nAgJFoy;7DQ%9625c`>jQKl
C^ep`Xc1#+5Po2|+W$v+4i(M%j<{0Hab5?+dZMpP@Ln`+{NUiC<cDA4??LU<A4(lLt_kF_K1PV6ypIW=WJAlc>6&<fhmk|0#qbu*
;S+M52HVx@l-3uzAn_}%m4FfdP=@5BLkx1CdLLnDhW8|L|IRx}L(qb+b4yiJX`ZD9V1pEKL+8lder^wjY#P2tWxHc`yj~AW3K03v
>qDdEt7B&1eCe5Fg2dLtq~_M1QU`8Rvs3*B2iu%kk)?wAZ884#AN#dH>v}>jlzmyB#(`dO*}$TSX>3S^agnxE?i)VW%hbHT@2>iV
fXR5YC3UVvMfwhqgiScbnzf5%p)$pHg`KQ004LE)q8RY`ws1>{jURpLLf`y+&bjZ$UlgBzxg&h{t)Ulh!1ETw5WYRx;l`AykUlrj
VG5Sv!ODSOS$HhqLs-6Nl_o8MZfDIP{1B+VQh|Fr*2cjCU<l9bb9uwb2(|uSAIG@<x-wR9W|H^Is{zDsTQw|ffJ6*nhbP7rTX}B|
iL~=l`~z9PH&_6Lz=Kg`pEA4&%XzeGC0j9sY;ROfIz6Je%uu-88^J5hZ_h}0X}g)Ql+!&em<kz>Wa<=f#yT!fa*O^Frjd=1^0TG7
q$MOeoYf$rnx@*pEgx*GX89iz-#3xg!xpo~2?eih;P;<TR%Z?qHoZZ;UD71*X_^CwkGROKN+g2YZ#%OCj%bgqipQw8=GEN;Yogts
3-Y`7lbrw}UnbWV1gD74#<KgmLmfF*5H`;%XOu35XtiZt>va0N0#Q5Jv8&MCn2vi|a?z)5%BuvC5o(B4?X0_;wyN_&yOnnU00000
I=BYBp<O~o00GGlfS>^YYS!3VvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('iceberg-go-half-null-row-groups', __doc__, TABLE)
