//! One node: the production's `NodeStore`, whose commands have owners by the numbers of the askers.
//!
//! Goal: a node of the model does what a node does. Method: whatever it is asked, `NodeStore` does, once for each state of
//! a node; asked the same again, it is known (`Nodes`). What is looked at in every state stands beside it.
//!
//! Not modelled here: what a denial tells beside that it is one, notes, values of others.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hash},
};

use super::pool::{Mixer, Part, Pool};
use crate::protocol::{
    Cause, Command, Denial, EpochMark, Failure, FencingToken, Floor, Granted, Join, Marker,
    NodeRefusal, NodeStore, Owner, Reply, Resource, Timestamp,
};

/// So many resources there are.
pub(crate) const KEYS: usize = 3;

/// So many may ask, counted from zero; the last one is fresh, and has never been there before.
const OWNERS: usize = 8;

/// Long before any counter is implausible.
pub(crate) const WALL: u64 = 1;

/// A node that votes, and whose counters go on from this.
pub(crate) fn counting(counter: u64) -> NodeStore {
    let mut store = NodeStore::in_life(0);
    assert!(store.admit(0, Floor::new(counter, 0), WALL), "it was joining");
    store
}

pub(crate) fn owner(number: u8) -> Owner {
    Owner::from_random([number + 1; 16])
}

/// A resource, which is called as a slot of the semaphore `r`.
pub(crate) fn resource(key: usize) -> Resource {
    Resource::new(["r/0", "r/1", "r/2"][key]).expect("a name")
}

/// What a node answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Said {
    Granted(Option<u16>),
    /// A slot, with its counter.
    Picked(u8, u16),
    Denied,
    /// It is not in the state that was asked for, and has done nothing.
    Refused,
    /// There is no answer, and none will come.
    Unknown,
}

impl Said {
    fn of(reply: Result<Reply, NodeRefusal>) -> Self {
        let small = |token: FencingToken| u16::try_from(token.get()).expect("a small number");
        match reply {
            Ok(Reply::Granted(granted)) => match (granted.slot, granted.token) {
                (Some(slot), Some(token)) => Self::Picked(slot, small(token)),
                (_, token) => Self::Granted(token.map(small)),
            },
            Ok(Reply::Denied(_)) => Self::Denied,
            Err(_) => Self::Refused,
        }
    }

    pub(crate) fn tell(self) -> String {
        match self {
            Self::Granted(Some(counter)) => format!("granted, the counter is {counter}"),
            Self::Granted(None) => "done".into(),
            Self::Picked(slot, counter) => format!("slot {slot}, the counter is {counter}"),
            Self::Denied => "denied".into(),
            Self::Refused => "refused, it is not in that state".into(),
            Self::Unknown => "nothing".into(),
        }
    }

    pub(crate) fn reply(self) -> Result<Reply, Failure> {
        match self {
            Self::Granted(counter) => {
                let token = counter.map(|counter| FencingToken::new(u64::from(counter)));
                Ok(Reply::Granted(Granted::from(token)))
            }
            Self::Picked(slot, counter) => {
                let token = FencingToken::new(u64::from(counter));
                Ok(Reply::Granted(Granted::at(token).in_slot(slot)))
            }
            Self::Denied => Ok(Reply::Denied(Denial::new(None, None))),
            Self::Refused => Err(Failure::new(false, Cause::Outdated)),
            Self::Unknown => Err(Failure::TIMED_OUT),
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    store: NodeStore,
    /// By how much its clock has stepped, in ticks.
    pub(crate) ahead: u8,
    /// What each owner has, alone or with others, by the bits of the keys.
    held: [u8; OWNERS],
    /// When the first key ends, by its own clock.
    pub(crate) until: Option<Timestamp>,
    pub(crate) is_shared: bool,
    marker: Marker,
}

impl Node {
    /// A node that votes, with this counter of every resource.
    pub(crate) fn new(counter: u16) -> Self {
        Self::of(counting(u64::from(counter)))
    }

    fn of(store: NodeStore) -> Self {
        let marker = store.marker();
        Self { store, ahead: 0, held: [0; OWNERS], until: None, is_shared: false, marker }
    }

    fn refresh(&mut self, now: Timestamp) {
        let keys = self.store.keys(now).values();
        self.until = keys.clone().filter_map(|key| key.expires).min();
        self.is_shared =
            keys.into_iter().any(|key| key.value == crate::protocol::KeyHolder::SHARED);
        for (number, held) in (0..).zip(&mut self.held) {
            let has = |key: &usize| self.store.holds(&resource(*key), owner(number), now);
            *held = (0..KEYS).filter(has).fold(0, |keys, key| keys | 1 << key);
        }
        self.marker = self.store.marker();
    }

    pub(crate) fn execute(&mut self, command: Command, now: Timestamp) -> Said {
        let (reply, _) = self.store.execute(command, now, WALL, &|_| true);
        self.refresh(now);
        Said::of(reply)
    }

    /// What has ended by its clock is gone.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.refresh(now);
    }

    /// It has restarted with nothing, and votes no more until it is let in.
    pub(crate) fn forget(&mut self) {
        let life = (self.marker.epoch >> 32) + 1;
        *self = Self { ahead: self.ahead, ..Self::of(NodeStore::in_life(life)) };
    }

    pub(crate) fn join(&mut self, join: Join, now: Timestamp) -> Marker {
        let told = self.store.join(join, now);
        self.refresh(now);
        told
    }

    pub(crate) fn admit(&mut self, epoch: u64, floor: Floor, now: Timestamp) -> bool {
        let was = self.store.admit(epoch, floor, WALL);
        self.refresh(now);
        was
    }

    /// The keys that this owner has, alone or with others, by their bits.
    pub(crate) fn keys_of(&self, number: u8) -> u8 {
        self.held[usize::from(number)]
    }

    /// Whether this owner has a key.
    pub(crate) fn is_of(&self, number: u8) -> bool {
        self.keys_of(number) != 0
    }

    pub(crate) fn votes(&self) -> bool {
        self.marker.ready
    }

    pub(crate) fn mark(&self) -> EpochMark {
        self.marker.mark()
    }

    /// It votes, and has not always done so.
    pub(crate) fn was_let_in(&self) -> bool {
        self.votes() && self.marker.epoch > 1
    }
}

/// All nodes of a world, and what each did when it was asked something.
pub(crate) struct Nodes<A> {
    pool: Pool<Node>,
    done: HashMap<(u32, A), (u32, Said), BuildHasherDefault<Mixer>>,
}

impl<A: Eq + Hash> Nodes<A> {
    pub(crate) fn new() -> Self {
        Self { pool: Pool::new(), done: HashMap::default() }
    }

    pub(crate) fn number(&mut self, node: &Part<Node>) -> u32 {
        self.pool.number(node)
    }

    pub(crate) fn part(&self, number: u32) -> Part<Node> {
        self.pool.part(number)
    }

    /// The node does what it is asked.
    pub(crate) fn ask(
        &mut self,
        node: &mut Part<Node>,
        asked: A,
        does: impl FnOnce(&mut Node) -> Said,
    ) -> Said {
        let from = self.pool.number(node);
        let asked = (from, asked);
        if let Some((number, said)) = self.done.get(&asked) {
            *node = self.pool.part(*number);
            return *said;
        }
        let said = does(node.edit());
        let number = self.pool.number(node);
        *node = self.pool.part(number);
        self.done.insert(asked, (number, said));
        said
    }
}
