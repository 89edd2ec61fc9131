//! The record of a node: which list it belongs to, and whom it serves while its fleet changes that list.
//!
//! It decides as the scripts of the Redis node do, but for claims, of which it keeps none. It must never serve clients
//! with one list alone once it was sealed, unless it is opened.

use core::time::Duration;

use super::NodeStore;
use crate::{
    admission::{Errand, Floor, Join, Marker},
    members::{Belongs, Members, Relation, Serves},
    time::Timestamp,
};

/// How long a client with the new list alone has asked for the end of a change, since it asked last.
const ASKED: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Record {
    members: Option<Members>,
    /// Both lists, where a client with both has looked and the node is not sealed.
    next: Option<Members>,
    asked: Option<Timestamp>,
}

impl NodeStore {
    /// The record. `None` before the first admission, and where no client has told a list.
    pub const fn members(&self) -> Option<&Members> {
        self.record.members.as_ref()
    }

    /// Reads the marker for a client with this list, or these lists, as [`join`](Self::join) does.
    ///
    /// # Errors
    ///
    /// The record of a node that does not serve that client, or what it will be.
    pub fn join_for(
        &mut self,
        join: Join,
        members: &Members,
        now: Timestamp,
    ) -> Result<Marker, (Members, Belongs)> {
        if let Some(record) = self.record.members.clone() {
            let errand = join.errand;
            match (members.served_by(&record), errand) {
                (Some(Serves::Before), Some(Errand::Seal)) if self.ready => {
                    self.record.members = Some(members.serving(Serves::Both));
                    self.seal = self.seal.saturating_add(1);
                }
                (Some(Serves::Before | Serves::Both), Some(Errand::Open(floor))) if self.ready => {
                    self.open(members.serving(Serves::After), floor);
                }
                (Some(Serves::Before), _) => self.record.next = Some(members.clone()),
                (Some(_), _) => {}
                // A client that knows that the change is over lets it in as one that has forgotten.
                (None, _) if join.proven && !self.ready && is_next(members, &record) => {}
                (None, _) => self.take_or_open(join, members, &record, now)?,
            }
        }
        let marker = self.join(join, now);
        let record = self.record.members.as_ref();
        let serves = record.and_then(|record| members.served_by(record)).unwrap_or_default();
        let asked = self.record.asked.is_some_and(|at| now.saturating_since(at) < ASKED);
        Ok(marker.serving(serves, asked))
    }

    fn take_or_open(
        &mut self,
        join: Join,
        members: &Members,
        record: &Members,
        now: Timestamp,
    ) -> Result<(), (Members, Belongs)> {
        let next = self.record.next.as_ref();
        let announced = next.filter(|next| is_into(members, next)).cloned();
        let is_into_ours = is_into(members, record) || announced.is_some();
        match (members.relation(record), join.errand) {
            (relation, Some(Errand::TakeEarlier))
                if record.generation() < members.generation()
                    && (relation == Relation::Earlier || is_into_ours) =>
            {
                self.take();
                Ok(())
            }
            (Relation::Into(generation), Some(Errand::Open(floor)))
                if self.ready && generation == members.generation() =>
            {
                self.open(members.clone(), floor);
                Ok(())
            }
            _ => {
                if is_into_ours {
                    self.record.asked = Some(now);
                }
                let is_sealed = is_into(members, record);
                Err(match announced.filter(|_| !is_sealed) {
                    Some(next) => (next, Belongs::Announced),
                    None => (record.clone(), Belongs::Record),
                })
            }
        }
    }

    fn take(&mut self) {
        self.record = Record::default();
        self.ready = false;
        self.begin_epoch();
        self.fences.clear();
    }

    fn open(&mut self, members: Members, floor: u64) {
        self.record = Record { members: Some(members), ..Record::default() };
        self.floor = self.floor.max(floor).max(self.high_water);
        self.high_water = self.floor;
        for counter in self.fences.values_mut().filter(|counter| counter.value < self.floor) {
            (counter.value, counter.restored) = (self.floor, true);
        }
        self.begin_epoch();
    }

    /// Lets the node vote, as [`admit`](Self::admit) does, and serve so the clients with this list or these lists. A node
    /// that lost nothing goes on with its record.
    pub fn admit_for(
        &mut self,
        epoch: u64,
        floor: Floor,
        members: &Members,
        serves: Serves,
        wall_us: u64,
    ) -> bool {
        let record = self.record.members.as_ref();
        let is_ours =
            |record: &Members| members.served_by(record).is_some() || is_next(members, record);
        if record.is_some_and(|record| !is_ours(record)) {
            return false;
        }
        let stays = self.kept && record.is_some();
        let is_admitted = self.admit(epoch, floor, wall_us);
        if is_admitted && !stays {
            self.record = Record { members: Some(members.serving(serves)), ..Record::default() };
        }
        is_admitted
    }
}

/// Whether the record is of the change to this very generation.
fn is_next(members: &Members, record: &Members) -> bool {
    members.relation(record) == Relation::Into(members.generation())
}

fn is_into(members: &Members, record: &Members) -> bool {
    matches!(members.relation(record), Relation::Into(_))
}
