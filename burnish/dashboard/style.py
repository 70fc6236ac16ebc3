"""The look of a report: a quiet page in light and dark, colours that colour-blind readers can tell apart."""

NUM_COLOURS = 6

PALETTE_CSS = """
:root { color-scheme: light dark;
  --paper: #ffffff; --page: #f6f6f4; --ink: #1d2327; --soft: #5a646b; --rule: #dfe2e3; --given: #eceeef;
  --good: #0b6e4f; --good-back: #dff3ea; --bad: #a3261b; --bad-back: #fbe4e1; --calm-back: #eceeef;
  --s0: #0f6ab4; --s1: #c2500a; --s2: #0b7d5b; --s3: #a8437f; --s4: #7d6608; --s5: #5a4fcf; --on-bar: #ffffff;
  --t0: #e3f1e6; --t1: #f7f0c9; --t2: #fbdcab; --t3: #f8bf9a; --t4: #f2a3a0; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #1b1f23; --page: #14171a; --ink: #e8eaeb; --soft: #a7b0b6; --rule: #343b41; --given: #2a3036;
  --good: #6fd6ae; --good-back: #173a2d; --bad: #ff9c91; --bad-back: #47201c; --calm-back: #2a3036;
  --s0: #63b3f2; --s1: #f7995a; --s2: #4dcfa3; --s3: #ea9cc9; --s4: #dcc04c; --s5: #aaa3ff; --on-bar: #10151a;
  --t0: #1c3a2a; --t1: #45401a; --t2: #5c431a; --t3: #6d3a1c; --t4: #7c2b2e; } }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); }
.s3 { --c: var(--s3); } .s4 { --c: var(--s4); } .s5 { --c: var(--s5); }
"""

CHART_CSS = """
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
.paper { fill: var(--paper); }
.grid { stroke: var(--rule); stroke-width: 1; }
svg .tick { fill: var(--soft); }
svg .name { fill: var(--ink); }
svg .strong { font-weight: 600; }
svg .heading { fill: var(--ink); font-size: 19px; font-weight: 600; }
svg .on-bar { fill: var(--on-bar); font-weight: 600; }
.line { fill: none; stroke: var(--c); stroke-width: 2.2; stroke-linejoin: round; }
.faint { stroke-width: 1; opacity: .32; }
.dot, .bar { fill: var(--c); }
.whisker { fill: none; stroke: var(--s0); stroke-width: 2; }
.whisker.hollow { stroke: var(--soft); }
.mean { fill: var(--s0); stroke: var(--s0); stroke-width: 2; }
.mean.hollow { fill: var(--paper); stroke: var(--soft); }
.mean.half { fill: var(--paper); }
"""

PAGE_CSS = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 0 0 4px; }
h3 { font-size: 1rem; margin: 16px 0 6px; }
p { margin: 0 0 12px; max-width: 76ch; }
.soft { color: var(--soft); font-size: .92rem; }
.scroll + .soft { margin-top: 12px; }
.card { background: var(--paper); border: 1px solid var(--rule); border-radius: 10px;
  padding: 20px 24px; margin-top: 20px; }
.title { display: flex; flex-wrap: wrap; gap: 14px; align-items: center; margin-bottom: 10px; }
.badge { display: inline-block; border-radius: 99px; padding: 2px 12px; font-size: .9rem; font-weight: 600;
  white-space: nowrap; background: var(--calm-back); color: var(--ink); }
.good { background: var(--good-back); color: var(--good); }
.bad { background: var(--bad-back); color: var(--bad); }
.costs { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px 24px; margin: 18px 0 0; }
.costs dt { color: var(--soft); font-size: .88rem; }
.costs dd { margin: 0; font-size: 1.15rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
caption { text-align: left; color: var(--soft); font-size: .92rem; padding-bottom: 8px; }
th, td { text-align: left; padding: 8px 14px 8px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; font-size: .85rem; }
tbody th { font-weight: 600; overflow-wrap: break-word; max-width: 240px; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.range { display: block; color: var(--soft); font-size: .84rem; }
.chart { display: block; width: 100%; height: auto; margin-top: 8px; }
.grid-2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 24px 32px;
  margin-top: 20px; }
figure { margin: 16px 0 0; }
.grid-2 figure { margin: 0; }
figcaption { font-weight: 600; }
details { border-top: 1px solid var(--rule); padding: 10px 0; }
summary { cursor: pointer; display: list-item; }
summary .badge { margin-left: 6px; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; border-radius: 6px;
  border: 1px solid var(--rule); padding: 10px 12px; margin: 0 0 14px;
  font: .86rem/1.7 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.given { color: var(--soft); background: var(--given); }
.t0, .t1, .t2, .t3, .t4 { border-radius: 2px; box-shadow: inset -1px 0 0 var(--paper); }
.t0 { background: var(--t0); } .t1 { background: var(--t1); } .t2 { background: var(--t2); }
.t3 { background: var(--t3); } .t4 { background: var(--t4); }
.legend { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 10px 0 14px; font-size: .86rem; }
.legend span { padding: 1px 10px; border-radius: 4px; }
.track { display: block; width: 100%; min-width: 90px; max-width: 260px; height: 8px; margin-top: 9px;
  border-radius: 4px; background: var(--given); }
.fill { display: block; height: 8px; border-radius: 4px; background: var(--s0); }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 8px;
  background: var(--c); }
.narrow { width: auto; min-width: 50%; }
@media print { body { background: none; } .card { break-inside: avoid; } }
"""
