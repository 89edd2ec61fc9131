//! What is compared of an answer: all of it, except a node's own details. It must not hide anything else.

use std::time::Duration;

use super::{
    names::{number_of, owner},
    steps::OWNERS,
};
use crate::{
    node::NodeError,
    protocol::{Claim, Completed, Denial, Granted, KeyHolder, Marker, Reply, Sighting},
};

pub(super) fn same<T: std::fmt::Debug + PartialEq>(server: T, memory: T) -> Result<(), String> {
    if server == memory {
        return Ok(());
    }
    Err(format!("the server says\n      {server:?}\n    and the node in memory\n      {memory:?}"))
}

/// An answer, without what is each node's own.
pub(super) fn shown(answer: &Result<Reply, NodeError>) -> Result<Reply, String> {
    match answer {
        // Told only where there is a line, which a node in memory always has.
        Ok(Reply::Denied(denial)) => Ok(Reply::Denied(Denial { at: None, ..denial.clone() })),
        Ok(granted) => Ok(granted.clone()),
        Err(NodeError::NotAdmitted | NodeError::Outdated) => Err("not admitted".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A server releases a reader that is alone without a look at the clock: it says that the reader was there even if its
/// time was up. The key goes with it on both, and a client that releases a lost lease is told nothing. Says whether
/// that is so here.
pub(super) fn forgets_end(
    server: &mut Result<Reply, NodeError>,
    memory: &Result<Reply, NodeError>,
) -> bool {
    let is_gone = matches!(memory, Ok(Reply::Denied(denial)) if denial.gone);
    let forgets = is_gone && matches!(server, Ok(Reply::Granted(_)));
    if forgets {
        server.clone_from(memory);
    }
    forgets
}

pub(super) fn sighted(seen: Result<Sighting, NodeError>) -> Result<Sighting, String> {
    seen.map_err(|error| shown(&Err(error)).unwrap_err())
}

pub(super) fn done_there(
    said: Result<Option<Completed>, NodeError>,
) -> Result<Option<Completed>, String> {
    said.map_err(|error| shown(&Err(error)).unwrap_err())
}

/// A marker, without the number of its epoch and its high-water mark.
pub(super) fn looked(marker: &Marker) -> Marker {
    let mut marker = *marker;
    (marker.epoch, marker.high_water) = (0, 0);
    // A node in memory keeps no members.
    (marker.claim, marker.serves) = (Claim::Made, None);
    marker
}

/// The answer to a command, in the words of the tests that say what is expected.
pub(super) fn answered(answer: &Result<Reply, String>) -> String {
    match answer {
        Ok(Reply::Granted(Granted { token: None, .. })) => "done".to_owned(),
        Ok(Reply::Granted(Granted { token: Some(token), slot })) => {
            let slot = slot.map(|slot| format!(" in slot {slot}"));
            format!("granted {}{}", token.get(), slot.unwrap_or_default())
        }
        Ok(Reply::Denied(denial)) if denial.gone => "gone".to_owned(),
        Ok(Reply::Denied(denial)) if *denial == Denial::default() => "denied".to_owned(),
        Ok(Reply::Denied(Denial { holder, remaining, behind, rank, which, label, .. })) => {
            let place = which.map(|which| format!("{which}: ")).unwrap_or_default();
            let by = match behind {
                Some(head) => format!("behind {}", number_of(*head)),
                None => key(holder.as_deref(), *remaining),
            };
            let label = label.as_ref().map(|label| format!(", {label}")).unwrap_or_default();
            let rank = rank.map(|rank| format!(", {rank} before")).unwrap_or_default();
            format!("{place}{by}{label}{rank}")
        }
        Err(error) => error.clone(),
    }
}

/// The same of who holds a key.
pub(super) fn seen(seen: &Sighting) -> String {
    let Sighting::Held(KeyHolder { value, remaining, counter, note }) = seen else {
        return "free".to_owned();
    };
    let mut said = key(value.as_deref(), *remaining);
    if let Some(counter) = counter {
        said += &format!(", counter {}", counter.get());
    }
    if let Some(note) = note {
        let label = note.label().map(|label| format!(", {label}")).unwrap_or_default();
        let record = note.record().map(|record| {
            format!(
                ", leads {} with {}, {} bytes",
                record.term.get(),
                record.number,
                record.text.as_bytes().len()
            )
        });
        said += &format!("{label}{}", record.unwrap_or_default());
    }
    said
}

fn key(value: Option<&[u8]>, remaining: Option<Duration>) -> String {
    let value = value.unwrap_or_default();
    let own = (0..OWNERS).find_map(|number| {
        Some((number, value.strip_prefix(owner(number).to_hex().as_slice())?.len()))
    });
    let whose = match own {
        Some((number, 0)) => format!("o{number}"),
        Some((number, more)) => format!("o{number} and {more} more"),
        None if value == KeyHolder::SHARED => "readers".to_owned(),
        None => format!("`{}`", value.escape_ascii()),
    };
    let left = remaining.map(|left| format!("{} ms", left.as_millis()));
    format!("{whose} for {}", left.as_deref().unwrap_or("ever"))
}
