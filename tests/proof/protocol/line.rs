//! One client that waits in the lines on the nodes: what its rounds say, and when they begin.
//!
//! Goal: T1 to T7, each by name. Method: answers, hints and times in, the stand of a round and the time of the next
//! one out. What comes of many such clients and nodes together is in `tests/proof/line`.

use quorlock_core::{ClientId, LineAnswer, LineHint, Patience, Stand, Ticket, Waiter};

use super::*;

const MS: Duration = Duration::from_millis(1);
const ME: ClientId = ClientId::new([5; 8]);
const OTHER: ClientId = ClientId::new([6; 8]);
const THIRD: ClientId = ClientId::new([7; 8]);
const STAND_BY: LineHint = LineHint::StandBy { head: OTHER };

/// Held by one holder, for a minute, as seen by a node at this time; so many stand before.
fn held_at(clock: u64, rank: u32) -> Denial {
    let holder = Some(b"other".as_slice().into());
    Denial::new(holder, Some(Duration::from_secs(60))).in_line(clock, Some(rank))
}

fn held(rank: u32) -> Denial {
    held_at(1_000, rank)
}

fn behind(head: ClientId) -> Denial {
    Denial::behind(head).in_line(1_000, Some(1))
}

struct World(Waiter);

impl World {
    fn new(nodes: usize) -> Self {
        Self(Waiter::new(ME, Quorum::of(nodes)))
    }

    /// One of five nodes that stands in the line, in its second round, before which nobody stands.
    fn standing() -> Self {
        let mut world = Self::new(5);
        world.0.begin_round(at(0));
        assert_eq!(world.lost(&[held(0), held(0), held(0)], 1), Some(at(1)));
        world.0.begin_round(at(1));
        world
    }

    /// The same, waiting since 2 ms.
    fn waiting() -> Self {
        let mut world = Self::standing();
        assert_eq!(world.lost(&[held(0), held(0), held(0)], 2), Some(at(1_002)));
        world
    }

    /// The round is lost by these denials of the first nodes.
    fn lost(&mut self, denials: &[Denial], millis: u64) -> Option<Timestamp> {
        let answers = denials.iter().map(LineAnswer::Denied).enumerate();
        self.answered(answers, millis, 0)
    }

    fn answered<'a>(
        &mut self,
        answers: impl Iterator<Item = (usize, LineAnswer<'a>)>,
        millis: u64,
        random: u8,
    ) -> Option<Timestamp> {
        let answers = answers.map(|(index, answer)| (node(index), answer));
        self.0.handle_lost_round(answers, &[], None, random, at(millis))
    }

    fn told(&mut self, nodes: impl IntoIterator<Item = usize>, hint: LineHint, millis: u64) {
        for index in nodes {
            self.0.handle_hint(node(index), hint, at(millis));
        }
    }

    fn next(&self) -> Timestamp {
        self.0.next_round(at(2))
    }
}

#[test]
fn t1_the_ticket_is_the_median_of_the_nodes_clocks_and_stays() {
    let mut world = World::new(5);
    assert_eq!(world.0.begin_round(at(0)), Stand::named(ME));
    let denials = [held_at(900, 0), held_at(5_000_000, 0), held_at(1_100, 0)];
    assert_eq!(world.lost(&denials, 1), Some(at(1)), "it stands there at once");
    world.0.handle_late_answer(node(3), LineAnswer::Denied(&held(0)), at(1));
    assert_eq!(world.next(), at(1), "whatever else is heard");
    let stand = Stand::with(ME, Ticket::new(1_100));
    assert_eq!(world.0.begin_round(at(1)), stand);
    for (round, clock) in [(2, 7), (1_500, 9_000_000)] {
        world.lost(&[held_at(clock, 0), held_at(clock, 0), held_at(clock, 0)], round);
        assert_eq!(world.0.begin_round(at(round + 1)), stand);
    }
    world.0.stand(&[Some(3); 5]);
    assert_eq!(world.0.begin_round(at(9_000)), stand);
}

#[test]
fn t1_clocks_that_are_known_count_so_that_it_does_not_matter_who_answers_first() {
    // Seconds apart. The nodes that have answered tell the time by themselves; one that fails counts for nobody.
    let clocks = [10, 20, 30, 40, 50].map(|seconds| Some(seconds * 1_000_000));
    let ticket = |heard: [usize; 3], failed: &[usize]| {
        let mut world = World::new(5);
        world.0.begin_round(at(0));
        let denials = heard.map(|index| (index, held_at(clocks[index].unwrap() + 7, 0)));
        let heard = denials.iter().map(|(index, denial)| (*index, LineAnswer::Denied(denial)));
        let failed = failed.iter().map(|index| (*index, LineAnswer::Failed));
        let answers = heard.chain(failed).map(|(index, answer)| (node(index), answer));
        world.0.handle_lost_round(answers, &clocks, None, 0, at(1));
        world.0.begin_round(at(1)).ticket.unwrap().get() / 1_000_000
    };
    assert_eq!([ticket([0, 1, 2], &[]), ticket([2, 3, 4], &[]), ticket([0, 3, 4], &[])], [30; 3]);
    assert_eq!([ticket([0, 1, 2], &[4]), ticket([1, 2, 3], &[4])], [20; 2], "the downgrade of two");
}

#[test]
fn t1_where_the_nodes_clocks_are_set_back_it_goes_back_as_far_and_those_who_wait_keep_their_order()
{
    const HOUR: u64 = 3_600_000_000;
    let us = |millis: u64| HOUR + 1_000 * millis;
    let ticket = |came: u64, asks: u64, set_back: u64| {
        let mut world = World::new(5);
        world.0.begin_round(at(came - 1));
        world.lost(&[held_at(us(came), 0), held_at(us(came), 0), held_at(us(came), 0)], came);
        world.0.begin_round(at(came));
        let clock = us(asks) - set_back;
        world.lost(&[held_at(clock, 0), held_at(clock, 0), held_at(clock, 0)], asks);
        world.0.begin_round(at(asks + 1)).ticket.unwrap().get()
    };
    // They ask in another order than they came in.
    let (first, second) = (ticket(10, 1_300, HOUR), ticket(20, 1_020, HOUR));
    assert_eq!((first, second), (us(10) - HOUR, us(20) - HOUR));
    assert_eq!([100_000, 100_001].map(|by| ticket(10, 10, by)), [us(10), us(10) - 100_001]);
    // By little, it stays; and by the clocks of a minority it is not judged.
    assert_eq!(ticket(10, 11, 100_000), us(10));
    let mut world = World::new(5);
    world.0.begin_round(at(0));
    world.lost(&[held_at(us(1), 0), held_at(us(1), 0), held_at(us(1), 0)], 1);
    world.0.begin_round(at(1));
    world.lost(&[held_at(1, 0), held_at(1, 0)], 2);
    assert_eq!(world.0.begin_round(at(3)).ticket, Some(Ticket::new(us(1))));
    assert_eq!(world.0.ticket(), Some(Ticket::new(us(1))));
}

#[test]
fn t1_one_who_knows_that_others_wait_stands_there_from_its_first_round() {
    let mut world = World::new(3);
    world.0.stand(&[None; 3]);
    assert!(!world.0.is_standing());
    world.0.stand(&[Some(9), None, Some(11)]);
    assert_eq!(world.0.begin_round(at(0)), Stand::with(ME, Ticket::new(9)));
}

#[test]
fn t2_a_quorum_of_wake_ups_begins_a_round_each_node_counted_once() {
    let mut world = World::waiting();
    world.told([0, 0, 0, 3, 3], LineHint::Next, 50);
    assert_eq!(world.next(), at(1_002));
    world.told([4], LineHint::Next, 51);
    assert_eq!(world.next(), at(51));
    // Those of the round before count no more.
    assert!(!world.0.is_awakened());
    world.0.begin_round(at(51));
    assert!(world.0.is_awakened());
    world.lost(&[held(0), held(0), held(0)], 52);
    world.told([0, 3], LineHint::Next, 53);
    assert_eq!(world.next(), at(1_052));
}

#[test]
fn t2_what_is_told_while_a_round_is_under_way_counts_for_the_next() {
    let mut world = World::standing();
    world.told([0, 1, 2], LineHint::Next, 1);
    assert_eq!(world.lost(&[held(0), held(0), held(0)], 3), Some(at(1)));
}

#[test]
fn t2_who_is_second_on_a_quorum_gives_the_first_its_grace() {
    let mut world = World::waiting();
    world.told([0, 1], STAND_BY, 50);
    assert_eq!(world.next(), at(1_002));
    world.told([2], STAND_BY, 51);
    assert_eq!(world.next(), at(54));
    // Where the lines differ, too few have woken it to go at once.
    let mut world = World::waiting();
    world.told([0, 1], LineHint::Next, 50);
    world.told([2], STAND_BY, 51);
    assert_eq!((world.next(), world.0.first()), (at(54), Some(OTHER)));
    world.told([2], LineHint::Next, 52);
    assert_eq!(world.next(), at(52));
    // A hint that names this client as the head wakes it too.
    let mut world = World::waiting();
    world.told([0, 1, 2], LineHint::StandBy { head: ME }, 50);
    assert_eq!((world.next(), world.0.first()), (at(50), None));
}

#[test]
fn t2_a_place_that_it_had_before_wakes_nobody_and_what_holders_are_told_neither() {
    let mut world = World::new(3);
    world.0.begin_round(at(0));
    world.told(0..3, LineHint::Next, 0);
    world.lost(&[held(0), held(0)], 1);
    world.0.begin_round(at(1));
    let limit = world.lost(&[held(0), held(0)], 2);
    assert_eq!(limit, Some(at(1_002)));
    world.told(0..3, LineHint::Wanted, 3);
    world.told([9], LineHint::Next, 3);
    assert_eq!(world.next(), at(1_002));
}

#[test]
fn t2_one_who_stands_in_no_line_is_not_woken() {
    let mut world = World::new(3);
    world.0.begin_round(at(0));
    let lineless = Denial::new(Some(b"other".as_slice().into()), Some(TTL));
    assert_eq!(world.lost(&[lineless.clone(), lineless], 1), None);
    let before = world.next();
    world.told(0..3, LineHint::Next, 2);
    assert_eq!((world.next(), world.0.is_standing()), (before, false));
    assert!(before > at(2));
}

#[test]
fn t3_a_head_is_named_when_it_has_had_its_grace_and_then_has_a_new_one() {
    let skip = |world: &mut World, millis| world.0.begin_round(at(millis)).skip;
    let mut world = World::waiting();
    world.told([0, 1, 2], STAND_BY, 50);
    assert_eq!(skip(&mut world, 52), Some(OTHER));
    // It has come back in the meantime, and is the first again.
    assert_eq!(world.lost(&[behind(OTHER), behind(OTHER), behind(OTHER)], 53), Some(at(55)));
    assert_eq!(skip(&mut world, 54), None, "before its grace is over");
    world.lost(&[behind(OTHER), behind(OTHER), behind(OTHER)], 54);
    assert_eq!(skip(&mut world, 55), Some(OTHER), "it is the first since 53 ms");
    world.lost(&[behind(OTHER), behind(OTHER), behind(OTHER)], 56);
    assert_eq!(skip(&mut world, 57), None, "it was named, and has a new grace");
    // Another one is the first now.
    world.lost(&[behind(THIRD), behind(OTHER), behind(THIRD)], 56);
    assert_eq!(world.0.first(), Some(THIRD));
    assert_eq!(skip(&mut world, 57), None);
    world.lost(&[behind(OTHER), behind(OTHER), behind(THIRD)], 57);
    assert_eq!(skip(&mut world, 58), None, "that one has just become the first");
    // It holds the resource now.
    world.lost(&[held(1), held(1), held(1)], 58);
    assert_eq!(skip(&mut world, 90), None);
}

#[test]
fn t3_what_is_told_is_news_and_an_answer_of_before_does_not_count_for_it() {
    // It is the first for a free key, and a moment later somebody has it: not every node has said so.
    let mut world = World::standing();
    world.lost(&[behind(OTHER), behind(OTHER), behind(OTHER)], 2);
    world.told([0, 1, 2], STAND_BY, 30);
    assert_eq!((world.0.first(), world.0.begin_round(at(31)).skip), (Some(OTHER), None));
    let mut world = World::standing();
    world.lost(&[behind(OTHER), behind(OTHER), held(1)], 2);
    assert_eq!(world.0.begin_round(at(50)).skip, None, "it may just have been granted");
    let mut world = World::standing();
    let denials = [behind(OTHER), behind(OTHER), held(1), behind(OTHER)];
    world.lost(&denials, 2);
    assert_eq!(world.0.begin_round(at(50)).skip, Some(OTHER), "it is free on a quorum");
}

#[test]
fn t3_who_is_told_of_another_first_waits_for_that_one_and_no_longer_than_a_poll() {
    let third = LineHint::StandBy { head: THIRD };
    let mut world = World::waiting();
    world.told([0, 1, 2], STAND_BY, 50);
    world.told([0], third, 51);
    assert_eq!(world.next(), at(53), "most still name the other one");
    world.told([1], third, 51);
    assert_eq!(world.next(), at(54));
    assert_eq!(world.0.begin_round(at(54)).skip, Some(THIRD));
    // What was planned by the answers would name nobody.
    world.lost(&[behind(OTHER), behind(OTHER), behind(OTHER)], 55);
    world.told([0, 1, 2], STAND_BY, 56);
    assert_eq!(world.next(), at(59));
    assert_eq!(world.0.begin_round(at(59)).skip, Some(OTHER));
    world.lost(&[held(1), held(1), held(1)], 60);
    for millis in 61..2_000 {
        let head = if millis % 2 == 0 { OTHER } else { THIRD };
        world.told(0..3, LineHint::StandBy { head }, millis);
        assert!(world.next() <= at(1_060), "at {millis} ms");
    }
}

#[test]
fn t3_the_grace_is_two_round_trips_where_they_take_longer() {
    let mut world = World::standing();
    let denials = [behind(OTHER), behind(OTHER), behind(OTHER)];
    let answers = denials.iter().enumerate().map(|(index, d)| (node(index), LineAnswer::Denied(d)));
    let next = world.0.handle_lost_round(answers, &[], Some(5 * MS), 0, at(2));
    assert_eq!(next, Some(at(12)));
    assert_eq!(world.0.begin_round(at(11)).skip, None);
}

#[test]
fn t3_the_client_names_itself_only_where_nobody_waits_with_its_other_place() {
    // Each round is begun by what the nodes tell the client for its other place.
    for is_left_behind in [true, false] {
        let mut world = World::standing();
        let mut named = None;
        for millis in 2..12 {
            world.0.handle_other_place(is_left_behind);
            world.lost(&[behind(ME), behind(ME), behind(ME)], millis);
            world.told(0..3, LineHint::Next, millis);
            let skip = world.0.begin_round(at(millis + 1)).skip;
            named = named.or(skip.map(|skip| (skip, millis + 1)));
        }
        assert_eq!(named, is_left_behind.then_some((ME, 4)), "after a grace");
        assert_eq!(world.0.passed_over(), None);
    }
    let mut world = World::standing();
    world.lost(&[behind(ME), behind(ME), behind(ME)], 2);
    assert_eq!(world.next(), at(1_002), "a waiter beside it asks, and tells when it is done");
}

#[test]
fn t3_the_client_names_nobody_before_it_stands_there() {
    let mut world = World::new(3);
    world.0.begin_round(at(0));
    // Denied without a clock, so that it has no ticket.
    world.lost(&[Denial::behind(OTHER), Denial::behind(OTHER)], 1);
    let stand = world.0.begin_round(at(100));
    assert_eq!((stand.ticket, stand.skip), (None, None));
}

#[test]
fn t3_as_many_stand_before_it_as_a_quorum_has_seen() {
    let rank = |ranks: &[u32]| {
        let mut world = World::standing();
        let denials: Vec<Denial> = ranks.iter().copied().map(held).collect();
        world.lost(&denials, 2);
        world.0.rank()
    };
    assert_eq!([&[5, 2, 3, 9][..], &[7, 2][..], &[][..]].map(rank), [Some(5), Some(7), None]);
}

#[test]
fn t3_those_far_behind_wait_longer_for_a_head_that_does_not_come() {
    let mut world = World::standing();
    let behind = Denial::behind(OTHER).in_line(1, Some(7));
    assert_eq!(world.lost(&[behind.clone(), behind.clone(), behind], 2), Some(at(8)));
}

#[test]
fn t4_a_poll_follows_whatever_is_told_and_a_spread_parts_those_who_wait() {
    for (random, limit) in [(0, 1_002), (255, 1_502)] {
        let mut world = World::standing();
        let denials = [held(3), held(3), held(3)];
        let answers = denials.iter().map(LineAnswer::Denied).enumerate();
        assert_eq!(world.answered(answers, 2, random), Some(at(limit)));
        world.told([0, 1], LineHint::Next, 700);
        assert_eq!(world.next(), at(limit));
    }
}

#[test]
fn t4_the_first_comes_when_the_keys_end_on_a_quorum_and_the_others_after_it() {
    let ends = |millis: u64, rank| {
        let holder = Some(b"other".as_slice().into());
        Denial::new(holder, Some(Duration::from_millis(millis))).in_line(1, Some(rank))
    };
    let mut world = World::standing();
    assert_eq!(world.lost(&[ends(50, 0), ends(70, 0), ends(60, 0)], 2), Some(at(73)));
    // What others answer later counts.
    world.0.handle_late_answer(node(3), LineAnswer::Denied(&ends(40, 0)), at(2));
    assert_eq!(world.next(), at(63));
    let mut world = World::standing();
    assert_eq!(world.lost(&[ends(70, 2), ends(70, 2), ends(70, 2)], 2), Some(at(77)));
    // A node that has not answered yet is taken for as late as the last of those that have.
    let mut world = World::standing();
    let held = [ends(50, 0), ends(60, 0)];
    let answers =
        held.iter().map(LineAnswer::Denied).chain([LineAnswer::Failed, LineAnswer::Failed]);
    assert_eq!(world.answered(answers.enumerate(), 2, 0), Some(at(63)));
    // A key that never ends is waited for by polls, also where another one ends: too few are left.
    let never = Denial::new(Some(b"other".as_slice().into()), None).in_line(1, Some(0));
    let mut world = World::standing();
    let denials = [never.clone(), never.clone(), ends(70, 0), never];
    assert_eq!(world.lost(&denials, 2), Some(at(1_002)));
}

#[test]
fn t4_where_nobody_has_it_on_a_quorum_it_asks_again_soon_and_not_where_one_has() {
    let mut world = World::standing();
    let two = Denial::new(Some(b"two".as_slice().into()), Some(TTL)).in_line(1, Some(0));
    assert_eq!(world.lost(&[held(0), two.clone(), held(0)], 2), Some(at(4)), "two of them collide");
    let mut world = World::standing();
    let answers = [LineAnswer::Granted, LineAnswer::Granted];
    let held = [held(0), held(0), held(0)];
    let all = || answers.into_iter().chain(held.iter().map(LineAnswer::Denied)).enumerate();
    assert_eq!(world.answered(all(), 2, 0), Some(at(1_002)), "it misses two nodes");
    let mut world = World::standing();
    assert_eq!(world.answered(all().take(4), 2, 0), Some(at(4)), "it may be about to lose");
    // The fifth node has the key of the same one after all.
    world.0.handle_late_answer(node(4), LineAnswer::Denied(&held[0]), at(2));
    assert_eq!(world.next(), at(1_002));
}

/// A key is left on one node, another node is down and a third is free: nobody has it on a quorum, and all know when it ends.
#[test]
fn t4_it_comes_when_the_key_of_a_minority_ends_where_that_keeps_it_from_a_quorum() {
    let left = |millis| {
        let holder = Some(b"left".as_slice().into());
        Denial::new(holder, Some(Duration::from_millis(millis))).in_line(1, Some(0))
    };
    let mut world = World::new(3);
    world.0.begin_round(at(0));
    let answered = |world: &mut World, millis, denial: Denial| {
        let answers = [LineAnswer::Granted, LineAnswer::Denied(&denial), LineAnswer::Failed];
        let next = world.answered(answers.into_iter().enumerate(), millis, 0).unwrap();
        // An answer that comes late plans the same.
        world.0.handle_late_answer(node(2), LineAnswer::Failed, at(millis));
        assert_eq!(world.0.next_round(at(millis)), next);
        world.0.begin_round(next);
        next.saturating_since(at(millis)).as_millis()
    };
    assert_eq!(answered(&mut world, 1, left(2_000)), 0, "it stands there at once");
    for (round, pause) in [(100, 4), (200, 8), (300, 16), (400, 32), (500, 64)] {
        assert_eq!(answered(&mut world, round, left(2_000 - round)), pause);
    }
    assert_eq!(answered(&mut world, 1_900, left(20)), 21, "it does not sleep past the end");
    assert_eq!(answered(&mut world, 2_000, left(2_000)), 2, "who takes it then is somebody else");
    assert_eq!(answered(&mut world, 2_100, left(2_000)), 4);
}

/// Keys that are set again and again, or whose end a clock puts off, are asked for no more often than without an end.
#[test]
fn t5_ends_that_do_not_come_or_come_again_and_again_make_it_ask_little_more_often() {
    let rounds = |left: &dyn Fn(Duration) -> Duration, rank: u32, random: u8| {
        let mut world = World::new(3);
        world.0.begin_round(at(0));
        let (mut now, mut rounds) = (at(0), 0);
        while now < at(10_000) {
            let holder = Some(b"left".as_slice().into());
            let left = left(now.saturating_since(at(0)));
            let denial = Denial::new(holder, Some(left)).in_line(1, Some(rank));
            let answers = [LineAnswer::Granted, LineAnswer::Denied(&denial), LineAnswer::Failed];
            let answers = answers.into_iter().enumerate().map(|(at, answer)| (node(at), answer));
            let next = world.0.handle_lost_round(answers, &[], None, random, now).unwrap();
            now = next.saturating_add(MS / 4);
            world.0.begin_round(next);
            rounds += 1;
        }
        rounds
    };
    for (rank, random) in [(0, 0), (0, 255), (3, 0), (3, 128)] {
        let usual = rounds(&|_| Duration::from_secs(60), rank, random);
        for millis in [3, 5, 8, 20, 60, 100] {
            let period = millis * MS;
            let again = |now: Duration| {
                period.saturating_sub(Duration::from_nanos(
                    u64::try_from(now.as_nanos() % period.as_nanos()).unwrap(),
                ))
            };
            for count in [rounds(&|_| period, rank, random), rounds(&again, rank, random)] {
                // Six more each second, which the pauses take that begin anew.
                assert!(count <= usual + 80, "{count} beside {usual}: {millis} {rank} {random}");
            }
        }
    }
}

#[test]
fn t4_a_connection_that_was_lost_or_is_back_makes_it_ask_soon() {
    let mut world = World::waiting();
    world.told([0, 1], LineHint::Next, 99);
    world.0.handle_connection(node(1), 255, at(100));
    assert_eq!(world.next(), at(104));
    // What it has told before does not count any more.
    world.told([2], LineHint::Next, 100);
    assert_eq!(world.next(), at(104));
}

#[test]
fn t4_a_round_that_was_lost_for_another_reason_is_not_followed_by_one_at_once() {
    let mut world = World::waiting();
    world.told([0, 1, 2], LineHint::Next, 3);
    world.0.begin_round(at(3));
    // Nobody says that it was lost, since no node has answered.
    assert_eq!(world.0.next_round(at(200)), at(1_200));
    world.told([0, 1, 2], LineHint::Next, 300);
    assert_eq!(world.0.next_round(at(301)), at(300));
}

#[test]
fn t5_wake_ups_in_vain_are_followed_ever_later() {
    let mut world = World::waiting();
    let mut millis = 100;
    world.told(0..5, LineHint::Next, millis);
    assert_eq!(world.next(), at(millis));
    // In halves of a millisecond, the first two in less than the grace of the second in the line.
    let mut halves = |pauses: &[u64], mut halves: u64| {
        for pause in pauses {
            let after = |halves| at(0).saturating_add(halves * MS / 2);
            let now = after(u32::try_from(halves).unwrap());
            let denials = [held(0), held(0), held(0)];
            let answers = || denials.iter().map(LineAnswer::Denied).enumerate();
            world.0.begin_round(now);
            let answers = answers().map(|(index, answer)| (node(index), answer));
            world.0.handle_lost_round(answers, &[], None, 0, now);
            (0..5).for_each(|index| world.0.handle_hint(node(index), LineHint::Next, now));
            halves += pause;
            assert_eq!(world.next(), after(u32::try_from(halves).unwrap()), "after {pause} halves");
        }
        halves
    };
    let then = halves(&[1, 2, 4, 8, 16, 32, 64, 64, 64], 2 * millis);
    // What was in vain long ago, by more than fifty graces, counts no more.
    let then = halves(&[64], then - 64 + 200);
    halves(&[1, 2, 4], then - 64 + 201);
    // A client that is woken after a while need not wait at all.
    millis = 10_000;
    world.0.begin_round(at(millis));
    world.lost(&[held(0), held(0), held(0)], millis);
    world.told(0..5, LineHint::Next, millis + 40);
    assert_eq!(world.next(), at(millis + 40));
}

#[test]
fn t5_rounds_that_find_nothing_new_are_followed_ever_later() {
    let others = |holders: [u8; 3]| {
        holders.map(|holder| Denial::new(Some(Box::new([holder])), None).in_line(1, Some(0)))
    };
    let mut world = World::standing();
    let mut millis = 2;
    let mut lost = |denials: &[Denial]| {
        let next = world.lost(denials, millis).unwrap().saturating_since(at(millis));
        millis += 100;
        world.0.begin_round(at(millis));
        next.as_millis()
    };
    assert_eq!([0; 7].map(|_| lost(&others([1, 2, 3]))), [2, 4, 8, 16, 32, 64, 64]);
    let heads = [OTHER, THIRD, OTHER, OTHER, OTHER];
    let paused = heads.map(|head| lost(&[behind(head), behind(head), behind(head)]));
    assert_eq!(paused, [2, 2, 2, 4, 8], "another first is something new");
    assert_eq!(lost(&others([1, 1, 1])), 1_000);
    assert_eq!(lost(&others([1, 2, 3])), 2, "there was a holder");
}

#[test]
fn t5_a_holder_whose_key_ends_within_a_grace_is_asked_after_it_ever_later() {
    let ends = || {
        let holder = Some(b"other".as_slice().into());
        Denial::new(holder, Some(2 * MS)).in_line(1_000, Some(0))
    };
    let mut world = World::standing();
    let mut pauses = Vec::new();
    for millis in [10, 20, 30, 40] {
        world.0.begin_round(at(millis));
        let next = world.lost(&[ends(), ends(), ends()], millis).unwrap();
        pauses.push(next.saturating_since(at(millis)).as_millis());
    }
    assert_eq!(pauses, [3, 4, 6, 10]);
}

#[test]
fn t5_a_round_for_which_nodes_must_be_looked_at_is_followed_at_once_and_then_ever_later() {
    let mut world = World::new(5);
    world.0.begin_round(at(0));
    assert_eq!(world.0.handle_outdated_round(0, at(0)), None, "it does not stand there");
    let mut world = World::standing();
    let pauses = [2, 3, 4, 5].map(|millis| {
        let next = world.0.handle_outdated_round(0, at(millis)).unwrap();
        assert_eq!(world.0.next_round(at(millis)), next);
        world.0.begin_round(at(millis));
        next.saturating_since(at(millis)).as_millis()
    });
    assert_eq!(pauses, [0, 2, 6, 14]);
    world.lost(&[held(0), held(0), held(0)], 6);
    world.0.begin_round(at(7));
    assert_eq!(world.0.handle_outdated_round(0, at(7)), Some(at(7)), "there was a holder");
    // It is woken as after any other round.
    world.0.begin_round(at(8));
    world.0.handle_outdated_round(0, at(9));
    world.told([0, 1, 2], LineHint::Next, 10);
    assert_eq!(world.0.next_round(at(10)), at(10));
}

#[test]
fn t4_a_node_that_votes_again_is_asked_soon_by_whoever_does_not_stand_there() {
    let waiting = || {
        let mut world = World::standing();
        let held = held(0);
        let denied = LineAnswer::Denied(&held);
        let answers = [denied, LineAnswer::Failed, denied, LineAnswer::Granted, denied];
        world.answered(answers.into_iter().enumerate(), 2, 0);
        assert_eq!(world.next(), at(1_002));
        world
    };
    for (index, random, next) in [(1, 0, 106), (1, 255, 112), (3, 0, 106), (0, 0, 1_002)] {
        let mut world = waiting();
        world.0.handle_ready(node(index), random, at(100));
        assert_eq!(world.next(), at(next), "node {index}, {random}");
    }
    let mut newcomer = World::new(5);
    newcomer.0.handle_ready(node(1), 0, at(1));
    assert_eq!(newcomer.0.next_round(at(1)), at(1_001), "it has no place to lose");
}

#[test]
fn t6_too_few_lines_are_said_and_what_a_node_shows_later_counts() {
    let lineless = || Denial::new(Some(b"other".as_slice().into()), Some(TTL));
    let mut world = World::new(5);
    world.0.begin_round(at(0));
    assert_eq!(world.lost(&[lineless(), held(0), lineless()], 1), Some(at(1)));
    world.0.begin_round(at(1));
    assert_eq!(world.lost(&[lineless(), held(0), lineless()], 2), Some(at(1_002)));
    world.0.begin_round(at(3));
    assert_eq!(world.lost(&[lineless(), held(0), lineless(), lineless()], 4), None);
    // A node that fails tells nothing, and has a line again when it answers.
    let mut world = World::standing();
    let (all, failed) = ([held(0), held(0)], [LineAnswer::Failed, LineAnswer::Failed]);
    let answers = || all.iter().map(LineAnswer::Denied);
    assert_eq!(world.answered(answers().chain(failed).enumerate(), 2, 0), Some(at(1_002)));
    world.0.begin_round(at(3));
    let three = answers().take(1).chain(failed).chain([LineAnswer::Failed]);
    assert_eq!(world.answered(three.enumerate(), 4, 0), None);
    world.0.begin_round(at(5));
    assert_eq!(world.lost(&[held(0), held(0), held(0)], 6), Some(at(1_006)));
}

#[test]
fn t7_a_round_is_heard_out_where_one_has_the_key_on_a_quorum_and_nothing_else_is_known() {
    let other = Denial::new(Some(b"two".as_slice().into()), Some(TTL)).in_line(1, Some(0));
    let (held, behind) = (held(0), behind(OTHER));
    let denied = LineAnswer::Denied(&held);
    let in_the_way = [LineAnswer::Granted, LineAnswer::Denied(&behind)];
    let hears = |answers: &[LineAnswer<'_>]| {
        let mut world = World::standing();
        assert!(!world.0.hears_out(), "it is under way");
        world.answered(answers.iter().copied().enumerate(), 2, 0);
        let hears = world.0.hears_out();
        world.0.begin_round(at(3));
        assert!(!world.0.hears_out(), "the next one is under way");
        hears
    };
    assert!(hears(&[denied, denied, denied]));
    assert!(hears(&[denied, LineAnswer::Failed, denied, LineAnswer::Denied(&other), denied]));
    assert!(!hears(&[denied, LineAnswer::Failed, LineAnswer::Failed, denied]), "two are no quorum");
    assert!(!hears(&[denied, denied, LineAnswer::Denied(&other)]), "two collide");
    for one in in_the_way {
        assert!(!hears(&[denied, denied, denied, one]), "{one:?}: it is free there for somebody");
    }
    // So is the first one, by which it does not stand in the line yet.
    let mut world = World::new(5);
    world.0.begin_round(at(0));
    world.lost(&[held.clone(), held.clone(), held], 1);
    assert!(world.0.hears_out());
}

/// A client whose way to the nodes is longer than the grace of nearer clients would never get a turn.
#[test]
fn t3_one_that_was_passed_over_again_and_again_and_has_come_back_is_waited_for_longer() {
    let grace = 2 * MS;
    let mut patience = Patience::default();
    let mut pass = |times: u64, from: u64| {
        (0..times).for_each(|time| patience.pass_over(OTHER, at(from + time)));
        (patience.of(OTHER, grace), patience.of(THIRD, grace))
    };
    // A process may be stopped now and then.
    assert_eq!(pass(2, 0), (grace, grace));
    assert_eq!(pass(1, 2), (16 * MS, grace));
    assert_eq!(pass(1, 3), (128 * MS, grace));
    assert_eq!(pass(1, 4), (256 * MS, grace), "and no longer");
    assert_eq!(pass(1, 60_000), (grace, grace), "it does not come even then");
    assert_eq!(pass(9, 60_000), (grace, grace), "and has no longer one for a minute");
    assert_eq!(pass(3, 120_100), (16 * MS, grace), "after which it is as new");
    assert_eq!(pass(0, 0).0, 16 * MS);
    assert_eq!(patience.of(OTHER, Duration::from_secs(1)), Duration::from_secs(1));

    let mut rare = Patience::default();
    (0..9).for_each(|time| rare.pass_over(OTHER, at(11_000 * time)));
    assert_eq!(rare.of(OTHER, grace), grace);

    let mut world = World::waiting();
    let known = |times: u64| {
        let mut patience = Patience::default();
        (0..times).for_each(|time| patience.pass_over(OTHER, at(time)));
        patience
    };
    world.0 = world.0.knowing(known(3));
    world.told([0, 1, 2], STAND_BY, 50);
    assert_eq!(world.next(), at(66));
    let mut early = world.0.clone();
    assert_eq!(early.begin_round(at(65)).skip, None);
    assert_eq!(world.0.begin_round(at(66)).skip, Some(OTHER));
}

#[test]
fn t3_one_that_has_come_and_gone_meanwhile_was_not_passed_over() {
    let named = || {
        let mut world = World::waiting();
        world.told([0, 1, 2], STAND_BY, 50);
        assert_eq!(world.0.passed_over(), None);
        assert_eq!(world.0.begin_round(at(52)).skip, Some(OTHER));
        world
    };
    assert_eq!(named().0.passed_over(), Some(OTHER));
    // Its release has told so, before this client's round reached that node.
    let mut world = named();
    world.told([3], LineHint::Next, 52);
    assert_eq!(world.0.passed_over(), None);
    let mut world = World::waiting();
    world.told([0, 1, 2], STAND_BY, 50);
    world.told([3], LineHint::Next, 51);
    assert_eq!(world.0.begin_round(at(52)).skip, Some(OTHER));
    assert_eq!(world.0.passed_over(), None);
    // In the round after that it names nobody.
    let mut world = named();
    world.lost(&[held(0), held(0), held(0)], 53);
    world.0.begin_round(at(54));
    assert_eq!(world.0.passed_over(), None);
}

#[test]
fn t5_the_pause_after_wake_ups_in_vain_is_small_beside_a_poll_however_far_the_nodes_are() {
    let mut world = World::standing();
    let mut now = 2;
    for _ in 0..9 {
        world.told([0, 1, 2], LineHint::Next, now);
        world.0.begin_round(at(now));
        let denials = [held(0), held(0), held(0)];
        let answers = denials.iter().enumerate();
        let answers = answers.map(|(index, denial)| (node(index), LineAnswer::Denied(denial)));
        world.0.handle_lost_round(answers, &[], Some(60 * MS), 0, at(now + 60));
        world.told([0, 1, 2], LineHint::Next, now + 61);
        let next = world.0.next_round(at(now + 61));
        assert!(next <= at(now + 60 + 63), "{next:?} after {now} ms");
        now += 130;
    }
}
