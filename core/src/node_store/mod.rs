//! One node: its keys, counters, lines and marker, and how it carries out each command.
//!
//! It is the specification of a node: the scripts of a Redis node do the same, and tests compare both on random
//! commands. [`MemoryNode`], the model checker and the simulation run it. It decides as a server would, by a clock that
//! is an argument. It must never read a time, and never lose a counter except with all its data.
//!
//! [`MemoryNode`]: https://docs.rs/quorlock/latest/quorlock/node/struct.MemoryNode.html

mod completed;
mod joining;
mod key;
mod lines;
mod members;
mod news;
mod readers;
mod slots;
mod stuck;
mod votes;

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

pub use self::key::NodeKey;
pub use self::news::{NodeNews, NodeRefusal};
use self::{
    key::{Lent, prolonged, wire},
    members::Record,
    news::Telling,
    stuck::Stuck,
};
use super::{
    command::{Command, Denial, EpochMark, Granted, Reply},
    completion::Completion,
    fencing::FencingToken,
    holder::{KeyHolder, Sighting},
    line::{ClientId, WaitList},
    note::Note,
    owner::Owner,
    resource::Resource,
    target::Target,
    time::Timestamp,
};

/// A hint this far ahead of the node's clock is cut, so that a broken clock does not use up the counters.
const HINT_AHEAD_US: u64 = 60_000_000;

/// How much of a holder's value a denial shows: the value may have any length.
const HOLDER_SHOWN: usize = 64;

/// The data of one node: its keys, counters, lines and marker.
///
/// It is `Clone`, `Eq` and `Hash`, so that a model checker can have it as a part of a state.
///
/// ```
/// use quorlock_core::{Command, EpochMark, NodeStore, Owner, Reply, Resource, Timestamp};
///
/// let mut node = NodeStore::new();
/// let (owner, ttl) = (Owner::from_random([1; 16]), std::time::Duration::from_secs(10));
/// let acquire = Command::Acquire {
///     target: Resource::new("invoice:42")?.into(),
///     owner,
///     ttl,
///     hint: Some(7),
///     count: 1,
///     first: 0,
///     mark: EpochMark::new(1, 0),
///     note: None,
///     stand: None,
/// };
/// let (reply, _) = node.execute(acquire, Timestamp::ORIGIN, 0, &|_| true);
/// assert!(matches!(reply, Ok(Reply::Granted(_))));
/// assert_eq!(node.keys(Timestamp::ORIGIN)[b"invoice:42".as_slice()].value, owner.to_hex());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct NodeStore {
    keys: BTreeMap<Vec<u8>, NodeKey>,
    /// The readers' entries beside a shared key, each with its end.
    readers: BTreeMap<Vec<u8>, BTreeMap<Owner, Timestamp>>,
    /// The counters, kept for ever here, whatever the retention: there is one generation of them, and the floor stays.
    fences: BTreeMap<Vec<u8>, Counter>,
    /// The lines. A resource without an entry has no waiters.
    lines: BTreeMap<Resource, WaitList>,
    /// What was adopted, by its resource, and when it would have ended.
    lent: BTreeMap<Vec<u8>, Lent>,
    /// What is done, of which resource and length of a period, and when it is forgotten.
    completions: BTreeMap<(Vec<u8>, Duration), (Completion, Timestamp)>,
    /// The places in lines that other keys keep from going on.
    stuck: Stuck,
    floor: u64,
    high_water: u64,
    max_ttl: Duration,
    /// The number of the operator's last watch, and the longest ttl told since it began.
    max_ttl_seen: Option<(u32, Duration)>,
    /// Counts the changes of `ready`, beginning anew with each life.
    epoch: u64,
    /// Counts the seals of this epoch.
    seal: u64,
    /// Whether it is joining, and has lost nothing.
    kept: bool,
    /// Whether it was joining while a majority had forgotten.
    orphaned: bool,
    /// How long it has been joining in this epoch, as the longest time that a client told it.
    waited: Duration,
    /// Its first look in this epoch, by its own clock. It counts no wait, and only cuts what a client whose clock has
    /// just jumped tells it.
    joined: Option<Timestamp>,
    ready: bool,
    record: Record,
}

/// The counter of a resource, the owner that it was raised for, and that owner's note.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Counter {
    value: u64,
    owner: Owner,
    note: Option<Note>,
    /// Whether the owner's key was restored here or given back, and the value is not of its grant.
    restored: bool,
}

/// Keys to set: their names, owner, lifetime and note.
type Wanted<'a> = (&'a [Resource], Owner, Duration, Option<Note>);

impl NodeStore {
    /// A node that votes: this is its first life, so it cannot have forgotten anything.
    pub fn new() -> Self {
        Self { ready: true, epoch: 1, ..Self::default() }
    }

    /// A node that has restarted without data, and does not vote. No epoch of an earlier life returns.
    /// [`new`](NodeStore::new) is life 0; a life beyond 2^32 - 1 counts as 2^32 - 1.
    pub fn in_life(life: u64) -> Self {
        // Each life has 2^32 epochs of its own.
        Self { epoch: life.min(u64::from(u32::MAX)) << 32, ..Self::default() }
    }

    /// The keys that have not expired. A change made here counts as another program's: no line hears of it.
    pub fn keys(&mut self, now: Timestamp) -> &mut BTreeMap<Vec<u8>, NodeKey> {
        self.keys.retain(|_, key| key.expires.is_none_or(|expires| now < expires));
        &mut self.keys
    }

    /// Carries out a command, by the node's clock: `now`, and `wall_us`, the same in microseconds of the wall. `hears`
    /// says whether a client is connected; lines drop a client that is not. Returns the reply, and the messages to
    /// clients, in order. The `until` of a restore is by a clock that the node does not know: its sender has to see to
    /// it.
    ///
    /// # Errors
    ///
    /// [`NodeRefusal`]: nothing was granted, and no counter has changed. Where a counter is at its end, places in the
    /// line may have changed, and the messages about that are returned too.
    pub fn execute(
        &mut self,
        command: Command,
        now: Timestamp,
        wall_us: u64,
        hears: &dyn Fn(ClientId) -> bool,
    ) -> (Result<Reply, NodeRefusal>, Vec<NodeNews>) {
        let mut news = Telling::new(hears);
        let reply = self.act(command, (now, wall_us), &mut news);
        (reply, news.into_news())
    }

    fn act(
        &mut self,
        command: Command,
        (now, wall_us): (Timestamp, u64),
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeRefusal> {
        match command {
            Command::Acquire { mark, hint, ref target, .. }
                if hint.is_some() || target.is_any() =>
            {
                self.still_in(mark)?;
                return self.acquire_in_line(command, (now, wall_us), news);
            }
            Command::Confirm { mark, .. } | Command::Adopt { mark, .. } => self.still_in(mark)?,
            Command::Extend { fenced, ref target, .. }
            | Command::Restore { fenced, ref target, .. }
                if fenced || target.is_shared() =>
            {
                self.admitted()?;
            }
            Command::Proclaim { .. } => self.admitted()?,
            _ => {}
        }
        Ok(match command {
            // Classic mode has no line, and shares nothing.
            Command::Acquire { target, owner, ttl, note, .. } => {
                return self.acquire((target.resources(), owner, ttl, note), None, now, wall_us);
            }
            Command::Adopt { target, from, owner, ttl, hint, note, .. } => {
                let wanted = (target.resources(), owner, ttl, note);
                return self.adopt(wanted, from, hint, now, wall_us);
            }
            Command::HandBack { target, owner, to } => {
                self.hand_back(target.resources(), owner, to, now)
            }
            Command::Confirm { target, owner, token, .. } => match reader(&target) {
                Some(resource) => self.confirm_read(resource, owner, token, now),
                None => self.confirm(target.resources(), owner, token, now),
            },
            Command::Extend { target, owner, ttl, fenced } => match reader(&target) {
                Some(resource) => {
                    if target.is_downgraded() {
                        self.downgrade(resource, owner, ttl, now, news);
                    }
                    self.extend_read(resource, owner, ttl, now)
                }
                None => {
                    // In classic mode no client has told how long leases are.
                    let longest = self.longest(now).filter(|_| fenced);
                    self.extend(target.resources(), owner, (ttl, longest), now)
                }
            },
            // The end of a restore, like that of an acquire, is by a clock that this node does not know.
            Command::Restore { target, owner, ttl, until: _, fenced, note } => {
                match reader(&target) {
                    Some(resource) => self.restore_read(resource, owner, ttl, now),
                    None => {
                        let note = note.filter(|_| fenced);
                        self.restore((target.resources(), owner, ttl, note), now)
                    }
                }
            }
            Command::Proclaim { target, owner, note } => {
                self.proclaim(target.resource(), owner, note, now)
            }
            Command::Leave { resource, client, ticket } => {
                let key = self.keys(now).get(resource.as_bytes());
                let is_free = key.is_none_or(NodeKey::is_shared);
                self.in_line(&resource, now, news, |line, news| {
                    line.leave(client, ticket, is_free, now, news);
                });
                Reply::Granted(Granted::DONE)
            }
            Command::Release { target, owner, keep } => match reader(&target) {
                // A downgraded reader still has a writer's key where this node has not followed yet.
                Some(resource) if !self.is_of(resource, owner, now) => {
                    self.release_read(resource, owner, keep, now, news)
                }
                Some(resource) => self.release(&resource.clone().into(), owner, keep, now, news),
                None => self.release(&target, owner, keep, now, news),
            },
        })
    }

    fn extend(
        &mut self,
        resources: &[Resource],
        owner: Owner,
        (ttl, longest): (Duration, Option<Timestamp>),
        now: Timestamp,
    ) -> Reply {
        self.all_of(resources, owner, now, |keys, resource| {
            if let Some(key) = keys.get_mut(resource.as_bytes()) {
                key.expires = Some(prolonged(key.expires.or(longest), ttl, longest, now));
            }
        })
    }

    fn release(
        &mut self,
        target: &Target,
        owner: Owner,
        keep: Option<Duration>,
        now: Timestamp,
        news: &mut Telling<'_>,
    ) -> Reply {
        let mut freed = Vec::new();
        let reply = self.all_of(target.resources(), owner, now, |keys, resource| {
            match (keep, keys.get_mut(resource.as_bytes())) {
                (Some(keep), Some(key)) => key.expires = Some(now.saturating_add(wire(keep))),
                _ => drop(keys.remove(resource.as_bytes())),
            }
            freed.push(resource.clone());
        });
        self.wake(target, &freed, now, news);
        if keep.is_none() {
            freed.into_iter().for_each(|resource| news.freed(resource));
        }
        reply
    }

    /// Applies `act` to the keys that are the owner's, and grants where all are.
    fn all_of(
        &mut self,
        resources: &[Resource],
        owner: Owner,
        now: Timestamp,
        mut act: impl FnMut(&mut BTreeMap<Vec<u8>, NodeKey>, &Resource),
    ) -> Reply {
        let (mut is_gone, mut is_foreign) = (false, false);
        let keys = self.keys(now);
        for resource in resources {
            match keys.get(resource.as_bytes()) {
                Some(key) if key.value == owner.to_hex() => act(keys, resource),
                Some(_) => is_foreign = true,
                None => is_gone = true,
            }
        }
        match (is_foreign, is_gone) {
            (true, _) => Reply::Denied(Denial::default()),
            (false, true) => Reply::Denied(Denial::gone()),
            (false, false) => Reply::Granted(Granted::DONE),
        }
    }

    fn admitted(&self) -> Result<(), NodeRefusal> {
        if self.ready { Ok(()) } else { Err(NodeRefusal::NotAdmitted) }
    }

    /// Checks that the node is still in the epoch and seal that the round knew.
    fn still_in(&self, mark: EpochMark) -> Result<(), NodeRefusal> {
        self.admitted()?;
        if mark == EpochMark::new(self.epoch, self.seal) {
            Ok(())
        } else {
            Err(NodeRefusal::NotAdmitted)
        }
    }

    /// Whether this owner has the key, alone or beside other readers.
    pub fn holds(&self, resource: &Resource, owner: Owner, now: Timestamp) -> bool {
        let stands = |key: &&NodeKey| key.expires.is_none_or(|expires| now < expires);
        let readers = self.readers.get(resource.as_bytes());
        self.keys.get(resource.as_bytes()).filter(stands).is_some_and(|key| {
            let entry = readers.filter(|_| key.is_shared()).and_then(|all| all.get(&owner));
            key.value == owner.to_hex() || entry.is_some_and(|end| now < *end)
        })
    }

    /// The holder of a key, with its token and note if `fenced`.
    ///
    /// # Errors
    ///
    /// [`NodeRefusal::NotAdmitted`] where `fenced` is asked of a node that does not vote.
    pub fn holder(
        &mut self,
        resource: &Resource,
        fenced: bool,
        now: Timestamp,
    ) -> Result<Sighting, NodeRefusal> {
        if fenced {
            self.admitted()?;
        }
        let Some(entry) = self.keys(now).get(resource.as_bytes()) else {
            return Ok(Sighting::Free);
        };
        let Denial { holder, remaining, .. } = entry.denial(now);
        let seen = KeyHolder::new(holder, remaining);
        let counter = self.fences.get(resource.as_bytes()).filter(|_| fenced);
        Ok(Sighting::Held(match counter.filter(|counter| seen.owner() == Some(counter.owner)) {
            Some(counter) => {
                let token = (!counter.restored).then(|| FencingToken::new(counter.value));
                seen.granted(token, counter.note.clone())
            }
            None => seen,
        }))
    }

    /// The latest end of a lease granted now, by the longest ttl that the node was told.
    fn longest(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.max_ttl.is_zero()).then(|| now.saturating_add(wire(self.max_ttl)))
    }

    fn set(&mut self, resource: &Resource, owner: Owner, ttl: Duration, now: Timestamp) {
        let expires = Some(now.saturating_add(wire(ttl)));
        let key = NodeKey::new(owner.to_hex().to_vec(), expires);
        self.keys.insert(resource.as_bytes().to_vec(), key);
    }
}

/// The resource of a shared target.
const fn reader(target: &Target) -> Option<&Resource> {
    match target {
        Target::Shared(resource) | Target::Downgraded(resource) => Some(resource),
        _ => None,
    }
}

#[cfg(test)]
#[path = "node_store_test.rs"]
mod tests;
