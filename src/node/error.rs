//! Why a node gave no usable answer.
//!
//! The one decision here is which failures are certain to have had no effect.

use std::{any::Any, sync::Arc, time::Duration};

use thiserror::Error;

#[cfg(feature = "redis")]
use super::redis::advice;
use super::refusal::Refusal;
use crate::{
    protocol::{Cause, Fails, Failure},
    shield::discard,
    text::Said,
};

/// Why one node gave no usable answer to one command.
///
/// Whether the command may have taken effect is what [`sent`](NodeError::sent) says; where it may have, a
/// release follows by itself.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum NodeError {
    /// There is no connection. Nothing was sent, so nothing is left there. It is being reconnected in
    /// the background; check the server or the network if that lasts.
    #[error("not connected: {reason}")]
    NotConnected {
        /// Why the last attempt to connect failed.
        reason: Arc<str>,
    },
    /// The node was reached and is not allowed to vote. Nothing was sent. The refusal says what to change.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// Thousands of commands to the node are unanswered already. Nothing was sent. Since no more rounds are begun
    /// than the nodes answer, this node answers much later than the others, or not at all, or is slower than renewals
    /// and the undoing of rounds, which wait in no line. A connection on which nothing answers is given up and
    /// rebuilt; one on which late answers come is kept. Check the server.
    #[error(
        "thousands of commands to it are unanswered; check whether the server is overloaded or stopped"
    )]
    Overloaded,
    /// No reply came within the node timeout. The command may take effect later; a release follows it. Check
    /// whether the server is overloaded or stopped, or raise the node timeout.
    #[error("no reply within the node timeout")]
    TimedOut,
    /// The connection broke while the reply was awaited. The command may have taken effect; a release
    /// follows after the reconnect.
    #[error("the connection broke before the reply: {reason}")]
    ConnectionLost {
        /// What the operating system or the server said.
        reason: Arc<str>,
    },
    /// The server refused the command. Unless `sent` says otherwise it had no effect, so that nothing is left
    /// there.
    #[error("the server refused the command{}: {code} {message}", advice(.code))]
    Rejected {
        /// Whether a part of the command may have taken effect, as of a script that failed half-way.
        sent: bool,
        /// The first word of the server's error, such as `NOPERM` or `OOM`.
        code: Arc<str>,
        /// The rest of it.
        message: Arc<str>,
    },
    /// The node is not in the state that was last seen of it: it has restarted or lost its data, or another node has
    /// been admitted meanwhile. It did not vote, and nothing is left there. It is checked again at once, by
    /// itself.
    #[error("not admitted yet, or changed since it was last seen; it is checked again at once")]
    NotAdmitted,
    /// The round began before the node was looked at again, so that its vote would not count. Nothing is left
    /// there. The next round knows the node as it is now.
    #[error("its state changed after the round began; the next round uses the new state")]
    Outdated,
    /// The node is in quarantine, because it may have forgotten what it granted. Nothing was sent. Wait:
    /// it ends by itself.
    #[error("{}", quarantined(*remaining))]
    Quarantined {
        /// How long it still lasts, at most a little longer if other nodes cannot be reached.
        remaining: Duration,
    },
    /// The node cannot be admitted, since its marker cannot be read or set: a right is missing, or another program
    /// has written to `quorlock:node`. Nothing was sent. Grant the right, or delete that key on this node; it is
    /// then admitted by itself.
    #[error("its marker cannot be read or set, so it does not vote: {cause}")]
    MarkerUnreadable {
        /// What came of the last attempt.
        cause: Box<Self>,
    },
    /// The command arrived too late for its caller. It did nothing.
    #[error("the command arrived too late and was not executed")]
    ArrivedLate,
    /// The node's clock jumped or stands still, so its vote does not count. What it may have set is released. If the
    /// node is to blame it is admitted anew; if the clocks of a majority have moved alike, it was ours. Check its
    /// clock.
    #[error("its clock jumped or stands still, so its vote does not count; check its clock")]
    ClockJumped,
    /// Between question and answer the node lost its admission: its clock was seen to jump, its marker was gone, its
    /// data was exchanged, or another process was there. The answer may be from before that, and does not count; what
    /// it may have set is released.
    #[error("it lost its vote before its answer came")]
    VoteLapsed,
    /// The node's counters are at their end; only an outside write to its marker can cause that. Nothing is
    /// left there. `docs/deploying.md` says how to begin anew.
    #[error(
        "its fencing counters are at their end; only an outside write to `quorlock:node` can cause that; \
         docs/deploying.md says how to begin anew"
    )]
    CounterExhausted,
    /// The node's counter for this resource is more than a day above this client's wall clock and above the lowest of the
    /// other nodes that granted, so that its vote does not count. Either the wall clock of a client is, or was, wrong by
    /// that much, or the counter was written from outside. What it granted is released. Check the clock; `docs/deploying.md`
    /// says more.
    #[error(
        "its fencing counter is more than a day ahead of this client's clock and of other nodes; check the wall \
         clocks of the clients; docs/deploying.md says more"
    )]
    CounterImplausible,
    /// The code of the node itself panicked: a custom `Node`, or a library that it uses. Whether a command took
    /// effect is unknown; where it may have, a release follows. Correct that code; its panic has been reported as
    /// any other.
    #[error("the node panicked: {message}")]
    Panicked {
        /// Whether a command may have been sent by then.
        sent: bool,
        /// The text of the panic.
        message: Arc<str>,
    },
    /// The reply was not understood. What happened there is unknown; a release follows. Check that the address
    /// is that of a Redis or Valkey server, without a proxy that changes replies.
    #[error(
        "the reply was not understood; check that this is a Redis or Valkey server without a proxy that changes \
         replies: {message}"
    )]
    Unexpected {
        /// What was seen.
        message: Arc<str>,
    },
}

debug_is_text! { enum NodeError {
    NotConnected { reason },
    Refused(error),
    Overloaded,
    TimedOut,
    ConnectionLost { reason },
    Rejected { sent, code, message },
    NotAdmitted,
    Outdated,
    Quarantined { remaining },
    MarkerUnreadable { cause },
    ArrivedLate,
    ClockJumped,
    VoteLapsed,
    CounterExhausted,
    CounterImplausible,
    Panicked { sent, message },
    Unexpected { message },
} }

impl Fails for NodeError {
    fn failure(&self) -> Failure {
        Self::failure(self)
    }

    fn is_late(&self) -> bool {
        matches!(self, Self::TimedOut)
    }
}

impl NodeError {
    /// The error that a caught panic is.
    pub(crate) fn panicked(sent: bool, panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = Arc::from(text.unwrap_or("without a text"));
        // Its value may be of a type of the user's, whose drop panics again.
        discard(panic);
        Self::Panicked { sent, message }
    }

    /// How it reads beside what other nodes have said.
    pub(crate) fn said(&self) -> Said {
        match self {
            Self::Quarantined { remaining } => quarantined(*remaining),
            other => Said::plain(other),
        }
    }

    /// What it means for the round.
    pub const fn failure(&self) -> Failure {
        let cause = match self {
            Self::TimedOut | Self::ArrivedLate => Cause::Slow,
            Self::Quarantined { remaining } => Cause::Quarantined { remaining: *remaining },
            Self::NotAdmitted | Self::Outdated | Self::VoteLapsed => Cause::Outdated,
            Self::NotConnected { .. }
            | Self::Refused(_)
            | Self::Overloaded
            | Self::ConnectionLost { .. }
            | Self::Rejected { .. }
            | Self::MarkerUnreadable { .. }
            | Self::ClockJumped
            | Self::CounterExhausted
            | Self::CounterImplausible
            | Self::Panicked { .. }
            | Self::Unexpected { .. } => Cause::Broken,
        };
        Failure::new(self.sent(), cause)
    }

    /// Whether the command may have reached the server, and so may take effect, now or later.
    pub const fn sent(&self) -> bool {
        match self {
            Self::Rejected { sent, .. } | Self::Panicked { sent, .. } => *sent,
            Self::NotConnected { .. }
            | Self::Refused(_)
            | Self::Overloaded
            | Self::NotAdmitted
            | Self::Outdated
            | Self::Quarantined { .. }
            | Self::MarkerUnreadable { .. }
            | Self::ArrivedLate
            // The script has taken back what it had set.
            | Self::CounterExhausted => false,
            Self::TimedOut
            | Self::ConnectionLost { .. }
            | Self::ClockJumped
            | Self::VoteLapsed
            | Self::CounterImplausible
            | Self::Unexpected { .. } => true,
        }
    }
}

/// A quarantine, with what is left of it.
fn quarantined(remaining: Duration) -> Said {
    if remaining.is_zero() {
        return Said::plain("its quarantine is over; it waits to be admitted");
    }
    Said::lasting("in quarantine for", remaining)
}

/// Without the Redis node the codes are those of another kind of server.
#[cfg(not(feature = "redis"))]
const fn advice(_code: &str) -> &'static str {
    ""
}
