//! The lines of a node: which clients are let in, wait, or are woken when a key is given back.
//!
//! It decides in which lines an acquire stands, also for several resources or a slot. Each line's own decisions are
//! [`WaitList`]'s.

use alloc::{collections::BTreeMap, vec::Vec};
use core::slice;

use super::{NodeRefusal, NodeStore, Telling, Wanted, votes::which};
use crate::{
    command::{Command, Denial, Reply},
    line::{LineNews, Stand, WaitList},
    resource::Resource,
    slots::Slots,
    target::Target,
    time::Timestamp,
};

impl NodeStore {
    /// Lets `look` see the line of a resource, and drops the line if it is empty then.
    pub(super) fn in_line<T>(
        &mut self,
        resource: &Resource,
        now: Timestamp,
        news: &mut Telling<'_>,
        look: impl FnOnce(&mut WaitList, &mut LineNews<'_>) -> T,
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

    /// All lines. A change made here counts as another program's.
    pub const fn lines(&mut self) -> &mut BTreeMap<Resource, WaitList> {
        &mut self.lines
    }

    /// The line of a resource, if it has one.
    pub fn line(&self, resource: &Resource) -> Option<&WaitList> {
        self.lines.get(resource)
    }

    /// An acquire of any kind, where there are lines.
    pub(super) fn acquire_in_line(
        &mut self,
        command: Command,
        clock: (Timestamp, u64),
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeRefusal> {
        let Command::Acquire { target, owner, ttl, hint, count, first, note, stand, .. } = command
        else {
            return Ok(Reply::Denied(Denial::default()));
        };
        let hint = hint.unwrap_or_default();
        match &target {
            Target::AnyOf(slots) => {
                self.acquire_any((slots, first), (owner, ttl, note, hint), stand, clock, news)
            }
            Target::Shared(resource) | Target::Downgraded(resource) => {
                self.read((resource, owner, ttl), hint, stand, clock, news)
            }
            _ => {
                let key = (target.resources(), owner, ttl, note);
                self.acquire_all(key, (hint, count), stand, clock, news)
            }
        }
    }

    fn acquire_all(
        &mut self,
        key: Wanted<'_>,
        (hint, count): (u64, u64),
        stand: Option<Stand>,
        (now, wall_us): (Timestamp, u64),
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeRefusal> {
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
                    // Another key that stands: the longest-lived, or else the first.
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

    /// Keys of a target are gone, or have a new end: the next waiters are woken.
    pub(super) fn wake(
        &mut self,
        target: &Target,
        freed: &[Resource],
        now: Timestamp,
        news: &mut Telling<'_>,
    ) {
        // Where two slots of one owner were freed, their line is woken once.
        let mut woken: Vec<Resource> = Vec::new();
        for resource in freed {
            // Slots have one line for all, and each its own.
            let slots = Slots::line_of(resource).filter(|_| target.len() == 1);
            let is_own = target.lines().len() > 1 || slots.is_some();
            let line = if is_own { resource } else { first(target) };
            for line in [Some(line), slots.as_ref()].into_iter().flatten() {
                if !woken.contains(line) {
                    self.in_line(line, now, news, |line, news| line.release(now, news));
                    woken.push(line.clone());
                }
            }
        }
    }
}

/// The line of a target that has one.
fn first(target: &Target) -> &Resource {
    target.lines().first().unwrap_or_else(|| target.resource())
}

/// The clock that orders the waiters.
pub(super) fn clock_us(now: Timestamp) -> u64 {
    u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX)
}
