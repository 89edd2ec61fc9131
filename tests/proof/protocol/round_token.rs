//! Acquire rounds with a fencing token: how a quorum agrees on one, and who is asked to confirm it.
//!
//! Goal: the token is the largest counter of a quorum of grants, chosen once; a node votes with exactly that
//! counter or by confirming it, and only a quorum of votes wins. Method: command lists, as in
//! `round_acquire.rs`.

use quorlock_core::{Denial, FencingToken, Granted, RoundLoss, TokenRange, Verdict};

use super::*;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn granted(counter: u64) -> Answered {
    Ok(Reply::Granted(Granted::at(token(counter))))
}

fn confirms(nodes: impl IntoIterator<Item = usize>, number: u64) -> Vec<(NodeId, Command)> {
    let (resource, owner, token) = (resource(), owner(), token(number));
    let command =
        Command::Confirm { target: resource.into(), owner, token, mark: EpochMark::default() };
    nodes.into_iter().map(|index| (node(index), command.clone())).collect()
}

/// A round with a hint whose acquires have been handed out.
fn fenced(nodes: usize) -> Round {
    let mut spec = RoundSpec::new(resource(), owner(), TTL);
    spec.hint = Some(10);
    let mut round = Round::acquire(Quorum::of(nodes), spec, start());
    let (resource, owner) = (resource(), owner());
    let command = Command::Acquire {
        target: resource.into(),
        owner,
        ttl: TTL,
        hint: Some(10),
        count: 1,
        first: 0,
        mark: EpochMark::default(),
        note: None,
        stand: None,
    };
    let asked: Vec<_> = (0..nodes).map(|index| (node(index), command.clone())).collect();
    assert_eq!(drain(&mut round), asked, "all nodes get the same hint");
    round
}

/// Five nodes, of which the first three have granted with these counters, so that the token is chosen.
fn agreed(counters: [u64; 3]) -> Round {
    let mut round = fenced(5);
    for (index, counter) in counters.into_iter().enumerate() {
        round.handle_reply(node(index), granted(counter), at(1));
    }
    round
}

fn state(round: &Round) -> (Verdict, Option<RoundLoss>, Option<u64>) {
    (round.verdict(), round.loss(), round.token().map(FencingToken::get))
}

const OPEN: (Verdict, Option<RoundLoss>, Option<u64>) = (Verdict::Pending, None, None);
const CONTENDED: (Verdict, Option<RoundLoss>, Option<u64>) =
    (Verdict::Lost, Some(RoundLoss::Contended), None);

#[test]
fn a_quorum_with_one_counter_wins_without_a_confirm() {
    let mut round = fenced(5);
    for index in [4, 0] {
        round.handle_reply(node(index), granted(10), at(1));
        assert_eq!(state(&round), OPEN);
    }
    round.handle_reply(node(2), granted(10), at(1));
    assert_eq!(state(&round), (Verdict::Won, None, Some(10)));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn those_behind_the_largest_counter_are_asked_to_confirm_it_and_nobody_else() {
    let mut round = agreed([10, 12, 11]);
    assert_eq!(drain(&mut round), confirms([0, 2], 12));
    assert_eq!(state(&round), OPEN, "one vote is no quorum");
    round.handle_reply(node(2), granted(12), at(2));
    assert_eq!(state(&round), OPEN);
    round.handle_reply(node(0), granted(12), at(2));
    assert_eq!(state(&round), (Verdict::Won, None, Some(12)));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn the_token_is_chosen_at_the_first_quorum_and_stays() {
    let mut round = agreed([10, 12, 11]);
    assert_eq!(drain(&mut round), confirms([0, 2], 12));
    // A late grant above it will not vote for it: its counter never falls.
    round.handle_reply(node(3), granted(13), at(2));
    assert_eq!((drain(&mut round), state(&round)), (vec![], OPEN));
    // A late grant behind it is asked too, and one with the token votes at once.
    round.handle_reply(node(4), granted(9), at(2));
    assert_eq!(drain(&mut round), confirms([4], 12));
    round.handle_reply(node(4), granted(12), at(3));
    round.handle_reply(node(0), granted(12), at(3));
    assert_eq!(state(&round), (Verdict::Won, None, Some(12)));
    assert_eq!(round.may_stand().collect::<Vec<_>>(), (0..5).map(node).collect::<Vec<_>>());
}

#[test]
fn a_late_grant_with_the_token_is_a_vote() {
    let mut round = agreed([12, 12, 11]);
    assert_eq!(drain(&mut round), confirms([2], 12));
    round.handle_reply(node(4), granted(12), at(2));
    assert_eq!(state(&round), (Verdict::Won, None, Some(12)));
    // What comes back from the confirm changes nothing.
    round.handle_reply(node(2), denied(), at(3));
    assert_eq!((drain(&mut round), state(&round)), (vec![], (Verdict::Won, None, Some(12))));
    assert_eq!(round.may_stand().count(), 5);
}

#[test]
fn whatever_is_not_a_confirmation_is_no_vote_and_the_key_may_stand_there() {
    for refusal in [denied(), UNKNOWN, NOT_SENT] {
        let mut round = agreed([10, 12, 11]);
        drain(&mut round);
        round.handle_reply(node(0), refusal.clone(), at(2));
        assert_eq!((drain(&mut round), state(&round)), (vec![], OPEN), "{refusal:?}");
        round.handle_reply(node(3), denied(), at(2));
        assert_eq!(state(&round), OPEN, "nodes 1, 2 and 4 may still make it: {refusal:?}");
        round.handle_reply(node(2), refusal.clone(), at(2));
        assert_eq!(round.verdict(), Verdict::Lost, "{refusal:?}");
        assert_eq!(round.token(), None);
        assert_eq!(drain(&mut round), releases([0, 1, 2, 4]), "{refusal:?}");
    }
}

#[test]
fn a_grant_is_not_a_vote() {
    // All five grant, each with another counter, and nobody confirms.
    let mut round = agreed([10, 11, 12]);
    round.handle_reply(node(3), granted(13), at(1));
    round.handle_reply(node(4), granted(14), at(1));
    assert_eq!(drain(&mut round), confirms([0, 1], 12));
    assert_eq!((round.granted().len(), state(&round)), (5, OPEN));
    round.handle_reply(node(0), denied(), at(2));
    assert_eq!(state(&round), CONTENDED);
    assert_eq!(drain(&mut round), releases(0..5));
}

#[test]
fn the_validity_counts_when_the_last_vote_comes() {
    for (elapsed, verdict) in [(9_897, Verdict::Won), (9_898, Verdict::Lost)] {
        let mut round = agreed([12, 12, 11]);
        drain(&mut round);
        round.handle_reply(node(2), granted(12), at(elapsed));
        assert_eq!(round.verdict(), verdict);
        let late = verdict == Verdict::Lost;
        assert_eq!(round.loss(), late.then_some(RoundLoss::TooLate));
        assert_eq!(drain(&mut round), if late { releases(0..5) } else { vec![] });
    }
}

#[test]
fn a_timeout_or_a_caller_that_goes_away_while_confirming_releases_every_grant() {
    let mut round = agreed([10, 12, 11]);
    drain(&mut round);
    round.handle_timeout(at(100));
    assert_eq!(round.verdict(), Verdict::Lost);
    let sent = drain(&mut round);
    assert!((0..5).all(|index| sent.contains(&releases([index])[0])), "{sent:?}");

    // A confirm that was not handed out is taken back; the grant behind it is not.
    let mut round = agreed([10, 12, 11]);
    assert_eq!(round.poll_command(), confirms([0], 12).pop());
    round.handle_abandoned();
    assert_eq!(drain(&mut round), releases(0..5));
    assert_eq!(round.loss(), Some(RoundLoss::Abandoned));
}

#[test]
fn what_comes_after_the_loss_changes_nothing_but_late_grants_are_released_once_more() {
    let mut round = agreed([10, 12, 11]);
    drain(&mut round);
    round.handle_abandoned();
    drain(&mut round);
    for index in [0, 2, 3, 4] {
        round.handle_reply(node(index), granted(12), at(2));
    }
    assert_eq!(state(&round), (Verdict::Lost, Some(RoundLoss::Abandoned), None));
    assert_eq!(drain(&mut round), releases([3, 4]));
}

#[test]
fn a_grant_without_a_counter_is_no_vote_for_a_token() {
    // Nodes that count nothing, all of them: there is no token to win with.
    let mut round = fenced(5);
    for index in 0..3 {
        assert_eq!(state(&round), OPEN);
        round.handle_reply(node(index), Ok(Reply::Granted(Granted::DONE)), at(1));
    }
    assert_eq!(state(&round), CONTENDED);
    assert_eq!(drain(&mut round), releases(0..5));

    // One of them among others, before the token is chosen and after.
    let mut round = fenced(5);
    for (index, reply) in
        [(0, Ok(Reply::Granted(Granted::DONE))), (1, granted(10)), (2, granted(10))]
    {
        round.handle_reply(node(index), reply, at(1));
    }
    assert_eq!((drain(&mut round), state(&round)), (vec![], OPEN), "two votes are no quorum");
    round.handle_reply(node(3), Ok(Reply::Granted(Granted::DONE)), at(1));
    assert_eq!(state(&round), OPEN);
    round.handle_reply(node(4), granted(10), at(1));
    assert_eq!(state(&round), (Verdict::Won, None, Some(10)));
}

/// A round knows each node in the state in which it was when the round began, and says so in each vote.
#[test]
fn votes_are_asked_for_under_the_marks_that_were_known_when_the_round_began() {
    let mark = |index: usize| EpochMark::new(100 + index as u64, index as u64);
    let mut spec = RoundSpec::new(resource(), owner(), TTL);
    spec.hint = Some(10);
    spec.marks = (0..3).map(mark).collect();
    let mut round = Round::acquire(Quorum::of(3), spec, start());
    let marks = |round: &mut Round| -> Vec<(NodeId, EpochMark)> {
        let of = |(node, command)| match command {
            Command::Acquire { mark, .. } | Command::Confirm { mark, .. } => (node, mark),
            other => panic!("{other:?}"),
        };
        drain(round).into_iter().map(of).collect()
    };
    assert_eq!(marks(&mut round), [0, 1, 2].map(|index| (node(index), mark(index))));
    round.handle_reply(node(0), granted(12), at(1));
    round.handle_reply(node(2), granted(11), at(1));
    assert_eq!(marks(&mut round), [(node(2), mark(2))]);
}

/// A stranger has written to the counters of one node. That number becomes nobody's token.
#[test]
fn a_counter_that_no_clock_explains_is_outvoted() {
    let day = 86_400_000_000;
    for (first, second) in [(10 + day + 1, 10), ((1 << 53) - 5, 4)] {
        let mut round = fenced(3);
        round.handle_reply(node(0), granted(first), at(1));
        round.handle_reply(node(1), granted(second), at(1));
        assert_eq!(drain(&mut round), [], "one plausible grant is no quorum");
        assert_eq!(round.verdict(), Verdict::Pending);
        round.handle_reply(node(2), granted(10), at(1));
        assert!(drain(&mut round).iter().all(|(other, _)| *other != node(0)));
        if second < 10 {
            round.handle_reply(node(1), granted(10), at(1));
        }
        assert_eq!((round.verdict(), round.token()), (Verdict::Won, Some(token(10))));
    }
    // Clocks may be a day apart.
    let mut round = fenced(3);
    round.handle_reply(node(0), granted(10 + day), at(1));
    round.handle_reply(node(1), granted(10), at(1));
    assert_eq!(drain(&mut round), confirms([1], 10 + day));
    // Nobody is outvoted where the lowest counter is as far ahead: then it is the hint that is behind.
    let mut round = fenced(3);
    round.handle_reply(node(0), granted(10 + 5 * day), at(1));
    round.handle_reply(node(1), granted(10 + 5 * day), at(1));
    assert_eq!(round.token(), Some(token(10 + 5 * day)));
    // Where too many are implausible, nobody wins.
    let mut round = fenced(3);
    round.handle_reply(node(0), granted(10 + 5 * day), at(1));
    round.handle_reply(node(1), granted(10 + 9 * day), at(1));
    round.handle_reply(node(2), granted(10), at(1));
    assert_eq!((round.verdict(), round.token()), (Verdict::Lost, None));
    // That is nobody's lease: asking again at once would not help, and it is said what is wrong where.
    assert_eq!(round.loss(), Some(RoundLoss::NoQuorum));
    assert_eq!(round.implausible().collect::<Vec<_>>(), [node(0), node(1)]);
    // One such node beside a node that denies is in nobody's way: there is a holder.
    let mut round = fenced(3);
    round.handle_reply(node(0), granted(10 + 5 * day), at(1));
    round.handle_reply(node(1), granted(10), at(1));
    round.handle_reply(node(2), Ok(Reply::Denied(Denial::default())), at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
}

#[test]
fn a_round_wins_so_many_tokens_as_it_asked_for_up_to_the_counter_that_is_agreed() {
    for (wanted, count) in [(0, 1), (1, 1), (3, 3), (64, 64), (65, 64), (u64::MAX, 64)] {
        let mut spec = RoundSpec::new(resource(), owner(), TTL);
        (spec.hint, spec.count) = (Some(10), wanted);
        let mut round = Round::acquire(Quorum::of(3), spec, start());
        let asked = |(_, command)| match command {
            Command::Acquire { count, .. } => count,
            other => panic!("{other:?}"),
        };
        assert_eq!(drain(&mut round).into_iter().map(asked).collect::<Vec<_>>(), [count; 3]);
        round.handle_reply(node(2), granted(100), at(1));
        round.handle_reply(node(0), granted(90), at(1));
        assert_eq!(drain(&mut round), confirms([0], 100), "the end of the range is agreed on");
        assert_eq!((round.tokens(), round.token()), (None, None), "nothing is won yet");
        round.handle_reply(node(0), granted(100), at(1));
        let mut tokens = round.tokens().unwrap();
        assert_eq!([tokens.first(), tokens.last()], [token(101 - count), token(100)]);
        assert_eq!(round.token(), Some(tokens.first()), "that of the first lease");
        let all: Vec<_> = std::iter::from_fn(|| tokens.next()).map(FencingToken::get).collect();
        assert_eq!(all, (101 - count..=100).collect::<Vec<_>>());
        assert_eq!((tokens.left(), tokens.next()), (0, None));
        assert_eq!([tokens.first(), tokens.last()], [token(101 - count), token(100)]);
    }
    // A node that answers with less than it was asked for has not counted: there is no token zero.
    let tokens = TokenRange::ending_at(token(2), 64);
    assert_eq!((tokens.first().get(), tokens.left()), (1, 2));
    assert_eq!(TokenRange::ending_at(token(0), 3).next(), None);
}
