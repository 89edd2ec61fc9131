//! Admission, driven by hand: which nodes wait, for how long, and what floor a node gets.

use super::*;

const TTL: Duration = Duration::from_secs(10);
const QUARANTINE: Duration = Duration::from_secs(12);

/// The floor after a majority forgot, at a wall clock of 1,000 us: a minute ahead, the farthest that a token can be.
const AFTER_FORGETTING: u64 = 1_000 + 60_000_000;

fn fleet(policy: AdmissionPolicy, nodes: usize) -> Admission {
    Admission::new(Quorum::of(nodes), policy, TTL, Duration::from_secs(1))
}

fn at(secs: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(secs))
}

fn joining_since(since: u64, epoch: u64) -> Standing {
    Standing::Joining { since: at(since), waited: Duration::ZERO, epoch }
}

fn node(index: usize) -> NodeId {
    NodeId::new(index)
}

fn ready(high: u64) -> Option<Marker> {
    Some(Marker::new(true, TTL, high))
}

fn joining() -> Option<Marker> {
    Some(Marker::new(false, TTL, 0))
}

fn others(markers: [Option<Marker>; 5]) -> Vec<(NodeId, Option<Marker>)> {
    markers.into_iter().enumerate().map(|(index, marker)| (node(index), marker)).collect()
}

#[test]
fn a_node_that_forgot_waits_on_the_clients_clock() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    assert!(fleet.handle_marker(node(0), Marker::new(false, TTL, 0), at(100)));
    assert!(fleet.handle_marker(node(0), Marker::new(false, TTL, 0), at(105)));
    assert_eq!(fleet.standing(node(0)), joining_since(100, 0));
    assert_eq!(fleet.poll_timeout(), Some(at(112)));
    assert_eq!(fleet.remaining(node(0), at(105)), Some(Duration::from_secs(7)));
    assert!(fleet.due(at(111)).is_empty());
    assert_eq!(fleet.due(at(112)), [node(0)]);
    assert!(fleet.handle_marker(node(0), Marker::new(true, TTL, 0), at(112)));
    assert_eq!(fleet.standing(node(0)), Standing::Ready);
}

#[test]
fn the_longest_ttl_of_the_fleet_counts() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    assert_eq!(fleet.quarantine(), QUARANTINE);
    assert!(fleet.handle_marker(node(3), Marker::new(true, Duration::from_secs(100), 0), at(0)));
    assert_eq!(fleet.quarantine(), Duration::from_secs(111));
}

#[test]
fn a_second_restart_begins_a_new_quarantine() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    assert!(fleet.handle_marker(node(0), Marker::new(false, TTL, 0), at(100)));
    fleet.handle_forgotten(node(0));
    assert!(fleet.handle_marker(node(0), Marker::new(false, TTL, 0), at(110)));
    assert!(fleet.due(at(112)).is_empty());
}

#[test]
fn the_floor_is_the_largest_of_a_majority_of_the_others() {
    let fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let enough = others([None, ready(7), ready(9), ready(8), None]);
    assert_eq!(fleet.floor(node(0), &enough, 1_000), Ok(Floor::new(9, 0)));
    let its_own_does_not_count = others([ready(99), ready(7), ready(9), None, None]);
    assert_eq!(
        fleet.floor(node(0), &its_own_does_not_count, 1_000),
        Err(AdmissionBlock::TooFewOthers)
    );
}

#[test]
fn a_fleet_that_forgot_starts_at_the_wall_clock_unless_it_is_strict() {
    let new = others([joining(), joining(), joining(), None, None]);
    let fleet_ = fleet(AdmissionPolicy::Quarantine, 5);
    assert_eq!(fleet_.floor(node(0), &new, 1_000), Ok(Floor::new(0, AFTER_FORGETTING)));
    let some_left = others([joining(), joining(), joining(), ready(5_000), None]);
    assert_eq!(fleet_.floor(node(0), &some_left, 1_000), Ok(Floor::new(5_000, AFTER_FORGETTING)));
    assert_eq!(
        fleet(AdmissionPolicy::Strict, 5).floor(node(0), &new, 1_000),
        Err(AdmissionBlock::Strict)
    );
    assert_eq!(
        fleet(AdmissionPolicy::Quarantine, 1).floor(node(0), &[], 1_000),
        Ok(Floor::new(0, AFTER_FORGETTING))
    );
}

#[test]
fn nodes_that_cannot_be_reached_have_not_forgotten() {
    let fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let cut_off = others([joining(), joining(), None, None, None]);
    assert_eq!(fleet.floor(node(0), &cut_off, 1_000), Err(AdmissionBlock::TooFewOthers));
}

#[test]
fn skipping_is_immediate() {
    let mut fleet = fleet(AdmissionPolicy::DangerSkip, 5);
    assert!(fleet.handle_marker(node(0), Marker::new(false, TTL, 0), at(100)));
    assert_eq!(fleet.due(at(100)), [node(0)]);
    assert_eq!(
        fleet.floor(node(0), &others([None; 5]), 1_000),
        Ok(Floor::new(0, AFTER_FORGETTING))
    );
}

#[test]
fn another_epoch_begins_a_new_quarantine() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let joining = Marker::new(false, TTL, 0);
    assert!(fleet.handle_marker(node(0), joining.in_epoch(1), at(100)));
    assert!(fleet.handle_marker(node(0), joining.in_epoch(2), at(110)));
    assert_eq!(fleet.standing(node(0)), joining_since(110, 2));
    assert!(fleet.due(at(112)).is_empty());
}

#[test]
fn a_hint_leaves_room_for_all_of_a_range_and_follows_a_counter_that_was_seen() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    assert_eq!(fleet.hint(1_000, 64), 1_000);
    assert_eq!(fleet.hint(1_000, 64), 1_064, "all of the range is above the hint before");
    assert_eq!(fleet.hint(1_100, 64), 1_128, "although the clock is above that hint");
    assert_eq!(fleet.hint(1_128, 1), 1_129);
    assert_eq!(fleet.hint(1_300, 64), 1_300);
    fleet.handle_counter(5_000, 1_300);
    assert_eq!((fleet.hint(1_300, 64), fleet.hint(1_300, 1)), (5_064, 5_065));
    fleet.handle_counter(4_000, 1_300);
    assert_eq!(fleet.hint(1_300, 0), 5_066, "no hint is given twice");
}

#[test]
fn a_hint_leads_by_counters_for_half_a_minute_at_most() {
    let (mut fleet, most) = (fleet(AdmissionPolicy::Quarantine, 5), 30_000_000);
    fleet.handle_counter(1_000 + most, 1_000);
    assert_eq!(fleet.hint(1_000, 1), 1_000, "nodes would cut it, or count from elsewhere");
    fleet.handle_counter(1_000 + most - 1, 1_000);
    assert_eq!(fleet.hint(1_000, 1), 1_000 + most);
    assert_eq!(fleet.hint(1_000, 1), 1_000, "and begins again at the clock");
    // A floor further ahead than that is followed.
    let floor = 1_000 + 2 * most;
    assert!(fleet.handle_marker(node(1), Marker::new(true, TTL, 0).above(floor), at(0)));
    assert_eq!((fleet.hint(1_000, 64), fleet.hint(1_000, 64)), (floor + 64, floor + 128));
}

#[test]
fn a_hint_is_above_a_floor_that_is_a_little_ahead() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    assert_eq!(fleet.hint(1_000, 1), 1_000);
    assert_eq!(fleet.hint(1_000, 1), 1_001, "and above the one before");
    assert!(fleet.handle_marker(node(1), Marker::new(true, TTL, 0).above(5_000), at(0)));
    assert_eq!(fleet.hint(1_000, 1), 5_001);
    assert_eq!(fleet.hint(5_000, 1), 5_002);
    assert_eq!(fleet.hint(5_001, 1), 5_003);
    assert_eq!(fleet.hint(6_000, 1), 6_000);
    assert!(fleet.handle_marker(
        node(2),
        Marker::new(true, TTL, 0).above(1_000 + 120_000_000),
        at(0)
    ));
    assert_eq!(fleet.hint(1_000, 1), 1_000, "two minutes ahead is what a node cuts");
    assert_eq!(fleet.hint(1_001, 1), 1_000 + 120_000_000 + 1);
    assert_eq!(fleet.hint(u64::MAX / 2, 1), u64::MAX / 2);
    assert_eq!(fleet.hint(6_000, 1), 6_000, "a clock that was far ahead leaves nothing behind");
    assert!(fleet.handle_marker(node(2), Marker::new(true, TTL, 0).above(u64::MAX), at(0)));
    assert_eq!(fleet.hint(1_000, 1), 1_000, "nodes would cut it");
}

#[test]
fn data_that_is_older_than_what_was_seen_of_the_same_epoch_does_not_vote() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let seen = Marker::new(true, TTL, 900).in_epoch(4).sealed(2);
    assert!(fleet.handle_marker(node(0), seen, at(0)));
    for older in [Marker { high_water: 899, ..seen }, Marker { seal: 1, ..seen }] {
        assert!(!fleet.handle_marker(node(0), older, at(1)));
        assert_eq!(fleet.standing(node(0)), Standing::Unknown);
        assert!(fleet.handle_marker(node(0), seen, at(2)), "it is the old data that is refused");
    }
    assert!(fleet.handle_marker(node(0), Marker { high_water: 1, ..seen }.in_epoch(5), at(3)));
    assert_eq!(fleet.marks()[0], EpochMark::new(5, 2));
    assert!(!fleet.handle_marker(node(0), seen, at(4)), "an earlier epoch");
    fleet.handle_replaced(node(0));
    assert!(fleet.handle_marker(node(0), seen, at(5)), "of another process that says nothing");
}

#[test]
fn counters_that_no_clock_explains_are_neither_spread_nor_passed_over() {
    let fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let day = 86_400_000_000;
    let floor =
        |high| fleet.floor(node(0), &others([None, ready(7), ready(high), ready(8), None]), 9);
    assert_eq!(floor(9 + day), Ok(Floor::new(9 + day, 0)));
    assert_eq!(floor(10 + day), Err(AdmissionBlock::Implausible));
}

#[test]
fn what_is_heard_of_a_node_in_passing_does_not_change_its_standing() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    fleet.handle_news(
        node(1),
        Marker::new(true, Duration::from_secs(100), 7).above(5_000).in_epoch(3),
    );
    assert_eq!((fleet.standing(node(0)), fleet.epoch(node(0))), (Standing::Unknown, None));
    assert_eq!((fleet.longest(), fleet.hint(1_000, 1)), (Duration::from_secs(100), 5_001));
    assert!(fleet.handle_marker(node(0), Marker::new(true, TTL, 0).in_epoch(4), at(0)));
    fleet.handle_forgotten(node(0));
    assert_eq!(
        fleet.epoch(node(0)),
        Some(4),
        "what is forgotten is not in which epoch it was seen"
    );
}

#[test]
fn a_ttl_longer_than_a_node_in_use_knew_is_told_once() {
    let known = |secs| Marker::new(true, Duration::from_secs(secs), 0);
    for (marker, is_told) in [
        (known(9), true),
        (known(10), false),
        (known(11), false),
        (known(0), false),
        (known(9).claimed(Claim::Meant), false),
        (known(9).claimed(Claim::Held), false),
    ] {
        let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
        assert!(fleet.handle_marker(node(1), marker, at(0)));
        let told = AdmissionNews::MaxTtlRaised { node: node(1), from: marker.max_ttl, to: TTL };
        assert_eq!(fleet.poll_news(), is_told.then_some(told), "{marker:?}");
        assert!(fleet.handle_marker(node(2), known(8), at(0)));
        assert_eq!(fleet.poll_news().is_some(), !is_told, "{marker:?}: it is told of one node");
    }
}

#[test]
fn what_was_meant_is_given_up_beside_another_list_until_a_majority_is_made() {
    let claimed = |claim| Marker::new(true, TTL, 0).claimed(claim);
    let plain = Join::look(TTL);
    for (claims, has_meant, gives_up) in [
        (&[][..], false, true),
        (&[Claim::Meant], true, true),
        (&[Claim::Made], false, true),
        (&[Claim::Made, Claim::Made, Claim::Held], true, true),
        (&[Claim::Made, Claim::Made, Claim::Made], false, false),
        (&[Claim::Meant, Claim::Made, Claim::Made, Claim::Made], true, false),
    ] {
        let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
        for (index, claim) in claims.iter().enumerate() {
            assert!(fleet.handle_marker(node(index), claimed(*claim), at(0)));
        }
        assert_eq!(fleet.has_meant(), has_meant, "{claims:?}");
        assert_eq!(fleet.look(), plain, "{claims:?}: nobody else has a node");
        fleet.handle_other_members(node(4), &Members::new("other", ["x"]), Belongs::Record);
        let look = if gives_up { plain.errand(Errand::Withdraw) } else { plain };
        assert_eq!(fleet.look(), look, "{claims:?}");
    }
}

#[test]
fn a_node_that_has_kept_its_data_says_less_where_the_longest_ttl_was_lowered() {
    let mut fleet = fleet(AdmissionPolicy::Quarantine, 5);
    let says =
        |ready, secs, epoch| Marker::new(ready, Duration::from_secs(secs), 0).in_epoch(epoch);
    for (marker, longest) in [
        (says(true, 100, 4), 100),
        (says(true, 20, 4), 20),
        (says(true, 15, 5), 20),
        (says(false, 12, 6), 20),
        (says(false, 11, 6), 20),
        (says(true, 30, 7), 30),
    ] {
        assert!(fleet.handle_marker(node(0), marker, at(0)));
        assert_eq!(fleet.longest(), Duration::from_secs(longest), "{marker:?}");
    }
}
