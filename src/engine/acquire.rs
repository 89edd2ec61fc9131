//! One acquire on its caller's side: from its place in line to the answer.
//!
//! The caller may go away at any moment: the keys set by then are released. `rounds` carries out a round and `line` the
//! places in line; `protocol::Client` decides what happens between two rounds.

mod request;
mod rounds;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

pub(crate) use self::request::AcquireSpec;
pub(super) use self::request::{Log, Met, Request};
use super::{
    Engine, HeldTerm,
    line::{Ahead, Standing},
    resources::ResourceSlot,
};
use crate::{
    error::{Ability, AcquireError, Unsupported},
    protocol::{Acquisition, says_at},
    telemetry::{Counts, metrics},
};

/// An acquire under way, held by its caller. Dropping it gives up.
pub(crate) struct Acquiring {
    /// `None` once a forked child has left it to its parent.
    answer: Option<oneshot::Receiver<Result<HeldTerm, AcquireError>>>,
    /// Its place in the line of the resource, until it is answered.
    standing: Option<Standing>,
    /// Whether dropping it counts as abandoned.
    unanswered: bool,
    counts: Counts,
    /// It has been polled before.
    has_waited: bool,
}

impl Acquiring {
    /// Whether this process was forked since it took its place.
    fn is_parents(&self) -> bool {
        self.standing.as_ref().is_some_and(|standing| !standing.engine.process.is_here())
    }

    /// Its caller needs no answer any more: dropping it does not count as abandoned.
    pub(crate) const fn need_no_answer(&mut self) {
        self.unanswered = false;
    }

    /// How many requests are ahead, and the holder as last seen, while it stands in line.
    pub(crate) fn standing(&self) -> Option<(Ahead, Option<String>)> {
        self.standing.as_ref()?.look()
    }
}

impl Future for Acquiring {
    type Output = Result<HeldTerm, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Checked before the answer is read: a lease granted in the parent is the parent's.
        if self.has_waited && self.is_parents() {
            return Poll::Ready(Err(AcquireError::RuntimeEnded));
        }
        self.has_waited = true;
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(Err(AcquireError::RuntimeEnded));
        };
        let answer = ready!(Pin::new(answer).poll(cx));
        self.unanswered = false;
        self.standing = None;
        Poll::Ready(answer.unwrap_or(Err(AcquireError::RuntimeEnded)))
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if self.is_parents() {
            // Its place and its channel are the parent's. Closing the copy would wake a task that does not exist here,
            // which takes a lock of its runtime.
            std::mem::forget((self.standing.take(), self.answer.take()));
        }
        let Some(standing) = self.standing.take() else { return };
        if let Some(answer) = &mut self.answer {
            // Closed before it leaves: a request that asks beside the line must not join it afterwards.
            answer.close();
        }
        standing.leave();
        // Only if the engine is served: in a forked child a recorder may wait for a thread that does not exist.
        if self.unanswered && cfg!(feature = "metrics") && standing.engine.is_served() {
            // An answered request was counted by its answer.
            if let Some(answer) = &mut self.answer {
                answer.close();
                if answer.try_recv().is_err() {
                    metrics::acquire_abandoned(self.counts);
                }
            }
        }
    }
}

impl Engine {
    /// Whether the nodes have this ability; the error names the first that lacks it.
    pub(crate) fn can(&self, ability: Ability) -> Result<(), Unsupported> {
        if self.config.classic {
            return Err(Unsupported::Classic { ability });
        }
        let unable = match ability {
            Ability::Sets => self.takes_no_sets,
            Ability::Readers => self.takes_no_readers,
            Ability::Slots => self.picks_no_slots,
            Ability::HandingOver => self.hands_nothing_over,
            Ability::Completions => self.keeps_no_completions,
            Ability::Elections => None,
        };
        match unable.and_then(|node| Some((node, self.slot(node)?))) {
            None => Ok(()),
            Some((node, slot)) => {
                Err(Unsupported::Node { ability, node, address: Arc::clone(&slot.address) })
            }
        }
    }

    /// Takes its place in the line of its resource, or asks the nodes at once if there is no line. The answer comes
    /// through the channel.
    pub(crate) fn acquire(self: &Arc<Self>, asked: AcquireSpec) -> Acquiring {
        let (answer, receiver) = oneshot::channel();
        let mut acquiring = Acquiring {
            answer: Some(receiver),
            standing: None,
            unanswered: true,
            counts: asked.caller.counts,
            has_waited: false,
        };
        if !self.is_served() {
            // The sender is dropped here, which the caller sees as `RuntimeEnded`.
            return acquiring;
        }
        let settings = self.config.wait_settings(asked.through_outages);
        let now = self.now();
        let acquisition = Acquisition::new(settings, asked.wait_policy, now);
        let resource = ResourceSlot::new(self, &asked.round.target);
        // A lingering grant that overlaps it would be in its way: the nodes do not tell this client of its own
        // requests.
        let kept = self.client.lock().take_kept_beside(resource.queue());
        kept.into_iter().for_each(|kept| self.give_back_kept(kept, false));
        let says_at = says_at(asked.wait_policy, now);
        let request = Request::new(asked, Arc::clone(&resource), acquisition, answer, says_at);
        acquiring.standing = self.join(&resource, Box::new(request), now);
        acquiring
    }
}
