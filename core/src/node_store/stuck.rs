//! Stuck places in lines, which keys outside their line keep from going on: those of a set whose other keys are held,
//! or of a semaphore all of whose slots are taken.
//!
//! It decides which places are stuck at a moment. A note counts only while the place has its ticket. It never calls a
//! place stuck when a key in its way is gone.

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use crate::{
    line::{ClientId, Stand, Ticket},
    resource::Resource,
    time::Timestamp,
};

/// How long a note lives: a waiter asks again before, and so renews it.
const LIFE: Duration = Duration::from_secs(4);

/// The keys in the way of places, by line and client.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Stuck(BTreeMap<(Resource, ClientId), Way>);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Way {
    ticket: Ticket,
    /// The place cannot go on while all of these stand.
    keys: Vec<Resource>,
    until: Timestamp,
}

impl Stuck {
    /// Notes that the client's place in this line, if it has one, cannot go on while all of these keys stand.
    pub(super) fn note(
        &mut self,
        line: &Resource,
        stand: Option<Stand>,
        keys: &[Resource],
        now: Timestamp,
    ) {
        let Some(Stand { client, ticket: Some(ticket), .. }) = stand else { return };
        self.0.retain(|_, way| now < way.until);
        let way = Way { ticket, keys: keys.to_vec(), until: now.saturating_add(LIFE) };
        self.0.insert((line.clone(), client), way);
    }

    /// Whether the client's place in this line with this ticket is stuck.
    pub(super) fn is_stuck(
        &self,
        line: &Resource,
        client: ClientId,
        ticket: Ticket,
        now: Timestamp,
        stands: &dyn Fn(&Resource) -> bool,
    ) -> bool {
        let way = self.0.get(&(line.clone(), client)).filter(|way| way.ticket == ticket);
        way.is_some_and(|way| now < way.until && way.keys.iter().all(stands))
    }
}
