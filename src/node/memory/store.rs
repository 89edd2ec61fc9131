//! What a node in memory keeps, and what it does with each command: the scripts of the Redis node, in Rust.
//!
//! It decides as a server would. Time is an argument.

mod joining;
mod readers;
mod slots;
mod stuck;
mod votes;

use std::{collections::HashMap, slice, time::Duration};

use self::{readers::SHARED, stuck::Stuck, votes::which};
use super::news::Telling;
use crate::{
    node::NodeError,
    protocol::{
        Command, Denial, FencingToken, Granted, KeyHolder, LineNews, Mark, NodeLine, Note, Owner,
        Reply, Resource, Sighting, Slots, Stand, Target, Timestamp, validity,
    },
};

/// A hint this far ahead of the node's clock is cut, so that a broken clock does not use up the counters.
const HINT_AHEAD_US: u64 = 60_000_000;

/// As much of a holder as is told: it may be of any length.
const HOLDER_SHOWN: usize = 64;

/// The keys, the counters and the marker of one node.
#[derive(Debug, Default)]
pub(super) struct Store {
    keys: HashMap<Vec<u8>, Entry>,
    /// The entries of readers beside a key that they have, each with its end.
    readers: HashMap<Vec<u8>, HashMap<Owner, Timestamp>>,
    /// Counters are kept for ever here, whatever the retention, so that there is one generation of them, and the floor
    /// stays.
    fences: HashMap<Vec<u8>, Counter>,
    /// Who waits. Where a resource is not there, nobody does.
    lines: HashMap<Resource, NodeLine>,
    /// Which of their places cannot go on because of something else.
    stuck: Stuck,
    floor: u64,
    high_water: u64,
    max_ttl: Duration,
    /// The longest that was told since an operator asked for that to be noted, by the number of that watch.
    max_ttl_seen: Option<(u32, Duration)>,
    /// Counts the changes of `ready`, beginning anew with each life.
    era: u64,
    /// Counts the seals of this era.
    seal: u64,
    /// It is joining, and has lost nothing.
    kept: bool,
    /// It was joining while a majority had forgotten.
    orphaned: bool,
    /// For how long it has been joining in this era, as the longest that a client has told it.
    waited: Duration,
    /// When it was first looked at in this era, by its own clock. That counts nothing, and cuts what it is told by a
    /// client whose clock has just jumped.
    joined: Option<Timestamp>,
    pub(super) ready: bool,
}

/// The counter of a resource, for whom it was raised, and what that one left.
#[derive(Debug)]
struct Counter {
    value: u64,
    owner: Owner,
    note: Option<Note>,
    /// The key of its owner was restored here, and the value is not of its grant.
    restored: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Vec<u8>,
    pub(super) expires: Option<Timestamp>,
}

/// Keys that are to be set: their names, owner, lifetime and note.
type Wanted<'a> = (&'a [Resource], Owner, Duration, Option<Note>);

impl Store {
    /// A store that has never had another life, so that it has nothing to have forgotten.
    pub(super) fn new_and_ready() -> Self {
        Self { ready: true, era: 1, ..Self::default() }
    }

    /// An empty store, whose eras differ from those of the lives before.
    pub(super) fn in_life(life: u64) -> Self {
        // So no era of one life is one of another, however often it changes in each.
        Self { era: life << 32, ..Self::default() }
    }

    /// The keys that have not expired.
    pub(super) fn keys(&mut self, now: Timestamp) -> &mut HashMap<Vec<u8>, Entry> {
        self.keys.retain(|_, entry| entry.expires.is_none_or(|expires| now < expires));
        &mut self.keys
    }

    pub(super) fn execute(
        &mut self,
        command: Command,
        now: Timestamp,
        wall_us: u64,
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeError> {
        match command {
            Command::Acquire {
                target: Target::Shared(resource) | Target::Lowered(resource),
                owner,
                ttl,
                hint: Some(hint),
                mark,
                stand,
                ..
            } => {
                self.still_in(mark)?;
                self.read((&resource, owner, ttl), hint, stand, (now, wall_us), news)
            }
            Command::Confirm {
                target: Target::Shared(resource) | Target::Lowered(resource),
                owner,
                token,
                mark,
            } => {
                self.still_in(mark)?;
                Ok(self.confirm_read(&resource, owner, token, now))
            }
            Command::Extend { target: Target::Lowered(resource), owner, ttl, .. } => {
                self.admitted()?;
                self.lower(&resource, owner, ttl, now, news);
                Ok(self.extend_read(&resource, owner, ttl, now))
            }
            Command::Extend { target: Target::Shared(resource), owner, ttl, .. } => {
                self.admitted()?;
                Ok(self.extend_read(&resource, owner, ttl, now))
            }
            Command::Restore {
                target: Target::Shared(resource) | Target::Lowered(resource),
                owner,
                ttl,
                ..
            } => {
                self.admitted()?;
                Ok(self.restore_read(&resource, owner, ttl, now))
            }
            Command::Release {
                target: Target::Shared(resource) | Target::Lowered(resource),
                owner,
                keep,
            } if self.is_of(&resource, owner, now) => {
                // A reader that was a writer, and this node has not followed yet.
                let target = Target::One(resource);
                self.execute(Command::Release { target, owner, keep }, now, wall_us, news)
            }
            Command::Release {
                target: Target::Shared(resource) | Target::Lowered(resource),
                owner,
                keep,
            } => Ok(self.release_read(&resource, owner, keep, now, news)),
            Command::Acquire { target, owner, ttl, hint, count, first, mark, note, stand } => {
                if let Target::AnyOf(slots) = &target {
                    self.still_in(mark)?;
                    let asked = (owner, ttl, note, hint.unwrap_or_default());
                    return self.acquire_any((slots, first), asked, stand, now, wall_us, news);
                }
                let key = (target.resources(), owner, ttl, note);
                // Classic mode has no line.
                let Some(hint) = hint else { return self.acquire(key, None, now, wall_us) };
                self.still_in(mark)?;
                self.acquire_in_line(key, (hint, count), stand, now, wall_us, news)
            }
            Command::Confirm { target, owner, token, mark } => {
                self.still_in(mark)?;
                Ok(self.confirm(target.resources(), owner, token, now))
            }
            Command::Extend { target, owner, ttl, fenced } => {
                if fenced {
                    self.admitted()?;
                }
                // In classic mode nobody has told how long leases are.
                let longest = self.longest(now).filter(|_| fenced);
                Ok(self.all_of(target.resources(), owner, now, |keys, resource| {
                    if let Some(entry) = keys.get_mut(resource.as_bytes()) {
                        let ends = entry.expires.or(longest);
                        entry.expires = Some(prolonged(ends, ttl, longest, now));
                    }
                }))
            }
            // Like the end of an acquire, that of a restore is in a clock that this node does not know.
            Command::Restore { target, owner, ttl, until: _, fenced, note } => {
                if fenced {
                    self.admitted()?;
                }
                Ok(self.restore((target.resources(), owner, ttl, note.filter(|_| fenced)), now))
            }
            Command::Proclaim { target, owner, note } => {
                self.admitted()?;
                Ok(self.proclaim(target.resource(), owner, note, now))
            }
            Command::Leave { resource, client, ticket } => {
                let key = self.keys(now).get(resource.as_bytes());
                let is_free = key.is_none_or(|entry| entry.value == SHARED);
                self.in_line(&resource, now, news, |line, news| {
                    line.leave(client, ticket, is_free, now, news);
                });
                Ok(Reply::Granted(Granted::DONE))
            }
            Command::Release { target, owner, keep } => {
                let mut freed = Vec::new();
                let reply = self.all_of(target.resources(), owner, now, |keys, resource| {
                    match (keep, keys.get_mut(resource.as_bytes())) {
                        (Some(keep), Some(entry)) => {
                            entry.expires = Some(now.saturating_add(wire(keep)));
                        }
                        _ => drop(keys.remove(resource.as_bytes())),
                    }
                    freed.push(resource.clone());
                });
                // Where two slots of one owner were freed, their line is woken once.
                let mut woken: Vec<Resource> = Vec::new();
                for resource in freed {
                    // Slots have one line for all, and each its own.
                    let slots = Slots::line_of(&resource).filter(|_| target.len() == 1);
                    let line = if target.lines().len() > 1 { &resource } else { first(&target) };
                    let line = if slots.is_some() { &resource } else { line };
                    for line in [Some(line), slots.as_ref()].into_iter().flatten() {
                        if !woken.contains(line) {
                            self.in_line(line, now, news, |line, news| line.release(now, news));
                            woken.push(line.clone());
                        }
                    }
                    if keep.is_none() {
                        news.freed(resource);
                    }
                }
                Ok(reply)
            }
        }
    }

    /// Does something to those keys that are the owner's, and says whether all were.
    fn all_of(
        &mut self,
        resources: &[Resource],
        owner: Owner,
        now: Timestamp,
        mut act: impl FnMut(&mut HashMap<Vec<u8>, Entry>, &Resource),
    ) -> Reply {
        let (mut is_gone, mut is_foreign) = (false, false);
        let keys = self.keys(now);
        for resource in resources {
            match keys.get(resource.as_bytes()) {
                Some(entry) if entry.value == owner.to_hex() => act(keys, resource),
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

    fn admitted(&self) -> Result<(), NodeError> {
        if self.ready { Ok(()) } else { Err(NodeError::NotAdmitted) }
    }

    /// Whether what a round knew of this node when it began still holds.
    fn still_in(&self, mark: Mark) -> Result<(), NodeError> {
        self.admitted()?;
        if mark == Mark::new(self.era, self.seal) { Ok(()) } else { Err(NodeError::NotAdmitted) }
    }

    /// Looks into the line of a resource, and forgets it where it is empty then.
    fn in_line<T>(
        &mut self,
        resource: &Resource,
        now: Timestamp,
        news: &mut Telling<'_>,
        look: impl FnOnce(&mut NodeLine, &mut LineNews<'_>) -> T,
    ) -> T {
        let mut line = self.lines.remove(resource).unwrap_or_default();
        let Self { keys, stuck, .. } = self;
        let stands = |key: &Resource| {
            let entry = keys.get(key.as_bytes());
            entry.is_some_and(|entry| entry.expires.is_none_or(|expires| now < expires))
        };
        let is_stuck = |client, ticket| stuck.is_stuck(resource, client, ticket, now, &stands);
        let seen = news.of(resource, &is_stuck, |news| look(&mut line, news));
        if !line.is_empty(now) {
            self.lines.insert(resource.clone(), line);
        }
        seen
    }

    #[cfg(test)]
    pub(super) fn line(&self, resource: &Resource) -> Option<&NodeLine> {
        self.lines.get(resource)
    }

    fn acquire_in_line(
        &mut self,
        key: Wanted<'_>,
        (hint, count): (u64, u64),
        stand: Option<Stand>,
        now: Timestamp,
        wall_us: u64,
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeError> {
        let (resources, _, ttl, _) = key;
        let mut entered = Vec::with_capacity(resources.len());
        for resource in resources {
            self.bound_shared(resource, Some(ttl), now);
            self.cut_prolonged(resource, ttl, now);
            let is_free = !self.keys(now).contains_key(resource.as_bytes());
            let one = self
                .in_line(resource, now, news, |line, news| line.enter(stand, is_free, now, news));
            let slots = Slots::line_of(resource).filter(|_| is_free && resources.len() == 1);
            let beside = slots.and_then(|slots| {
                self.in_line(&slots, now, news, |line, news| line.first_before(stand, now, news))
            });
            entered.push(one.or_behind(beside));
        }
        let first = entered.iter().enumerate().find_map(|(at, one)| Some((at, one.first?)));
        let longest = self.in_the_way(resources, now).and_then(|(at, _)| resources.get(at));
        let reply = match (longest, first) {
            (None, Some((at, first))) => Reply::Denied(which(Denial::behind(first), at, resources)),
            _ => self.acquire(key, Some((hint, count)), now, wall_us)?,
        };
        let of_each = resources.iter().zip(&entered);
        Ok(match reply {
            Reply::Granted(granted) => {
                for (resource, entered) in of_each {
                    self.in_line(resource, now, news, |line, news| {
                        line.grant(entered, count, ttl, now, news);
                    });
                }
                Reply::Granted(granted)
            }
            Reply::Denied(denial) => {
                let mut rank = None;
                for (resource, entered) in of_each {
                    let own = self
                        .in_line(resource, now, news, |line, news| line.deny(entered, now, news));
                    rank = rank.max(own);
                    // Another key that stands: that which lives for longest, or else the first.
                    let keys = self.keys(now);
                    let stands = |other: &&Resource| {
                        *other != resource && keys.contains_key(other.as_bytes())
                    };
                    let other = longest.filter(stands).or_else(|| resources.iter().find(stands));
                    if let Some(other) = other.filter(|_| own.is_some()) {
                        self.stuck.note(resource, stand, slice::from_ref(other), now);
                    }
                }
                Reply::Denied(denial.in_line(clock_us(now), rank))
            }
        })
    }

    /// Who holds a key.
    pub(super) fn holder(
        &mut self,
        resource: &Resource,
        fenced: bool,
        now: Timestamp,
    ) -> Result<Sighting, NodeError> {
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

    /// When a lease ends at the latest that is granted now, as far as the node has been told.
    fn longest(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.max_ttl.is_zero()).then(|| now.saturating_add(wire(self.max_ttl)))
    }

    fn set(&mut self, resource: &Resource, owner: Owner, ttl: Duration, now: Timestamp) {
        let expires = Some(now.saturating_add(wire(ttl)));
        let entry = Entry { value: owner.to_hex().to_vec(), expires };
        self.keys.insert(resource.as_bytes().to_vec(), entry);
    }
}

/// When something ends of which `ttl` is asked for. A later end stays as it is: an extension may be executed behind one
/// that was sent after it. What a clock that went back has prolonged ends with the longest ttl, and so does what others have
/// taken the end from.
fn prolonged(
    ends: Option<Timestamp>,
    ttl: Duration,
    longest: Option<Timestamp>,
    now: Timestamp,
) -> Timestamp {
    let asked = now.saturating_add(wire(ttl));
    let stands = ends.map_or(asked, |ends| longest.map_or(ends, |longest| ends.min(longest)));
    asked.max(stands)
}

/// The line that a target with one has.
fn first(target: &Target) -> &Resource {
    target.lines().first().unwrap_or_else(|| target.resource())
}

/// The clock by which those who wait have their order.
fn clock_us(now: Timestamp) -> u64 {
    u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX)
}

fn wire(ttl: Duration) -> Duration {
    Duration::from_millis(validity::wire_millis(ttl))
}

impl Entry {
    fn denial(&self, now: Timestamp) -> Denial {
        let remaining = self.expires.map(|expires| expires.saturating_since(now));
        let shown = self.value.iter().take(HOLDER_SHOWN).copied().collect();
        Denial::new(Some(shown), remaining)
    }
}

#[cfg(test)]
#[path = "store_test.rs"]
mod tests;
