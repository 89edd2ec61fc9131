//! What a node in memory keeps, and what it does with each command: the scripts of the Redis node, in Rust.
//!
//! It decides as a server would. Time is an argument.

use std::{collections::HashMap, time::Duration};

use crate::{
    node::NodeError,
    protocol::{
        Command, Denial, FencingToken, Floor, Join, Mark, Marker, Owner, Reply, Resource,
        Timestamp, validity,
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
    /// Counters are kept for ever here, whatever the retention, so that there is one generation of them, and the floor
    /// stays.
    fences: HashMap<Vec<u8>, u64>,
    floor: u64,
    high_water: u64,
    max_ttl: Duration,
    /// Counts the changes of `ready`, beginning anew with each life.
    era: u64,
    /// Counts the seals of this era.
    seal: u64,
    /// It is joining, and has lost nothing.
    kept: bool,
    /// It was joining while a majority had forgotten.
    orphaned: bool,
    pub(super) ready: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Vec<u8>,
    pub(super) expires: Option<Timestamp>,
}

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
    ) -> Result<Reply, NodeError> {
        match command {
            Command::Acquire { resource, owner, ttl, hint, mark } => {
                if hint.is_some() {
                    self.still_in(mark)?;
                }
                self.acquire(&resource, owner, ttl, hint, now, wall_us)
            }
            Command::Confirm { resource, owner, token, mark } => {
                self.still_in(mark)?;
                Ok(self.confirm(&resource, owner, token, now))
            }
            Command::Extend { resource, owner, ttl, fenced } => {
                if fenced {
                    self.admitted()?;
                }
                let expires = Some(now.saturating_add(wire(ttl)));
                Ok(match self.keys(now).get_mut(resource.as_bytes()) {
                    Some(entry) if entry.value == owner.to_hex() => {
                        entry.expires = expires;
                        Reply::Granted(None)
                    }
                    Some(_) => Reply::Denied(Denial::default()),
                    None => Reply::Denied(Denial::gone()),
                })
            }
            // Like the end of an acquire, that of a restore is in a clock that this node does not know.
            Command::Restore { resource, owner, ttl, until: _, fenced } => {
                if fenced {
                    self.admitted()?;
                }
                if self.keys(now).contains_key(resource.as_bytes()) {
                    return Ok(Reply::Denied(Denial::default()));
                }
                self.set(&resource, owner, ttl, now);
                Ok(Reply::Granted(None))
            }
            Command::Release { resource, owner } => {
                let keys = self.keys(now);
                Ok(match keys.get(resource.as_bytes()) {
                    None => Reply::Denied(Denial::gone()),
                    Some(entry) if entry.value != owner.to_hex() => {
                        Reply::Denied(Denial::default())
                    }
                    Some(_) => {
                        keys.remove(resource.as_bytes());
                        Reply::Granted(None)
                    }
                })
            }
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

    fn acquire(
        &mut self,
        resource: &Resource,
        owner: Owner,
        ttl: Duration,
        hint: Option<u64>,
        now: Timestamp,
        wall_us: u64,
    ) -> Result<Reply, NodeError> {
        if let Some(entry) = self.keys(now).get(resource.as_bytes()) {
            return Ok(Reply::Denied(entry.denial(now)));
        }
        let token = match hint {
            None => None,
            Some(hint) => {
                let hint = hint.min(wall_us.saturating_add(HINT_AHEAD_US));
                let counter = self.fences.get(resource.as_bytes()).copied().unwrap_or(0);
                // Above the counter and the floor, and as high as the hint, so that nodes agree at once.
                let fence = hint.max(counter.max(self.floor).saturating_add(1));
                if fence > FencingToken::MAX.get() {
                    return Err(NodeError::CounterExhausted);
                }
                self.raise(resource, fence);
                Some(FencingToken::new(fence))
            }
        };
        self.set(resource, owner, ttl, now);
        Ok(Reply::Granted(token))
    }

    fn confirm(
        &mut self,
        resource: &Resource,
        owner: Owner,
        token: FencingToken,
        now: Timestamp,
    ) -> Reply {
        let ours = self
            .keys(now)
            .get(resource.as_bytes())
            .is_some_and(|entry| entry.value == owner.to_hex());
        // The guard of the proof: without it two holders can get one token (`docs/algorithm.md`).
        let behind =
            self.fences.get(resource.as_bytes()).is_some_and(|counter| *counter <= token.get());
        if !(ours && behind) {
            return Reply::Denied(Denial::default());
        }
        self.raise(resource, token.get());
        Reply::Granted(Some(token))
    }

    fn raise(&mut self, resource: &Resource, fence: u64) {
        self.fences.insert(resource.as_bytes().to_vec(), fence);
        self.high_water = self.high_water.max(fence);
    }

    fn set(&mut self, resource: &Resource, owner: Owner, ttl: Duration, now: Timestamp) {
        let expires = Some(now.saturating_add(wire(ttl)));
        let entry = Entry { value: owner.to_hex().to_vec(), expires };
        self.keys.insert(resource.as_bytes().to_vec(), entry);
    }

    /// Reads the marker, and raises the longest ttl.
    pub(super) fn join(&mut self, join: Join) -> Marker {
        self.max_ttl = self.max_ttl.max(join.max_ttl);
        if self.ready && join.force == Some(self.era) {
            self.ready = false;
            self.begin_era();
            self.kept = !join.lost;
        }
        self.orphaned |= join.orphaned && !self.ready;
        if self.ready && join.seal {
            self.seal += 1;
        }
        let marker = Marker::new(self.ready, self.max_ttl, self.high_water).above(self.floor);
        marker.in_era(self.era).sealed(self.seal).kept(self.kept).orphaned(self.orphaned)
    }

    fn begin_era(&mut self) {
        self.era += 1;
        (self.seal, self.kept, self.orphaned) = (0, false, false);
    }

    /// Lets the node vote.
    pub(super) fn admit(&mut self, era: u64, floor: Floor, wall_us: u64) -> bool {
        let joining = !self.ready && self.era == era;
        if joining {
            // A wall clock from a broken machine must not push the counters to their end.
            let wall = floor.wall_us.min(wall_us.saturating_add(2 * HINT_AHEAD_US));
            self.floor = self.floor.max(floor.known).max(wall).max(self.high_water);
            self.ready = true;
            self.begin_era();
        }
        joining
    }
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
