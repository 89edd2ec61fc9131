//! What becomes of a request that comes to a queue.
//!
//! It decides what a request for one round gets without asking. If the resource is held here, it learns that. If the
//! leader pauses, it learns the leader's last findings; during a round, that round's. None of these blocks another
//! request.

use super::{Place, Queue};

/// A new request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Comer {
    /// It asks for one round, and does not wait.
    pub asks_once: bool,
    /// It asks for any permit of several: other requests may ask beside it.
    pub is_any: bool,
    /// It takes over what somebody else has let go: it asks beside all others.
    pub adopts: bool,
}

/// The state of the resource here.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Known {
    /// No more requests begin.
    pub closed: bool,
    /// The grant is kept without a lease.
    pub kept: bool,
    /// A lease of this process holds it.
    pub held: bool,
    /// The leader is in a round.
    pub in_round: bool,
    /// The leader's last round found it held.
    pub found_held: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Joined {
    /// It is turned away.
    Closed,
    /// It asks the nodes, under this place, for all that come after it.
    Asks(Place),
    /// It asks beside the queue, and has this place if it stands there later.
    Beside(Place),
    /// It takes the kept grant.
    Takes,
    /// It learns of the lease that holds the resource.
    Held,
    /// It learns the leader's last findings.
    Told,
    /// It waits for the result of the round under way, or of the next.
    Shares,
    /// It stands in line.
    Stands,
}

impl<W> Queue<W> {
    /// A request comes. If it asks, it has its place now; if it shares or stands, the caller puts it there.
    pub fn join(&mut self, comer: Comer, known: Known) -> Joined {
        if known.closed {
            return Joined::Closed;
        }
        if comer.adopts || comer.is_any && self.is_idle() {
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
