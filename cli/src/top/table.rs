//! What `top` shows to people.
//!
//! It decides what is left out where there is no room. It asks nothing.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use console::{Alignment, Term, pad_str, truncate_str};
use quorlock::Holder;

use super::seen::{At, Row, Seen};
use crate::{
    output::{BAD, DOUBTFUL, FAINT, styled},
    shown::{counted, name, plain, time_of_day},
};

const HEADS: [&str; 5] = ["waiting", "longest", "held by", "from", "resource"];

/// A longer label is cut. Names are not: they stand at the end, since one may look like another column.
const WIDEST: usize = 40;

/// So many hosts are named.
const HOSTS: usize = 4;

/// As much as there is room for, where it is live.
pub(super) fn table(seen: &Seen, is_live: bool) -> String {
    let (height, width) = Term::stdout().size();
    let lines = lines(seen).into_iter();
    if !is_live {
        return lines.map(|line| line + "\n").collect();
    }
    // Not in the last line, behind which the screen would move.
    let lines = lines.take(usize::from(height).saturating_sub(1).max(1));
    lines
        .map(|line| truncate_str(&line, usize::from(width).max(20), "…").into_owned() + "\n")
        .collect()
}

fn lines(seen: &Seen) -> Vec<String> {
    let clients = counted(seen.waiting, "client");
    let (verb, of) =
        (if seen.waiting == 1 { "waits" } else { "wait" }, counted(seen.lines, "resource"));
    let head = format!("{} {clients} {verb} for {of}", time_of_day(seen.at));
    let mut lines = vec![styled(FAINT, &head)];
    if seen.told() < seen.nodes {
        let text =
            format!("{} of {} nodes tell who waits: {}", seen.told(), seen.nodes, seen.untold);
        lines.push(styled(BAD, &text));
    }
    let cells: Vec<[String; 5]> =
        seen.rows.iter().map(|row| cells(row, seen.at, seen.by_nodes)).collect();
    if cells.is_empty() {
        return lines;
    }
    let widest = |column: usize| {
        let cells = cells.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| console::measure_text_width(cell));
        widths.chain(HEADS.get(column).map(|head| head.len())).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(widest);
    let line = |cells: &[String; 5]| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let side = if column < 2 { Alignment::Right } else { Alignment::Left };
            let _ = write!(line, "{}  ", pad_str(cell, width, side, None));
        }
        line.trim_end().to_owned()
    };
    lines.push(styled(FAINT, &line(&HEADS.map(str::to_owned))));
    for (row, cells) in seen.rows.iter().zip(&cells) {
        // Nobody has it, and somebody waits: so it is for a moment between two, or where too few nodes vote.
        let is_odd = matches!(row.holder, Some(Holder::Free | Holder::Unclear { .. }));
        let line = line(cells);
        lines.push(if is_odd { styled(DOUBTFUL, &line) } else { line });
    }
    lines
}

fn cells(row: &Row, at: Duration, by_nodes: Duration) -> [String; 5] {
    let line = &row.line;
    let of = if line.is_semaphore { " (semaphore)" } else { "" };
    [
        line.waiting.to_string(),
        row.longest(by_nodes).map_or_else(String::new, time),
        held_by(row.holder.as_ref(), at),
        from(row),
        name(&line.name) + of,
    ]
}

fn held_by(holder: Option<&Holder>, at: Duration) -> String {
    let by = match holder {
        None => return String::new(),
        Some(Holder::Held(by)) => by,
        Some(Holder::Free) => return "nobody".to_owned(),
        Some(_) => return "unclear".to_owned(),
    };
    if by.is_shared() {
        return "readers".to_owned();
    }
    let who = match &by.label {
        Some(label) => cut(&plain(&label.to_string())),
        None => cut(&name(&by.value)),
    };
    let since = by.since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or_else(|| who.clone(), |since| format!("{who}, {}", time(at.saturating_sub(since))))
}

/// As in `10.0.0.3 (7), 10.0.0.4`, the first in line first.
fn from(row: &Row) -> String {
    let places = row.line.places.iter().zip(&row.hosts);
    let named = places.map(|(place, at)| match at {
        At::Host(host) => plain(host).into_owned(),
        At::Gone => "gone".to_owned(),
        At::Unknown => place.client.to_string(),
    });
    let (mut order, mut counts): (Vec<String>, HashMap<String, usize>) = Default::default();
    for host in named {
        let count = counts.entry(host.clone()).or_default();
        if *count == 0 {
            order.push(host);
        }
        *count += 1;
    }
    let told = order.iter().take(HOSTS).map(|host| match counts.get(host) {
        Some(count) if *count > 1 => format!("{host} ({count})"),
        _ => host.clone(),
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let is_all = order.len() <= HOSTS && row.line.places.len() == row.line.waiting;
    match told.as_str() {
        _ if is_all => told,
        "" => "…".to_owned(),
        _ => told + ", …",
    }
}

fn cut(text: &str) -> String {
    truncate_str(text, WIDEST, "…").into_owned()
}

/// As precise as it matters.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..100 => format!("{:.1}s", time.as_secs_f64()),
        100..6000 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}
