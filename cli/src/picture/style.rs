//! The letters and colours of a page, for light and for dark.
//!
//! Red is for what is wrong, and for nothing else.

pub(crate) const PAGE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px;fill:#1f2328}
.page{fill:#ffffff}.lane{fill:#f3f5f7}.grid{stroke:#d9dfe5;stroke-width:1}
.head{font-size:20px;font-weight:700}.sub{font-size:13px;fill:#59636e}.soft{fill:#59636e}
.section{font-size:11px;font-weight:700;fill:#59636e;letter-spacing:.06em;paint-order:stroke;stroke:#ffffff;stroke-width:5px;stroke-linejoin:round}
.end{text-anchor:end}.mid{text-anchor:middle}.note{font-size:12px;font-weight:600}.small{font-size:11px}
.goodtext{fill:#116329}.badtext{fill:#c11522}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}
.page{fill:#0d1117}.lane{fill:#161b22}.grid{stroke:#2b323b}
.sub,.soft,.section{fill:#9aa4ae}.section{stroke:#0d1117}
.goodtext{fill:#56d364}.badtext{fill:#ff7b72}}";
