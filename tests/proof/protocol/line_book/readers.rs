//! Readers in the line of one resource on one node: whom they let in first, whom they wake, and who is told.
//!
//! Goal: a reader waits for a writer that came before it, and for nobody else. Method: as that of `line_book.rs`.

use quorlock_core::ReadAccess::{self, Free, Held, Shared};

use super::*;

impl Node {
    fn told_by(
        &mut self,
        what: impl FnOnce(&mut WaitList, &mut LineNews<'_>),
    ) -> Vec<(ClientId, LineHint)> {
        let gone = self.gone.clone();
        let hears = |client| !gone.contains(&client);
        let mut news = LineNews::new(&hears);
        what(&mut self.line, &mut news);
        news.into_told()
    }

    fn read(&mut self, stand: Option<Stand>, access: ReadAccess, millis: u64) -> Came {
        let mut came = Came::Granted;
        self.told = self.told_by(|line, news| {
            let entered = line.enter_to_read(stand, access, at(millis), news);
            if let Some(first) = entered.first {
                let first = first.to_hex()[1] - b'0';
                came = Came::Behind(first, line.deny(&entered, at(millis), news));
            } else if access == Held {
                came = Came::Held(line.deny(&entered, at(millis), news));
            } else {
                line.grant(&entered, 1, 10 * SECOND, at(millis), news);
            }
        });
        came
    }
}

fn next(number: u8) -> (ClientId, LineHint) {
    (client(number), LineHint::Next)
}

fn beside(number: u8, head: u8) -> (ClientId, LineHint) {
    (client(number), stand_by(client(head)))
}

/// The readers 1 and 3 wait, and the writer 2 between them.
fn mixed() -> Node {
    let mut node = Node { is_held: true, ..Node::default() };
    assert_eq!(node.read(waits(1, 1), Held, 0), Came::Held(Some(0)));
    assert_eq!(node.acquire(waits(2, 2), 0), Came::Held(Some(1)));
    assert_eq!(node.read(waits(3, 3), Held, 0), Came::Behind(2, Some(2)));
    node
}

#[test]
fn a_reader_comes_behind_a_writer_that_came_before_it() {
    let mut node = held_before(1);
    node.release(1);
    assert_eq!(node.read(None, Free, 2), Came::Behind(1, None));
    assert_eq!(node.read(Some(Stand::named(client(9))), Free, 2), Came::Behind(1, None));
    assert_eq!(node.read(waits(5, 5), Free, 2), Came::Behind(1, Some(1)));
    assert!(node.told.is_empty(), "the writer is on its way");
    assert_eq!(node.read(waits(6, 0), Free, 2), Came::Granted, "it came before the writer");
    assert_eq!(node.waiting(), [client(1), client(5)], "and waits no more");
    assert!(node.told.is_empty(), "whether others wait is of no use to it");
}

#[test]
fn readers_wait_for_no_reader() {
    let mut node = Node { is_held: true, ..Node::default() };
    assert_eq!(node.read(None, Held, 0), Came::Held(None));
    assert_eq!(node.read(waits(1, 1), Held, 0), Came::Held(Some(0)), "the line begins with it");
    assert_eq!(node.read(waits(2, 2), Held, 0), Came::Held(Some(1)));
    for access in [Free, Shared] {
        for stand in [None, Some(Stand::named(client(9))), waits(8, 8), waits(2, 2)] {
            let mut node = Node { line: node.line.clone(), ..Node::default() };
            assert_eq!(node.read(stand, access, 1), Came::Granted, "{stand:?}");
        }
    }
}

#[test]
fn a_reader_wakes_the_writer_before_it_where_that_may_not_have_heard() {
    let woken = [next(1), beside(2, 1)];
    // A newcomer does not know who is on its way.
    for (millis, told) in [(1, &[][..]), (1_600, &[][..]), (1_601, &woken[..])] {
        for stand in [None, Some(Stand::named(client(9))), waits(9, 9)] {
            let mut node = held_before(2);
            let behind = Came::Behind(1, stand.and_then(|stand| stand.ticket).map(|_| 2));
            assert_eq!(node.read(stand, Free, millis), behind, "{stand:?}");
            assert_eq!(node.told, told, "{stand:?} after {millis} ms");
        }
    }
    // It has stood there before, and asks again.
    let mut node = held_before(2);
    node.read(waits(9, 9), Free, 1);
    assert_eq!(node.read(waits(9, 9), Free, 2), Came::Behind(1, Some(2)));
    assert_eq!(node.told, woken);
    // It names a client that did not come.
    let mut node = held_before(2);
    let named = waits(9, 9).map(|stand| stand.skipping(Some(client(1))));
    assert_eq!(node.read(named, Free, 1), Came::Behind(2, Some(1)));
    assert_eq!(node.told, [next(2)]);
    // Nobody who came before it is there.
    let mut node = held_before(2);
    node.gone = vec![client(1), client(2)];
    assert_eq!(node.read(waits(9, 9), Free, 1_601), Came::Granted);
}

#[test]
fn a_writer_for_which_a_reader_is_kept_out_is_told_that() {
    let keeps_out = |ticket| LineHint::KeepsOut { ticket: Ticket::new(ticket) };
    let mut node = Node { is_held: true, ..Node::default() };
    for number in [1, 2] {
        node.acquire(waits(number, u64::from(number) + 6), 0);
    }
    assert_eq!(node.read(waits(9, 9), Shared, 1), Came::Behind(1, Some(2)));
    assert_eq!(node.told, [(client(1), keeps_out(7))]);
    assert_eq!(node.waiting(), [1, 2, 9].map(client));
    // A client that does not hear it keeps nobody out; the next one does.
    node.gone = vec![client(1)];
    assert_eq!(node.read(None, Shared, 2), Came::Behind(2, None));
    assert_eq!(node.waiting(), [2, 9].map(client));
    node.gone = vec![client(2)];
    assert_eq!(node.read(None, Shared, 3), Came::Granted);
    assert_eq!(node.waiting(), [client(9)]);
}

#[test]
fn readers_that_come_one_after_the_other_are_told_together_and_no_writer_with_them() {
    assert_eq!(mixed().release(1), [next(1), beside(2, 1)]);
    let mut node = Node { is_held: true, ..Node::default() };
    node.read(waits(1, 1), Held, 0);
    node.read(waits(2, 2), Held, 0);
    node.acquire(waits(3, 3), 0);
    node.read(waits(4, 4), Held, 0);
    assert_eq!(node.release(1), [next(1), next(2), beside(3, 1)]);
    let mut node = held_before(1);
    node.read(waits(2, 2), Held, 0);
    assert_eq!(node.release(1), [next(1), beside(2, 1)]);
}

#[test]
fn a_holder_that_shares_its_key_lets_readers_in_that_are_next() {
    let downgrade = |node: &mut Node| node.told_by(|line, news| line.downgrade(at(1), news));
    assert_eq!(downgrade(&mut mixed()), [next(1), beside(2, 1)]);
    let mut behind = held_before(1);
    behind.read(waits(2, 2), Held, 0);
    assert_eq!(downgrade(&mut behind), [], "a writer is next");
    assert_eq!(downgrade(&mut Node::default()), []);
}

#[test]
fn where_another_key_is_free_the_next_one_is_let_in_at_once() {
    let mut node = held_before(2);
    assert_eq!(node.told_by(|line, news| line.pass_on(news)), [next(1), beside(2, 1)]);
}

#[test]
fn a_crowd_beyond_all_measure_keeps_no_reader_out() {
    let mut node = Node { is_held: true, ..Node::default() };
    let stand =
        |number: u64| Some(Stand::with(ClientId::new(number.to_be_bytes()), Ticket::new(number)));
    (0..10_000).for_each(|number| _ = node.acquire(stand(number), 0));
    node.is_held = false;
    assert_eq!(node.acquire(None, 0), Came::Behind(0, None), "not yet");
    assert_eq!(node.read(None, Free, 0), Came::Behind(0, None));
    node.acquire(stand(10_000), 0);
    assert_eq!(node.read(stand(10_001), Free, 0), Came::Granted);
    let mut readers = Node { is_held: true, ..Node::default() };
    (0..10_001).for_each(|number| _ = readers.read(stand(number), Held, 0));
    assert_eq!(readers.told_by(|line, news| line.downgrade(at(0), news)), []);
}

#[test]
fn the_end_of_a_line_is_moved_by_those_who_come_a_tenth_of_a_second_later() {
    for (millis, kept_until) in [(100, 4_000), (101, 4_101)] {
        for (now, is_kept) in [(kept_until - 1, true), (kept_until, false)] {
            let mut node = held_before(1);
            node.acquire(waits(2, 2), millis);
            assert_eq!(node.line.is_empty(at(now)), !is_kept, "{millis} {now}");
        }
    }
}

#[test]
fn what_is_to_be_told_can_be_looked_at() {
    let mut news = LineNews::new(&|_| true);
    held_before(1).line.release(at(1), &mut news);
    assert_eq!(format!("{news:?}"), "LineNews { told: [(ClientId(0101010101010101), Next)], .. }");
}
