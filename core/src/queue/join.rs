//! What becomes of one who comes to the queue of a resource.
//!
//! It decides what a request for one round gets without asking: where the resource is held here it is told so, where the leader
//! pauses what the leader has found last, and where a round is under way what that finds. None of them stands before anybody.

use super::{Place, Queue};

/// One who comes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Comer {
    /// It asks for one round, and does not wait.
    pub asks_once: bool,
    /// It asks for any permit of several: others may ask beside it.
    pub is_any: bool,
}

/// What is known of the resource here.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Known {
    /// No more are begun.
    pub closed: bool,
    /// It is kept as nobody's.
    pub kept: bool,
    /// A lease of this process holds it.
    pub held: bool,
    /// The leader is in a round.
    pub in_round: bool,
    /// The leader's last round has found it held.
    pub found_held: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Joined {
    /// It is turned away.
    Closed,
    /// It asks the nodes, under this place, for all who come behind it.
    Asks(Place),
    /// It asks beside the queue, in which nobody stands, and has this place where it comes to stand there.
    Beside(Place),
    /// It takes what is kept.
    Takes,
    /// It is told of the lease that holds it.
    Held,
    /// It is told what the leader has found last.
    Told,
    /// It waits for what the round finds that is under way, or the next one.
    Shares,
    /// It stands in line.
    Stands,
}

impl<W> Queue<W> {
    /// Somebody comes. Who asks has its place by now; whoever shares or stands is to be put there.
    pub fn join(&mut self, comer: Comer, known: Known) -> Joined {
        if known.closed {
            return Joined::Closed;
        }
        if comer.is_any && self.is_idle() {
            return Joined::Beside(self.reserve());
        }
        if let Some(place) = self.ask() {
            return Joined::Asks(place);
        }
        if known.kept && self.is_empty() {
            return Joined::Takes;
        }
        match comer.asks_once {
            true if known.held => Joined::Held,
            true if known.found_held && !known.in_round => Joined::Told,
            true => Joined::Shares,
            false => Joined::Stands,
        }
    }
}
