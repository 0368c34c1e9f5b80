/** The style of the console: two palettes, no fonts or pictures from elsewhere, rows as cards on a narrow screen. */
/** The icon of the browser's tab. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#1d5bd0" d="M8 1a4 4 0 0 0-1.2 7.8V14L8.2 15.2l1.6-1.4-1-1.2 1-1.1-.9-.9V8.8A4 4 0 0 0 8 1Zm0 1.9a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6Z"/></svg>`;

/** The two palettes. */
export const LIGHT = `--bg:#fff;--side:#f6f7f9;--line:#e1e4e9;--strong:#868e99;--text:#171a1f;--muted:#59616c;--accent:#1d5bd0;--on-accent:#fff;
--good:#0b6639;--good-bg:#e5f4ec;--bad:#b3251d;--bad-bg:#fdecea;--warn:#754a00;--warn-bg:#fdf1d4;--plain-bg:#eceff3`;
export const DARK = `--bg:#131619;--side:#191d21;--line:#2b3138;--strong:#6c7683;--text:#e5e8ec;--muted:#9ba5b1;--accent:#82b1ff;--on-accent:#0b1a33;
--good:#74d6a1;--good-bg:#15301f;--bad:#ff9f96;--bad-bg:#3b1d1a;--warn:#f3c871;--warn-bg:#362b11;--plain-bg:#252b31`;

export const STYLE = `:root{color-scheme:light dark;${LIGHT}}
@media (prefers-color-scheme:dark){:root{${DARK}}}
*,::before,::after{box-sizing:border-box}
.ks-body{margin:0;font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--text);background:var(--bg)}
:where(.ks-body) :where(h1,h2,h3,p,dl,dd,ul,table){margin:0;padding:0}:where(.ks-body) :where(ul){list-style:none}
.ks-body [hidden]{display:none}.ks-body a{color:var(--accent);text-decoration:none}.ks-body a:hover{text-decoration:underline}
.ks-body :focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}.ks-main:focus-visible{outline:none}
.ks-body code,.ks-body pre,.ks-mono{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.ks-body code,.ks-name{overflow-wrap:anywhere}
.ks-muted,.ks-hint{color:var(--muted)}.ks-hint{font-size:13px}.ks-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.ks-skip{position:absolute;left:-999px}.ks-skip:focus{left:.5rem;top:.5rem;z-index:1;background:var(--bg);padding:.5rem .75rem}
.ks-frame{display:grid;grid-template-columns:13.5rem minmax(0,1fr);min-height:100vh}
.ks-side{display:flex;flex-direction:column;gap:1.25rem;padding:1.25rem .75rem;background:var(--side);border-right:1px solid var(--line);position:sticky;top:0;height:100vh;overflow-y:auto}
.ks-brand{display:inline-flex;align-items:center;gap:.4rem;padding:0 .6rem;font-weight:650;font-size:15px;letter-spacing:-.01em}.ks-body .ks-brand{color:var(--text)}.ks-brand svg{fill:var(--accent)}
.ks-menu{display:flex;flex-direction:column;gap:1rem}
.ks-menu a{display:block;padding:.3rem .6rem;border-radius:6px}.ks-body .ks-menu a{color:var(--text)}.ks-menu a:hover{background:var(--plain-bg);text-decoration:none}
.ks-menu [aria-current]{background:var(--plain-bg);font-weight:600}
.ks-account{margin-top:auto;padding:0 .6rem;font-size:13px;overflow-wrap:anywhere}.ks-account .ks-form{margin-top:.5rem}
.ks-main{padding:1.5rem 2rem 4rem;max-width:76rem;min-width:0;width:100%}
.ks-head{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:flex-start;gap:.75rem 1.5rem;margin-bottom:1.5rem}.ks-head>div{min-width:0}
.ks-body h1{font-size:22px;line-height:1.3;font-weight:650;letter-spacing:-.015em;overflow-wrap:anywhere}.ks-head>div>p{color:var(--muted);margin-top:.2rem}
.ks-body h2{font-size:15px;font-weight:650}.ks-body h3{font-size:13px;font-weight:600;color:var(--muted)}
.ks-actions{display:flex;flex-wrap:wrap;gap:.5rem}
.ks-section{margin-top:2rem}.ks-grid h3{margin:1rem 0 .3rem}.ks-tiles+.ks-muted{display:block;margin-top:.5rem}.ks-head+.ks-section{margin-top:0}.ks-head+.ks-grid{margin-top:-2rem}.ks-section>header{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline;gap:.25rem 1rem;margin-bottom:.6rem}
.ks-grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:0 2.5rem}
.ks-tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem}
.ks-tiles>div{border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem}.ks-tiles dt{color:var(--muted);font-size:13px}.ks-tiles dd{font-size:22px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.35}
.ks-table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
.ks-table th{font-size:12.5px;font-weight:500;color:var(--muted);text-align:left;padding:.35rem 1rem .35rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
.ks-table td{padding:.5rem 1rem .5rem 0;border-bottom:1px solid var(--line);vertical-align:top}.ks-table :is(th,td):last-child{padding-right:0}
.ks-table .ks-number{text-align:right}.ks-table tbody tr:hover{background:var(--side)}.ks-table td>div{min-width:0;overflow-wrap:break-word}
.ks-table :is(.ks-name,code){display:inline-block;max-width:min(13rem,18vw);overflow:hidden;text-overflow:ellipsis;white-space:nowrap;vertical-align:bottom}
.ks-table .ks-button{padding:.1rem .6rem;font-size:13px}.ks-table time,.ks-table .ks-number{white-space:nowrap}.ks-table .ks-badge{white-space:normal}.ks-table .ks-chips code{max-width:100%;white-space:normal}#ks-stop{position:sticky;bottom:0;padding:.6rem 0;background:var(--bg)}#ks-found:not(:has([form=ks-stop]:checked)) #ks-stop{display:none}
.ks-empty{padding:1.25rem;border:1px dashed var(--line);border-radius:8px;color:var(--muted);text-align:center}
.ks-empty::first-letter,.ks-alert::first-letter{text-transform:uppercase}.ks-facts{display:grid;gap:.45rem}.ks-facts>div{display:grid;grid-template-columns:8.5rem minmax(0,1fr);gap:1rem}.ks-facts dt{color:var(--muted)}.ks-facts dd{overflow-wrap:anywhere}.ks-sums{max-width:22rem}.ks-sums dd{text-align:right;font-variant-numeric:tabular-nums}
.ks-badge{display:inline-block;padding:.05rem .5rem;border-radius:999px;font-size:12.5px;font-weight:550;white-space:nowrap}
.ks-badge.ks-good,.ks-alert.ks-good{color:var(--good);background:var(--good-bg)}.ks-badge.ks-bad,.ks-alert.ks-bad{color:var(--bad);background:var(--bad-bg)}
.ks-badge.ks-warn,.ks-alert.ks-warn{color:var(--warn);background:var(--warn-bg)}.ks-badge.ks-plain{color:var(--text);background:var(--plain-bg)}
.ks-chips{display:flex;flex-wrap:wrap;gap:.3rem}.ks-chips code{background:var(--plain-bg);padding:.05rem .4rem;border-radius:4px}
.ks-alert{padding:.6rem .9rem;border-radius:8px;margin-bottom:1rem}.ks-alert ul{margin-top:.25rem;padding-left:1.1rem;list-style:disc}
.ks-form{display:grid;gap:1rem;max-width:34rem}.ks-field{display:grid;gap:.3rem;min-width:0}.ks-field label{font-weight:550}
.ks-body :is(input,select,textarea){font:inherit;color:inherit;background:var(--bg);border:1px solid var(--strong);border-radius:6px;padding:.4rem .6rem;width:100%;min-width:0}.ks-body :is(input:not([type=checkbox]),select){height:2.25rem}
.ks-body textarea,.ks-secret{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.ks-body input::placeholder{color:var(--muted);opacity:1}
.ks-body textarea{field-sizing:content;min-height:5.2rem}
.ks-form:has(#ks-interval option[value=""]:checked) .ks-field:has(:is(#ks-amount,#ks-refillDay,#ks-timeZone,#ks-rollover)),.ks-form:has(#ks-interval option:is([value=hourly],[value=daily]):checked) .ks-field:has(#ks-refillDay){display:none}
.ks-check{grid-template-columns:auto 1fr;align-items:center}.ks-body .ks-check input{width:auto}.ks-check p{grid-column:1/-1}
.ks-problem{color:var(--bad);font-size:13px}.ks-body [aria-invalid=true]{border-color:var(--bad)}
.ks-wide{grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1.1rem 2rem;max-width:60rem;align-items:start}.ks-wide>:is(.ks-buttons,.ks-alert){grid-column:1/-1}
.ks-buttons{display:flex;flex-wrap:wrap;gap:.5rem}
.ks-button{font:inherit;font-weight:550;display:inline-block;padding:.4rem .9rem;border-radius:6px;border:1px solid transparent;cursor:pointer;text-align:center}
.ks-body .ks-button{text-decoration:none}.ks-button.ks-primary{color:var(--on-accent);background:var(--accent)}
.ks-body .ks-button.ks-quiet{color:var(--text);background:var(--bg);border-color:var(--strong)}.ks-body .ks-button.ks-danger{color:#fff;background:#b3251d}
.ks-button:hover{filter:brightness(.94)}
.ks-inline{display:flex;flex-wrap:wrap;align-items:flex-end;gap:.6rem;max-width:none}.ks-inline .ks-field{flex:1 1 7.5rem;max-width:20rem}.ks-inline .ks-field:has([type=datetime-local]){flex-basis:12.5rem}.ks-choices .ks-buttons{flex-direction:column;align-items:flex-start}.ks-live .ks-field:first-of-type{flex:3 1 14rem;max-width:32rem}.ks-inline .ks-field label{font-size:12.5px;font-weight:500;color:var(--muted)}
.ks-pager{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:.5rem;margin-top:.9rem;color:var(--muted)}
.ks-bar{display:grid;gap:.2rem;max-width:18rem}.ks-bar svg{width:100%;height:4px;border-radius:2px}.ks-track{fill:var(--line)}.ks-fill{fill:var(--good)}.ks-warn .ks-fill{fill:var(--warn)}.ks-bad .ks-fill{fill:var(--bad)}.ks-plain .ks-fill{fill:var(--accent)}
.ks-verdict{display:flex;flex-wrap:wrap;align-items:center;gap:.6rem;margin:1rem 0 .6rem;font-size:15px}
.ks-below{margin-top:1rem}.ks-lead{max-width:40rem;margin-bottom:1rem}.ks-body .ks-lead a{text-decoration:underline}.ks-live{margin-bottom:1.25rem}.ks-pre{margin:.75rem 0;background:var(--side);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;overflow-x:auto}
.ks-copy{display:flex;gap:.5rem}.ks-copy input{flex:1}
.ks-door{max-width:24rem;margin:12vh auto 2rem;padding:0 1.25rem;display:grid;gap:1rem}.ks-door .ks-brand{padding:0}
.ks-chart{width:100%;height:8rem;display:block}.ks-ends{display:flex;justify-content:space-between;font-size:12.5px;color:var(--muted)}.ks-legend{margin:.6rem 0;display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:13px;color:var(--muted)}
.ks-facts+.ks-table{margin-top:.6rem}.ks-trend{white-space:nowrap}.ks-spark{height:1rem;width:auto;vertical-align:text-bottom;border-bottom:1px solid var(--line)}.ks-plot{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.5rem}.ks-axis{display:flex;flex-direction:column;gap:.4rem;font-size:11px;line-height:1;color:var(--muted);font-variant-numeric:tabular-nums;text-align:right}.ks-axis span{flex:1;display:flex;flex-direction:column;justify-content:space-between}.ks-axis i{font-style:normal}.ks-over{fill:transparent}.ks-over:hover{fill:var(--muted);fill-opacity:.15}
.ks-valid{fill:var(--accent)}.ks-refused{fill:var(--bad)}
details{margin-top:.4rem}details>summary{cursor:pointer;color:var(--accent)}
@media (max-width:60rem){.ks-frame{display:block;min-height:0}.ks-side{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line);padding:.75rem 1rem;gap:.6rem;display:grid;grid-template-columns:minmax(0,1fr) auto;align-items:center}
.ks-brand{padding:0}.ks-menu{grid-row:2;grid-column:1/-1;flex-flow:row wrap;gap:.1rem .25rem}.ks-menu ul{display:contents}.ks-menu a{white-space:nowrap}
.ks-account{margin:0;padding:0;display:flex;align-items:center;gap:.6rem}.ks-account .ks-form{margin:0}.ks-account>:not(form){display:none}.ks-main{padding:1.25rem 1rem 3rem}}
@media (max-width:40rem){.ks-table,.ks-table tbody{display:block}.ks-table thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.ks-table tr{display:flex;flex-wrap:wrap;align-items:baseline;gap:.1rem 1rem;border:1px solid var(--line);border-radius:8px;padding:.45rem .75rem;margin-bottom:.5rem}.ks-table td{display:grid;grid-template-columns:auto minmax(0,1fr);align-items:baseline;gap:.4rem;border:0;padding:0;max-width:100%}
.ks-table td:is(:first-child,:has([form=ks-stop])+td){flex:1 1 50%;grid-template-columns:minmax(0,1fr)}.ks-table td:first-child:has([form=ks-stop]){flex:none;margin-right:-.5rem}.ks-body [form=ks-stop]{width:auto}.ks-table td:is(:first-child,:has([form=ks-stop])+td,:has(>div>.ks-badge:only-child))::before{display:none}.ks-table td:has(.ks-bar,.ks-chips){flex:1 1 100%}.ks-table br{display:none}
.ks-table :is(.ks-name,code){max-width:100%}.ks-table td:has(>div:empty){display:none}.ks-table td::before{content:attr(data-title);color:var(--muted);font-size:12.5px}.ks-table .ks-number{text-align:left}.ks-facts>div{grid-template-columns:6.5rem minmax(0,1fr);gap:.75rem}
.ks-badge{white-space:normal;overflow-wrap:anywhere}.ks-inline .ks-field{flex:1 1 8rem;max-width:none}.ks-live .ks-field:first-of-type{flex-basis:100%}}
@media (forced-colors:active){.ks-badge,.ks-button,.ks-alert{border:1px solid}.ks-track{fill:Canvas}.ks-fill,.ks-valid,.ks-refused{fill:CanvasText}}
@media print{:root{color-scheme:light;${LIGHT}}.ks-side,.ks-actions,.ks-buttons{display:none}.ks-frame{display:block}}
`;
