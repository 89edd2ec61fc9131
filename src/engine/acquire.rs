//! One acquire as its caller has it: from its place in line to the answer.
//!
//! It runs beside the caller, who may go away at any moment: whatever has been set by then is released. A round stands in
//! `rounds`, who stands where in `line`, and what comes between two rounds is decided in `protocol::Client`.

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
    telemetry::metrics,
};

/// An acquire under way, as its caller holds it. Dropping it gives up.
pub(crate) struct Acquiring {
    /// Until it is left to the parent of a process that was forked.
    answer: Option<oneshot::Receiver<Result<HeldTerm, AcquireError>>>,
    /// Its place in the line of the resource, until it is answered.
    standing: Option<Standing>,
    /// Whether it counts if it is never answered.
    unanswered: bool,
    /// It has been polled, and was not answered then.
    has_waited: bool,
}

impl Acquiring {
    /// Whether this process was forked since it took its place.
    fn is_parents(&self) -> bool {
        self.standing.as_ref().is_some_and(|standing| !standing.engine.process.is_here())
    }

    /// How many come before it, and who holds the resource as last seen, while it stands in line.
    pub(crate) fn standing(&self) -> Option<(Ahead, Option<String>)> {
        self.standing.as_ref()?.look()
    }
}

impl Future for Acquiring {
    type Output = Result<HeldTerm, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Asked before the answer is looked at: what was granted in the parent is the parent's.
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
            // Its place and its channel are the parent's. To close the copy would wake a task that is not there, which
            // takes a lock of its runtime.
            std::mem::forget((self.standing.take(), self.answer.take()));
        }
        let Some(standing) = self.standing.take() else { return };
        if let Some(answer) = &mut self.answer {
            // Before it leaves: one who asks beside the line does not come to stand there afterwards.
            answer.close();
        }
        standing.leave();
        // Where nobody serves it, as in a forked process, a recorder may wait for a thread that is not there.
        if self.unanswered && cfg!(feature = "metrics") && standing.engine.is_served() {
            // What has been answered is counted by its answer.
            if let Some(answer) = &mut self.answer {
                answer.close();
                if answer.try_recv().is_err() {
                    metrics::acquire_abandoned();
                }
            }
        }
    }
}

impl Engine {
    /// Whether these nodes can do it; the error names the first that cannot.
    pub(crate) fn can(&self, ability: Ability) -> Result<(), Unsupported> {
        if self.config.classic {
            return Err(Unsupported::Classic { ability });
        }
        let unable = match ability {
            Ability::Sets => self.takes_no_sets,
            Ability::Readers => self.takes_no_readers,
            Ability::Slots => self.picks_no_slots,
            Ability::Elections => None,
        };
        match unable.and_then(|node| Some((node, self.slot(node)?))) {
            None => Ok(()),
            Some((node, slot)) => {
                Err(Unsupported::Node { ability, node, address: Arc::clone(&slot.address) })
            }
        }
    }

    /// Takes its place in the line of its resource, and asks the nodes where there is none; the answer comes through the
    /// channel.
    pub(crate) fn acquire(self: &Arc<Self>, asked: AcquireSpec) -> Acquiring {
        let (answer, receiver) = oneshot::channel();
        let mut acquiring = Acquiring {
            answer: Some(receiver),
            standing: None,
            unanswered: true,
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
        // What is kept here as nobody's would be in its way, and the nodes tell nobody of one who comes from here.
        let kept = self.client.lock().take_kept_beside(resource.queue());
        kept.into_iter().for_each(|kept| self.give_back_kept(kept, false));
        let says_at = says_at(asked.wait_policy, now);
        let request = Request::new(asked, Arc::clone(&resource), acquisition, answer, says_at);
        acquiring.standing = self.join(&resource, Box::new(request), now);
        acquiring
    }
}
