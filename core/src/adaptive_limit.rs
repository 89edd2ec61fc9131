//! The limit on rounds under way at once, adapted to how fast nodes answer.
//!
//! It decides from numbers that it is given. It reads no clock, and holds no round back itself; `concurrency` does.
//!
//! A round is slow because of the network, whatever the load, or because of the rounds under way before it. Only the
//! second is a reason to have fewer. So the limit remembers the round trip without load, and takes the time beyond it
//! as the queueing delay. While that delay is small beside what the node timeout leaves, the limit grows. When it is
//! large, or no quorum answers in time, the limit shrinks. This is the additive increase and multiplicative decrease of
//! TCP (RFC 5681), with the delay as the signal (as in RFC 6817).

use core::time::Duration;

use super::time::Timestamp;

/// The limit never shrinks below this, so that rounds always go on.
const FEWEST: usize = 32;
/// The first limit: few enough that a slow machine answers them in time.
const FIRST: usize = 64;
/// The largest limit. The node's own limit is above it, with room for abandoned rounds.
const MOST: usize = 2048;

/// An adaptive limit on the rounds under way.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct AdaptiveLimit {
    node_timeout: Duration,
    limit: usize,
    /// The shortest round trip, by which the network is told from the load.
    base: Option<Duration>,
    /// Rounds that were fast enough since the limit last grew.
    credit: usize,
    /// Slow start: the limit doubles with every round trip until it is too large for the first time.
    opening: bool,
    /// When the limit last shrank. A round that began before that says nothing of the new size.
    shrunk: Timestamp,
}

impl AdaptiveLimit {
    /// For rounds whose commands are answered within `node_timeout`, or never.
    pub(super) const fn new(node_timeout: Duration) -> Self {
        Self {
            node_timeout,
            limit: FIRST,
            base: None,
            credit: 0,
            opening: true,
            shrunk: Timestamp::ORIGIN,
        }
    }

    /// Whether a late round may be a sign of overload with this many rounds under way.
    pub(super) const fn is_crowd(under_way: usize) -> bool {
        under_way >= FEWEST
    }

    /// The most rounds that may be under way.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Takes note that a quorum answered a round that was `begun` then; `under_way` counts that round too.
    pub(super) fn handle_answer(&mut self, begun: Timestamp, now: Timestamp, under_way: usize) {
        let took = now.saturating_since(begun);
        let base = self.base.map_or(took, |base| {
            // With so few under way, the network is slow, or other programs keep the machine busy.
            if under_way <= FEWEST { base * 7 / 8 + took / 8 } else { base.min(took) }
        });
        self.base = Some(base);
        let (waited, left) = (took.saturating_sub(base), self.node_timeout.saturating_sub(base));
        if waited > left / 2 {
            self.shrink(begun, now, 3);
        } else if waited > left / 4 {
            self.opening = false;
        // With more than half of the limit free, fast rounds say nothing of the limit.
        } else if under_way.saturating_mul(2) >= self.limit {
            self.grow();
        }
    }

    /// Takes note that no quorum answered in time a round that was `begun` then.
    pub(super) fn handle_timeout(&mut self, begun: Timestamp, now: Timestamp) {
        self.shrink(begun, now, 2);
    }

    fn grow(&mut self) {
        // Grows by one a round while opening, and later by one for `limit` rounds, which is one round trip.
        self.credit = self.credit.saturating_add(1);
        if self.opening || self.credit >= self.limit {
            self.credit = 0;
            self.limit = self.limit.saturating_add(1).min(MOST);
        }
    }

    /// Cuts the limit to this many quarters, once for all rounds that were under way together.
    fn shrink(&mut self, begun: Timestamp, now: Timestamp, quarters: usize) {
        // A round that began before the last cut was slowed by the old size.
        if begun >= self.shrunk {
            self.limit = (self.limit.saturating_mul(quarters) / 4).max(FEWEST);
            self.shrunk = now;
            (self.credit, self.opening) = (0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(ms))
    }

    fn adaptive() -> AdaptiveLimit {
        AdaptiveLimit::new(100 * MS)
    }

    /// A round trip in which the limit is full.
    fn full_round_trip(limit: &mut AdaptiveLimit, begun: u64, took: u64) {
        for _ in 0..limit.limit() {
            limit.handle_answer(at(begun), at(begun + took), limit.limit());
        }
    }

    #[test]
    fn it_doubles_with_every_fast_round_trip_and_ends_somewhere() {
        let mut limit = adaptive();
        full_round_trip(&mut limit, 0, 1);
        assert_eq!(limit.limit(), 2 * FIRST);
        full_round_trip(&mut limit, 1, 2);
        assert_eq!(limit.limit(), 4 * FIRST, "256 tasks are not held back for long");
        for round in 0..10 {
            full_round_trip(&mut limit, 3 + round, 1);
        }
        assert_eq!(limit.limit(), MOST);
    }

    #[test]
    fn as_many_as_the_smallest_window_are_a_crowd() {
        assert!(!AdaptiveLimit::is_crowd(FEWEST - 1));
        assert!(AdaptiveLimit::is_crowd(FEWEST));
    }

    #[test]
    fn an_eighth_of_each_round_trip_is_learnt_while_few_are_under_way() {
        let mut limit = adaptive();
        limit.handle_answer(at(0), at(8), FEWEST);
        limit.handle_answer(at(8), at(24), FEWEST);
        assert_eq!(limit.base, Some(9 * MS));
        limit.handle_answer(at(24), at(84), FEWEST + 1);
        assert_eq!(limit.base, Some(9 * MS), "with more under way, only the shortest counts");
        limit.handle_answer(at(84), at(85), FEWEST + 1);
        assert_eq!(limit.base, Some(MS));
    }

    #[test]
    fn it_shrinks_above_half_of_what_is_left_and_grows_up_to_a_quarter() {
        // The network takes 20 ms, which leaves 80 ms of the node timeout.
        let after = |took: u64| {
            let mut limit = adaptive();
            limit.handle_answer(at(0), at(20), 1);
            limit.handle_answer(at(100), at(100 + took), FIRST);
            (limit.limit(), limit.opening)
        };
        assert_eq!(after(40), (FIRST + 1, true));
        assert_eq!(after(41), (FIRST, false));
        assert_eq!(after(60), (FIRST, false));
        assert_eq!(after(61), (FIRST * 3 / 4, false));
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_used() {
        let mut limit = adaptive();
        for round in 0..1000 {
            limit.handle_answer(at(round), at(round + 1), FIRST / 2 - 1);
        }
        assert_eq!(limit.limit(), FIRST);
        limit.handle_answer(at(1000), at(1001), FIRST / 2);
        assert_eq!(limit.limit(), FIRST + 1, "half of it is enough");
    }

    #[test]
    fn slow_rounds_that_were_under_way_together_shrink_it_once() {
        let mut limit = adaptive();
        full_round_trip(&mut limit, 0, 1);
        assert_eq!(limit.limit(), 128);
        full_round_trip(&mut limit, 1, 60);
        assert_eq!(limit.limit(), 96);
        // Begun after it had shrunk.
        full_round_trip(&mut limit, 61, 60);
        assert_eq!(limit.limit(), 72);
    }

    #[test]
    fn a_quorum_that_does_not_answer_halves_it_down_to_the_fewest() {
        let mut limit = adaptive();
        for round in 0..10 {
            for _ in 0..50 {
                limit.handle_timeout(at(100 * round), at(100 * round + 100));
            }
            let expected = (FIRST >> (round + 1)).max(FEWEST);
            assert_eq!(limit.limit(), expected);
        }
    }

    #[test]
    fn in_between_it_stays_and_afterwards_it_grows_by_one_in_a_round_trip() {
        let mut limit = adaptive();
        limit.handle_answer(at(0), at(1), 1);
        full_round_trip(&mut limit, 1, 40);
        assert_eq!(limit.limit(), FIRST);
        full_round_trip(&mut limit, 41, 5);
        assert_eq!(limit.limit(), FIRST + 1);
    }

    #[test]
    fn a_slow_network_is_no_load() {
        let mut limit = adaptive();
        for round in 0..5 {
            full_round_trip(&mut limit, 100 * round, 90);
        }
        assert!(limit.limit() > FIRST, "{}", limit.limit());
    }

    #[test]
    fn a_network_that_becomes_slow_is_learnt_at_the_smallest_size() {
        let mut limit = adaptive();
        limit.handle_answer(at(0), at(1), 1);
        let mut now = 1;
        for _ in 0..60 {
            full_round_trip(&mut limit, now, 90);
            now += 90;
        }
        assert!(limit.limit() > FIRST / 2, "{}", limit.limit());
    }
}
