//! The line of one resource on one node: who is let in, and who is told.
//!
//! Goal: what the scripts of a Redis node do, step by step, where no server is needed. Method: acquires and releases in,
//! who is first and who is told out. `src/node/alike_test` compares nodes in memory with real servers.

use quorlock_core::{ClientId, LineHint, LineNews, ReadAccess, Stand, Ticket, WaitList};

mod readers;
mod stuck;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn client(number: u8) -> ClientId {
    ClientId::new([number; 8])
}

fn waits(number: u8, ticket: u64) -> Option<Stand> {
    Some(Stand::with(client(number), Ticket::new(ticket)))
}

const fn stand_by(head: ClientId) -> LineHint {
    LineHint::StandBy { head }
}

/// A line, and the key beside it.
#[derive(Default)]
struct Node {
    line: WaitList,
    is_held: bool,
    /// Clients that are not connected.
    gone: Vec<ClientId>,
    told: Vec<(ClientId, LineHint)>,
}

/// What an acquire comes to.
#[derive(Debug, Eq, PartialEq)]
enum Came {
    Granted,
    Behind(u8, Option<u32>),
    Held(Option<u32>),
}

impl Node {
    fn acquire_of(&mut self, stand: Option<Stand>, count: u64, millis: u64) -> Came {
        let gone = self.gone.clone();
        let hears = |client| !gone.contains(&client);
        let mut news = LineNews::new(&hears);
        let entered = self.line.enter(stand, !self.is_held, at(millis), &mut news);
        let came = if let Some(first) = entered.first {
            Came::Behind(first.to_hex()[1] - b'0', self.line.deny(&entered, at(millis), &mut news))
        } else if self.is_held {
            Came::Held(self.line.deny(&entered, at(millis), &mut news))
        } else {
            self.line.grant(&entered, count, 10 * SECOND, at(millis), &mut news);
            self.is_held = true;
            Came::Granted
        };
        self.told = news.into_told();
        came
    }

    fn acquire(&mut self, stand: Option<Stand>, millis: u64) -> Came {
        self.acquire_of(stand, 1, millis)
    }

    fn release(&mut self, millis: u64) -> Vec<(ClientId, LineHint)> {
        self.is_held = false;
        let gone = self.gone.clone();
        let hears = |client| !gone.contains(&client);
        let mut news = LineNews::new(&hears);
        self.line.release(at(millis), &mut news);
        news.into_told()
    }

    fn waiting(&self) -> Vec<ClientId> {
        self.line.waiting().collect()
    }
}

/// Held by somebody, while 1 to `last` wait in this order.
fn held_before(last: u8) -> Node {
    let mut node = Node { is_held: true, ..Node::default() };
    for number in 1..=last {
        let before = Some(u32::from(number) - 1);
        assert_eq!(node.acquire(waits(number, u64::from(number)), 0), Came::Held(before));
    }
    node
}

#[test]
fn the_first_is_let_in_and_nobody_else() {
    let mut node = held_before(3);
    assert_eq!(
        node.release(1),
        [(client(1), LineHint::Next), (client(2), stand_by(client(1)))],
        "one is woken, and one stands by"
    );
    for stand in [None, Some(Stand::named(client(9)))] {
        assert_eq!(node.acquire(stand, 2), Came::Behind(1, None), "{stand:?}");
        assert!(node.told.is_empty(), "they have been told");
    }
    assert_eq!(node.acquire(waits(3, 3), 2), Came::Behind(1, Some(2)));
    assert_eq!(node.acquire(waits(1, 1), 2), Came::Granted);
    assert_eq!(node.waiting(), [client(2), client(3)]);
    assert_eq!(node.told, [(client(1), LineHint::Wanted)], "others wait");
}

#[test]
fn without_a_line_there_is_nothing_to_tell() {
    let mut node = Node::default();
    assert_eq!(node.acquire(None, 0), Came::Granted);
    assert!(node.told.is_empty());
    assert_eq!(node.acquire(None, 0), Came::Held(None));
    assert_eq!(node.acquire(Some(Stand::named(client(1))), 0), Came::Held(None));
    assert!(node.release(1).is_empty() && node.line.is_empty(at(1)));
    assert_eq!(node.acquire(Some(Stand::named(client(1))), 1), Came::Granted);
    assert_eq!(node.told, [(client(1), LineHint::Alone)]);
}

#[test]
fn tickets_make_the_order_and_names_that_of_equal_ones() {
    let mut node = Node { is_held: true, ..Node::default() };
    for (number, ticket) in [(3, 20), (5, 10), (4, 10), (2, 30)] {
        node.acquire(waits(number, ticket), 0);
    }
    assert_eq!(node.waiting(), [4, 5, 3, 2].map(client));
    // A ticket that is said again replaces the one before.
    node.acquire(waits(2, 5), 0);
    assert_eq!(node.waiting(), [2, 4, 5, 3].map(client));
}

#[test]
fn who_does_not_hear_is_forgotten_and_the_next_one_is_woken_at_once() {
    let mut node = held_before(4);
    node.gone = vec![client(1), client(3)];
    let told = [(client(2), LineHint::Next), (client(4), stand_by(client(2)))];
    assert_eq!(node.release(1), told);
    assert_eq!(node.waiting(), [client(2), client(4)]);
    // A newcomer does not know who is on its way; a waiter finds out.
    node.gone = vec![client(2), client(4)];
    assert_eq!(node.acquire(waits(5, 5), 2), Came::Behind(2, Some(2)));
    assert_eq!(node.acquire(waits(5, 5), 4), Came::Granted, "nobody is there");
}

#[test]
fn who_comes_anew_wakes_nobody_but_those_who_have_missed_a_poll() {
    let woken = [(client(1), LineHint::Next), (client(2), stand_by(client(1)))];
    for stand in [None, Some(Stand::named(client(9))), waits(9, 9)] {
        let mut node = held_before(2);
        assert_eq!(node.release(1), woken);
        let behind = Came::Behind(1, stand.and_then(|stand| stand.ticket).map(|_| 2));
        assert_eq!(node.acquire(stand, 1_600), behind);
        assert!(node.told.is_empty(), "{stand:?}");
        let mut node = held_before(2);
        assert_eq!(node.release(1), woken);
        assert_eq!(node.acquire(stand, 1_601), behind);
        assert_eq!(node.told, woken, "{stand:?}");
        // Where they are gone, it is let in.
        let mut node = held_before(2);
        node.release(1);
        node.gone = vec![client(1), client(2)];
        assert_eq!(node.acquire(stand, 1_601), Came::Granted, "{stand:?}");
    }
}

#[test]
fn who_stood_there_and_asks_again_wakes_the_first_that_may_not_have_heard() {
    let mut node = held_before(3);
    // The key has expired.
    node.is_held = false;
    assert_eq!(node.acquire(waits(3, 3), 1), Came::Behind(1, Some(2)));
    assert_eq!(node.told, [(client(1), LineHint::Next), (client(2), stand_by(client(1)))]);
    assert_eq!(node.acquire(waits(2, 2), 1), Came::Behind(1, Some(1)));
    assert_eq!(node.told, [(client(1), LineHint::Next)]);
}

#[test]
fn a_head_that_is_named_is_dropped_and_has_its_old_place_when_it_comes_back() {
    let mut node = held_before(3);
    node.release(1);
    let named =
        |number, head| waits(number, u64::from(number)).map(|s| s.skipping(Some(client(head))));
    // Only the first is dropped.
    assert_eq!(node.acquire(named(3, 2), 2), Came::Behind(1, Some(2)));
    assert_eq!(node.waiting(), [1, 2, 3].map(client));
    assert_eq!(node.acquire(named(3, 1), 2), Came::Behind(2, Some(1)));
    assert_eq!(node.told, [(client(2), LineHint::Next)]);
    assert_eq!(node.acquire(named(3, 2), 3), Came::Granted);
    assert_eq!(node.acquire(waits(1, 1), 4), Came::Held(Some(0)));
    // A client outside the line may name it too.
    let mut node = held_before(1);
    node.release(1);
    let named = Some(Stand::named(client(9)).skipping(Some(client(1))));
    assert_eq!(node.acquire(named, 2), Came::Granted);
}

#[test]
fn the_holder_of_several_tokens_is_told_of_those_who_come() {
    let mut node = Node::default();
    assert_eq!(node.acquire_of(Some(Stand::named(client(9))), 64, 0), Came::Granted);
    assert_eq!(node.acquire(waits(1, 1), 1), Came::Held(Some(0)));
    assert_eq!(node.told, [(client(9), LineHint::Wanted)]);
    assert_eq!(node.acquire(waits(2, 2), 1), Came::Held(Some(1)));
    assert_eq!(node.told, [(client(9), LineHint::Wanted)], "another one");
    for (number, told) in [(2, 0), (1, 1), (1, 1)] {
        node.acquire(waits(number, u64::from(number)), 1);
        assert_eq!(node.told.len(), told, "the first tells it again");
    }
    assert_eq!(node.acquire(Some(Stand::named(client(3))), 1), Came::Held(None));
    assert!(node.told.is_empty(), "one who does not wait");
    assert_eq!(node.release(2)[0], (client(1), LineHint::Next), "it is not woken itself");
    assert_eq!(node.waiting(), [client(1), client(2)]);
    // Its key has expired, and another one has it: it is not told any more.
    let mut node = Node::default();
    node.acquire_of(Some(Stand::named(client(9))), 64, 0);
    node.is_held = false;
    assert_eq!(node.acquire(Some(Stand::named(client(8))), 1), Came::Granted);
    assert_eq!(node.acquire(waits(1, 1), 2), Came::Held(Some(0)));
    assert!(node.told.is_empty(), "{:?}", node.told);
    // One that is not there any more is forgotten.
    let mut node = Node::default();
    node.acquire_of(Some(Stand::named(client(9))), 64, 0);
    node.gone = vec![client(9)];
    node.acquire(waits(1, 1), 1);
    node.gone.clear();
    node.acquire(waits(2, 2), 1);
    assert!(node.told.is_empty());
}

#[test]
fn it_is_kept_for_four_seconds_after_the_last_one_has_stood_there() {
    let mut node = held_before(2);
    node.acquire(waits(2, 2), 1_000);
    assert_eq!(node.acquire(waits(2, 2), 4_999), Came::Held(Some(1)));
    assert_eq!(node.acquire(waits(3, 3), 8_999), Came::Held(Some(0)), "all are forgotten");
    // As long as its holder has the key, where that is longer.
    let mut node = Node::default();
    node.acquire_of(Some(Stand::named(client(9))), 2, 0);
    node.acquire(waits(2, 2), 1_000);
    node.acquire(waits(1, 1), 9_999);
    assert_eq!(node.told, [(client(9), LineHint::Wanted)]);
}

#[test]
fn a_crowd_beyond_all_measure_is_left_alone() {
    let mut node = Node { is_held: true, ..Node::default() };
    let stand =
        |number: u64| Some(Stand::with(ClientId::new(number.to_be_bytes()), Ticket::new(number)));
    for number in 0..=10_000 {
        node.acquire(stand(number), 0);
    }
    node.is_held = false;
    assert_eq!(node.acquire(stand(10_001), 0), Came::Granted);
    assert_eq!(node.release(0), []);
}

#[test]
fn who_leaves_makes_room_for_the_next_and_takes_no_newer_place_away() {
    let mut node = held_before(3);
    node.release(1);
    let mut leave = |number, ticket, is_free| {
        let hears = |_| true;
        let mut news = LineNews::new(&hears);
        node.line.leave(client(number), Ticket::new(ticket), is_free, at(2), &mut news);
        (news.into_told(), node.line.waiting().count())
    };
    assert_eq!(leave(1, 9, true), (vec![], 3), "it has another ticket now");
    assert_eq!(leave(7, 7, true), (vec![], 3));
    let told = vec![(client(2), LineHint::Next), (client(3), stand_by(client(2)))];
    assert_eq!(leave(1, 1, true), (told, 2));
    assert_eq!(leave(2, 2, false), (vec![], 1), "the key is held");
}

#[test]
fn who_names_itself_drops_the_other_place_that_it_has_and_never_this_one() {
    let read = |node: &mut Node, stand: Option<Stand>, access: ReadAccess| {
        let hears = |_| true;
        let mut news = LineNews::new(&hears);
        let entered = node.line.enter_to_read(stand, access, at(1), &mut news);
        match (entered.first, access) {
            (None, ReadAccess::Free) => {
                node.line.grant(&entered, 1, 10 * SECOND, at(1), &mut news);
                None
            }
            (first, _) => {
                node.line.deny(&entered, at(1), &mut news);
                Some(first)
            }
        }
    };
    let itself = |number, ticket| waits(number, ticket).map(|it| it.skipping(Some(client(number))));
    // To write, where it has waited to read.
    let mut node = Node { is_held: true, ..Node::default() };
    read(&mut node, waits(1, 1), ReadAccess::Held);
    node.release(1);
    assert_eq!(node.acquire(waits(1, 2), 1), Came::Behind(1, Some(1)));
    assert_eq!(node.acquire(waits(2, 3), 1), Came::Behind(1, Some(2)));
    assert_eq!(node.acquire(itself(1, 2), 1), Came::Granted);
    assert_eq!(node.waiting(), [client(2)]);
    // To read, where it has waited to write.
    let mut node = held_before(1);
    node.release(1);
    assert_eq!(read(&mut node, waits(1, 2), ReadAccess::Free), Some(Some(client(1))));
    assert_eq!(read(&mut node, itself(1, 2), ReadAccess::Free), None);
    assert!(node.waiting().is_empty());
    // Behind others it drops nothing, and where this one is the first neither.
    let mut node = held_before(2);
    node.release(1);
    assert_eq!(node.acquire(itself(2, 2), 1), Came::Behind(1, Some(1)));
    assert_eq!(node.waiting(), [client(1), client(2)]);
    assert_eq!(node.acquire(itself(1, 1), 1), Came::Granted);
    assert_eq!(node.acquire(itself(1, 1), 1), Came::Held(Some(0)));
    assert_eq!(node.waiting(), [client(1), client(2)]);
}

/// On a server the line goes with the last one in it, and its end with the line.
#[test]
fn a_line_that_is_empty_for_a_moment_begins_anew() {
    let (mut line, mut news) = (WaitList::default(), LineNews::new(&|_| true));
    let mut grant = |number: u8, ttl: Duration, now: u64| {
        // Nobody releases it: a key may be gone.
        let entered = line.enter(Some(Stand::named(client(number))), true, at(now), &mut news);
        line.grant(&entered, 7, ttl, at(now), &mut news);
        line.clone()
    };
    assert!(!grant(1, 100 * SECOND, 0).is_empty(at(99_999)));
    let line = grant(2, SECOND, 10);
    assert!(!line.is_empty(at(4_009)) && line.is_empty(at(4_010)));
}
