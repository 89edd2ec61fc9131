//! The nodes, a line each, in columns.
//!
//! It decides how facts read. What is not known is left out.

use std::time::Duration;

use quorlock::{
    inspect::{Inspection, NodeFacts},
    node::{ClockOffset, NodeState},
};

use crate::shown::plain;

/// The lines, each as wide as the widest needs.
pub(crate) fn of(inspection: &Inspection) -> Vec<String> {
    in_columns(inspection.nodes.iter().map(row))
}

/// Rows of cells, each column as wide as its widest cell.
pub(crate) fn in_columns<const COLUMNS: usize>(
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> Vec<String> {
    let rows: Vec<[String; COLUMNS]> =
        rows.map(|row| row.map(|cell| plain(&cell).into_owned())).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let written = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    });
    written.collect()
}

fn row(node: &NodeFacts) -> [String; 6] {
    let server = node.server.as_ref().ok();
    let version = server.and_then(|server| server.version.as_deref()).unwrap_or("-");
    let trips = node
        .round_trips()
        .map(|trips| format!("{} ({} to {})", ms(trips.median), ms(trips.least), ms(trips.worst)));
    let clock = node.clock().map(|clock| {
        let offset = match clock.offset {
            ClockOffset::Ahead(off) => format!("+{}", ms(off)),
            ClockOffset::Behind(off) => format!("-{}", ms(off)),
        };
        let rate = clock.rate.map_or_else(String::new, |rate| {
            format!(", {:+.0} ±{:.0} ppm", rate.middle(), (rate.most - rate.least).abs() / 2.0)
        });
        format!("clock {offset}{rate}")
    });
    [
        node.node.to_string(),
        node.status.address.to_string(),
        state(&node.status.state),
        version.to_owned(),
        trips.unwrap_or_default(),
        clock.unwrap_or_default(),
    ]
}

pub(crate) fn state(state: &NodeState) -> String {
    match state {
        NodeState::Ready => "votes".to_owned(),
        NodeState::Connecting => "connecting".to_owned(),
        NodeState::Quarantined { remaining } => {
            format!("quarantine, {:.1} s", remaining.as_secs_f64())
        }
        NodeState::Refused(_) => "refused".to_owned(),
        _ => "down".to_owned(),
    }
}

pub(super) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms >= 1000.0 {
        format!("{:.2} s", ms / 1e3)
    } else if ms >= 10.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{ms:.2} ms")
    }
}
