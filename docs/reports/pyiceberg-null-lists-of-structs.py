#!/usr/bin/env python3
"""A null list of structs is null

Scenario pyiceberg-null-lists-of-structs of harness. The rules:
- iceberg 5.8: Names inside files. https://iceberg.apache.org/spec/#appendix-a-format-specific-requirements

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, tags list<element: struct<a: int32>>
{"id": 1, "tags": null}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vu30(j(o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%QSDxafx6ecz$nb)eQE7;ZAvptTWpOJK8FB~_2k}cJdRMlQHJYVz1npXVdp!Ove|%$fC-BAa1Y7>1&y||KS)aVb;_&Z)
Tf_*N%70|#T_Dn2(;EArmGa*6PMlx;v=Fj4Gxs3$>+xNlxl*Ss0Ics|3e?R!^>hC;$Kyq-PIsna^~iu)Eq1%6MP6B8aw^AGNkK@I
Jqi^d2e{l2QIeK?FM%-%Yrd&wUv*hBK7%P(#tO2SRk+xH)J8S{d=6}C@%=3zAF$|Pd&rrL(arf;#QU0-^oV;3uVbs*e1w%}VDn@1
<uxNTw+vT&sn1&`$$75-7#b;jopCmPF#&FpD(s8EZ1q;JyG;doI_goA2M@_^k1*W{Nxa>h!y|obrM?(;)4P(MRrV4vc6K;p0IzVJ
$dqm=XyhiF9f|*1((HOVChy9thMc#(fY)dyi6Plz8G1_lT-f6FmhzCdkW|f4ZBG|T6jW7kyZNtoB07>03iD6>zFBIJD6l3d8QAES
gtzw$prEq3Cp<)_LF!d_ct^7@#?D2_4*$j`P+X3${YV9>(Z19Nv<SGjuBJ%1_{?JU*h^j10_K)-Qry8Qws2grA{>;E>wCmcAC^IP
is!>sD$`sU%bZX`kI&-K(>4P+J|!Z4Nw^&HI&vWTAFS{326{w>^kbSALAlB|qem-al-q<7_m`w0eielSzirjm9~a9SSc>dn5?F(=
?Gp!oaJpu3dMrRu*dwVJ8WMVOBJ*|v_nJK59l6y3!FxC(8(P;2JU<Q`S57k(Y!x+V$Vh>sx2>0n+N3P~<}q3R(=Rw|SO?W!Xv1bu
b6OaOxu(+Rj>e{e+d5<C5^)8rHnO(@orWTz{k8z3Rh$zKjFfk`3diIPk;e~}0@-wlROW0{7d-?&9CcDCBfYu^<>Oqj*k*>Lhs-u`
^Fy{R7_?Z5W2#Z&#Ng|q7RBJhw4TZ&)stX%EX4D>Vx+uwdnQ!oKfwGC)A#OQvRv5G;oSiW0p8mvL#G;<;g=xJ2m*<$AsTRXWhfz_
yn&39668fls#b8vLPDybsk+bN9XOuVJ_EJ3nD(dkwJoKVy8z^0lkOI<eTgEtyY$eTSwkLMxJ<E&5I4uC$iAGBBsBcG%|*3m?2T35
M3@m$tYz>e2j1H6Zp()hR2~}94qnZkRAmvWqYfm7g?ShhENOR0@g3Xt(p~?te3LeCJ#G;a@yzV6-XcLACr*os-wn}%Z<5Vle@AN!
B5dtee?I%g$Q>HdI9|Kbnh6Ax+kPG&rwILfdX}`rCIke0S#M?No;~nf?v9+^Tl^gVJab`y9qT(IFCxEr5rX2={x1TVDqv1eNyDM}
TSeeK@1SFfhXIHX459F1xjXbwkg2DSZaD)+ZUmxAnk~Es(>gM~dY8@)^-dL|-z<$x<MN-<+T5$>oac0iGw|1KXQft!M$jM-TZp}@
k%@MO60nv0Cgx?pwSqTAU`@k>H~CY^^K*4)as~-X^Kc@r6%j43JGtl)cxn5i;37x21S@R3l%9eZ8swtUO9rYfMjhbhl#j<ASdN)T
sU*3?6t5Y{jY97io>#+>B*HC&F)(eD%Y{#6Bo*~2lbndI=Pe%SHE7GyL#aoH8dP%0AvN)Ebdn5B8Le%8z*ne1UTGI9rOYgfSOA18
!RkMY{E9^Tgrf&sov62Sa<4s!^5h9B$c~(OeJ+KtLBJK-)TUCD&`9UpcVm9QlUfM*QPfQp2y)o|@WS7uE+c77gp#NSP9R56mBM@P
{$H+ffbe{Ysf#}}h&_{PZPSZOom(f&nE$|-o>EqO^w6Ojf9}uAZGBlZDlDx?V5syX!qET@2u@1o_kqZ^SQAd)40#c>^!3ut%|sH%
5f!UqKij#MACiABKz&+{YsO*zamN8m`BR?iYZse{>Md1*-AV+E3jXGtK_&l9MVa+vb9%;tyP?!u4fyi-Qd&zgI?R!~#xOm3hl05h
->qiovJEiItZ|QQyQ3Dkr+?DZa8l!#$NF({EHvXp+>TWfGs)0$fZla4<MpR~vYLQX+ON={0hhDwLUj~oo!DUCYIN1xzI(fyo~#dc
uHcdsWci<D>N0q^-*2uaB^Y2H2Ms1D-Z0`|2vv$=TR2u436s%4YdJq}Q7T%yOpuLp?;F;_h_<s)SQrAlFY!hO)mHnmu(BC|gyIX-
4GzFCT`m(`>Z^-CZMe8_&zA$+*Z@16(i#YnH{49dSPSGBoTzY77u$MHX)Jz@(jzMvqlz<G#)h}r!>it7vLh^g-f{?MOHky-lQV2#
w0t-Xr2`ecn1S-o_a0uq^c;mfzjc!|?`Hc#gscGYzGVxuRg3eFht-u<Gq)5}?cl7Kd!QY$Tues*kr^CY>&)-pEO0uh8gN4y|HZYb
)cv7|?2i98?aZI8v=r~%-)URLFI{1ugql%?R-IFtkF)557|BCB^TJDGvB={^uhFyb@?T)Ev$rIFWlGn?!j4%>yFknLeJ0-uN-cDg
e!H7_J1XUY;Cx|5USU^Q#rd8u=T}ylOQin7fKBbQVQqhoIAFzG)L1CBx2$2Ny(t`R-`qaTq@oOB<)H`oV`g4dMFeMMd2(f=({v(;
@Td5S*|Dnt00000pIMQjn=oKR00E^CfS>^Y7#Uv2vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('pyiceberg-null-lists-of-structs', __doc__, TABLE)
