//! The colours of what was done and held, for light and for dark, the hatchings and the signs.
//!
//! Those of the page stand in `crate::picture`. Red is for what is wrong, and for nothing else.

pub(super) const STYLE: &str = "\
.gridless{stroke:none}.on{fill:#ffffff;font-size:11px;font-weight:600}
.goodhead{fill:#dafbe1}.badhead{fill:#ffdcd9}
.emptytext{fill:#6a2fc0}.goodfill{fill:#1a7f37}.badfill{fill:#d1131f}.tick{fill:none;stroke:#ffffff;stroke-width:3.2;stroke-linecap:round;stroke-linejoin:round}
.lease{fill:#3b82d6}.lease2{fill:#7fb2ea}.kept{fill:none;stroke:#3b82d6;stroke-width:1.4;stroke-dasharray:3 2}
.killed{fill:#454c54}.emptied{fill:#7a3fd1}.cut{fill:#b5760a}
.stopped{fill:url(#stripes)}.stripe{stroke:#8b949e;stroke-width:2.4}
.quarantined{fill:url(#dots)}.dot{fill:#7a3fd1;opacity:.6}
.hatchtext{font-size:11px;fill:#1f2328;paint-order:stroke;stroke:#f3f5f7;stroke-width:4px;stroke-linejoin:round}
.lost{fill:#e07b00}.wrong{fill:#e5131f;stroke:#ffffff;stroke-width:1}.odd{fill:#e5131f;stroke:#ffffff;stroke-width:1.5}.wrongband{fill:#e5131f;opacity:.13}.wrongline{stroke:#e5131f;stroke-width:1.6;stroke-dasharray:4 3}
.cross{stroke:#e5131f;stroke-width:3.6;stroke-linecap:round}.halo{stroke:#ffffff;stroke-width:6.5;stroke-linecap:round}
.refusedline{stroke:#1a7f37;stroke-width:1.4;stroke-dasharray:2 3}
.refused{fill:#ffffff;stroke:#1a7f37;stroke-width:2.4}.refusedbar{stroke:#1a7f37;stroke-width:2.4}
@media(prefers-color-scheme:dark){.emptytext{fill:#b58af7}.on{fill:#ffffff}
.goodhead{fill:#0f2a19}.badhead{fill:#3d1214}
.lease{fill:#2f74cf}.lease2{fill:#1f4f91}.kept{stroke:#5b9df0}
.killed{fill:#aab3bd}.emptied{fill:#9a63f0}.cut{fill:#c98a17}
.stripe{stroke:#6e7681}.dot{fill:#a97bf5;opacity:.75}
.hatchtext{fill:#e6edf3;stroke:#161b22}
.lost{fill:#f5a13c}.wrong{fill:#f4343f;stroke:#0d1117}.odd{fill:#f4343f;stroke:#0d1117}.wrongband{fill:#f4343f;opacity:.2}.wrongline{stroke:#ff5c5c}
.cross{stroke:#ff4a52}.halo{stroke:#0d1117}
.refusedline{stroke:#3fb950}.refused{fill:#0d1117;stroke:#3fb950}.refusedbar{stroke:#3fb950}
.ondark{fill:#0d1117}}";

pub(super) const DEFINED: &str = r##"<defs>
<pattern id="stripes" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="stripe" x1="0" y1="0" x2="0" y2="7"/></pattern>
<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><circle class="dot" cx="1.5" cy="1.5" r="1.2"/><circle class="dot" cx="4.5" cy="4.5" r="1.2"/></pattern>
<g id="taken"><path class="halo" d="M-5-5L5 5M5-5L-5 5"/><path class="cross" d="M-5-5L5 5M5-5L-5 5"/></g>
<g id="refused"><circle class="refused" r="6.5"/><path class="refusedbar" d="M-4.4 4.4L4.4-4.4"/></g>
<g id="odd"><path class="odd" d="M0-8L8 0L0 8L-8 0Z"/></g>
<g id="good"><circle class="goodfill" r="15"/><path class="tick" d="M-7 0.5L-2 6L7.5-5.5"/></g>
<g id="bad"><circle class="badfill" r="15"/><path class="tick" d="M-5.5-5.5L5.5 5.5M5.5-5.5L-5.5 5.5"/></g>
</defs>"##;
