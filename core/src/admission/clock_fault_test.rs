//! Which clock is to blame, reading by reading, at the limits where the verdict changes.

use super::*;

const YEARS: i64 = 1_000_000_000_000_000;
const SECOND: i64 = 1_000_000;
const QUARANTINE: Duration = Duration::from_secs(30);

fn at(us: i64) -> Timestamp {
    Timestamp::from_origin(Duration::from_micros(us.unsigned_abs()))
}

/// The node's clock is ahead of ours by `ahead`, or by up to `width` more: the time that the reply took.
fn read(clock: &mut NodeClock, us: i64, ahead: i64, width: i64) {
    let shows = (YEARS + us + ahead).unsigned_abs();
    let _ = clock.handle_reading(at(us - width), at(us), shows);
}

/// Clocks that were all looked at when our own clock showed one second.
struct World {
    clocks: Clocks,
    nodes: Vec<NodeClock>,
}

impl World {
    fn new(nodes: usize) -> Self {
        let clocks = Clocks::new(Quorum::of(nodes));
        let mut world = Self { clocks, nodes: vec![NodeClock::default(); nodes] };
        world.look(SECOND, &vec![(0, 0); nodes]);
        world
    }

    /// Reads the first nodes. Each is ahead by the first number at least, and by the second more at most.
    fn read(&mut self, us: i64, shown: &[(i64, i64)]) {
        for (clock, (ahead, width)) in self.nodes.iter_mut().zip(shown) {
            read(clock, us, *ahead, *width);
        }
    }

    fn look(&mut self, us: i64, shown: &[(i64, i64)]) {
        self.read(us, shown);
        self.take_look(us);
    }

    fn take_look(&mut self, since: i64) {
        let clocks: Vec<Option<NodeClock>> = self.nodes.iter().copied().map(Some).collect();
        self.clocks.handle_look(at(since), &clocks);
    }

    fn judge(
        &mut self,
        suspected: &[usize],
        answered: &[usize],
        us: i64,
    ) -> Vec<Option<ClockFault>> {
        let witness = |(node, clock): (usize, &NodeClock)| {
            Witness::new(suspected.contains(&node), answered.contains(&node), Some(*clock))
        };
        let witnesses: Vec<Witness> = self.nodes.iter().enumerate().map(witness).collect();
        self.clocks.judge(&witnesses, at(us), QUARANTINE)
    }

    /// The verdict on node 0 of three, all of which answer.
    fn of_first(&mut self, us: i64) -> ClockFault {
        self.judge(&[0], &[0, 1, 2], us)[0].unwrap()
    }
}

#[test]
fn others_have_moved_alike_where_they_differ_by_50_ms_and_a_hundredth_of_the_time() {
    for (others, clock_fault) in [
        (940_000, ClockFault::Ours),
        (939_999, ClockFault::Node),
        (1_060_000, ClockFault::Ours),
        (1_060_001, ClockFault::Node),
    ] {
        for sign in [1, -1] {
            let mut world = World::new(3);
            let others = (sign * others, 0);
            world.read(2 * SECOND, &[(sign * SECOND, 0), others, others]);
            assert_eq!(world.of_first(2 * SECOND), clock_fault, "{others:?}");
        }
    }
}

#[test]
fn less_than_25_ms_since_the_look_are_no_shift() {
    for (jumps, clock_fault) in [(24_999, ClockFault::Ours), (25_000, ClockFault::Node)] {
        let mut world = World::new(3);
        world.clocks = Clocks::new(Quorum::of(3));
        world.look(2 * SECOND, &[(150_000, 0), (0, 0), (0, 0)]);
        world.read(2 * SECOND + SECOND / 10, &[(150_000 + jumps, 0), (0, 0), (0, 0)]);
        assert_eq!(world.of_first(3 * SECOND), clock_fault, "{jumps}");
    }
}

/// The node jumps by a second and is slewed back by half of that. By then the others have moved about as far.
#[test]
fn others_have_not_moved_where_it_is_certain_that_it_was_less_than_half_as_much() {
    for (most, clock_fault) in [(500_000, ClockFault::Undecided), (499_999, ClockFault::Node)] {
        let mut world = World::new(3);
        world.read(2 * SECOND, &[(SECOND, 0)]);
        let others = (400_000, most - 400_000);
        world.read(7 * SECOND, &[(500_000, 0), others, others]);
        assert_eq!(world.of_first(7 * SECOND), clock_fault, "{most}");
    }
}

#[test]
fn three_looks_are_kept() {
    for (later, clock_fault) in [(2, ClockFault::Node), (3, ClockFault::Undecided)] {
        let mut world = World::new(3);
        for look in 1..=later {
            // Node 0 does not answer.
            let us = SECOND + 10 * look * SECOND;
            (1..3).for_each(|node| read(&mut world.nodes[node], us, 0, 0));
            world.take_look(us);
        }
        world.read(35 * SECOND, &[(9 * SECOND, 0), (0, 0), (0, 0)]);
        assert_eq!(world.of_first(35 * SECOND), clock_fault, "{later} looks later");
    }
}

#[test]
fn a_look_says_enough_where_it_is_known_to_half_of_the_jump() {
    let mut world = World::new(3);
    world.look(12 * SECOND, &[(0, 0), (0, 900_000), (0, 900_000)]);
    world.read(13 * SECOND, &[(SECOND, 0); 3]);
    assert_eq!(world.of_first(13 * SECOND), ClockFault::Ours, "by the look before");
}

#[test]
fn a_node_that_has_answered_and_is_not_in_question_is_not_undecided_any_more() {
    for (answers, clock_fault) in [(true, ClockFault::Undecided), (false, ClockFault::Nobody)] {
        let mut clocks = Clocks::new(Quorum::of(3));
        let mut judge = |suspected, answered, us| {
            let unheard = Witness::new(false, false, None);
            let witnesses = [Witness::new(suspected, answered, None), unheard, unheard];
            clocks.judge(&witnesses, at(us), QUARANTINE)[0]
        };
        assert_eq!(judge(true, true, 0), Some(ClockFault::Undecided));
        assert_eq!(judge(false, answers, 10 * SECOND), None);
        assert_eq!(judge(true, true, 35 * SECOND), Some(clock_fault), "{answers}");
    }
}

#[test]
fn what_was_seen_before_a_jump_is_kept_until_the_last_of_them_is_decided() {
    let mut world = World::new(5);
    world.read(2 * SECOND, &[(SECOND, 0), (SECOND, 0), (-SECOND, 0)]);
    let undecided = Some(ClockFault::Undecided);
    let verdicts = world.judge(&[0, 1, 2], &[0, 1, 2], 2 * SECOND);
    assert_eq!(verdicts, [undecided, undecided, Some(ClockFault::Node), None, None]);
    (3..5).for_each(|node| read(&mut world.nodes[node], 3 * SECOND, 0, 0));
    let verdicts = world.judge(&[0, 1], &[0, 1, 2, 3, 4], 3 * SECOND);
    assert_eq!(verdicts[..2], [Some(ClockFault::Node); 2]);
}
