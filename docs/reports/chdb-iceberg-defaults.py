#!/usr/bin/env python3
"""A row from before a column was added has its initial default

Scenario chdb-iceberg-defaults of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.15: Default values. https://iceberg.apache.org/spec/#default-values

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, kind string
{"id": 1, "kind": "old"}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v3.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v3.metadata.json').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v3.metadata.json');
SELECT * FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v3.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v3.metadata.json')
print(table.scan().to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json').collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;CKHA;9USRo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I1oI~WpQvkaT|aeV8MB<0bYGLef}5aawL1^v$iZLei|Bzm0=F=apZ4Jlr5cqiOD%8q9X0@zMrIsqH1~8aR$JdA2J&>(
)u(?~pKYhOqCQ~1UE^fhxS@U{ArnFu{B{Sh@nv6hl3<Kas?Ciss3^6}RXUu9xW;TT0qjk-5CDa8Cjhem^#m}852HraPLc_cO%;2{
-8#cJYH^s&0GaQO=@(FeZej_YLRtl4vb?PNMql4pdI%~<o!xfQWdqW~%ahEDp}Fq~Q>576z%<BC*DD(EDM1E`YI=)(bXWl^W#LX*
){oc(crtEl|GTIZCsJC$(8q|ytQrZSg(j|o>E?9cH&2Wzw_3;Qgq#=XC@t<tv#+ATyU^#i0oPI2zV@n5>`*Tp#`FaI3q_((9yve)
g^L$Jj^7`u9C3{n!%K1tzL#~<7GnEZ5Z=T6Uk8295uJ;V=}1?$g4$?XQn+NC9xEV;`uCIvC&K<RW9xI$$J5$12G4gUF}j8VO*fA;
0xhZDl-Qv!leu{N;&?9$HHE}p_VD+IJhCzvlJv{R6X?v!MJr`pW@l$Q?Wks|d45l^^{4lEg^v=3wB_E~t1kOIqTYf#S^}$vr6a#a
Z%pc)(tOjK(Hyzyjm2CZN&rCgUeYDvU`6Jw2p?^t?Zz&1E4G0#`rbksJKYMEHyE#0rtCy?sp-X%5TTY;)zg+QW{KXBtrjCjvI$BL
a2I}X1UhB%e#7e={d8HC2QjU#rn=$L;>J(pcwc~xwg{0r6_+-Y1R>3!6YC4ZE1T`B+Eh#ek+yDkJBR5NX>GcW<DK(ZmiqNfbF%^8
khW@L(l_iuCAhQ>0#+D6?1nnA%<>3DlNK8jx<(U)^@<BYg*RSKP)klm+a|l>Mm2sX&Ju>f*!I72f>8OT`>JiPG$PdTYCbh&+ZMs|
;kC)Om`jx42!39{-5fh03<kZ<bwciP-kUG(BnrPGiP`)AJ>Wv*ps#&-JQd}MC{D@WV%$Wgy2l<4<S4t+Iy$a+eCz(~j6L<1#*ELF
?HH`L*c_ysy(f;xK!YyN#fkW%Zf9i970|_P{0&IWM^>m#UB)%4!aOIGOrjZa?CdwcR`fH$1GTkpDSEfpDsfB=_hG17ilv)gifG-C
^}L4=wsD#pw*;i?&o_pReP32)`Wl)|+PqzvtZ(c;0*b2wo1coXAZRk%Lh<3){vq(7=v_E=FduDVp4hj(+VVw-iIg>OM*MbqH>O?O
e@{0QP7O4st35OWhFSQG8insyTG*U;#w~N<vR2|CrzYQ0{yAq2?o-B-{GIv!8LwTq)haHd$u}mkc+J$_L5qG}88<?4DoY};l3i_v
()4Y}U6lwJdf=?8h`p}LJppaj7P6n^Ii61h`f(7s_IvAoMsxkfqUhTZ@7BqhkB0Y3Yf0EoXKn$;pK<U~`{)4+&-`b-WVP@)#{2yT
wm^sdJYn-+jZZrQA7A;t)PV!K^3&MLg~Z!~8l)ote?2f5)qbEWZsu+Ot=_o*J#(n&_Gei=CZilwug$@C8yvEaMT$}e?ebhg9x5U+
RNKnG5_6rPMkgR!hD@%Mmx=ly;TIjfo^R*usPPQZvA;}9kTTD^fv|%K(6!KMD;mNZPl(F=lp#7)msc0W>Orb0J|cBOyKYRNmWh4q
<k~59XLkJAciP{JmF#q`1VE>eGqKqoZPhu{LVhobTCP1QV1R<do|n2~m<ttP><>JwnPJ9%Fzl#<qruu=GWXE~;0x&sch%GNR4nj4
t4{m0DUXp9*r~6ErQ=sTrwbY1g#C2V8V%boB;ecnCCE7@M0iu-^awCCOMrggNXR`dF>vP7wR_`!5f_<{t->!6e+whEfk|Zsg@~yb
IJf1?W_EV;_!KGqh?UV5aEe)>I&k4K>UliVQK$*Iz=j1tAi4jZOyP|-0svM9kdkvHjbo;ANi~FLh%Sx%24F+kt`);U%roz#r@?o#
so*rKa4%^N^Y<tn4qA7}cAut9Vk4V0Fi9erYIflh3Wf;>bA(b5@5l+ee7+jF9B|0S_1B``PUZa4oId=ZmN<lu?gRa*vvvJ~AMkc%
%}Lsru|E$?_WTmDG>OyHa6#SfEP@WM*f<~2GbiH^cuN<n^i7ka$ijNTek6KI3dCOYQBg7GeDp~GmhNmuJDva_NI7sztUM<g^ODC?
yD5K2eLDdejB>}~xfsypN?UmG{xxCFb_#+zccy+2v6MVFwMf@aIVJ~<q%BK_6;ZWJ7H2fkz#s7y{DLIE+kY~#{YRayz@*Kc%C@Vu
bZ?0X&62EM&3fWBj>nCjK;P<59qD8k*bmc_jy}Bu?x`_Yp>2;JmQ9sqN+N89m9YVZjkY%Fv`8RIu~Wu0JIrrw)~#IqQCVUN|7PM!
>S~iY+yU*f*R?N8-dDhOyC^-WLWX$`x~a+i%N`s?N_yhSC&zQi*N~Or@o>X2Er#eV*Tlt)u}BTLENZ{o{mh4y9NKfI1`hezB$f=h
`M_=7@Z_t9+o>#0fo^nbM$}v3{B80B9SYbi5A5q3p~ea&3x7~XHFu96?^ECa)a;QuzQ1eo00I0DfbanT#BS4KvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('chdb-iceberg-defaults', __doc__, TABLE)
