//! A request under way: it is checked when it is first polled, and nothing is sent before.
//!
//! It must never send a request that cannot be granted.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{Acquire, nested::Sharing};
use crate::{
    config::TtlError,
    engine::{AcquireSpec, Acquiring},
    error::AcquireError,
    kind::{Exclusive, Kind},
    lease::Lease,
    protocol::RoundAsked,
    shield::Shield,
    telemetry::Caller,
};

impl<K: Kind> Acquire<K> {
    /// The request as the engine takes it, once it has been checked.
    fn spec(&self) -> Result<AcquireSpec, AcquireError> {
        let (ttl, min_validity) = self.times()?;
        let target = self.target.clone()?;
        let config = &self.engine.config;
        config.check_ttl(ttl, min_validity).map_err(|error| {
            let (min, max) = match error {
                TtlError::OutOfRange { min, max, .. } => (min, max),
                TtlError::NothingLeft { drift, min_validity, .. } => {
                    (drift.saturating_add(min_validity), config.most_ttl())
                }
            };
            AcquireError::Ttl { target: Some(target.clone()), ttl, min_validity, min, max }
        })?;
        let lock_delay = self.lock_delay;
        config.check_lock_delay(ttl, lock_delay).map_err(|max_ttl| {
            let target = Some(target.clone());
            AcquireError::LockDelayTooLong { target, lock_delay, ttl, max_ttl }
        })?;
        Ok(AcquireSpec {
            round: RoundAsked {
                target,
                from: self.from,
                ttl,
                min_validity,
                lock_delay,
                renewal: self.renewal,
                hold_at_least: self.hold_at_least,
                linger: self.linger,
                alone: self.alone,
            },
            wait_policy: self.wait_policy,
            through_outages: self.through_outages,
            caller: Caller::current(self.class),
        })
    }

    /// The requested ttl and least validity. With `hold_at_least` both cover that time, since this process may end
    /// right after the grant: a quorum then has keys that live for so long.
    fn times(&self) -> Result<(Duration, Duration), AcquireError> {
        let Some(hold) = self.hold_at_least else { return Ok((self.ttl, self.min_validity)) };
        let (config, drift) = (&self.engine.config, self.engine.config.drift());
        let (max_ttl, lock_delay) = (config.most_ttl(), self.lock_delay);
        // The key lives for a lock-delay longer.
        let longest = max_ttl.saturating_sub(lock_delay);
        // The round takes a node timeout at most.
        let round = config.node_timeout;
        let max = longest.saturating_sub(drift.of(longest)).saturating_sub(round);
        if hold > max {
            let target = self.target.as_ref().ok().cloned();
            return Err(AcquireError::HoldTooLong { target, hold, max, max_ttl, lock_delay });
        }
        let least = drift.ttl_for(hold.saturating_add(round)).min(longest);
        Ok((self.ttl.max(least), self.min_validity.max(hold)))
    }
}

impl<K: Kind> IntoFuture for Acquire<K> {
    type Output = Result<Lease<K>, AcquireError>;
    type IntoFuture = AcquireFuture<K>;

    fn into_future(self) -> AcquireFuture<K> {
        AcquireFuture { state: State::New(Box::new(self)), shield: Shield::default() }
    }
}

/// An acquire under way. It works on any executor.
///
/// # Cancel safety
///
/// It may be dropped at any point. Before its first poll nothing has been sent. After that, every key that was or still
/// will be set on the nodes is released in the background. Others wait at most for that release, or for the ttl and any
/// lock-delay on a node that cannot be reached. A lease that was granted and not yet picked up is released too. The
/// place in line is lost.
///
/// A future that is stored but not polled still takes its turn, and then blocks everyone else until it is polled or
/// dropped.
#[must_use = "a future does nothing until it is awaited"]
pub struct AcquireFuture<K: Kind = Exclusive> {
    pub(super) state: State<K>,
    shield: Shield,
}

pub(super) enum State<K: Kind> {
    New(Box<Acquire<K>>),
    /// It stands in line, and shares the lease of its handle, if it has one, as soon as it can.
    Asks(Acquiring, Option<Sharing>),
    Done,
}

impl<K: Kind> Future for AcquireFuture<K> {
    type Output = Result<Lease<K>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { state, shield } = &mut *self;
        // Sent at the first poll, and not before. The state is taken out, since a request is checked once.
        if let State::New(_) = state
            && let State::New(request) = std::mem::replace(state, State::Done)
        {
            let spec = request.spec()?;
            let mut sharing = match &request.handle {
                None => None,
                Some(handle) => match handle.sharing(&request.engine, &spec) {
                    None => return Poll::Ready(Err(AcquireError::RuntimeEnded)),
                    sharing => sharing,
                },
            };
            // Before it takes a place in line.
            if let Some(held) = shared(sharing.as_mut(), cx) {
                return Poll::Ready(held);
            }
            *state = State::Asks(request.engine.acquire(spec), sharing);
        }
        let State::Asks(acquiring, sharing) = state else {
            // It was polled after its end, so no answer can come.
            return Poll::Ready(Err(AcquireError::RuntimeEnded));
        };
        let answer = shield.poll(Pin::new(&mut *acquiring), cx);
        if let Poll::Ready(Ok(held)) = answer {
            let sharing = sharing.take();
            *state = State::Done;
            let lease = Lease::new(held);
            if let Some(sharing) = sharing {
                sharing.won(lease.held());
            }
            return Poll::Ready(Ok(lease));
        }
        // Behind a refusal too: the handle may have a lease by now, as where this is polled late.
        if let Some(held) = shared(sharing.as_mut(), cx) {
            acquiring.need_no_answer();
            *state = State::Done;
            return Poll::Ready(held);
        }
        let Poll::Ready(Err(refused)) = answer else { return Poll::Pending };
        *state = State::Done;
        Poll::Ready(Err(refused))
    }
}

/// The lease of its handle, where a request of one can share it.
fn shared<K: Kind>(
    sharing: Option<&mut Sharing>,
    cx: &mut Context<'_>,
) -> Option<Result<Lease<K>, AcquireError>> {
    match sharing?.shares.get_mut().as_mut().poll(cx) {
        Poll::Ready(held) => Some(held.map(Lease::of).ok_or(AcquireError::RuntimeEnded)),
        Poll::Pending => None,
    }
}

impl<K: Kind> fmt::Debug for AcquireFuture<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireFuture").finish_non_exhaustive()
    }
}
