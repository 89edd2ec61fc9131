//! One node, as far as the key of one owner is concerned: who has it, and the commands on their way there.
//!
//! Goal: a node that executes as late, and in as odd an order, as a real one may. Method: commands on the connection
//! that lasts are executed in order; those on a broken one at any time, or never. What sets the key is refused once it
//! is too late.

use quorlock_core::UnconfirmedRelease;

use super::model::Answer;

/// For so many ticks a node takes what sets the key.
pub(crate) const TAKEN_FOR: u8 = 2;
pub(crate) const KEY_TTL: u8 = 3;

/// Who has the key of a node, and up to when.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    pub(crate) ours: bool,
    pub(crate) until: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum What {
    Acquire,
    Restore,
    Extend,
    /// As it was ordered.
    Release(Late),
    /// A release that has not been confirmed.
    ReleaseAgain(UnconfirmedRelease, Late),
}

/// What an order says besides the node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Late {
    pub(crate) may_land_late: bool,
    pub(crate) several: bool,
}

impl What {
    pub(crate) const fn sets(self) -> bool {
        matches!(self, Self::Acquire | Self::Restore)
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Way {
    /// On a connection that is broken.
    Stray,
    /// It has been executed, or never will be.
    Done,
    /// On the connection that lasts, in order.
    Connected,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Call {
    pub(crate) what: What,
    pub(crate) sent: u8,
    pub(crate) way: Way,
    /// Somebody waits for its answer.
    pub(crate) waited: bool,
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Server {
    pub(crate) key: Option<Key>,
    /// In the order in which they were sent.
    pub(crate) calls: Vec<Call>,
    /// Releases that wait for their turn to be sent.
    pub(crate) ordered: Vec<Late>,
    pub(crate) pending: Vec<(UnconfirmedRelease, Late)>,
    pub(crate) asked: bool,
    /// For the flaws alone.
    pub(crate) timed_out: bool,
}

impl Server {
    /// The first that is under way on the connection.
    pub(crate) fn connected(&self) -> Option<usize> {
        self.calls.iter().position(|call| call.way == Way::Connected)
    }

    /// Forgets what nobody waits for, and the order of what is in none.
    pub(crate) fn tidy(&mut self) {
        self.calls.retain(|call| call.waited || call.way != Way::Done);
        self.calls.sort_by_key(|call| (call.way, call.answer.map(|answer| answer as u8)));
    }

    pub(crate) fn lose_connection(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.way == Way::Connected) {
            // A release that is lost is worse than one that comes late.
            let lost = matches!(call.what, What::Release(_) | What::ReleaseAgain(..));
            call.way = if lost { Way::Done } else { Way::Stray };
            call.answer = Some(Answer::Unknown);
        }
    }

    pub(crate) fn execute(&mut self, index: usize, now: u8) {
        let Call { what, sent, .. } = self.calls[index];
        let is_ours = self.key.is_some_and(|key| key.ours);
        let ours = Some(Key { ours: true, until: now + KEY_TTL });
        let answer = match what {
            What::Acquire | What::Restore if now >= sent + TAKEN_FOR => Answer::NotSent,
            What::Acquire | What::Restore if self.key.is_none() => {
                self.key = ours;
                Answer::Granted
            }
            What::Extend if is_ours => {
                self.key = ours;
                Answer::Granted
            }
            What::Release(_) | What::ReleaseAgain(..) if is_ours => {
                self.key = None;
                Answer::Granted
            }
            _ => Answer::Denied,
        };
        let call = &mut self.calls[index];
        call.way = Way::Done;
        // That the connection broke is known already.
        call.answer = call.answer.or(Some(answer));
    }
}
