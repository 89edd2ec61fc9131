//! The marker of a node: whether it may vote, in which epoch, and what clients have told it.
//!
//! It decides as the scripts of the Redis node do. It must never become ready except by an admission in its own epoch.

use core::time::Duration;

use super::{HINT_AHEAD_US, NodeStore};
use crate::{
    admission::{Errand, Floor, Join, Marker},
    time::Timestamp,
    validity,
};

impl NodeStore {
    /// Reads the marker, and raises the longest ttl.
    pub fn join(&mut self, join: Join, now: Timestamp) -> Marker {
        let (max_ttl, watches) = self.raise_max_ttl(join);
        if (self.ready || join.lost) && join.force == Some(self.epoch) {
            self.ready = false;
            self.epoch = self.epoch.max(join.after);
            self.begin_epoch();
            self.kept = !join.lost;
            if join.lost {
                // The counters go, as on a server: the node counts on from the floor of its admission.
                self.fences.clear();
            }
        }
        if !self.ready {
            let passed = now.saturating_since(*self.joined.get_or_insert(now));
            if let Some((_, waited)) = join.waited.filter(|(epoch, _)| *epoch == self.epoch) {
                let told = validity::whole_millis(waited.min(passed));
                self.waited = self.waited.max(Duration::from_millis(told));
            }
        }
        // This is about one wait: a late look, of another epoch, says nothing.
        let is_of_now = join.waited.is_some_and(|(epoch, _)| epoch == self.epoch);
        self.orphaned |= join.orphaned && !self.ready && is_of_now;
        if self.ready && (join.seal || watches) {
            self.seal = self.seal.saturating_add(1);
        }
        Marker { max_ttl, ..self.marker() }
    }

    /// The marker, read without a change.
    pub fn marker(&self) -> Marker {
        let marker = Marker::new(self.ready, self.max_ttl, self.high_water).above(self.floor);
        let marker = marker.in_epoch(self.epoch).sealed(self.seal).waited(self.waited);
        marker.kept(self.kept).orphaned(self.orphaned)
    }

    /// Returns the longest ttl known before, for the answer, and whether a watch over it has begun.
    fn raise_max_ttl(&mut self, join: Join) -> (Duration, bool) {
        let watch = self.max_ttl_seen.map(|(number, _)| number);
        let begins =
            matches!(join.errand, Some(Errand::WatchMaxTtl(number)) if watch != Some(number));
        if let Some(Errand::WatchMaxTtl(number)) = join.errand.filter(|_| begins) {
            self.max_ttl_seen = Some((number, Duration::ZERO));
        }
        if let Some((_, seen)) = &mut self.max_ttl_seen {
            *seen = (*seen).max(join.max_ttl);
        }
        if let Some(Errand::LowerMaxTtl(number)) = join.errand
            && let Some((_, seen)) = self.max_ttl_seen.take_if(|(watch, _)| *watch == number)
        {
            self.max_ttl = seen;
        }
        let known = self.max_ttl;
        self.max_ttl = known.max(join.max_ttl);
        (known, begins)
    }

    pub(super) fn begin_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        (self.seal, self.kept, self.orphaned) = (0, false, false);
        (self.waited, self.joined) = (Duration::ZERO, None);
    }

    /// Lets the node vote.
    pub fn admit(&mut self, epoch: u64, floor: Floor, wall_us: u64) -> bool {
        let joining = !self.ready && self.epoch == epoch;
        if joining {
            // A wall clock from a broken machine must not push the counters to their end.
            let wall = floor.wall_us.min(wall_us.saturating_add(2 * HINT_AHEAD_US));
            self.floor = self.floor.max(floor.known).max(wall).max(self.high_water);
            self.ready = true;
            self.begin_epoch();
        }
        joining
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, EpochMark, FencingToken, Owner, Reply, Resource, Target};

    const SECOND: Duration = Duration::from_secs(1);
    const LOOK: Join = Join::look(SECOND);
    const START: Timestamp = Timestamp::ORIGIN;

    fn told(store: &mut NodeStore, epoch: u64, waited: Duration) -> Duration {
        let late = START.saturating_add(100 * SECOND);
        store.join(LOOK.waited(Some((epoch, waited))), late).waited
    }

    #[test]
    fn it_keeps_the_longest_wait_that_it_was_told_of_in_its_epoch() {
        let mut store = NodeStore::in_life(1);
        let epoch = store.join(LOOK, START).epoch;
        for (tells, kept) in [(0, 0), (2, 2), (1, 2), (5, 5)] {
            assert_eq!(told(&mut store, epoch, tells * SECOND), kept * SECOND);
            assert_eq!(told(&mut store, epoch + 1, 60 * SECOND), kept * SECOND, "of another epoch");
        }
        assert_eq!(told(&mut store, epoch, Duration::from_micros(5_999_999)).as_millis(), 5_999);
        let soon = START.saturating_add(6 * SECOND);
        let all = store.join(LOOK.waited(Some((epoch, 60 * SECOND))), soon).waited;
        assert_eq!(all, 6 * SECOND, "no longer than its own clock says");
        assert!(store.admit(epoch, Floor::default(), 0));
        let ready = store.join(LOOK, START);
        assert_eq!(told(&mut store, ready.epoch, 60 * SECOND), Duration::ZERO, "it is ready");
        let again = store.join(LOOK.force(Some(ready.epoch)), START);
        assert!(!again.ready && again.kept && again.waited.is_zero());
        assert_eq!(NodeStore::in_life(2).join(LOOK, START).waited, Duration::ZERO);
    }

    #[test]
    fn one_whose_clock_went_back_cuts_what_that_prolongs_once_it_is_admitted_and_counts_on() {
        let (resource, clock) = (Resource::new("r").unwrap(), 10_000 * SECOND);
        let acquire = |store: &mut NodeStore, owner: u8, hint, now| {
            let (mark, ttl) = (EpochMark::new(store.epoch, store.seal), SECOND);
            let one = resource.clone();
            // An owner with an even number reads.
            let target =
                if owner.is_multiple_of(2) { Target::Shared(one) } else { Target::One(one) };
            let (hint, note, stand) = (Some(hint), None, None);
            let owner = Owner::from_random([owner; 16]);
            let command = Command::Acquire {
                target,
                owner,
                ttl,
                hint,
                count: 1,
                first: 0,
                mark,
                note,
                stand,
            };
            store.execute(command, now, 1_000_000, &|_| false).0.unwrap()
        };
        for (lost, asks) in [(false, 5), (false, 2), (true, 5), (true, 2)] {
            let mut store = NodeStore::new();
            store.join(LOOK, START);
            let late = START.saturating_add(clock);
            assert!(matches!(acquire(&mut store, 1, 500, late), Reply::Granted(_)));
            // The clock goes back, and a client notices.
            let epoch = store.epoch;
            let join = LOOK.force(Some(epoch));
            let joining = store.join(if lost { join.lost() } else { join }, START);
            assert!(store.admit(joining.epoch, Floor { known: 700, wall_us: 0 }, 0));
            let Reply::Denied(denial) = acquire(&mut store, asks, 0, START) else { panic!("held") };
            // A node that has lost its data no longer knows whose key it is.
            let ends = if lost { clock + SECOND } else { SECOND };
            assert_eq!(denial.remaining, Some(ends));
            let free = START.saturating_add(ends);
            let Reply::Granted(granted) = acquire(&mut store, 3, 0, free) else { panic!("free") };
            assert_eq!(granted.token.map(FencingToken::get), Some(if lost { 701 } else { 501 }));
        }
    }

    #[test]
    fn one_that_is_joining_begins_anew_if_its_data_went_back_and_for_no_other_reason() {
        let mut store = NodeStore::in_life(1);
        let epoch = store.join(LOOK, START).epoch;
        assert_eq!(told(&mut store, epoch, SECOND), SECOND);
        for join in [LOOK.force(Some(epoch)), LOOK.force(Some(epoch + 1)).lost()] {
            assert_eq!(store.join(join, START).epoch, epoch);
        }
        let again = store.join(LOOK.force(Some(epoch)).lost().after(epoch + 40), START);
        assert!(!again.ready && again.epoch > epoch + 40 && again.waited.is_zero());
        assert!(
            !store.admit(epoch, Floor::default(), 0),
            "a client that has waited before comes late"
        );
    }
}
