"""Style of pages, and of plots that are files. Without ``<``, ``>`` and ``&``: it is markup, too."""

from __future__ import annotations

#: Colours, light and dark; each text has a contrast of at least 4.5 to 1 to its background.
COLOURS = """
:root{color-scheme:light dark;--paper:#fff;--box:#f5f6f8;--ink:#1a1d21;--soft:#565d66;--rule:#d5d9de;
--link:#0b57b5;--good:#16703c;--bad:#b3261e;--unsure:#8a5a00;--goodbox:#dcf3e4;--badbox:#fbe1df;
--unsurebox:#fbeed3;--check:#5b7fc7;--clean:#8a63b8;--race:#e9c46a}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--box:#1e2226;--ink:#e6e9ec;--soft:#a3abb4;
--rule:#3a4047;--link:#8ab8f7;--good:#6fd08f;--bad:#ff8f86;--unsure:#e9b74d;--goodbox:#173a25;
--badbox:#4a1f1c;--unsurebox:#43330f;--check:#7c9be0;--clean:#b18fdc;--race:#7a6120}}
"""

#: Parts of plots.
PLOT = """
svg{display:block;overflow:hidden;font:13px system-ui,sans-serif;color:var(--ink)}
svg text{fill:currentColor}
.paper{fill:var(--paper)}
.soft{fill:var(--soft)!important}
.grid,.lane{stroke:var(--rule)}
.one{stroke:var(--ink);stroke-width:1.5}
.grid,.one{stroke-dasharray:26 18}
.span{stroke-width:3;stroke:currentColor}
.cap{stroke-width:2;stroke:currentColor}
.mark{fill:currentColor}
.dot{fill:currentColor;fill-opacity:.45}
.ring{fill:none;stroke:currentColor;stroke-opacity:.6}
.good{color:var(--good)}.bad{color:var(--bad)}.unsure{color:var(--unsure)}
.phase{fill:var(--box);stroke:var(--rule)}
.race{fill:var(--race);fill-opacity:.45}
.checking{fill:var(--check)}.confirming{fill:var(--clean)}
.failed{fill:var(--bad)}
"""

STYLE = f"""{COLOURS}{PLOT}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}}
main{{max-width:72rem;margin:0 auto;padding:1rem 1rem 4rem;outline:0}}
h1{{font-size:clamp(1.25rem,4vw + .3rem,1.7rem);line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}}
h2{{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--rule)}}
h3{{font-size:1rem;margin:1.25rem 0 .25rem;overflow-wrap:anywhere}}
p,li,dd,summary{{overflow-wrap:anywhere}}
p{{margin:.5rem 0;max-width:46rem}}
a{{color:var(--link)}}
:focus-visible{{outline:3px solid var(--link);outline-offset:2px}}
.skip{{position:absolute;left:-99rem;background:var(--paper);padding:.5rem 1rem}}
.skip:focus{{left:0;top:0}}
.lead{{font-size:1.1rem}}
.note{{color:var(--soft);font-size:.9rem}}
code,pre{{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}
pre{{margin:.5rem 0;padding:.75rem;background:var(--box);border:1px solid var(--rule);border-radius:6px;
white-space:pre-wrap;overflow-wrap:anywhere}}
pre.command{{user-select:all;font-size:1rem}}
.scroll{{overflow-x:auto;margin:.75rem 0}}
table{{border-collapse:collapse;font-size:.9rem;min-width:min(100%,24rem)}}
caption{{text-align:left;color:var(--soft);padding:.25rem 0}}
th,td{{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--rule)}}
thead th{{color:var(--soft);font-weight:600;white-space:nowrap}}
tbody th{{font-weight:600;overflow-wrap:break-word;min-width:9rem;max-width:22rem}}
td{{overflow-wrap:break-word;min-width:3rem;max-width:34rem}}
td[colspan]{{max-width:none;overflow-wrap:anywhere}}
.n{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}
.wide{{min-width:18rem}}
.noted th,.noted td{{border-bottom:0;padding-bottom:0}}
td div{{position:sticky;left:0;max-width:min(60rem,100vw - 2rem);color:var(--soft)}}
.tag{{white-space:nowrap;font-weight:600}}
.heat thead th+th span{{writing-mode:vertical-rl;max-height:12rem;overflow:hidden;white-space:nowrap}}
.heat thead th{{vertical-align:bottom}}
.heat td{{text-align:center;padding:.25rem;border:1px solid var(--paper);background:var(--box)}}
.heat td.passed{{background:var(--goodbox);color:var(--good)}}
.heat td.failed{{background:var(--badbox);color:var(--bad);font-weight:700}}
.heat td.missing{{background:var(--unsurebox);color:var(--unsure);font-weight:700}}
.side{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:0 1.5rem}}
.side div{{min-width:0}}
.profile th,.profile td{{padding:0 .6rem 0 0;border:0;font:.8rem/1.5 ui-monospace,monospace;min-width:0}}
.profile code{{white-space:pre;font-size:1em}}
.profile .warm{{background:var(--unsurebox)}}
.profile .hot{{background:var(--badbox)}}
summary{{cursor:pointer;padding:.25rem 0}}
details{{margin:.25rem 0}}
.diff .add{{background:var(--goodbox);color:var(--good)}}
.diff .cut{{background:var(--badbox);color:var(--bad)}}
.diff .place{{color:var(--link)}}
dl{{margin:.5rem 0}}
dl div{{display:grid;grid-template-columns:minmax(7rem,11rem) 1fr;gap:.75rem;padding:.15rem 0}}
dt{{color:var(--soft)}}
dd{{margin:0;min-width:0;grid-column:2}}
ul.tree,ul.tree ul{{padding-left:1.25rem;margin:.25rem 0}}
figure{{margin:.75rem 0}}
figcaption{{color:var(--soft);font-size:.9rem}}
@media print{{.skip{{display:none}}}}
"""
