//! Goal: a node is blamed for a jump of its clock if and only if it was that clock.
//!
//! Method: true time, an own clock that lags behind it in any way, and nodes whose clocks run steadily but for one
//! that is stepped. They are read at random, and all together every ten seconds, as the driver does; after a
//! reading that shows a jump all are looked at twice, and it is judged.

use std::time::Duration;

use proptest::prelude::*;
use quorlock::protocol::{Blame, Clocks, NodeClock, NodeId, Quorum, Timestamp, Witness};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// The nodes' clocks show something else than ours.
const THERE: i128 = 1_000_000_000_000_000;

/// Times are in microseconds.
struct World {
    now: u64,
    /// From when on our own clock runs at so many per mille.
    rates: Vec<(u64, u64)>,
    nodes: Vec<There>,
    clocks: Clocks,
    looked: u64,
    verdicts: Vec<(usize, Blame)>,
    /// After the node has been read in the next look, our own clock stands still for so long.
    stall_after: Option<(usize, u64)>,
    /// So long a reply waits on our side.
    waits: u64,
    /// What the time for a command and its reply is drawn from.
    noise: u64,
}

struct There {
    clock: NodeClock,
    suspected: bool,
    parts_per_million: i128,
    steps: Vec<(u64, i128)>,
    up: bool,
}

impl World {
    fn new(rates_of_nodes: &[i128]) -> Self {
        Self::whose_first_replies_wait(rates_of_nodes, 0)
    }

    fn whose_first_replies_wait(rates_of_nodes: &[i128], waits: u64) -> Self {
        let node = |parts_per_million: &i128| There {
            clock: NodeClock::default(),
            suspected: false,
            parts_per_million: *parts_per_million,
            steps: Vec::new(),
            up: true,
        };
        let nodes: Vec<There> = rates_of_nodes.iter().map(node).collect();
        let clocks = Clocks::new(Quorum::of(nodes.len()));
        let (rates, verdicts) = (vec![(0, 1000)], Vec::new());
        let mut world = Self {
            now: 1,
            rates,
            nodes,
            clocks,
            looked: 0,
            verdicts,
            stall_after: None,
            waits,
            noise: 7,
        };
        world.look();
        world.waits = 0;
        world
    }

    fn ours(&self, at: u64) -> Timestamp {
        let ends = self.rates.iter().skip(1).map(|(from, _)| *from).chain([u64::MAX]);
        let passed =
            self.rates.iter().zip(ends).map(|((from, per_mille), end)| {
                at.min(end).saturating_sub(*from) * per_mille / 1000
            });
        Timestamp::from_origin(Duration::from_micros(passed.sum()))
    }

    fn stall(&mut self, stall: u64) {
        self.rates.push((self.now, 0));
        self.now += stall;
        self.rates.push((self.now, 1000));
    }

    fn step(&mut self, node: usize, by: i128) {
        let at = self.now;
        self.nodes[node].steps.push((at, by));
    }

    fn read(&mut self, node: usize) {
        let mut passes = || {
            self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.noise >> 40) % MS
        };
        let (there, back) = (passes(), passes());
        let (sent, executed) = (self.now, self.now + there);
        let arrived = executed + back + self.waits;
        let (sent, back) = (self.ours(sent), self.ours(arrived));
        let there = &mut self.nodes[node];
        let steps = there.steps.iter().filter(|(at, _)| *at <= executed).map(|(_, by)| by);
        let passed = i128::from(executed);
        let shows = THERE + passed + passed * there.parts_per_million / 1_000_000;
        let shows = shows + steps.sum::<i128>();
        if !there.clock.handle_reading(sent, back, u64::try_from(shows).unwrap()) {
            there.suspected = true;
        }
        self.now = arrived;
    }

    /// Reads all, one after the other, which takes longer than together.
    fn look(&mut self) -> Vec<Option<NodeClock>> {
        let since = self.ours(self.now);
        for node in 0..self.nodes.len() {
            if self.nodes[node].up {
                self.read(node);
            }
            if let Some((_, stall)) = self.stall_after.take_if(|(after, _)| *after == node) {
                self.stall(stall);
            }
        }
        let clocks: Vec<_> = self.nodes.iter().map(|node| Some(node.clock)).collect();
        if !self.nodes.iter().any(|node| node.suspected) {
            self.looked = self.now;
            self.clocks.handle_look(since, &clocks);
        }
        clocks
    }

    fn judge(&mut self) {
        let suspects = |world: &Self| -> Vec<(bool, u64)> {
            world.nodes.iter().map(|node| (node.suspected, node.clock.series())).collect()
        };
        while self.nodes.iter().any(|node| node.suspected) {
            let before = suspects(self);
            let (clocks, _) = (self.look(), self.look());
            if suspects(self) != before {
                continue;
            }
            let witness = |(index, node): (usize, &There)| {
                Witness::new(node.suspected, node.up, clocks[index])
            };
            let witnesses: Vec<_> = self.nodes.iter().enumerate().map(witness).collect();
            let verdicts = self.clocks.judge(&witnesses);
            let told =
                verdicts.iter().enumerate().filter_map(|(node, blame)| Some((node, (*blame)?)));
            self.verdicts.extend(told);
            let mut undecided = false;
            for (node, verdict) in self.nodes.iter_mut().zip(verdicts) {
                undecided |= verdict == Some(Blame::Undecided);
                node.suspected &= verdict == Some(Blame::Undecided);
            }
            if undecided {
                return;
            }
        }
    }

    /// Lets time pass, in which the node is read every `every`, and all of them every ten seconds of ours.
    fn pass(&mut self, time: u64, node: usize, every: u64) {
        let until = self.now + time;
        while self.now < until {
            let (now, looked) = (self.ours(self.now), self.ours(self.looked));
            if now.saturating_since(looked) >= Duration::from_secs(10) {
                self.look();
            } else if self.nodes[node].up {
                self.read(node);
            }
            self.judge();
            self.now += every;
        }
    }

    fn blamed(&self) -> Vec<usize> {
        let blamed = |(node, blame): &(usize, Blame)| (*blame == Blame::Node).then_some(*node);
        self.verdicts.iter().filter_map(blamed).collect()
    }
}

/// The clocks of three or five nodes, up to 200 parts per million fast or slow.
fn rates() -> impl Strategy<Value = Vec<i128>> {
    prop_oneof![Just(2), Just(3), Just(5)]
        .prop_flat_map(|nodes| proptest::collection::vec(-200..=200i128, nodes))
}

/// For so long, so many per mille of true time, while that node is read that often.
type Stretch = (u64, u64, usize, u64);

fn stretches(per_mille: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Stretch>> {
    let stretch = (10 * MS..15 * SECOND, per_mille, 0..5usize, 2 * MS..3 * SECOND);
    proptest::collection::vec(stretch, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// It stops, crawls and goes on as it likes.
    #[test]
    fn nobody_is_blamed_for_an_own_clock_that_lags(
        rates in rates(),
        stretches in stretches(prop_oneof![Just(0u64), Just(1000), 300..1000u64]),
    ) {
        let mut world = World::new(&rates);
        for (time, per_mille, node, every) in stretches {
            world.rates.push((world.now, per_mille));
            // A clock that stands still for seconds ends no sleep, but may be read all the same.
            let time = if per_mille == 0 { time / 10 } else { time };
            world.pass(time, node % rates.len(), every);
        }
        prop_assert_eq!(world.blamed(), Vec::<usize>::new(), "{:?}", &world.verdicts);
    }

    #[test]
    fn a_node_whose_clock_is_stepped_is_blamed_and_nobody_else(
        rates in rates(),
        stretches in stretches(Just(1000)),
        stepped in 0..5usize,
        by in prop_oneof![60..400i128, 400..100_000i128],
        back in any::<bool>(),
    ) {
        let mut world = World::new(&rates);
        for (time, _, node, every) in stretches {
            world.pass(time, node % rates.len(), every);
        }
        prop_assert_eq!(&world.verdicts, &vec![]);
        let stepped = stepped % rates.len();
        let by = by * i128::from(MS);
        world.step(stepped, if back { -by } else { by });
        world.look();
        let seen = world.nodes[stepped].suspected;
        world.judge();
        // Older readings hide a little: a tenth of twenty seconds, at the most.
        prop_assert!(seen || by < 2_200_000);
        prop_assert_eq!(world.blamed(), if seen { vec![stepped] } else { vec![] });
    }
}

#[test]
fn a_node_whose_clock_runs_fast_or_slow_or_stops_is_to_blame() {
    for per_million in [200_000, 130_000, -130_000, -200_000, -1_000_000] {
        let mut world = World::new(&[per_million, 100, -100]);
        world.pass(15 * SECOND, 0, 50 * MS);
        assert!(!world.blamed().is_empty(), "{per_million}");
        assert!(world.verdicts.iter().all(|verdict| *verdict == (0, Blame::Node)), "{per_million}");
    }
}

#[test]
fn a_clock_that_has_jumped_there_and_back_is_to_blame() {
    for by in [-3_000_000, 3_000_000] {
        let mut world = World::new(&[0, 0, 0]);
        world.pass(3 * SECOND, 1, SECOND);
        world.step(0, by);
        world.read(0);
        assert!(world.nodes[0].suspected);
        world.step(0, -by);
        world.judge();
        assert_eq!(world.verdicts, [(0, Blame::Node)]);
    }
}

#[test]
fn nodes_that_are_stepped_by_different_amounts_are_to_blame_and_by_the_same_it_was_our_clock() {
    for (steps, blame) in [
        ([2, 6, 12], Blame::Node),
        ([2, 6, 0], Blame::Node),
        ([-2, 6, 0], Blame::Node),
        ([4, 4, 0], Blame::Ours),
    ] {
        let mut world = World::new(&[0, 0, 0]);
        world.pass(5 * SECOND, 1, SECOND);
        steps.iter().enumerate().for_each(|(node, by)| world.step(node, by * 1_000_000));
        world.look();
        world.judge();
        let stepped = steps.iter().filter(|by| **by != 0).count();
        assert_eq!(world.verdicts.len(), stepped, "{steps:?}");
        assert!(
            world.verdicts.iter().all(|(_, verdict)| *verdict == blame),
            "{:?}",
            world.verdicts
        );
    }
}

/// Both at once, and it is told which is which.
#[test]
fn a_step_of_a_node_is_seen_beside_a_stall_of_our_clock() {
    let mut world = World::new(&[0; 5]);
    world.pass(SECOND, 1, SECOND / 10);
    world.step(3, 2_000_000);
    world.stall(SECOND);
    world.look();
    world.judge();
    assert_eq!(world.blamed(), [3]);
    let ours = world.verdicts.iter().filter(|(_, blame)| *blame == Blame::Ours).count();
    assert_eq!(ours, 4);
}

#[test]
fn whose_clock_it_was_is_known_once_the_others_can_be_asked() {
    for stall in [true, false] {
        let mut world = World::new(&[0; 5]);
        world.pass(3 * SECOND, 1, SECOND);
        (2..5).for_each(|node| world.nodes[node].up = false);
        if stall {
            world.stall(SECOND);
        } else {
            (0..2).for_each(|node| world.step(node, 1_000_000));
        }
        world.pass(20 * SECOND, 0, SECOND);
        assert!(!world.verdicts.is_empty());
        assert!(world.verdicts.iter().all(|(_, blame)| *blame == Blame::Undecided));
        (2..5).for_each(|node| world.nodes[node].up = true);
        world.pass(SECOND, 0, SECOND);
        let blame = if stall { Blame::Ours } else { Blame::Node };
        assert_eq!(world.verdicts.last().unwrap().1, blame);
        assert!(world.nodes.iter().all(|node| !node.suspected));
    }
}

/// It has nobody to be compared with, and may not be trusted.
#[test]
fn a_single_node_is_always_to_blame() {
    let mut world = World::new(&[0]);
    world.step(0, 1_000_000);
    world.look();
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Node)]);
}

/// Such as where a vote that was on its way at the jump fails after it has been dealt with.
#[test]
fn a_jump_is_judged_once() {
    let mut world = World::new(&[0; 3]);
    world.step(1, 1_000_000);
    world.look();
    world.judge();
    assert!(world.clocks.has_seen(NodeId::new(1)));
    world.pass(12 * SECOND, 0, SECOND);
    world.nodes[1].suspected = true;
    world.judge();
    assert_eq!(world.verdicts, [(1, Blame::Node); 2]);
}

/// What is compared must have begun no later than the shift in question.
#[test]
fn a_look_at_the_clocks_just_before_hides_no_clock_that_runs_fast() {
    let mut world = World::new(&[130_000, 0, 0]);
    world.now += 1_600 * MS;
    world.look();
    assert!(!world.nodes[0].suspected);
    world.now += 100 * MS;
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Node)]);
}

#[test]
fn a_stall_in_the_middle_of_a_look_blames_nobody() {
    // Of the look that is compared with.
    let mut world = World::new(&[0; 3]);
    world.now += 12 * SECOND;
    world.stall_after = Some((0, 300 * MS));
    world.look();
    world.now += SECOND;
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Ours)]);
    // Of one of those by which it is judged.
    let mut world = World::new(&[0; 3]);
    world.now += 9 * SECOND;
    world.look();
    world.now += 2 * SECOND;
    world.read(0);
    world.stall(400 * MS);
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.stall_after = Some((0, 200 * MS));
    world.judge();
    assert_eq!(world.verdicts.first(), Some(&(0, Blame::Ours)));
    assert_eq!(world.blamed(), []);
}

/// All that is known of the others is less certain than the jump is large.
#[test]
fn readings_that_say_too_little_forgive_nobody() {
    let mut world = World::whose_first_replies_wait(&[0; 3], 8 * SECOND);
    world.now += 11 * SECOND;
    world.read(0);
    world.step(0, 3_000_000);
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Node)]);
}

#[test]
fn a_jump_that_was_our_clocks_hides_none_of_a_node_after_it() {
    let mut world = World::new(&[0; 3]);
    world.now += 11 * SECOND;
    world.read(0);
    world.stall(300 * MS);
    world.read(0);
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Ours)]);
    world.step(0, 60_000);
    world.read(0);
    world.judge();
    assert_eq!(world.verdicts, [(0, Blame::Ours), (0, Blame::Node)]);
}
