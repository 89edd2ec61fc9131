//! What a process says of itself in the lines on the nodes, and what it makes of what it is told; and who is in whose way here.

use std::time::Duration;

use quorlock_core::{
    Cause, Command, Denial, End, Event, Failure, LineHint, LostRound, NodeId, Owner, Passed, Place,
    QueueId, Reply, Resource, RoundLoss, Sending, Slots, Stand, Target, Ticket, Timestamp,
};

use super::{
    super::at,
    Decided, Held, ME, MS, TTL, asks, begin_now,
    driven::{Asker, COUNTED, Mine, Round, moment, won},
    gives_back, held, next_asker, one, reads, runs, set, waits,
};

const CLOCK_US: u64 = 1_795_170_000_000_000;

fn name() -> Resource {
    Resource::new("r").unwrap()
}

pub(super) fn denial(ahead: u64, ends: Duration) -> Denial {
    let holder = Owner::from_random([1; 16]).to_hex();
    Denial::new(Some(Box::from(holder)), Some(ends)).in_line(CLOCK_US + ahead, Some(0))
}

/// One resource, for which somebody asks.
pub(super) struct World {
    pub(super) client: Mine,
    queue: QueueId,
    place: Place,
    ms: u64,
}

impl World {
    fn new() -> (Self, Asker) {
        Self::of(Mine::new(), &one("r"))
    }

    pub(super) fn of(mut client: Mine, target: &Target) -> (Self, Asker) {
        let queue = client.open_queue(target);
        let asker = asks(&mut client, queue, waits("r"), 0);
        (Self { client, queue, place: asker.place, ms: 0 }, asker)
    }

    fn begins(&mut self, asker: &Asker) -> Round {
        asker.begins(&mut self.client, self.ms)
    }

    /// These nodes have denied the round: it is lost. When the next one begins by the lines.
    fn loses(&mut self, round: Round, denials: &[(usize, Denial)]) -> Option<Timestamp> {
        let denials: Vec<_> =
            denials.iter().map(|(node, it)| (*node, Ok(Reply::Denied(it.clone())))).collect();
        let lost = round.is_told(&mut self.client, &denials, self.ms).unwrap();
        assert_eq!(lost.loss, RoundLoss::Contended);
        lost.in_line
    }

    /// The same of all nodes, which have lines.
    fn loses_in_line(&mut self, round: Round) -> Timestamp {
        let denials = [(0, denial(9, TTL)), (1, denial(1, TTL)), (2, denial(5, TTL))];
        self.loses(round, &denials).unwrap()
    }

    /// Whether nothing is released of a lost round that a node has not answered.
    fn is_heard_out(&mut self, round: Round) -> bool {
        self.client.takes_nodes("release", round.owner).is_empty()
    }

    /// It stands there, and has asked from its place: when the next round begins.
    pub(super) fn stands(&mut self, asker: Asker) -> Timestamp {
        let round = self.begins(&asker);
        assert_eq!(self.loses_in_line(round), at(self.ms), "it says so at once");
        let again = self.next();
        let round = self.begins(&again);
        self.loses_in_line(round)
    }

    /// Whose round begins at once.
    fn next(&mut self) -> Asker {
        next_asker(&mut self.client, self.queue, self.place, self.ms)
    }

    fn begins_now(&mut self) -> bool {
        !begin_now(&mut self.client, self.ms).is_empty()
    }

    fn tell(&mut self, node: usize, hint: LineHint) {
        self.client.handle_hint(NodeId::new(node), &name(), hint, at(self.ms));
    }

    /// When its next round begins.
    fn next_round(&mut self) -> u64 {
        runs(&mut self.client, self.ms);
        let (client, from) = (&self.client, self.ms);
        let begins_at = |ms: &u64| {
            let mut client = client.clone();
            client.handle_timeout(&moment(*ms));
            !begin_now(&mut client, *ms).is_empty()
        };
        (from..from + 20_000).find(begins_at).unwrap()
    }
}

/// What is given up, with which ticket, and on which nodes, by what has been sent since this was asked last.
fn left(client: &mut Mine) -> Vec<(Ticket, usize)> {
    let left = client.takes().into_iter().filter_map(|transmit| match transmit.sending {
        Sending::One(Command::Leave { client, ticket, .. }) => {
            assert_eq!(client, ME);
            Some((ticket, transmit.node.index()))
        }
        _ => None,
    });
    left.collect()
}

fn everywhere(ticket: Ticket) -> [(Ticket, usize); 3] {
    [0, 1, 2].map(|node| (ticket, node))
}

#[test]
fn who_has_not_waited_says_nothing_but_with_several_tokens_its_name() {
    let (mut world, asker) = World::new();
    assert_eq!(world.begins(&asker).stand, None);
    let (mut world, asker) = World::new();
    super::stands(&mut world.client, world.queue, waits("behind"));
    assert_eq!(world.begins(&asker).stand, Some(Stand::named(ME)));
    let behind = super::stands(&mut world.client, world.queue, waits("last"));
    world.client.leave(world.queue, behind);
    world.client.handle_gone_away(asker.id);
    runs(&mut world.client, 0);
    assert!(left(&mut world.client).is_empty());
}

#[test]
fn after_a_lost_round_it_stands_there_at_once_and_goes_on_until_it_has_won_or_left() {
    let (mut world, first) = World::new();
    let round = world.begins(&first);
    assert_eq!(round.stand, None);
    assert_eq!(world.loses_in_line(round), at(0));
    let ticket = Ticket::new(CLOCK_US + 5);
    for _ in 0..2 {
        let again = world.next();
        let round = world.begins(&again);
        assert_eq!(round.stand, Some(Stand::with(ME, ticket)));
        assert!(world.loses_in_line(round) > at(world.ms));
        world.ms = world.next_round();
        world.client.handle_timeout(&moment(world.ms));
    }
    // Where the next one goes on it does so with the same place, and the last one gives it up.
    let again = world.next();
    let next = super::stands(&mut world.client, world.queue, waits("next"));
    world.client.handle_gone_away(again.id);
    let next = next_asker(&mut world.client, world.queue, next, world.ms);
    assert!(left(&mut world.client).is_empty());
    assert_eq!(world.client.rank(world.queue), Some(0));
    assert_eq!(world.begins(&next).stand, Some(Stand::with(ME, ticket)));
    world.client.handle_gone_away(next.id);
    runs(&mut world.client, world.ms);
    assert_eq!(left(&mut world.client), everywhere(ticket));
    assert_eq!(world.client.rank(world.queue), None);
}

#[test]
fn where_nodes_have_no_line_it_stands_in_none() {
    let (mut world, asker) = World::new();
    let round = world.begins(&asker);
    let holder = Owner::from_random([1; 16]).to_hex();
    let denied = |node| (node, Denial::new(Some(Box::from(holder)), Some(TTL)));
    assert_eq!(world.loses(round, &[denied(0), denied(1)]), None);
    assert!(!world.is_heard_out(round));
    assert_eq!((world.client.rank(world.queue), world.next_round()), (None, 1), "it pauses");
    (0..3).for_each(|node| world.tell(node, LineHint::Next));
    world.client.handle_connection(NodeId::new(0), at(0));
    assert!(!world.begins_now());
}

#[test]
fn a_quorum_of_wake_ups_begins_the_next_round() {
    let (mut world, asker) = World::new();
    world.stands(asker);
    world.ms = 500;
    world.tell(0, LineHint::Next);
    world.tell(0, LineHint::Next);
    assert!(!world.begins_now());
    world.tell(2, LineHint::Next);
    assert!(world.begins_now());
}

/// A node whose key ends earlier than those of the nodes that have answered before.
#[test]
fn what_is_answered_late_counts_for_its_own_round_and_for_no_other() {
    let (mut world, first) = World::new();
    let former = world.begins(&first);
    assert_eq!(world.loses(former, &[(0, denial(9, TTL)), (2, denial(5, TTL))]), Some(at(0)));
    let again = world.next();
    let last = world.begins(&again);
    let soon = 300 * MS;
    let next = world.loses(last, &[(0, denial(0, TTL)), (2, denial(0, soon))]);
    assert!(world.is_heard_out(last), "two of three name one holder");
    assert!(next.is_some());
    let before = world.next_round();
    let late = [(1, Ok(Reply::Denied(denial(0, soon))))];
    assert!(former.is_told(&mut world.client, &late, 0).is_none());
    assert_eq!(world.next_round(), before, "it was of the round before");
    assert!(last.is_told(&mut world.client, &late, 0).is_none());
    assert!(world.next_round() < before);
}

#[test]
fn a_new_connection_makes_it_ask_soon() {
    let (mut world, asker) = World::new();
    world.stands(asker);
    let before = world.next_round();
    world.client.handle_connection(NodeId::new(1), at(0));
    assert!(world.next_round() < before);
}

#[test]
fn a_node_that_votes_again_and_a_round_that_nodes_have_changed_for_make_it_ask_soon() {
    let (mut world, asker) = World::new();
    world.client.handle_ready(NodeId::new(1), at(0));
    world.stands(asker);
    let before = world.next_round();
    world.client.handle_ready(NodeId::new(1), at(0));
    assert_eq!(world.next_round(), before, "it stands there");
    world.ms = before;
    world.client.handle_timeout(&moment(before));
    let again = world.next();
    let round = world.begins(&again);
    world.loses(round, &[(1, denial(1, TTL)), (2, denial(5, TTL))]);
    let before = world.next_round();
    world.client.handle_ready(NodeId::new(0), at(world.ms));
    assert!(world.next_round() < before);
    // A round that is lost since nodes have to be looked at is followed by another one at once.
    world.ms = world.next_round();
    world.client.handle_timeout(&moment(world.ms));
    let again = world.next();
    let round = world.begins(&again);
    let outdated = [0, 1].map(|node| (node, Err(Failure::new(false, Cause::Outdated))));
    let lost = round.is_told(&mut world.client, &outdated, world.ms).unwrap();
    let LostRound { loss, outdated, in_line, .. } = lost;
    assert_eq!((loss, outdated, in_line), (RoundLoss::NoQuorum, true, Some(at(world.ms))));
    assert!(!world.is_heard_out(round));
}

#[test]
fn whether_others_wait_is_what_the_nodes_have_said_since_the_last_round_began() {
    let Held { client, id, .. } = held(300 * MS);
    let keeps = |tells: &[(usize, LineHint)], ms: u64| {
        let mut client = client.clone();
        for (node, hint) in tells {
            client.handle_hint(NodeId::new(*node), &name(), *hint, at(ms));
        }
        matches!(client.hand_on(id, 0, &moment(ms)), Some((Passed::Kept(_), ..)))
    };
    let alone = LineHint::Alone;
    // It is kept where nobody is known to wait.
    assert!(keeps(&[], 5));
    assert!(keeps(&[(0, alone), (0, alone)], 5));
    assert!(keeps(&[(0, alone), (1, alone)], 5));
    assert!(!keeps(&[(0, alone), (1, alone), (1, LineHint::Wanted)], 5));
    assert!(
        !keeps(&[(1, LineHint::Wanted), (1, alone), (0, alone)], 5),
        "what was granted before says nothing of who came since"
    );
    assert!(!keeps(&[(2, LineHint::Wanted)], 5));
    // Somebody has come for what nobody here has.
    let mut kept = client.clone();
    assert!(matches!(kept.hand_on(id, 0, &moment(5)), Some((Passed::Kept(_), ..))));
    kept.handle_hint(NodeId::new(0), &name(), LineHint::Wanted, at(6));
    kept.handle_hint(NodeId::new(1), &name(), LineHint::Wanted, at(6));
    assert_eq!(runs(&mut kept, 6), [Event::GiveBack(id, false)], "once");
}

#[test]
fn a_place_that_readers_are_kept_out_for_is_given_up_where_nobody_waits_with_it() {
    let (mut world, asker) = World::new();
    let ticket = Ticket::new(9);
    let hint = LineHint::KeepsOut { ticket };
    world.tell(1, hint);
    assert_eq!(left(&mut world.client), [(ticket, 1)]);
    world.stands(asker);
    world.tell(1, hint);
    assert!(left(&mut world.client).is_empty());
}

/// Each has a queue of its own, and each that comes or goes is dealt with by itself.
#[test]
fn readers_and_sets_are_found_by_each_resource_for_as_long_as_somebody_has_them() {
    let mut client = Mine::new();
    let both = client.open_queue(&set(&["r", "other"]));
    assert_eq!(client.open_queue(&set(&["other", "r"])), both, "one for each target");
    assert!(client.close_queue(both).is_empty() && client.queues() == 1);
    let reading = reads("r");
    let (reads, reads_too) = (client.open_queue(&reading), client.open_queue(&reading));
    assert_ne!(reads, reads_too);
    let plain = client.open_queue(&one("r"));
    let in_the_way_of = |client: &Mine, id| {
        let all = client.in_the_way_of(id);
        assert_eq!(all.first(), Some(&id), "itself");
        all.len() - 1
    };
    assert_eq!(in_the_way_of(&client, plain), 3);
    assert_eq!(in_the_way_of(&client, reads), 2, "readers are in no reader's way");
    assert_eq!(in_the_way_of(&client, both), 3);
    let other = client.open_queue(&one("other"));
    assert_eq!(in_the_way_of(&client, other), 1);
    client.close_queue(reads);
    assert_eq!(in_the_way_of(&client, plain), 2);
    // A slot of a semaphore by its own name, and permits of it, whatever their number.
    let slots = |count| Target::AnyOf(Slots::new(b"", "s", count).unwrap());
    let (three, five) = (client.open_queue(&slots(3)), client.open_queue(&slots(5)));
    let slot = client.open_queue(&one("s/1"));
    assert_eq!(in_the_way_of(&client, slot), 2);
    assert_eq!(in_the_way_of(&client, three), 2);
    for id in [three, five, slot, both, plain, other, reads_too] {
        client.close_queue(id);
    }
    assert_eq!(client.queues(), 0);
    let again = client.open_queue(&one("r"));
    assert_eq!(in_the_way_of(&client, again), 0);
}

/// On the nodes a process has one place in the line of a resource, whatever it wants it for.
#[test]
fn a_place_that_is_given_up_is_taken_again_by_those_who_want_something_else_of_it() {
    let (mut world, asker) = World::new();
    let both = world.client.open_queue(&set(&["r", "other"]));
    world.stands(asker);
    let before = world.next_round();
    let other = asks(&mut world.client, both, waits("both"), 0);
    world.client.takes();
    world.client.handle_gone_away(other.id);
    let events = runs(&mut world.client, 0);
    assert!(matches!(&events[..], [Event::Gone(ask)] if ask.name == "both"), "{events:?}");
    assert!(!world.client.has_transmits(), "it had none");
    world.client.handle_place_gone(&set(&["r", "other"]), at(0));
    assert!(world.next_round() < before);
    world.client.handle_place_gone(&one("r"), at(0));
    // It says so where there is anybody to hear it.
    assert!(world.client.leave(world.queue, world.place).is_some());
    let events = runs(&mut world.client, 0);
    let is_gone = |event: &Decided| *event == Event::PlaceGone(one("r"));
    assert_eq!(events.iter().filter(|it| is_gone(it)).count(), 1);
    assert_eq!(left(&mut world.client).len(), 3);
}

#[test]
fn a_reader_hears_that_its_place_is_gone_once_until_it_has_taken_it_again() {
    let reading = reads("r");
    let (mut world, asker) = World::of(Mine::new(), &reading);
    world.stands(asker);
    let before = world.next_round();
    world.client.handle_place_gone(&reading, at(0));
    let soon = world.next_round();
    assert!(soon < before);
    world.client.handle_place_gone(&reading, at(0));
    assert_eq!(world.next_round(), soon);
}

/// A grant tells the nodes who waits here; the nodes pass over a client that does not come.
#[test]
fn a_round_that_is_won_ends_its_place() {
    let (mut world, asker) = World::new();
    world.stands(asker);
    (0..2).for_each(|node| world.tell(node, LineHint::Next));
    let again = world.next();
    let round = world.begins(&again);
    world.client.takes();
    round.is_told(&mut world.client, &[0, 2].map(|node| (node, COUNTED)), 1);
    let (grant, events) = won(runs(&mut world.client, 1));
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(world.client.rank(world.queue), None);
    // A node that denies it still has it in its line, and is told to take it out.
    round.is_told(&mut world.client, &[(1, Ok(Reply::Denied(denial(0, TTL))))], 1);
    assert!(runs(&mut world.client, 1).is_empty());
    assert_eq!(left(&mut world.client), [(Ticket::new(CLOCK_US + 5), 1)]);
    assert!(gives_back(&mut world.client, grant, End::GivenBack(0), 1).is_some());
}
