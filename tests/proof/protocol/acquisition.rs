//! When to try again and when to give up: W1 to W10, each by name.
//!
//! Goal: each invariant is pinned by the smallest case that shows it. Method: a few lost rounds by hand, at the times at
//! which the decision turns. `acquisition_histories.rs` has the same invariants over random rounds.

use quorlock_core::{
    Acquisition, Backoff, GiveUp, LostRound, Next, RoundLoss, Traffic, TurnedAway, Verdict,
    WaitPolicy, WaitSettings,
};

use super::*;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// A node timeout of 100 ms, a wait of 4 s, pauses from 4 ms to 40 ms.
const SETTINGS: WaitSettings = WaitSettings {
    node_timeout: Duration::from_millis(100),
    wait: Duration::from_secs(4),
    backoff: Backoff { min: Duration::from_millis(4), max: Duration::from_millis(40) },
    through_outages: false,
};

const QUIET: Traffic = Traffic { answered: Timestamp::ORIGIN, crowded: Timestamp::ORIGIN };

fn new(policy: WaitPolicy) -> Acquisition {
    Acquisition::new(SETTINGS, policy, start())
}

/// A round that was lost so, and had begun `begun` ms after the start.
fn round(loss: RoundLoss, begun: u64) -> LostRound {
    LostRound {
        loss,
        begun: at(begun),
        overrun: false,
        outdated: false,
        quarantined: false,
        quorum_after: None,
        free_after: None,
        waited_for_turn: false,
        in_line: None,
        ended: None,
    }
}

fn held(begun: u64) -> LostRound {
    round(RoundLoss::Contended, begun)
}

fn broken(begun: u64) -> LostRound {
    round(RoundLoss::NoQuorum, begun)
}

fn slow(begun: u64) -> LostRound {
    LostRound { overrun: true, ..broken(begun) }
}

/// What follows where the pause is the shortest: a quarter of 4 ms.
fn lost(acquisition: &mut Acquisition, lost: LostRound, traffic: Traffic, now: u64) -> Next {
    acquisition.handle_lost_round(lost, traffic, Some(Duration::ZERO), 0, at(now))
}

pub(crate) const fn again(at: Timestamp) -> Next {
    Next::Again { look_until: None, at }
}

#[test]
fn w1_a_request_for_one_round_begins_one() {
    for loss in [RoundLoss::Contended, RoundLoss::NoQuorum, RoundLoss::TooLate] {
        let mut one = new(WaitPolicy::OneRound);
        let next = lost(&mut one, round(loss, 0), QUIET, 1);
        assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "{loss:?}");
    }
}

#[test]
fn w2_no_round_begins_at_the_deadline() {
    let limited = |wait| new(WaitPolicy::For(wait));
    assert_eq!(lost(&mut limited(11 * MS), held(0), QUIET, 9), again(at(10)));
    assert_eq!(lost(&mut limited(10 * MS), held(0), QUIET, 9), Next::GiveUp(GiveUp::LastRound));
    assert_eq!(limited(10 * MS).turn_deadline(), Some(at(10)));
    assert_eq!(new(WaitPolicy::OneRound).turn_deadline(), Some(at(100)));
    assert_eq!(new(WaitPolicy::Unlimited).turn_deadline(), None);
    assert_eq!(
        lost(&mut new(WaitPolicy::Unlimited), held(0), QUIET, 1 << 40),
        again(at((1 << 40) + 1))
    );
    assert_eq!(limited(MS).started(), start());
}

#[test]
fn w3_an_outage_is_borne_for_a_quarter_of_the_wait_and_for_a_node_timeout_at_least() {
    // Up to when a round may begin, in ms after the outage was met.
    for (policy, borne) in [
        (WaitPolicy::For(800 * MS), 200),
        (WaitPolicy::For(399 * MS), 100),
        (WaitPolicy::Unlimited, 1_000),
    ] {
        let mut acquisition = new(policy);
        assert_eq!(lost(&mut acquisition, held(0), QUIET, 9), again(at(10)), "no outage yet");
        assert_eq!(lost(&mut acquisition, broken(20), QUIET, 30), again(at(31)), "{policy:?}");
        let last = 20 + borne;
        let mut later = acquisition.clone();
        assert_eq!(lost(&mut later, broken(50), QUIET, last - 2), again(at(last - 1)));
        let next = lost(&mut acquisition, broken(50), QUIET, last - 1);
        assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "{policy:?}");
    }
}

#[test]
fn w3_who_waits_through_outages_bears_one_for_as_long_as_it_waits() {
    let through = |policy| {
        let settings = WaitSettings { through_outages: true, ..SETTINGS };
        Acquisition::new(settings, policy, start())
    };
    for (policy, last) in [(WaitPolicy::For(800 * MS), 798), (WaitPolicy::Unlimited, 1 << 40)] {
        let mut acquisition = through(policy);
        assert_eq!(lost(&mut acquisition, broken(0), QUIET, 10), again(at(11)));
        assert_eq!(lost(&mut acquisition, broken(11), QUIET, last), again(at(last + 1)));
    }
    let mut limited = through(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut limited, broken(0), QUIET, 10), again(at(11)));
    assert_eq!(lost(&mut limited, broken(11), QUIET, 799), Next::GiveUp(GiveUp::LastRound), "W2");
    let mut one = through(WaitPolicy::OneRound);
    assert_eq!(lost(&mut one, broken(0), QUIET, 10), Next::GiveUp(GiveUp::LastRound), "W1");
    // W4 stays: a request whose time went by in line is told that this process has too much to do.
    let mut slow_one = through(WaitPolicy::For(800 * MS));
    let waited = LostRound { waited_for_turn: true, ..slow(0) };
    assert_eq!(lost(&mut slow_one, waited, QUIET, 790), again(at(791)));
    assert_eq!(lost(&mut slow_one, slow(791), QUIET, 799), Next::GiveUp(GiveUp::Crowded));
}

#[test]
fn w3_the_outage_ends_when_enough_nodes_answer_and_a_quarantine_is_none() {
    let quarantined = |begun| LostRound { quarantined: true, ..broken(begun) };
    for other in [held(150), round(RoundLoss::TooLate, 150), quarantined(150)] {
        let mut acquisition = new(WaitPolicy::For(800 * MS));
        assert_eq!(lost(&mut acquisition, broken(0), QUIET, 99), again(at(100)));
        assert_eq!(lost(&mut acquisition, other, QUIET, 160), again(at(161)), "{other:?}");
        assert_eq!(lost(&mut acquisition, broken(170), QUIET, 300), again(at(301)));
    }
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    for begun in [0, 200, 400, 600] {
        let next = lost(&mut acquisition, quarantined(begun), QUIET, begun + 190);
        assert_eq!(next, again(at(begun + 191)));
    }
}

#[test]
fn w3_where_others_are_answered_meanwhile_the_nodes_are_slow_and_not_gone() {
    let answered = |answered| Traffic { answered: at(answered), ..QUIET };
    for (round, traffic, borne) in [
        (slow(100), answered(150), true),
        (slow(100), answered(50), true),
        (slow(100), answered(49), false),
        (broken(100), answered(150), false),
    ] {
        let mut acquisition = new(WaitPolicy::For(800 * MS));
        assert_eq!(lost(&mut acquisition, broken(0), QUIET, 100), again(at(101)));
        let next = lost(&mut acquisition, round, traffic, 248);
        let expected = if borne { again(at(249)) } else { Next::GiveUp(GiveUp::LastRound) };
        assert_eq!(next, expected, "{round:?}, {traffic:?}");
    }
    // An answer before the outage does not make it longer.
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, slow(100), answered(50), 298), again(at(299)));
    let next = lost(&mut acquisition, slow(100), answered(50), 299);
    assert_eq!(next, Next::GiveUp(GiveUp::LastRound));
}

#[test]
fn w4_nodes_that_are_slow_under_the_load_of_this_process_are_not_reported_as_broken() {
    let traffic = |answered, crowded| Traffic { answered: at(answered), crowded: at(crowded) };
    let crowded = Next::GiveUp(GiveUp::Crowded);
    let reported = Next::GiveUp(GiveUp::LastRound);
    for (lost_round, traffic, expected) in [
        (slow(10), traffic(10, 10), crowded),
        (slow(10), traffic(9, 10), reported),
        (slow(10), traffic(10, 9), reported),
        (broken(10), traffic(10, 10), reported),
        (held(10), traffic(10, 10), reported),
        (round(RoundLoss::TooLate, 10), traffic(10, 10), reported),
    ] {
        let mut one = new(WaitPolicy::OneRound);
        assert_eq!(lost(&mut one, lost_round, traffic, 50), expected, "{lost_round:?} {traffic:?}");
    }
}

#[test]
fn w4_nor_where_its_time_went_by_in_line_while_the_outage_could_be_borne() {
    let waited = |lost| LostRound { waited_for_turn: true, ..lost };
    let mut acquisition = new(WaitPolicy::For(90 * MS));
    assert_eq!(lost(&mut acquisition, waited(slow(0)), QUIET, 80), again(at(81)));
    let next = lost(&mut acquisition, slow(81), QUIET, 95);
    assert_eq!(next, Next::GiveUp(GiveUp::Crowded), "it has waited before an earlier round");

    let mut acquisition = new(WaitPolicy::For(90 * MS));
    let next = lost(&mut acquisition, waited(slow(0)), QUIET, 100);
    assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "that is too long for a load");
    let mut acquisition = new(WaitPolicy::For(90 * MS));
    let next = lost(&mut acquisition, slow(50), QUIET, 95);
    assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "it has not waited");
    // Also where another one of this process asked, and has waited for that.
    let mut shares = new(WaitPolicy::For(90 * MS));
    assert_eq!(shares.handle_shared_round(waited(slow(0)), QUIET, at(81), at(80)), None);
    let next = shares.handle_shared_round(slow(81), QUIET, at(96), at(95));
    assert_eq!(next, Some(GiveUp::Crowded));
}

#[test]
fn w5_a_pause_is_no_longer_than_what_stands_in_the_way_lives_and_never_very_short() {
    let pause = |lost: LostRound, random| {
        let mut acquisition = new(WaitPolicy::Unlimited);
        let trip = Some(20 * MS);
        match acquisition.handle_lost_round(lost, QUIET, trip, random, at(50)) {
            Next::Again { at: next, .. } => next.saturating_since(at(50)),
            Next::GiveUp(_) => panic!("it waits for ever"),
        }
    };
    let free = |millis| LostRound { free_after: Some(millis * MS), ..held(0) };
    assert_eq!((pause(held(0), 0), pause(held(0), 255)), (10 * MS, 40 * MS));
    assert_eq!(pause(free(30), 255), 30 * MS);
    assert_eq!(pause(free(41), 255), 40 * MS);
    assert_eq!(pause(free(0), 255), MS, "a quarter of the shortest");
    let unheld = LostRound { free_after: Some(30 * MS), ..broken(0) };
    assert_eq!(pause(unheld, 255), 40 * MS, "what it waits for is the nodes");
}

#[test]
fn w6_who_runs_out_of_time_in_line_is_told_that_the_resource_was_held() {
    let late =
        |acquisition: &Acquisition, now| acquisition.handle_turned_away(TurnedAway::Late, at(now));
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(late(&acquisition, 800), GiveUp::Crowded, "it has had no round");
    let free = |begun| LostRound { free_after: Some(300 * MS), ..held(begun) };
    assert_eq!(lost(&mut acquisition, free(0), QUIET, 10), again(at(11)));
    assert_eq!(late(&acquisition, 110), GiveUp::FoundHeld { free_after: Some(200 * MS) });
    assert_eq!(late(&acquisition, 800), GiveUp::FoundHeld { free_after: Some(Duration::ZERO) });
    // What only says that the nodes were slow tells less; anything else tells more.
    assert_eq!(lost(&mut acquisition, slow(11), QUIET, 20), again(at(21)));
    assert_eq!(late(&acquisition, 110), GiveUp::FoundHeld { free_after: Some(200 * MS) });
    for other in [broken(21), round(RoundLoss::TooLate, 21)] {
        let mut acquisition = acquisition.clone();
        assert_eq!(lost(&mut acquisition, other, QUIET, 22), again(at(23)));
        assert_eq!(late(&acquisition, 110), GiveUp::LastRound, "{other:?}");
    }
    assert_eq!(lost(&mut acquisition, held(21), QUIET, 22), again(at(23)));
    assert_eq!(late(&acquisition, 110), GiveUp::FoundHeld { free_after: None }, "the last counts");

    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, slow(0), QUIET, 10), again(at(11)));
    assert_eq!(late(&acquisition, 800), GiveUp::Crowded);
}

#[test]
fn w6_who_is_turned_away_by_closing_is_told_so_whatever_it_has_found() {
    let mut acquisition = new(WaitPolicy::Unlimited);
    let closed = |acquisition: &Acquisition| {
        assert_eq!(acquisition.handle_turned_away(TurnedAway::Closed, at(9)), GiveUp::Closed);
    };
    closed(&acquisition);
    for (begun, lost_round) in [held(0), broken(2), slow(4)].into_iter().enumerate() {
        let _ = lost(&mut acquisition, lost_round, QUIET, begun as u64 + 1);
        closed(&acquisition);
    }
}

/// A round that was lost by quarantines, of which enough are over so many ms after it.
fn waits(begun: u64, after: u32) -> LostRound {
    LostRound { quarantined: true, quorum_after: Some(after * MS), ..broken(begun) }
}

const fn quarantined(remaining: u32) -> Next {
    let remaining = Duration::from_millis(remaining as u64);
    Next::GiveUp(GiveUp::Quarantined { remaining })
}

#[test]
fn w7_a_quarantine_is_waited_for_up_to_the_deadline_also_where_it_ends_later() {
    for (policy, now, after, waited_for) in [
        (WaitPolicy::For(800 * MS), 10, 789, true),
        (WaitPolicy::For(800 * MS), 10, 5_000, true),
        (WaitPolicy::For(800 * MS), 799, 5_000, false),
        (WaitPolicy::For(800 * MS), 799, 0, false),
        (WaitPolicy::Unlimited, 10, 1 << 30, true),
        (WaitPolicy::OneRound, 10, 0, false),
    ] {
        let next = lost(&mut new(policy), waits(0, after), QUIET, now);
        let expected = if waited_for { again(at(now + 1)) } else { quarantined(after) };
        assert_eq!(next, expected, "{policy:?} at {now}, {after} ms");
    }
}

#[test]
fn w7_that_it_is_a_quarantine_is_the_answer_whenever_that_is_given() {
    // It should have been over by then, and was not: it is told what is left.
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, waits(0, 700), QUIET, 10), again(at(11)));
    let late = |acquisition: &Acquisition, now| {
        Next::GiveUp(acquisition.handle_turned_away(TurnedAway::Late, at(now)))
    };
    assert_eq!(late(&acquisition, 110), quarantined(600));
    assert_eq!(late(&acquisition, 900), quarantined(0));
    assert_eq!(lost(&mut acquisition, waits(790, 0), QUIET, 799), quarantined(0));
    // What a later round has found counts, and so does what it has not.
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, waits(0, 700), QUIET, 10), again(at(11)));
    assert_eq!(lost(&mut acquisition, broken(20), QUIET, 30), again(at(31)));
    assert_eq!(late(&acquisition, 110), Next::GiveUp(GiveUp::LastRound));
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, held(0), QUIET, 10), again(at(11)));
    assert_eq!(lost(&mut acquisition, waits(790, 5_000), QUIET, 799), quarantined(5_000));
    // The nodes that answered said that it is held, or that it came too late: that is known for certain.
    for loss in [RoundLoss::Contended, RoundLoss::TooLate] {
        let told = LostRound { loss, ..waits(0, 5_000) };
        let next = lost(&mut new(WaitPolicy::For(10 * MS)), told, QUIET, 9);
        assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "{loss:?}");
    }
}

#[test]
fn w7_where_slow_nodes_would_do_it_is_tried_again_and_a_round_is_begun_again_first() {
    let slow = |begun| LostRound { overrun: true, ..waits(begun, 5_000) };
    let mut acquisition = new(WaitPolicy::For(800 * MS));
    assert_eq!(lost(&mut acquisition, slow(0), QUIET, 100), again(at(101)));
    assert_eq!(lost(&mut acquisition, slow(700), QUIET, 799), quarantined(5_000));
    let busy = Traffic { answered: at(700), crowded: at(700) };
    let next = lost(&mut acquisition, slow(700), busy, 799);
    assert_eq!(next, Next::GiveUp(GiveUp::Crowded), "W4");

    let changed = LostRound { outdated: true, ..waits(0, 5_000) };
    let mut one = new(WaitPolicy::OneRound);
    assert!(matches!(lost(&mut one, changed, QUIET, 99), Next::Again { .. }), "W1");
    let last = LostRound { begun: at(199), ..changed };
    assert_eq!(lost(&mut one, last, QUIET, 199), quarantined(5_000), "W10");
}

#[test]
fn a_round_that_is_not_lost_has_nothing_to_say() {
    let mut round = sent(3);
    assert_eq!(LostRound::of(&round, start(), true), None);
    round.handle_reply(node(0), denied(), at(1));
    round.handle_reply(node(1), denied(), at(1));
    assert_eq!(round.verdict(), Verdict::Lost);
    let lost = LostRound::of(&round, start(), true).unwrap();
    let expected = LostRound {
        loss: RoundLoss::Contended,
        begun: start(),
        overrun: false,
        outdated: false,
        quarantined: true,
        quorum_after: None,
        free_after: Some(TTL),
        waited_for_turn: true,
        in_line: None,
        ended: None,
    };
    assert_eq!(lost, expected, "no node failed, so that none but those in quarantine did");
}

#[test]
fn w2_a_pause_that_lasts_too_long_ends_in_no_round() {
    let with = |policy| Acquisition::new(SETTINGS, policy, at(0));
    let limited = with(WaitPolicy::For(200 * MS));
    assert!(limited.may_begin(at(199)) && !limited.may_begin(at(200)));
    assert!(with(WaitPolicy::Unlimited).may_begin(at(1_000_000)));
    // Its second round waits for the nodes to be looked at, which has a limit of its own.
    assert!(with(WaitPolicy::OneRound).may_begin(at(300)));
}

#[test]
fn w8_an_outage_that_another_one_has_met_is_told_after_a_quarter_of_the_own_wait() {
    let policies = [(WaitPolicy::For(SETTINGS.wait), 1_000), (WaitPolicy::For(100 * MS), 100)];
    for (policy, bearable) in policies {
        let mut acquisition = new(policy);
        let mut shared =
            |lost, next, now| acquisition.handle_shared_round(lost, QUIET, at(next), at(now));
        // The round began before this request came, which counts no earlier than that.
        let before = LostRound { begun: Timestamp::ORIGIN, ..broken(0) };
        assert_eq!(shared(before, bearable - 1, 1), None);
        assert_eq!(shared(broken(5), bearable - 1, 20), None);
        assert_eq!(shared(broken(5), bearable, 20), Some(GiveUp::LastRound));
    }
    // A round that a quorum answered ends it, also one of another.
    let mut acquisition = new(WaitPolicy::Unlimited);
    assert_eq!(acquisition.handle_shared_round(broken(0), QUIET, at(10), at(1)), None);
    assert_eq!(acquisition.handle_shared_round(held(500), QUIET, at(510), at(501)), None);
    assert_eq!(acquisition.handle_shared_round(broken(600), QUIET, at(1_500), at(601)), None);
    // A request with `through_outages` bears it.
    let settings = WaitSettings { through_outages: true, ..SETTINGS };
    let mut patient = Acquisition::new(settings, WaitPolicy::Unlimited, start());
    assert_eq!(patient.handle_shared_round(broken(0), QUIET, at(90_000), at(80_000)), None);
    // A request for one round gets what it finds; a request whose time is up gets what the last one has found.
    let mut single = new(WaitPolicy::OneRound);
    assert_eq!(single.handle_shared_round(held(0), QUIET, at(9), at(1)), Some(GiveUp::LastRound));
    let mut late = new(WaitPolicy::For(10 * MS));
    assert_eq!(late.handle_shared_round(held(0), QUIET, at(50), at(9)), None);
    assert_eq!(late.handle_shared_round(held(0), QUIET, at(50), at(10)), Some(GiveUp::LastRound));
    assert_eq!(late.lost_rounds(), 0, "they were not its own");
    // Slow nodes are no crowd, where this process does not wait for its turn.
    let mut behind = new(WaitPolicy::For(10 * MS));
    assert_eq!(behind.handle_late(at(10)), GiveUp::Crowded, "nothing is known");
    behind.handle_known(slow(0), at(5));
    assert_eq!(behind.handle_turned_away(TurnedAway::Late, at(10)), GiveUp::Crowded);
    assert_eq!(behind.handle_late(at(10)), GiveUp::LastRound);
    behind.handle_known(held(6), at(8));
    behind.handle_known(slow(8), at(9));
    assert_eq!(behind.handle_late(at(10)), GiveUp::FoundHeld { free_after: None });
}

#[test]
fn w9_who_stands_in_line_waits_there_for_as_long_as_the_line_says_and_up_to_the_deadline() {
    let lost = |begun| held(begun).in_line(Some(at(1_400)));
    let next = |policy, lost| {
        let mut acquisition = Acquisition::new(SETTINGS, policy, at(0));
        acquisition.handle_lost_round(lost, Traffic::default(), None, 0, at(10))
    };
    let again = |millis| Next::Again { look_until: None, at: at(millis) };
    assert_eq!(next(WaitPolicy::Unlimited, lost(0)), again(1_400));
    assert_eq!(next(WaitPolicy::For(Duration::from_secs(5)), lost(0)), again(1_400));
    // Its pause would end after the deadline, and it can be woken before.
    assert_eq!(next(WaitPolicy::For(300 * MS), lost(0)), again(300));
    assert_eq!(next(WaitPolicy::For(10 * MS), lost(0)), Next::GiveUp(GiveUp::LastRound));
    assert_eq!(next(WaitPolicy::OneRound, lost(0)), Next::GiveUp(GiveUp::LastRound));
    // The nodes tell only of a resource that is held, or free for somebody else.
    for loss in [RoundLoss::NoQuorum, RoundLoss::TooLate] {
        let told = LostRound { in_line: Some(at(1_400)), ..round(loss, 0) };
        let untold = round(loss, 0);
        assert_eq!(next(WaitPolicy::Unlimited, told), next(WaitPolicy::Unlimited, untold));
    }
}

#[test]
fn w9_where_nodes_have_changed_they_are_looked_at_and_then_the_line_says_when() {
    let changed = |loss| LostRound { outdated: true, in_line: Some(at(12)), ..round(loss, 0) };
    let next = |policy, loss| {
        let mut acquisition = Acquisition::new(SETTINGS, policy, at(0));
        let next =
            acquisition.handle_lost_round(changed(loss), Traffic::default(), None, 0, at(10));
        (next, acquisition.is_in_line())
    };
    let look = |until, millis| Next::Again { look_until: Some(at(until)), at: at(millis) };
    assert_eq!(next(WaitPolicy::Unlimited, RoundLoss::NoQuorum), (look(110, 12), true));
    // W10: the look does not count against the wait.
    assert_eq!(next(WaitPolicy::For(50 * MS), RoundLoss::NoQuorum), (look(110, 12), true));
    assert_eq!(next(WaitPolicy::For(11 * MS), RoundLoss::NoQuorum), (look(110, 12), true));
    assert_eq!(next(WaitPolicy::For(10 * MS), RoundLoss::NoQuorum), (look(110, 11), true));
    assert_eq!(next(WaitPolicy::For(10 * MS), RoundLoss::Contended), (look(110, 11), true));
    // Others' keys need no look.
    assert_eq!(next(WaitPolicy::Unlimited, RoundLoss::Contended), (again(at(12)), true));
    assert!(!next(WaitPolicy::Unlimited, RoundLoss::TooLate).1);
}

/// A round that was lost to nodes whose state has changed, as by a seal.
fn changed(loss: RoundLoss, begun: u64) -> LostRound {
    LostRound { outdated: true, quarantined: true, ..round(loss, begun) }
}

const POLICIES: [WaitPolicy; 4] = [
    WaitPolicy::OneRound,
    WaitPolicy::For(Duration::from_millis(10)),
    WaitPolicy::For(Duration::from_millis(800)),
    WaitPolicy::Unlimited,
];

#[test]
fn w10_a_round_that_changed_nodes_have_cost_is_repeated_also_where_the_wait_is_over() {
    for policy in POLICIES {
        for (loss, repeated) in [
            (RoundLoss::Contended, true),
            (RoundLoss::NoQuorum, true),
            (RoundLoss::TooLate, false),
            (RoundLoss::Abandoned, false),
        ] {
            let mut acquisition = new(policy);
            let next = lost(&mut acquisition, changed(loss, 0), QUIET, 50);
            let look = Next::Again { look_until: Some(at(150)), at: at(51) };
            assert_eq!(next == look, repeated, "{policy:?}, {loss:?}: {next:?}");
            if repeated {
                assert!(acquisition.may_begin(at(151)), "the look has a limit of its own");
                let late = acquisition.turn_deadline();
                assert!(late.is_none_or(|late| late >= at(150)), "{policy:?}: {late:?}");
            }
        }
    }
}

#[test]
fn w10_the_first_of_such_rounds_in_a_row_bounds_them_by_a_node_timeout() {
    for policy in POLICIES {
        let mut acquisition = new(policy);
        for now in (50..150).step_by(3) {
            let next = lost(&mut acquisition, changed(RoundLoss::NoQuorum, now - 1), QUIET, now);
            let look = Next::Again { look_until: Some(at(now + 100)), at: at(now + 1) };
            assert_eq!(next, look, "{policy:?}");
        }
        // A round that was under way for long, as beside a node that hangs, counts from when it began.
        let next = lost(&mut acquisition, changed(RoundLoss::NoQuorum, 149), QUIET, 249);
        let look = Next::Again { look_until: Some(at(250)), at: at(250) };
        assert_eq!(next, look, "{policy:?}");
        let next = lost(&mut acquisition, changed(RoundLoss::NoQuorum, 250), QUIET, 251);
        let waits = policy == POLICIES[2] || policy == POLICIES[3];
        let expected = if waits { again(at(252)) } else { Next::GiveUp(GiveUp::LastRound) };
        assert_eq!(next, expected, "{policy:?}: it is a lost round as any other");
        assert_eq!(acquisition.may_begin(at(252)), waits || policy == WaitPolicy::OneRound);
        assert_eq!(acquisition.lost_rounds(), 36);
    }
    // Another round in between ends the row.
    let mut acquisition = new(WaitPolicy::For(200 * MS));
    let at_end = |acquisition: &mut Acquisition, now| {
        let next = lost(acquisition, changed(RoundLoss::NoQuorum, 0), QUIET, now);
        let look = Next::Again { look_until: Some(at(now + 100)), at: at(now + 1) };
        assert_eq!(next, look);
    };
    at_end(&mut acquisition, 50);
    assert_eq!(lost(&mut acquisition, held(60), QUIET, 160), again(at(161)));
    at_end(&mut acquisition, 201);
    let next = lost(&mut acquisition, held(202), QUIET, 203);
    assert_eq!(next, Next::GiveUp(GiveUp::LastRound), "only a repetition begins behind the wait");
}

#[test]
fn w10_nobody_is_charged_with_it() {
    let pause = |acquisition: &mut Acquisition, lost: LostRound| {
        let trip = Some(2 * MS);
        match acquisition.handle_lost_round(lost, QUIET, trip, 255, at(50)) {
            Next::Again { at: next, .. } => next.saturating_since(at(50)),
            Next::GiveUp(_) => panic!("it waits for ever"),
        }
    };
    let (mut plain, mut sealed) = (new(WaitPolicy::Unlimited), new(WaitPolicy::Unlimited));
    for _ in 0..4 {
        for loss in [RoundLoss::NoQuorum, RoundLoss::Contended] {
            assert_eq!(pause(&mut sealed, changed(loss, 0)), MS, "the shortest pause");
        }
        assert_eq!(pause(&mut sealed, held(0)), pause(&mut plain, held(0)));
    }
    assert_eq!((plain.lost_rounds(), sealed.lost_rounds()), (4, 12));
}

#[test]
fn w10_who_waits_behind_another_is_not_charged_with_that_ones_round_either() {
    for policy in POLICIES {
        let mut behind = new(policy);
        let mut shared = |now| {
            let lost = changed(RoundLoss::NoQuorum, now);
            let told = behind.handle_shared_round(lost, QUIET, at(now + 1), at(now));
            (told, behind.turn_deadline())
        };
        let until = |looked: u64| match policy {
            WaitPolicy::OneRound => Some(at(looked)),
            WaitPolicy::For(wait) => Some(at(looked).max(start().saturating_add(wait))),
            WaitPolicy::Unlimited => None,
        };
        assert_eq!(shared(50), (None, until(150)), "{policy:?}");
        assert_eq!(shared(149), (None, until(249)), "{policy:?}");
        let waits = policy == POLICIES[2] || policy == POLICIES[3];
        assert_eq!(shared(150).0, (!waits).then_some(GiveUp::LastRound), "{policy:?}");
    }
    // It was met before this one came.
    let mut late = Acquisition::new(SETTINGS, WaitPolicy::OneRound, at(500));
    late.handle_known(changed(RoundLoss::NoQuorum, 0), at(50));
    assert_eq!(late.turn_deadline(), Some(at(600)));
    let again = changed(RoundLoss::NoQuorum, 599);
    assert_eq!(late.handle_shared_round(again, QUIET, at(600), at(599)), None);
}
