#!/usr/bin/env python3
"""An equality delete hits the rows of a file that lacks the key, by the value of its partition

Scenario duckdb-iceberg-absent-keys of harness. The rules:
- iceberg 4.27: Keys that a data file lacks. https://iceberg.apache.org/spec/#equality-delete-files
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, region string
{"id": 2, "region": "eu"}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;Gh2qa$Nv2o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I5!3d)4n9%KHqwGOa1!srT^xW0;T*rzrLdRgeNj%!o6uLA(BL+$i_f=RiLqG0R~Ji&ZZCyR8>11wg=`g`R|&m8hnfDp
RtGLbE93Zl4V<3H;&`<5>i<z#<LD$l4aGiaoRrm?`#yvPBl8Co&}wTE_XTkA_!JygA*K&ld#<2zX*Bl<W@8dq)Hx_OtQ_O6_;sz_
&XSV4mN`sXA#-cALD!GH1<<`6RkZORm{RWl-hV^feFjK`u<kx+hoHm$i?;!gSx+&FJS};O@UWjWnyk;otP!yKAcC~NMk{S84I&iC
TEXjMfl+?fI1g$3`PW%Z!Dd7}z9uoB;$J}ZaD&Q_g~N!#*x5f?ir7PiQpena8ej%suRD&7QMB`7v9f`JDEIeLqx55?LUnIXEG{?I
Y+aW?xstaqAfGP(VMX*im9=MRvHNL&nu4X(%58<ws)K~xjM1(mcSjmNW2y>yH=}z68UqOA565TwkgJqqK-W!2`xrQ6fylGA9Yggx
JBe%uh}qp&TSot7^#O1@?q~kDlM68!%@}k<^6{$@K34IN$F?wMk2305fOJA@e+Kua07welIbX=}Y4o4}?5t55s8|jsG}Q<rFz-?(
;eu2AZtK-YQeqyy4UsviO~a^j)Q1sJ5witcAZ8Y=VB5n(HOd!bhK31xHzgT(K)ebPB!jK-MY#Ltw+5KlV(AQ@c{Un3g|}@84k(`t
*X5XiH&UnujyB-G^IAl9?aM$|{)N!2`|aXQqm4EL!F!>PiYF=bED?<lhDUi&GI$Zt)!2fIpdK0S!*6IsrP-V!MqCL^;`y^DkW%*F
#Z$_4!B1t3Mdx9V=l7k5N@E-UF3{xt5+`wauYIJ(kCx%?T>2#8D`L*T8ZKVYeU`=66ETPsK@sXowl{e@0k<5EYvaM}9vxntIiIh8
F$}>a?*|+6am#ktBQGhHLrZFln%cV*(XN(Ib5eIUoMz*2x@cm%(R<xJ)ct}13Z*AGcBSdm?(>TXtQxrXT#*KQJIHKP^ItfBGKN5B
e6&ussd-;}I%%A**fvom_)?Cl{|<ft*|#$sP1=i(<w#*{bt4ZLH4c<Xyo<!g`@$XbAX0YM?8OKp_b^ziO$S|uF0Yf7#t>R)55+P3
mBjyJ7*Wwm#5jW*z^b;ONaT`7AVw&9A!xh_^!~5L2X(=WuhLDzl!oQh@kmv|{ofC@T84O00HH*ul&p?~p$tBU0!23WF8mA9JpsrJ
WAtk|zK6Qbv)mGln5Q6uCHmFT)pv*xnWmO?R5k%`LpIq8<?k${=$iA|6$ee<I8rn<^U}H9#wS7?Bh7JGjtRZyB#vjhkB=c9<k;!b
Rzao14gmLMzL7WT7y+@o_I@~)nnz;@vtY$^xI^Fi^AA9<A`M%G#_r~0gtr%~cJol9okvL{ywO>2XH|cJidIBSGqUp@n?ARPD+K?-
D)46|SibY8TQ%?dee7K8KQv*n{((0fLBP{^$6I8|qT~)t#4Q)Y(F#Z!g_=@^B?nvR51I+JLU8U~>sXrc{l$v#IYTGPw1j{_+#d)$
$At3^ith+O;@R~pK5)TMSg48<b4q5m3hU6Q2{`2_q|y0fojLFB0d)0=(`Ge($URJH+_7LS(p}l!I?;7;sao5cz_1<y9$TOSwW~=1
%B~nsLn3_bl<W~O!?$8KbAf~_vhOT(JZGg}c16?}Lt-i%a*uy6v<&D1w7%D#;+_hT{1~#;FMbPM<noA*ZJ;6A&CnAYUN+60ncP3F
&aH%wD;{=gl(Jw#{t`1aJr&r>kT+S|=Js#2<}STho!RJCQ^T0oZ7_E-89z@TZC*6usl3^h_$f7$nRG95awFJq@=k71z@R^fYngRA
k<oRVJXXF)-otm1nWvk|^3-Cm4;6g8%@Vi7f&t8LmjZ9>*l)IK<9^8(v7EqMR-s{PEZJ0-Hvz`tP}Gb%hcK=OB_qG2jZX%*Qapj;
gnt`Dv8Lj+2tHkKYJjuy&aC>=+}!~nO67`s%W0Bdn)aV@ta4#NxegJg+sC0?sXsFco|~RfhD3N(PS^l^0f<R{K9hX>D2>9s40{;(
*5$@oN-s?R$K~z~z}7|g3O)7<btKCnN=Pd<o5kQwxnMb*u%r0n{9W}^^4>)6t3|HGPwyFNScs@VMJ1#O<O|sN<EDb?vFnio!8YU;
Oz>_{c=tJ3MmM6A5w^lAab6U@qbY9Q;0Xav14$|UwPTf1u<Q{~ZZ4K>!@F9^Mdy1JlfQ}-qTrV=1R8LFR7uP!0{Z%ij|X&@gS3ju
GpXCRXp!P-*>(iJS7$OT_@0l1bS?~$B7^R5qF0flt5SI@e>_)FKL2_%$+cYS(VQDiUnq5p3kc0irtB#+jxe-@COUniS#^)Tj?Rt~
RX#KO%wci}_~Jw~7irrV@Z9eeLfEY>)3M4h2CdQtU&D=9YgB(m+bEV>Z7xsm@x*~EO|*zp)u7lm_Fa*Ruj&01at=-~2quU*r1SoN
KV0gWzEIhDcYEA&bXVQqL|Afit{nT7{}@5--ixg?$m8}R2@lHc9X=aap}k(si9icZ32n)S>0E-SWg_kxdOXbaRHlt=fH92q8e3%e
b~e)za@*HGVb%QZ481@+>hzm0;Ophc*Aq_$Rq2Ff-~+4rQxx@c-+J$Ahybt0GU|#c7n9_P3cR~M$@}0l;~i|Y<(mXAR<095(#ep~
`Jf4CVynW>AN&S?K>QIcE?IgH?8@_sL4#bgm_^ZKhZ7Ij2qx59S|ApZiP{l3(<zG+r$14+c)EY(#Ikp-h)~e2W)7|fK(qXZH2JFl
)lj)!!Qa{Df7N)Z=%5>4B0=VgHtzBou&@`<h}rB!iQrAF-b)+xAXAJ3e&lj~kzeuZIiYK$V|_ulJ-0TdW|2ECBjpP@PR~vKKvaai
ct=7w1DOO>6w?_|D=sH>G-R9rdk|b;N+@Q_^-0!pUh1<W*-j`9EWfa6LR%6be#PZ(^EJWKP4C=>kjXt9Is0=9j-|l5dx5%$lidB4
hG^Tts{-#z7McZ<00=?%{?*zHH9=j^PxN~9Idp6V$rW<%AT!%AQvD(w7j%^$00000@o1YK|0p;T00E8@fWQI(-VSe$vBYQl0ssI2
00dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-absent-keys', __doc__, TABLE)
