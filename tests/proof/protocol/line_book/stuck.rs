//! Places that are stuck, and the other line that a key has.
//!
//! Goal: a place that cannot go on keeps nobody out who asks once, and of two lines the earlier ticket counts. Method: as that
//! of `line_book.rs`.

use super::*;

/// Who is first for a newcomer where 1, 2 and 3 wait, the key is free, and some of the three are stuck.
fn first_beside(
    stuck: &[u8],
    asks: impl Fn(&mut WaitList, &mut LineNews<'_>) -> Option<ClientId>,
) -> Option<ClientId> {
    let mut node = held_before(3);
    node.release(1);
    let is_stuck = |of: ClientId, ticket: Ticket| {
        stuck.iter().any(|one| client(*one) == of && ticket == Ticket::new(u64::from(*one)))
    };
    let mut news = LineNews::new(&|_| true).knowing(&is_stuck);
    asks(&mut node.line, &mut news)
}

#[test]
fn who_asks_once_is_let_in_before_those_who_are_stuck_and_who_waits_is_not() {
    let entered = |stuck: &[u8], stand| {
        first_beside(stuck, |line, news| line.enter(stand, true, at(2), news).first)
    };
    let stuck: [&[u8]; 5] = [&[], &[1], &[2], &[1, 2], &[1, 2, 3]];
    for stand in [None, Some(Stand::named(client(9)))] {
        let first = [Some(1), Some(2), Some(1), Some(3), None].map(|one| one.map(client));
        assert_eq!(stuck.map(|stuck| entered(stuck, stand)), first, "{stand:?}");
    }
    // Those behind its own place are not before it.
    let own = [Some(1), None, Some(1), None, None].map(|one| one.map(client));
    assert_eq!(stuck.map(|stuck| entered(stuck, Some(Stand::named(client(2))))), own);
    assert_eq!(stuck.map(|stuck| entered(stuck, waits(9, 9))), [Some(client(1)); 5]);
}

#[test]
fn from_another_line_those_with_an_earlier_ticket_are_before_it() {
    let before = |stuck: &[u8], stand| {
        first_beside(stuck, |line, news| line.first_before(stand, at(2), news))
            .map(|one| one.to_hex()[1] - b'0')
    };
    for (stuck, stand, first) in [
        (&[][..], None, Some(1)),
        (&[], Some(Stand::named(client(1))), Some(1)),
        (&[1], None, Some(2)),
        (&[1, 2, 3], None, None),
        (&[], waits(1, 1), None),
        (&[], waits(1, 2), Some(1)),
        (&[1], waits(9, 2), None),
        (&[1], waits(9, 3), Some(2)),
        (&[], waits(9, 9).map(|stand| stand.skipping(Some(client(1)))), Some(2)),
    ] {
        assert_eq!(before(stuck, stand), first, "{stuck:?}, {stand:?}");
    }
    let over = first_beside(&[], |line, news| line.first_before(None, at(60_000), news));
    assert_eq!(over, None, "nobody stands there any more");
}

#[test]
fn a_line_of_more_than_ten_thousand_is_none_of_ours() {
    let mut node = Node { is_held: true, ..Node::default() };
    let name = |number: u64| ClientId::new(number.to_be_bytes());
    for number in 0..10_000 {
        node.acquire(Some(Stand::with(name(number), Ticket::new(number))), 0);
    }
    let news = LineNews::new(&|_| true);
    assert_eq!(node.line.first_before(None, at(0), &news), Some(name(0)));
    node.acquire(Some(Stand::with(name(10_000), Ticket::new(10_000))), 0);
    assert_eq!(node.line.first_before(None, at(0), &news), None);
}

#[test]
fn who_is_kept_out_by_another_line_has_its_place_in_its_own() {
    let mut line = WaitList::default();
    let mut news = LineNews::new(&|_| true);
    let entered = line.enter(waits(2, 2), true, at(0), &mut news);
    assert_eq!((entered.first, entered.or_behind(None)), (None, entered));
    let behind = entered.or_behind(Some(client(7)));
    assert_eq!(behind.first, Some(client(7)));
    assert_eq!(behind.or_behind(Some(client(8))), behind, "its own line counts first");
    assert_eq!(line.deny(&behind, at(0), &mut news), Some(0));
    assert_eq!(line.waiting().collect::<Vec<_>>(), [client(2)]);
}
