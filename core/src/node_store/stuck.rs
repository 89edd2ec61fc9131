//! Places in lines that cannot go on because of keys that their line is not about: a set whose other keys are held, or a
//! semaphore all of whose slots are taken.
//!
//! It decides for which places that is so at a moment. What is noted of a place is true for as long as it has its ticket:
//! it never says that a place is stuck of which a key in the way is gone.

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use crate::{
    line::{ClientId, Stand, Ticket},
    resource::Resource,
    time::Timestamp,
};

/// For how long a place is known to have something in its way: a waiter asks again before, and says so again.
const LIFE: Duration = Duration::from_secs(4);

/// What is in the way of places, by line and client.
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
    /// The place that was taken in this line, if one was, cannot go on while all of these keys stand.
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

    /// Whether the place that the client has in this line with this ticket cannot go on.
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
