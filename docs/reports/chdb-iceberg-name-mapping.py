#!/usr/bin/env python3
"""A file without field ids is read by the name mapping of the table

Scenario chdb-iceberg-name-mapping of harness. The rules:
- iceberg 5.6: Files without field ids. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.7: Name mapping. https://iceberg.apache.org/spec/#name-mapping-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 1}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|VtfL#DGo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oR1cRmJ9~Z(M-JDnY9X+LcV)D
?^R5ln(!|P6V}@40(PFygzp&%m9);n;BY0R;#l%TakC7+Vy1!P25X?H6sV(N58%6lD9vO(*UyP7mX(8$K*$%u#f}}7T&xMUWA0MT
kTvbpjm|~3JnJ*0*=3-Jz#gfzef*^oByeC3oLSO;9sUUV{Fc3GG~VYVNi<i=FnIm<w%D{extlY~ci^)J#yN0bxo@ZCeJ1i}p`dJf
Y=OLu2SwW)uibM`?Yo$+cZ#n-ejMz0$?sI<YlN$x*?IqY5J3;cp24+@^?PC-Z3H2N*5Sry_IBI9idwj-Mdv{%-BfY3!=QI3tO1q*
?WhlEybu@#p10rfjzh$8u?8PzR<&?+JKL`<=YLr<MF`tX`*+I9B^XFiXD{mwLE<5l;Cmxu8fV&tyj#?zf0pOcb4he{FB)>4i)95@
tf-UNL+va&#r2$nKgIw@H4>ZwGOD_PUpoQrdl=oCL&t+jAz@^ZdstH7R)MN^B7gXHA{cNOp(;&l$`t^`K=^z)I3!N%8*j8V`;#<(
%HkD@z49Iw0be8ni~iPrUGsFoDOl2HP5oKUWr~)GAGk^RSfK+_Pw=papZ?rnvltIeQvW6AND<K2$i02vFOh^y(SDSg_MzY4hfqmJ
_(kTH*lATOHXyuDpO?oaW#uwuvgvx`t*SY($WzOLe(&&qZtrjR+ZX5NMkB=f^*=DaP<sj{EMg!A;*lYgRK5du)JcJtvhNnz37T7p
Wc8tH=6u1(8GINF(#P5gHE|^|&J-vdD6wu;GxmC$NQJl&#DNuoLc67W>k}8&LZG%sM9G}oU#Xh9<|`YKrrY<OwKUp+x6!!zGnzvc
15ohU(yyY=9~z>WbfV4U-dG*U;ap13;mRn>TSw%(-6?4a=JJN7As}(?bFMk)Ppr1XmA94${f-9W9$?Y6Wp)>55%fk09#0rZI;@AK
_Fp0|SC-}Q%|?~;8bIA3yyOS6*l6=+A2I^U&U;IVcP7q{4UjKqzJdJZ65{BT70;q?TLe3<BFRHmoUc(Wo{S;S4g{Vt${O(`jTYgQ
xO^k>XKzDelw;RLXHkB3MEv5=vfQiApXi7|Ahvx}0s1tC>t&zGb*L5S6~Qt2xXr2n5;`?9x;a2{M~}OJ$#o0j2%GZEr`PAwY+SyP
SIvonyL$@hI=*S@O|cd!pV1J&bw3t#^oy=L3E?*v{{mEhgj8&=TXgJ)orsXp;)P6CB)t6)Ts737{N&{ig=a(mfd&i{g)W8S^-H~T
Z^tMdX_kQmzq?2hiM<a7>p2?>I7u$SlJ5h2**zo-FQtLp>ld*KF;+gr@g4jj62yAY>QSoue$q9|QcVUsi{`VY*HnHPQ_!@V>RSva
%9jY=8HZzp32!a2-iveLtjW2`8aVce3Q{btqdoMS8M&VCL=i2G1?SoFGj+)1hlJb6<zAB~@oKP_oBu_0ROZsV@3q@9y}f#`7=&)$
3rBB#60QZ|%43~|Lp|oOAA_W$K*-(3jT?xu2FOzISw0k!Vz2)yNk9=DAgA^P5=1emL;QFPT`r>Nwa3hiYoZcZ?di7V6S+sxKl;Ix
HE!AbzVgWDnr}@U&Qe!i+0L7togr?jn5wTi+mBreJu{&_MnZgmkY~0KBrS>{_x>&#Ec6b%j`;$h9GS*XDw}@@ditzH3C0jb#XP$7
uTccbE86=Yhg=FGJ`qDKe5pgr!><LY9kI=G=my0Ao+Od)$^L%sCLzK#my9nWIW+3bY<^FgIgR&bl5<J%6=kM;cRjfHAbLj2tXh&;
R{kL1_a%v(HCHv$o?k^fh|J|_N^^RpFj)(9uq#q>k+OXeE)|+45%=VnUfb_`(@7*=DfnmDxYhPFLRW*d`*o5eiE~~y;f9qN)Jb7E
&4_2;y_D4j)U#T24By~Ac8!rN6f^2b0C3<KNGR_dqn_Sx2xAl%B$Ij}<+llLFa>ZYiJz`?x#$u(DW*dXF2^Dpi()Pf9W6h8vFdq#
`3v1i)gHQ&?0e=#!V;wf^tG)|8@UaxMaR4RSWmRJ6R{#&^ZW#jxs}jNbiLvxMilfcP~?xfJ`CKB8RZx4;K1ayGgHQN2FIsSzTYBS
K^bQ8f69<VQ2r5H!bVBWnNA^5ky{5Xx&~jl?P}om9-{0b;~nZjZi?3kf7l{Z!2XJEW20D?9G1HSB|CVwv(?&L)Rf<P2{0N?@h&FJ
l2lOvRBbF&H=~f^1rH?C^0G>XiiZ&MlHb3~9rNB{k>v_jlqm1+vQKNGd=B|Z=xIjmhc4JtckHP`!FRV!`pq_<yhN#yjh7e(dYb4@
nT{=}*@Cwv<GEZFf6L(gD;HVbq7^uk27yVnjD98npwT$+CX)9|00Ep2fS>^YE>D{VvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('chdb-iceberg-name-mapping', __doc__, TABLE)
