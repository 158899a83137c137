"""The style sheet of the page: one look, light or dark as the reader's system is."""

STYLE = """
:root{color-scheme:light dark;
--paper:#f6f7f9;--card:#fff;--ink:#1c2330;--soft:#5b6577;--rule:#e1e5eb;--edge:#d3d9e2;
--good:#14804a;--good-bg:#e3f5ea;--warn:#945a00;--warn-bg:#fdf0d5;--bad:#b3261e;--bad-bg:#fde7e5;
--info:#2c5ea8;--info-bg:#e6effb;
--s0:#d9730d;--s1:#2563c9;--s2:#14804a;--s3:#8a4fd0;--s4:#c2305f;--s5:#0b7f93}
@media (prefers-color-scheme:dark){:root{
--paper:#12161d;--card:#1a2029;--ink:#e6eaf1;--soft:#9aa6b8;--rule:#2a323f;--edge:#343e4d;
--good:#56cf8b;--good-bg:#16301f;--warn:#f0b455;--warn-bg:#35280f;--bad:#ff8a80;--bad-bg:#3b1a19;
--info:#83b4ff;--info-bg:#182a45;
--s0:#f2a154;--s1:#6ba4ff;--s2:#56cf8b;--s3:#b893f5;--s4:#f27d9f;--s5:#4cc5d6}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:34px 0 10px}
h3{font-size:.95rem;margin:18px 0 6px}
p{margin:4px 0}
a{color:inherit}
code,.path{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:.86em}
.path{color:var(--soft);overflow-wrap:anywhere}
.soft,.unit,.note{color:var(--soft)}
.card,details{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.banner{display:flex;gap:18px;align-items:center;flex-wrap:wrap;
padding:18px 22px;border-left:8px solid var(--tone)}
.banner .mark{font-size:2rem;line-height:1;width:52px;height:52px;border-radius:50%;display:grid;
place-items:center;background:var(--tone-bg);color:var(--tone);flex:none}
.banner .said{flex:1 1 320px;min-width:0}
.banner .verdict{color:var(--tone);font-weight:700}
.error{--tone:var(--bad);--tone-bg:var(--bad-bg)}
.warning{--tone:var(--warn);--tone-bg:var(--warn-bg)}
.info{--tone:var(--info);--tone-bg:var(--info-bg)}
.good{--tone:var(--good);--tone-bg:var(--good-bg)}
.badge{display:inline-block;padding:1px 9px;border-radius:99px;font-size:.82rem;font-weight:600;
background:var(--tone-bg);color:var(--tone);white-space:nowrap}
.counts{display:flex;gap:8px;flex-wrap:wrap}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin-top:12px}
.one{padding:9px 14px;margin:8px 0}
.one>div{overflow-wrap:anywhere;margin-top:2px}
.pad{padding:8px 14px 12px}
.tile{padding:10px 14px}
.tile b{display:block;font-size:1.2rem;overflow-wrap:anywhere}
.tile span{color:var(--soft);font-size:.85rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:7px 12px;border-bottom:1px solid var(--rule);vertical-align:top}
tr:last-child>td,tr:last-child>th{border-bottom:0}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td{overflow-wrap:anywhere}
td:last-child{min-width:11em}
table.facts td:last-child{min-width:0}
table.facts table{margin:-7px 0}
table.facts th{width:1%;white-space:nowrap}
details{margin:8px 0}
summary{cursor:pointer;padding:9px 14px;border-radius:10px}
summary:hover{background:color-mix(in srgb,var(--card),var(--ink) 4%)}
summary:focus-visible,a:focus-visible{outline:2px solid var(--info);outline-offset:2px}
details>.body{padding:2px 16px 14px}
ul.found{margin:0;padding:0;list-style:none}
ul.found li{padding:6px 0;border-top:1px solid var(--rule);overflow-wrap:anywhere}
ul.found li:first-child{border-top:0}
.episode{content-visibility:auto;contain-intrinsic-size:auto 66px}
.episode>summary{display:grid;grid-template-columns:16px 64px minmax(6.2em,auto) minmax(0,1fr) auto auto;
gap:14px;align-items:center;list-style:none;padding:6px 14px}
.episode>summary::-webkit-details-marker{display:none}
.episode>summary::before{content:"\\25B8";color:var(--soft)}
.episode[open]>summary::before{content:"\\25BE"}
.episode>summary img{width:64px;height:48px;object-fit:cover;border-radius:5px;display:block}
.episode>summary b{overflow-wrap:anywhere}
.episode>summary .task{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.episode>summary .line{color:var(--soft);font-variant-numeric:tabular-nums;white-space:nowrap;font-size:.9rem}
.strip{margin:12px 0 0}
.strip figcaption{font-size:.9rem;margin-bottom:4px}
.film{display:grid;grid-template-columns:repeat(8,minmax(0,1fr));gap:5px}
.film img{width:100%;height:auto;display:block;border-radius:4px}
.film span{display:block;text-align:center;color:var(--soft);font-size:.75rem;
font-variant-numeric:tabular-nums}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));
gap:8px 18px;margin-top:4px;align-items:end}
.plots.small{grid-template-columns:repeat(auto-fill,minmax(175px,1fr))}
figure{margin:0;min-width:0}
.plot figcaption{display:flex;flex-wrap:wrap;gap:2px 12px;align-items:baseline;
font-size:.84rem;padding:4px 0 0 2px}
.plot figcaption b{overflow-wrap:anywhere}
.plot figcaption .note{font-size:.78rem}
.plot svg{width:100%;height:auto;display:block;overflow:visible}
.plot text{font-size:21px;fill:var(--soft)}
.end{text-anchor:end}.mid{text-anchor:middle}
.rule{stroke:var(--rule);stroke-width:2;fill:none}
path.line{fill:none;stroke-width:3.4;stroke-linejoin:round;stroke-linecap:round}
path.dot{fill:none;stroke-width:6;stroke-linecap:round}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}
path.line,path.dot{stroke:var(--c)}
.key{display:inline-flex;align-items:center;gap:5px;color:var(--soft)}
.key::before{content:"";width:13px;height:3px;border-radius:2px;background:var(--c)}
.band{fill:var(--bad);opacity:.2}
.bin{fill:var(--s1)}
rect.bar{fill:var(--s1)}
rect.bar.error{fill:var(--bad)}rect.bar.warning{fill:var(--warn)}
a:hover>rect.bar{opacity:.7}
footer{margin-top:40px;color:var(--soft);font-size:.85rem}
@media (max-width:760px){main{padding:14px 10px 40px}.film{grid-template-columns:repeat(4,minmax(0,1fr))}
.episode>summary{grid-template-columns:16px minmax(4.5em,auto) minmax(0,1fr) auto;gap:10px}
.episode>summary img,.episode>summary .line{display:none}
.outlooks thead{display:none}
.outlooks th,.outlooks td,.outlooks td.number{display:block;border:0;padding:2px 12px;text-align:left}
.outlooks td:empty{display:none}
.outlooks td[data-label]::before{content:attr(data-label) " ";color:var(--soft)}
.outlooks tr{display:block;padding:7px 0;border-bottom:1px solid var(--rule)}}
@media print{.episode,details{break-inside:avoid}}
"""
