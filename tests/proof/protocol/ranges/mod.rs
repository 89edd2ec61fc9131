//! Ranges of fencing tokens: rounds that ask for several, over nodes that follow the rules of `fencing.rs`, and tenures
//! that take the tokens one after the other.
//!
//! Goal: no two tenures have one token; a tenure that began before a round has smaller ones than whatever that round wins;
//! and those of one grant rise. Method: the rules of a node, written down a second time, in `server.rs`; all orders of all
//! messages of two rounds on three nodes in `exhaustive.rs`; random schedules of more in `schedules.rs`, where a node in
//! memory has to give every answer that the rules give. Each of the flaws below must be found out by one of the two.
//! `rates.rs` has no schedule: only more tokens than a clock has microseconds.

mod exhaustive;
mod rates;
mod schedules;
mod server;

use quorlock::protocol::TokenRange;

use self::server::Server;
use super::*;

/// What is wrong, on purpose, with the nodes or with those who use them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Flaw {
    None,
    /// One node raises its counter by one, where the others raise theirs by the count.
    OneCountsByOne,
    /// All of them do.
    AllCountByOne,
    /// The next range begins above the first token of the one before, and not above its last.
    GoesOnFromTheFirst,
    /// A holder takes one token more than it has asked for.
    OneTooMany,
    /// A confirm looks at the holder, and not at the counter.
    NoGuard,
    /// A key that is restored counts as a vote, with the counter that the node has.
    RestoreVotes,
    /// A tenure of one grant takes what is left of the range of a grant before.
    OldRange,
}

/// The tokens that a holder believes that it has won.
fn taken(round: &Round, flaw: Flaw) -> Option<TokenRange> {
    let tokens = round.tokens()?;
    let one_too_many = u64::from(flaw == Flaw::OneTooMany);
    Some(TokenRange::ending_at(tokens.last(), tokens.left() + one_too_many))
}
