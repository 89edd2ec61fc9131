//! Histories written by hand, on which the invariants are tried.

use std::time::Duration;

use quorlock_core::Timestamp;

use super::Hold;

pub(super) fn hold(client: usize, resource: &str, from: u64, until: u64) -> Hold {
    let at = |millis| Timestamp::from_origin(Duration::from_millis(millis));
    let owner = format!("{client}-{resource}-{from}");
    let resource = resource.to_owned();
    let (asked, from, until) = (at(from), at(from), at(until));
    let (reads, token, kept_out) = (false, None, None);
    Hold { client, resource, owner, reads, token, asked, from, until, kept_out }
}

/// A hold that is asked for at the first time, granted at the second and over at once.
pub(super) fn fenced(resource: &str, asked: u64, from: u64, token: u64) -> Hold {
    let mut hold = hold(0, resource, from, from);
    hold.asked = Timestamp::from_origin(Duration::from_millis(asked));
    hold.owner = format!("{resource}-{asked}-{token}");
    hold.token = Some(token);
    hold
}
