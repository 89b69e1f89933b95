#!/usr/bin/env python3
"""A deletion vector longer than what follows it in the Puffin file leaves the next vector as it is

Scenario duckdb-iceberg-shared-puffin-files of harness. The rules:
- iceberg 4.17: Entry of a deletion vector. https://iceberg.apache.org/spec/#deletion-vectors
- iceberg 4.21: One vector for each data file. https://iceberg.apache.org/spec/#deletion-vectors
- iceberg T11: Integrity of deletion vectors. See rules 4.17 to 4.21

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1,002 rows in any order, of which these are the first 30; all in expected/1.jsonl: id int64
{"id": 1}
{"id": 3}
{"id": 5}
{"id": 7}
{"id": 9}
{"id": 11}
{"id": 13}
{"id": 15}
{"id": 17}
{"id": 19}
{"id": 21}
{"id": 23}
{"id": 25}
{"id": 27}
{"id": 29}
{"id": 31}
{"id": 33}
{"id": 35}
{"id": 37}
{"id": 39}
{"id": 41}
{"id": 43}
{"id": 45}
{"id": 47}
{"id": 49}
{"id": 51}
{"id": 53}
{"id": 55}
{"id": 57}
{"id": 59}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;TQiQJY4`Xo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`F`d92p`_XN0B*c7z!EWO!rsT6b9lpF~GQ19Ta}yC?LtUC7(wT~lFak{M0mIW0ufoQaBPZ-)ob?@{=pha(1!#qC21Y1DrH
LTFhq&@n_S{i7Ffs7Z&em=PA5rgb}{&x?Tr+zLYGr*SDAu%#5Qdq8%ggiVj6L9j^bGs`O~IYp`YNxaFrXBU#r-`8MM^dalCxj=>j
*!WOD_QUmPp7!WuDGMVYiu{&nW2u_bKa{gf@6H%=fwp)k@W$k@xn-DBy0K|2ra)s9$<fe<MDJ3<-A5Mrn{qt_JyJu7*yi#25{g}F
e;-<dfjzl6+v#f<A;LB11EML5a$^<3aLR(koDZM19n&|JjK<^g<eaZZhfd<=Uymoh3X(12Dhr|~DjkJ?vW_ALGZrJ|$><35PXkzP
v8=vC%1|gb`BI$zIZiESY%TS#7_u?oBWxPoGorMjB()uma*A@e3QMNaxF_{Uo<@aNfkfy^k&!Gkf0yg)NfhXe?h-g8C}%JBlAyf(
T*2n4BzkWP$6C?ANEvOIR+rNe`g_BLTh%JY(m|`eM1>YA8lBJJX-@tVWw#Rp7QOy@kF7SXuXeR_D)J8AvomKSPsxU8!+N*}ORj2l
gT_f?oDO};lBl(rhr4Za{=3N4j4^mb6pB>~l3aQLvbEYJJz?*v{<hB(SiB5JC^_B@O(`zWpyWeR`6q>r?!FkmYRZxLPRXq_!cQ8T
)6*3!|1Z7>w1{wI%%x(%*aa{Aau)zcW_q5rHgguJ?8zncFK9;<TgC}MfvSHsR(ts(%X2Md2E?DKr?D0vuFQZ_gYV-c<X9F7)vwP0
{OT6TwEaPv61u4nWUl3omvu~jAHr=sV>J&yXoTgTAaohRFolaDVM7%KcRPSOf!Rd2tgMDIuNo8Pyz5<7)C=JaB~cBUaa1#8x17V6
uUixk_J27=iPp+VRf+N7yy4vS+7eM-X3B<D?)q&!xYV-&et!)*t0nD+_ms{}R30OvS#++w@cqgx)|M-8V7OKIWv;IQ4CnJNNZ?=A
Hk$rGX2_zyn>la;6v8vZ7@=SWRD-@q==}e$pZV_?TuRI9*Vym|7hEeK7+%=Blz3LXP=vnC_qJHkc7Wz8c597Iq!n9e%i47-=u_f2
A|=CdGevi!ajRw)xw0$S*RRd8*+++!AZAs;NM4X)mGH%X2pz`FD?78IK^Y*CGCO}vR6|t8lT&33y)MjJazX*eIvse3$+&VetBit5
Hvi>b+D~l$rBTE@UX8F^Lh~k{3;B#}G1+z1ohYdm=<IFj>SstjVi%2k*;<<#&p1v`;@T>+V6YTvudwDl{xl!}P2YtQtq)f6M0F=>
>Y|IdnCv7SX3ct`wgBs3pcASKbd-_B7sot-f|u$e@M~dBbwZBcrXvo%91_2?uqcwYNogWfBaLR_1u&H5e?Qz;w(XpgWXk+5-uJ&e
D=}6h_0R2F_JYtkbp^OT>FZLF1XL>qO){;I8y&EVMj%@$VhU5#40{3xkJp#!)&OM!QM!aI3enqN98|J%S`CvO#0CFJT6EeZ$+Lhi
`z)(}2}ItCm_Hw;^m$5hK&Dfd4(WZ4y#eJ(6!MG&JQ-W=R288G18Kp?C(bn+x6qpTys3D~)ZIr1tgcDced@g(M8P$O5%O$_-ftL)
IvxM$(1y=_`sm^s)z!ML#R6fUF*ImcsL313hQ6P;n=%@mj!qLcMt!k@FDmHth9Ut(b+vYd5eFplj)xt?CsZXnDt^ZPxq1w$2P7&P
Usy$$IAurO@$hawgvHRFN)I66&~L9$<Brp7J(K>0au!t9A?A0y6&a$nK47m468-M%&TZz!S>&l(;Gx;^1>TEqAZAqlA!~_Ftzl#q
h9N2EX<Ogo#G@&!bdpkq`my`oJ4pi|fP(d5#X<V${4VCeU!~@hVB(&IIr_1%&z!_q;#-fWxoU`f6?Ixnn0ncXmp@1c55xH^*3m6p
8!eZ4yy&2_rsK46*ZRU|6)Xm4VsWk2H;`~?r0l~IP}6Cf&&N~}PCO%=*0)a;O<_KvIyMH${-`2fA7GSv)K#l$Z7O9`l#m>uk-y*c
_ow<(HSNfK*$G0^%3yCs7t#KmrT9tT3^_V6*VhcP!VE3<LYoxL5Td)1VFAlfs86Z+j`?gAA<M48R1Lg$s<lIYe8t@e2N{N&oAmOn
1|nk+qoTqlMJN%Yox%H3q6TVzUN1<gK`r?FzP*@wmX)XMVCD=Vtsc7kthpxq0^2#js@WYFJ`@Rg>^ox5T03O$ePD`~f0|CX;!sy-
8{<731Ps!BnFA?=M~Ho0N*KO6duT(Xt9JHOs_>ivO&a}}SwA%Bq!1N`H0fayln?2%V@|)nPjJ0&%Me{sc}#I+cfO-aPjj>S%+NtR
hV$b^dt|my7DG8YM~@JE9)Ye1qFAJ&ld41yhj#40#<3Kc7#WjGnfS{j<($!@y|s3LefB2UR4Lwn6J=A5=OTzgoljDC-ED<0rJNGv
`jMEKQS4T7j<p(6qYUWUYm+2)vK~@-LwO*?DI?GMc#zMwJFRp-I2yKiLvppo*rb~sAZ1WdKE~R9du1P}oFmdfJ(y1&p(H|<8G}zc
+WbhmDOu7cg7BQm9JS?Df;q{vBwHx9F{@N9Lsh>rS83PAAiG1MssctB=F|AQgzdaZd?DF9P6J-P{<pKjE?UZkH?egm`YiA4>x7@j
ijl_8A=yfj(Qtu3m3<qY=n~+ej9oRa%4=z`2q+RGK3)UZLTUVm6L(u0+AziRme~XHML{n@*27(_a^#t2jhVpgc(NBdwb}PAD4&~4
5BG7}k{LZ(p)(C}zYw&H5BKE*F%-+-rsuwaVbc6>XQx;VP^&}fv_f8=X2}ZmTCU^}ir19wz@d%&&+r($@Iknj(L?LgRvQebx?<uM
cQ(gPaTuF|!!)bNy>>7?^8$i|Sz($#Lbndg&`c_MZ!`-AJ{+Oynl_IG1(zSC*-gTho#<H^l4P*FTG=^oi=_w_8sa-O0{$}jsU#gI
o^ZlshB5CjzriX>T5H7ER3;fHvDGzemu%(WYf)J(`d2D8=lXX1_F0~6Uyjd6sr=HC5<FGJf{iV8qLoPGx*DKkE0|irU}Vc0N-YIL
h22e>*RdhpVnk3=?S4Hh+2`K{Dw}@UOt?_O0XvLv#!8Wjum3jZE4ivq)_{>(-S9G7QLZTaaqA2gwMOn<E<GTmx%R+5CLg^)teJGT
KJ_J3BCm^7J^}S}y6j(0vj`eC%$x~XFN@|&wy=?gedGzVi+l?a7g$`fMEaA%^xLb^LWR_ACdv=PQSovwcmje86n`wNmv9;$Izxbs
t)3rBMyXSisqqqAqi}S_sdf_ZFXT=V^S&++1@Fqs(uIOX^ZL9PeXrE?qq<K-62xt`n`Ti@W&*9i^>35@6eXC&v8iP>;u8;(m|7(c
>N|*v)ze8@IlN>Pgh1KOZ=^35u6t|%bNi^c;SP!-<;`_}q=;g~bBC|8f%n#}cpo}VaC5Cq<}A=$x&SXExTV9(vf3(yXRYq5@e1VR
;HVf0<t9CKwtj8}AAzh*Av>7?h$~2wMJ4Vn1;cwMtV;%GRN@tCKftakb{fc3`~2<0662|irY_7@3eSzbn2a4Q^x*H)-|ApLN(LFO
8WHl*uXNM8_78FJd?9hZRz|>?C|xef>N>96;Zk4}87N!(i=ah6q3>Nzkkla@oWVJ8tvMaS@-4}%Wj*4HNIbc=FU@iS*3j=V(hxnq
*k_;6K9rras=@naLD4u)(KzzSDoG0L&H&d?zaczNdi#gUApKar_;a~_CCu&qpHf=BUTd9wwj26bUu0OK7E%#5_xULJ@ZwbofcqRw
mluVh#77_LO%oJo>P9cP&mcHHnEFIOxYp=_S}GE_dFB!FPoPfYlyJb@U;Exhz++C|+L9|`06km6j#<@u)1RXZzKZKAXwCH6M4JER
y!KP5eUw~a&psapkw6p>I&P<d_ue_da(56{Y%^ypk>|K6&|Hl$^hhaQu)E8nUcOJe1}!JkrHxWIa3WFtR7I*}K&5d|dQGLF*Wq=A
2awmdpK&cEG+F6Cj>iiiv%kVrZ-;OjT=}}Bqq0N&?4X2$bF<ATKNEf%Dz@baNPxanMcoM_JL`EzCec72?-HG`b9e6-V$O{sGBB6z
Wb9ci1i;ra$)a-)R|7~;>GUvx+_N5jR;O0ZG>~A07T8?OHf6@4E!E18k4%kE=A)?g4vR}l-YhKAAUzg_U@qD`;==ZiA&^8X`uRf8
?)+k(?l=3BE~a#`LLn{@S;}R!2>$)(w2wU5MNlGDX7O0cH;!A>EQ4{qtN+DK={D(P0E&b4i_NsXNj81W1_j3IKk|P@3Ml`drgXsA
$rHm&;cwn&rlj)tr$@et<TK6%xUJe9jd#{FVit{ANI0P$Pw&<KP%MSFBz0avvg%4+HO(0EITLs#ic4m1bHLHh94d_3zb)vcmMM3s
2sL(W73>-D(rRC;o$w%&H>|d-GfE30$V@3yr&PYL<RwL)MJoM#xbn$#qtX>Y!5~?rg>t4fEOd1a<eS{={boza*VrnPXJpN;t>9vW
`jo~JSp8#^a8P3T1x~|2>F4z?1L1l1`0a_AqO@~U*`2i4@nlXe+fr&RWdRRD?|@9^ip%)?Tmzlk(6y2@BT?zZH+wL8GOEbO105tH
vz8#V02xSTorMlM1+19Io<KSeiB9-GG<O=(OIY>OG2c{*Q?k!wP_WBdbN|H4k!r{M&G)jn!K)n0;dkJ}QiPmW$f_33D_A~&fw(r=
Pq$zMZfvwS$pyd#a<p^OOxI5nXFuLhSMhBGdDu4>v74>AVrK3TcfT?!gabsaI_V@<ER_{RF{BL^>t|n}1pp%jnk+#qHML$NfEt}E
;L=3IL)!O?Q6vu{PJ<p@CJ{pn9&*`769ALgl5X}*;aWke!2HsBG{}nMtt|%k+2@5(wHEp2M4awt21}5r=riO~6m&;Pgxd8sz7HeB
IsAuCoB3B$l@3&AqrG>p=NOfjXA_hx5r!|b3?AHy^${XLvDuL{j_XJpSaSVAPkm)@A>d5*aWZ1Os9w7Vk{dRj8XzfDt`Vr-ksBy-
rP9Z%f*8dh$iAQ;NtD1}Ybv0D>!5cHGjJI34H*fv`Zr^gSNakOEw)K!+{qt30a*I`q1|@=cG%Ea|2y-=e9BtAdk%bxRBK|oy$4Q_
3hR>ZSwWU&61l=~`jZPGg^$*I0Rg`DCMGDUW`b!YDQ@=F-$kFLMi0EUe=<o#>`pDj`0}QH&DjL2M7^qZp&&PnOuu18oy~U`_Gwj7
#McDcbc_n&D<A779%4*66GQz-W;<Ao*pOri;8^OBe`>6_3P;pbXmkxh`RxgL`URVOeTE}K@Yo9|&Dxt+)ZTDYG9o^|>u_{>)7Tx0
$4KigB4+sHHG94{5OSRwcpJhuX{AFA^G0ZsDFe)n1+yN#Wb7$XJ6lL+;w7cjN0G{q*)Oiw(cnN$@E~9#*J+vpD?`yAd8aOJ@g5bZ
mO^83L2kGDA@Fj<krY()gN^lU-m!SvT6FQPN-dhzrE9QCzaiko?pLRfT~_O~RELTBH_&T5AVa@_Fk2~C4!Nr?T1nR=z$I3*Z4Y^P
YPbi^fKz1{cM}#|%gLMcv<|;%YgMDf6w?5tpjbplja1BfUK-a*E#z1+WY%jYx4+>6C8GS2H8+p4%3;YJnX@4fUD|f^&Nb~&>q50P
$8NV~5a^OD>c2Qqa%LX}Pb;AcL3Jkmw}%R=juo_9If|pOOX@9m+l#ka{?%d~CY)pO>Z3dS&<JjD5zACmDL#K(6zF6SA9&pOVXwjt
W^_-ocfUG!7}1>^x4+aT9mAjgET<IFto2*eh8^eTeVur2l5mzqGnpmRx}2A^zC-+%k@^aBaedO15bvzbU~syM7<Q5GGFCAVB*<qg
UOTvwu?_)uuUvO4KR$f=<xC|`ST$t7Il2-C4`bL=hHVD>7@R~Fj%s{i6LHR1A1fcQKI|5M8Orr#q5)pHvHARh*UA1q?HZsYIl2RB
SDo2t!ADOi-#P^{5w$om`Usu$%O{@&Y_Xwe_Qs{HgYY1su|7*-g9(NxPC@fzg^ksD#>C&nt?%g$jDP1$!Q(u?8|4YqBSG9km76Wu
W1AT7tOu0uC|mWbUJl<bO#@ba+Qsin*tl92V7V|4F=m>h0mTmNf_AKk@5$pQMwnQ!P!!EzpFpF2hbfNkeh#cLz76tOsK-}sdfC3<
DC$;3qHRYWaQ`PwOPN{)%Z~d7W3bfus&pI7A{uGQ{F><OAN#XJ3UE)U-s9K*JS$>M7*wLd-KZ$K7b{W3#XghyD~i-(YlG|yNfxkc
q{60M^#TVH&{7DjJ8U=*QZlIXhfNV+-wck}ql27o!Sm~}>T@ixao@dx&3u}-LRYA^;V1Enob0|}1}a0Xdj7%c*rx&(+!x*@ao!)`
-BMpz(s+VT&jh5gkaFX8|G24RWEa@w3q+lXC<%5eVE`jppuIMnX`EJlF{|-|e@V2c^DvO4bry-43~FwfSV5%;Z<*Pyl7ctI-XT0o
+L+huzKw=KyI9!LGrWH6Y?g}i0|Qf>5_bns$4SMNNQ7*#%1L-M1hFR3!u0bZb~Kw?40#H=y>=-z7BE;bmK~+#F!=ls7;P~}-2~dw
GShU?t9q%Ta_9f9G#oTH%N-ca^%UPtdteJIcK(;wx|-B#cu@NpPdS+&-#y8G1E4nA!mdB7INw+6_EYcgH!<mfzPlU#tj<?&c%fZb
w?jWo`(_Gf48$o4*33YqPP5Q*{LqJue8S;d;(rcIe8u}E-OZ>rpZAg;dtm?_wx}1)XC}feZ>P5Ad|WnDACzFVgZUQ$XPI57zM(*C
2Y&12|KI87>e$3XN(#m3`76&8AsRW==b^wQuTx%4=x*+NXUe%~{4Om{-h|3r+^hb#22v0(a0%Tc^NQfVd7PfGs2oB4`dGhc=b-oF
?ixtwP6@@3^Ro7i*$vdD%TE;=TUI1~D%yesF%bb=eFP&iq}G{B@S)YaP?y>mzE5^D?43c_6=e5R$p~4VcWXH>vvf(5_Y8xfK~Ah7
S$6-6NEQ*7=7W?mqi_TBMx>!b{GE)IolJEpUFR+b95BFw%A)nGStyrNc2QNP7TebP#VOJog-&W7REwcXh&p0=gw2Z{--?`%mgWw@
3OA>+r`X3(0$+l+)&S{|0*@mGtSO<aV(b)=;aT!o&SsicAxzjb`=koIjFIHILAo8sU%k(j<7+8)JQW6BrjM$z_yQgSi>415#DYV_
y_xE*ItMYNhJWo7!F1Gs*^1)oW`X7L4D6+zqe=SQzzkVLh$2Eua#YVmm^vzNh}8X{$5Dbb`bbo>>!-vL(JQK4(thKM+YvGi2rd(^
^(Xu56h$Jz7E?EmJmRjU_Mye6e26!@7l4=P;50)xRj?pL=mW+np!9MbP|=VN)?6hKg)o-1HC@QQIUmo4KZED@FGk~ojE!~7MxUZo
IAfFbLKn>8SH4PTc2ngpne&Hw?#p@@S1<kS2b|?hQeqOPI;cO}scw&3Z1q&G+;LLJMk_=Oj+X}T$QWb3JlFNG5v+%7sS_A(Hq_}I
;|-tS29z@T2rJAE+G2~#X*G2+G*nDVHjyc=ajQ`{C-zT=eM`D1tomTRP=>BUPR7&0JVpEq6`>z|Ep&L^IV*Zd4~ijPqJtQfU@wAq
rK-yG%wN)1m$2X{0|NIw8pp!|jC^+_<-PSz>p9;3XOjOumdbY5<z$D2pOhVQk?K<)VZ#_osClpF9>v_;2w?QZ4>SoadCW?ue`4?w
XI7ovFk%+oNh-fH6_EkN_xl3(6E?7UePa;gn?G!hDQ<RyH*K&aBGk+1z1cNY#jG1h_C%|A*-05)PGLYShO<=Sj7s*+eK?URsGXq|
aIfgqwPV5+)c&~+#vp#-sl+SYj!spmu$Wk0{o4M45(BC&DWNMpBwNOG4&=wniTWjCxUUv{{(F#Eh4<K(6`ysj6=xk>#hEF@w!)&_
m?T^KQCjwfU&8eT8@&`%(_6Pd=j&sg>=}`pqPL!ABdb$oZ&c-s(Rnq^t$Jz*_K<}}7~PP`-5DEsmEf=z1C-#jEcf{c(6AF&<_FJj
E}ss^gId+%p^!|NcO##UN}RaUOrdSo8X@rut{?nqrVXMpi+kMe?w|~t(M`i1ChXjRn8>7I^JE>_o;A^Tn`GlrJpsu9Nxj0=43^_U
#R$-$cUsx0!Qv3e=XWGn@tK%391llvXLtkzKm~bU%w!?(L3-38?A8ih4bXmrmh0AaI`+d*Gw`UPUuW`R<MBvM&eH8R4>aln`f=?$
ovM9;2@zlmX4!5ejmba$mNv!IDQF_Jx7D%<<5~Gu2`*)#999i^l6wrY%aWp(4V(S>N_#j9Ku{$&kSvY-UTW_1cHB$0>&+WRTSF(Y
dp|)f=Ez9CEI@(i2PVFEh3`hvb^~(LM(#7pJGEE6VK!3{=_7;Uw8&s`g1t)x&1Ym0BP%Zbf6r_)cQ1~6?OxutsR*0HW>l|cN^dd_
t<_L}zvxbI`bIdy^5vK3D*IC`2Ujqt3euyQIg5fP?POx8=4Nhf=&iDr*>HVc=ez>^{SDxWN?rw6hH(2}K{XS{ir1!{ex9$WD2Wj8
;<J6+tS!AXy5yg8c8Fw>IX#x9jjpiLSXSA5=ZiPGe83Fy%i>7ZTxrYO&1~Sx2kSVNMP&J`ODeL}*&>-gA=Lc}ScWRk<LV<p`!d-N
pCXPl&*wK0L+%8j&$&FOkGxr=6;^N>sc_v}<f>pRHYL$3DA7-2Ehb|zr%(rY81@$&2+pR*qmuL1IG3q&v>+@5_VAzAitoTHFLqVD
wew1u$~iO6%YBuNc`=mfGR8kKi#gLu)b4E5VWHJlG%U4BmewWLmb*j<FZIPhPaIbeU{0D<E+WBp$$XP}&CLrt(Y9e-q)R?Z9ww1|
|83x(cd@o6vcveQ;-g)zLd$i;9tYo1;zpf~%WgDP0>zJ#S;PB<MOop#6FGl#leL=zP{8!e1{NU_(E}DvP<1)iuRE|pq~#l-aiWYh
oVn8jO*0Ie%{B)W35DE7#-2(UjH`UQ2C<_$_p#9e-k+4jO0I+l_w8INjzMy1?f*?XBF77#`BnMtV7AS`j7dT60nFg%av<4gIKx`#
`3>!^w4C6ATga6nE~;h<otj7gnqd5q0mYNH2UvpkLv4H%%L#Q8;}s2(Yy;0{DYx8Na6Ezjc&ws$tay1(O6DM{wjnlSfM3TNUw8wf
MhOgnG2A3kAi=<oXP3|x6oMmME8+AD?r2e>vK^N(lNJf%#mOzx?B7T_Bm8Rx{D7el31Ms$RtvKdh5LrV!4P~VNH6^3ZH)6`8%_o=
M8XBUV#Sa@p7ztSuODhP{27YhlSSe3hyx{!ZCbk$jewkeAx_#R5(T{!;tvHL(~gHNtN7HP={WTbtdj7^?r7{k@zxFT7OXL#PphQ>
@jCN;0JU~A#!l)4-FWoWj?+`NEH*k+UC%@{Wf%62E+utmjVcJLuTO1i9VziL#4?QdR&;_1>;L(ae(f<8E_1Cm=!eRA-!(>RGJWtO
h1X*LC$$p^V`u-?%jr$*;aV7&W&X@Adj<zr2LVqwO$A6CKg?**IQpASog+&vTymb66!htMz?ZNic)5A1r=i3^;R2py0eW?Y2OonH
u>VMfW^yrZgJ#950a*K3Ihy({&SfA?sLlrObt6ORlD}cl;^pj9h^I;p?+Zbd%GrJ!EyIVLyhG8sa{DQi)$}{Jl!{(dvW;;at*pfB
&zA|WQg4DU;4V`JDjAM&(&6uO+|`OhGWm5JuYH3%?0UrGD}ZbM9$}N8{h(#FB}P<X*#!W*F}gwK4iOk~;ONzZvC3|hI?P#Lkm(KH
IKe~0BVM4L7h$$s<|SYlnGE?D%7SDJ44@cWKOf}RS4PDWj=jg?_RRDCRlGC)JuVlimMNR9X_=j=y+}GeA_v8|EHvKq!R>iHgKQxj
sH4uE8n-QDktk+r6;N7ao<;ID!Avs<J0QA5u~5_Xk`5!^EB8vyp2Uizij$sgBtKe9oQMZ0`|6@27Mzx)ucOK`@!4(@=TyKL<g5-z
LCyNhGV6&mtkRz)3`}<hn53?%rcL974Lx#1B~4ueXGHEf8VwD!WaE`aStnLqMyq=CTNu6=RVobKTmL(JjvaXH^3}#GvTVC6*oLb9
T$&x_hL(GG#ZIikcD7?~sZJw8THJ$2R$Gywskqci86=@e)%2MJ3)l{0$0no@y_XDqZyYDE$;$rqGwY$WkZ%U@3%#;I4|E^^i*8<U
=zTnv9gk5zUVk)6W4ApQr3x%<Mzj-FiZ6yOk*u9oXLS#r0qo`lg=ojQ97@0URsB+*2ab3SG19MrL-TY8sHZ~GD}s7DW4|8(y(A~^
1)A?}YI^HEos6Hgb-~?07AoJIUb63~Q-6G}t;GWus<a~r*&1*IdfHQ==xjh~TC_Fp_)cz_4?ZIo?j4=eonc@SCqVC5u;-Ni>zi0_
5#zp*ZY#<un4JN%+$YDj>y_3sAd&dKAo-j!)Ho@+xtN(}<C8_GOb<-@MCLnfnU(?dw!xMCCgKGj1XrNew-w2}X*iFVr}wt~{#<`}
`f%bJPOQd`oy?$iFnCNgw1uN(v<dpDfdRqhiAn|nz<YlC_+M|#6j2x8FhfGO2-u_)?4aU+NB)V6cy}7Cb#8|)<bq(&WXeipS+gJ!
N`96IXSP-{Uu12`2g>$-nFFz&G<5im1t1AY1@(=f@PHp31W>aHx<r$>*cjPN0FF7SeEtHM!+JP87IDHxvmtkd94cd1ssbs>7eCR-
$*a{Rm?3dfO`|6FnuSJR80Xky6OoV742po|5-c=~(5(1Ieq6G2UzM#DI#U%7EruY<j#cld70^KROvxo>87rEi3n_H&ZTX$4zwjv<
!QACOt_4{UIvdS--(e3J&X#V85&FK+GW>_<u2{rzK+ync#vM~Rc|wJ}c!I3nOa3u<11whSJ;KodRlkhK*}7^O00G!SfUpDrnap5Q
vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-shared-puffin-files', __doc__, TABLE)
