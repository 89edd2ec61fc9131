//! The figures as a table for people: one screen, eighty columns.

use super::{
    figures::{Figures, span, thousands},
    report::Report,
};
use crate::output::{BAD, DOUBTFUL, FAINT, GOOD, line, styled};

const NAME: usize = 33;

pub(super) fn print(report: &Report) {
    line(&styled(GOOD, &report.headline()));
    line(&styled(FAINT, &report.mode()));
    line("");
    let head =
        format!("{:NAME$}{:>9}{:>9}{:>9}{:>9}{:>10}", "", "p50", "p90", "p99", "max", "count");
    line(&styled(FAINT, &head));
    for figures in &report.lines {
        line(&row(figures, report.clients));
        if figures.errors > 0 || figures.count() == 0 {
            let why = figures.why.as_deref().unwrap_or("it was not come to");
            let failed = if figures.errors > 0 {
                format!("{} failed: ", figures.errors)
            } else {
                String::new()
            };
            line(&styled(DOUBTFUL, &format!("  {failed}{why}")));
        }
    }
    if report.lines.iter().any(|figures| (1..100).contains(&figures.count())) {
        line(&styled(FAINT, "where there are fewer than 100, p99 is the longest"));
    }
    line("");
    let said = [report.parts(), report.load(), report.renewal(), report.round_trips()];
    said.into_iter().flatten().for_each(|text| line(&text));
    if let Some(left) = &report.left {
        line(&styled(BAD, left));
    }
}

fn row(figures: &Figures, clients: usize) -> String {
    let mut text = format!("{:NAME$}", figures.line.text(clients));
    let times = [50.0, 90.0, 99.0].map(|percent| figures.at(percent));
    for time in times.into_iter().chain([figures.longest()]) {
        text += &format!("{:>9}", time.map_or_else(|| "-".to_owned(), span));
    }
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let count = thousands(figures.count() as f64);
    text + &format!("{count:>10}")
}
