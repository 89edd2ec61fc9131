//! Extend rounds: who is asked, and when a lease is extended, lost, or in doubt.
//!
//! Goal: the quorum is of all configured nodes, whatever was won, and a failed extension takes nothing away.

use quorlock_core::{ExtendSpec, FencingToken, Granted, RoundLoss, Verdict};

use super::*;

fn gone() -> Answered {
    Ok(Reply::Denied(Denial::gone()))
}

fn extend(nodes: usize) -> Tally {
    let mut spec = ExtendSpec::new(resource(), owner(), TTL);
    spec.fenced = true;
    let mut round = Tally::extend(Quorum::of(nodes), spec, start());
    let (resource, owner) = (resource(), owner());
    let command = Command::Extend { target: resource.into(), owner, ttl: TTL, fenced: true };
    let asked: Vec<_> = (0..nodes).map(|index| (node(index), command.clone())).collect();
    assert_eq!(drain(&mut round), asked, "every node, each once");
    round
}

fn after(nodes: usize, replies: &[Answered]) -> Tally {
    let mut round = extend(nodes);
    for (index, reply) in replies.iter().enumerate() {
        round.handle_reply(node(index), reply.clone(), at(1));
        assert_eq!(drain(&mut round), [], "an extension sends nothing more, and undoes nothing");
    }
    round
}

#[test]
fn a_quorum_of_all_nodes_extends_and_the_validity_counts_from_its_start() {
    let mut round = after(5, &[GRANTED, GRANTED]);
    assert_eq!(round.verdict(), Verdict::Pending);
    round.handle_reply(node(4), GRANTED, at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Won, None));
    assert_eq!(round.deadline(), at(9_898));
}

#[test]
fn how_it_ends_and_that_nothing_is_ever_undone() {
    let (gone_, other, broken) =
        (Some(RoundLoss::Contended), Some(RoundLoss::Contended), Some(RoundLoss::NoQuorum));
    let cases = [
        // Three of five certainly do not have it: it is lost, whether gone or somebody else's.
        (vec![gone(), gone(), gone()], gone_),
        (vec![GRANTED, GRANTED, gone(), denied(), denied()], other),
        // A node that did not answer may have it: in doubt.
        (vec![gone(), gone(), UNKNOWN], broken),
        (vec![UNKNOWN, UNKNOWN, UNKNOWN], broken),
        (vec![NOT_SENT, NOT_SENT, NOT_SENT], broken),
        (vec![GRANTED, GRANTED, gone(), gone(), UNKNOWN], broken),
        // A minority does not matter.
        (vec![gone(), UNKNOWN, GRANTED, GRANTED, GRANTED], None),
        (vec![NOT_SENT, NOT_SENT, GRANTED, GRANTED, GRANTED], None),
    ];
    for (replies, loss) in cases {
        let mut round = after(5, &replies);
        let verdict = if loss.is_some() { Verdict::Lost } else { Verdict::Won };
        assert_eq!((round.verdict(), round.loss()), (verdict, loss), "{replies:?}");
        round.handle_timeout(at(100));
        assert_eq!(drain(&mut round), [], "{replies:?}");
        assert_eq!((round.verdict(), round.loss()), (verdict, loss), "{replies:?}");
    }
}

#[test]
fn a_quorum_that_comes_too_late_is_no_extension() {
    let mut round = after(3, &[GRANTED]);
    round.handle_reply(node(1), GRANTED, at(9_898));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::TooLate)));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn a_timeout_leaves_it_in_doubt_and_an_answer_after_that_does_not_count() {
    let mut round = after(3, &[GRANTED]);
    round.handle_timeout(at(100));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    round.handle_reply(node(1), GRANTED, at(101));
    assert_eq!((round.verdict(), drain(&mut round)), (Verdict::Lost, vec![]));
}

#[test]
fn counters_in_the_answers_ask_nobody_to_confirm() {
    let round = after(
        3,
        &[
            Ok(Reply::Granted(Granted::at(FencingToken::new(7)))),
            Ok(Reply::Granted(Granted::at(FencingToken::new(9)))),
        ],
    );
    assert_eq!(round.verdict(), Verdict::Won);
}
