//! One node: a lock and a counter, by the rules of `fencing.rs`, and the flaws that it may have.

use quorlock::protocol::{FencingToken, Granted};

use super::*;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Server {
    pub(super) holder: Option<Owner>,
    counter: u64,
    /// Whether it has the flaw that one of them has.
    first: bool,
}

impl Server {
    pub(super) const fn new(index: usize, counter: u64) -> Self {
        Self { holder: None, counter, first: index == 0 }
    }

    pub(super) fn execute(&mut self, command: &Command, flaw: Flaw) -> Answered {
        let by_one = flaw == Flaw::AllCountByOne || flaw == Flaw::OneCountsByOne && self.first;
        match command {
            Command::Acquire { owner, hint: Some(hint), count, .. } if self.holder.is_none() => {
                self.holder = Some(*owner);
                let counter = (*hint).max(self.counter + if by_one { 1 } else { *count });
                let skipped = if flaw == Flaw::GoesOnFromTheFirst { count - 1 } else { 0 };
                self.counter = counter - skipped;
                Ok(Reply::Granted(Granted::at(FencingToken::new(counter))))
            }
            Command::Confirm { owner, token, .. }
                if self.holder == Some(*owner)
                    && (self.counter <= token.get() || flaw == Flaw::NoGuard) =>
            {
                self.counter = token.get();
                Ok(Reply::Granted(Granted::at(*token)))
            }
            Command::Restore { owner, .. } if self.holder.is_none() => {
                self.holder = Some(*owner);
                let votes = flaw == Flaw::RestoreVotes;
                Ok(Reply::Granted(votes.then(|| FencingToken::new(self.counter)).into()))
            }
            Command::Release { owner, .. } if self.holder == Some(*owner) => {
                self.holder = None;
                Ok(Reply::Granted(Granted::DONE))
            }
            _ => Ok(Reply::Denied(Denial::default())),
        }
    }
}
