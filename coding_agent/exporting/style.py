"""Value. How an exported page looks: one style sheet for light and dark, for wide, narrow and paper."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

STYLE: Final = """\
:root{color-scheme:light dark;--back:#fbfbfa;--card:#fff;--ink:#1d1f23;--soft:#5d636e;--line:#dfe1e5;--code:#f3f4f6;
--user:#2563eb;--assistant:#0f766e;--link:#1d4ed8;--add:#e3f6e6;--add-ink:#14532d;--del:#fde8e8;--del-ink:#7f1d1d;
--hunk:#6d28d9;--bad:#b42318;--warn:#92400e;--warn-back:#fef3c7}
@media (prefers-color-scheme:dark){:root{--back:#15171a;--card:#1c1f23;--ink:#e4e6ea;--soft:#9aa1ac;--line:#31353b;
--code:#24282d;--user:#7aa2ff;--assistant:#5eead4;--link:#8fb4ff;--add:#12321c;--add-ink:#b5efc3;--del:#3b1618;
--del-ink:#fecaca;--hunk:#c4b5fd;--bad:#ff9b8f;--warn:#fcd34d;--warn-back:#3d2f0c}}
*{box-sizing:border-box}
body{font:16px/1.6 system-ui,-apple-system,"Segoe UI",sans-serif;margin:0;background:var(--back);color:var(--ink)}
header,nav,main,footer{max-width:54rem;margin:0 auto;padding:0 1rem}
h1{font-size:1.5rem;line-height:1.3;margin:2rem 0 .5rem;overflow-wrap:anywhere}
h2{font-size:.8rem;font-weight:600;margin:0 0 .4rem;color:var(--soft)}
a{color:var(--link);overflow-wrap:anywhere}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0 0 1rem;font-size:.9rem}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;overflow-wrap:anywhere}
article,details.branch,nav details{background:var(--card);border:1px solid var(--line);border-radius:.5rem;
padding:.8rem 1rem;margin:.8rem 0}
article{border-left:4px solid var(--line);overflow-wrap:anywhere}
article.user{border-left-color:var(--user)}article.user h2{color:var(--user)}
article.assistant{border-left-color:var(--assistant)}article.assistant h2{color:var(--assistant)}
article:target{outline:2px solid var(--link)}
article.summary{border-left-style:dashed}
article p,article ul,article ol{margin:.4rem 0}
article h1,.said h2,.said h3{font-size:1.1rem;color:var(--ink);margin:1rem 0 .4rem}
p.as-written{white-space:pre-wrap}
pre,code{font:.85rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre,code{background:var(--code);border-radius:.3rem}
code{padding:.1em .3em;overflow-wrap:anywhere}pre{padding:.6rem .8rem;overflow:auto;max-height:32rem;margin:.4rem 0}
pre code{padding:0;background:none;overflow-wrap:normal}
pre.diff span{display:block;min-width:max-content}pre.diff .add{background:var(--add);color:var(--add-ink)}
pre.diff .del{background:var(--del);color:var(--del-ink)}pre.diff .hunk{color:var(--hunk)}
details summary{cursor:pointer;overflow-wrap:anywhere}
details.call,details.thinking{border:1px solid var(--line);border-radius:.4rem;padding:.3rem .7rem;margin:.5rem 0}
details.call>summary,details.thinking>summary{font-size:.9rem}details.call.failed{border-color:var(--bad)}
details.thinking{color:var(--soft)}details.branch{border-style:dashed;padding:.5rem 1rem}
.argument{font-size:.75rem;color:var(--soft);margin-top:.5rem}
.badge{font-size:.72rem;border:1px solid currentColor;border-radius:1rem;padding:.05rem .5rem;white-space:nowrap}
.badge.error{color:var(--bad)}.badge.untrusted{color:var(--warn);background:var(--warn-back)}
.badge.open{color:var(--soft)}.badge.label{color:var(--hunk)}
.problem{color:var(--bad)}.note,.used,.aside,.picture,footer{color:var(--soft);font-size:.85rem}
.used{text-align:right;margin:.4rem 0 0}.aside{text-align:center;margin:.4rem 0}
img{max-width:100%;height:auto;border-radius:.3rem;border:1px solid var(--line)}
table{border-collapse:collapse;display:block;overflow:auto;font-size:.9rem;margin:.6rem 0}
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:left}
.right{text-align:right}.center{text-align:center}
nav ol{margin:.4rem 0;padding-left:1.6rem}
blockquote{margin:.4rem 0;padding-left:.8rem;border-left:3px solid var(--line)}
footer{padding-bottom:3rem}
@media (max-width:32rem){body{font-size:15px}article{padding:.6rem .7rem}dl.facts{grid-template-columns:1fr}}
@media print{body{background:#fff}article,details{break-inside:avoid}pre{max-height:none;white-space:pre-wrap}}
"""

POLICY: Final = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)
"""What a browser may do for the page: show it and its pictures, with this style sheet; run and fetch nothing."""
