//! A lease term: one lease's time under a grant.
//!
//! It decides what a lease and its signals may be told of the grant: nothing once their time is over. A lease whose
//! grant has been handed on stays released, whatever the next one does. It must never keep the grant from being handed
//! on: a lease term is a number, and all that is under way belongs to the grant.

use std::{
    fmt,
    future::{Future as _, poll_fn},
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use super::{Engine, Grant, ReleaseAnswer};
use crate::{
    error::{LeaseLost, ReleaseError, Reports},
    protocol::{FencingToken, Leases, LossReason, Nanos, Owner, Target, Timestamp},
    shield::{shield, shielded},
};

impl Grant {
    /// What is left of it at this moment, or why it is over.
    pub(in crate::engine) fn left(&self) -> Result<Duration, LeaseLost> {
        self.check(None)
    }

    /// Reads the clock, and declares the lease lost if its time is up: the timer for that may have been stopped
    /// together with this process. This checks the lease term with this number, or the current one.
    pub(super) fn check(&self, number: Option<u64>) -> Result<Duration, LeaseLost> {
        let Some(engine) = self.engine.upgrade() else {
            // The lease kept the engine alive. So it has been dropped, which has released it unless it was lost before.
            let client = self.client_here();
            let leases = client.as_ref().and_then(|client| client.leases(self.id));
            let reason = leases.map_or(LossReason::Forked, |leases| leases.over(number));
            return Err(self.lost(client.as_deref(), reason));
        };
        let (result, action) = {
            let locked = self.client.lock_here_at(|| engine.now());
            let Some((mut client, now)) = locked else { return Err(self.forked()) };
            let action = client.change(self.id, |leases| leases.handle_check(now)).flatten();
            if action.is_some() && !self.client.process().is_here() {
                // A forked child has nobody to tell, and `tell` takes more locks.
                return Err(self.forked());
            }
            let Some(leases) = client.leases(self.id) else { return Err(self.forked()) };
            let result = leases.left(number, now);
            (result.map_err(|reason| self.lost(Some(&client), reason)), action)
        };
        if let Some(action) = action {
            self.tell(action);
        }
        result
    }

    /// The answer in a child forked from the holder's process.
    fn forked(&self) -> LeaseLost {
        self.lost(None, LossReason::Forked)
    }
}

/// A lease term, as its lease and its signals know it. It may be kept for any time.
#[derive(Clone)]
pub(crate) struct LeaseTerm {
    grant: Arc<Grant>,
    number: u64,
    token: Option<FencingToken>,
    ttl: Nanos,
}

/// A lease term that does not keep its grant.
#[derive(Clone)]
pub(crate) struct WeakTerm {
    grant: Weak<Grant>,
    number: u64,
    token: Option<FencingToken>,
    ttl: Nanos,
}

impl WeakTerm {
    /// The lease term, while its grant is there.
    pub(crate) fn upgrade(&self) -> Option<LeaseTerm> {
        let &Self { number, token, ttl, .. } = self;
        Some(LeaseTerm { grant: self.grant.upgrade()?, number, token, ttl })
    }
}

impl LeaseTerm {
    pub(super) const fn new(
        grant: Arc<Grant>,
        number: u64,
        token: Option<FencingToken>,
        ttl: Duration,
    ) -> Self {
        Self { grant, number, token, ttl: Nanos::new(ttl) }
    }

    /// The same without its grant.
    pub(crate) fn weak(&self) -> WeakTerm {
        let &Self { number, token, ttl, .. } = self;
        WeakTerm { grant: Arc::downgrade(&self.grant), number, token, ttl }
    }

    /// The grant it is part of.
    pub(crate) const fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    pub(crate) fn target(&self) -> &Target {
        self.grant.target()
    }

    pub(crate) fn owner(&self) -> Owner {
        self.grant.owner()
    }

    pub(crate) const fn token(&self) -> Option<FencingToken> {
        self.token
    }

    /// The ttl that an extension of it asks for.
    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl.get()
    }

    /// Its holder has it. Before that no work could begin under it, so that nobody has to be kept out afterwards.
    pub(crate) fn handle_taken(&self) {
        let Self { grant, number, .. } = self;
        if let Some(mut client) = grant.client_here() {
            client.change(grant.id, |leases| leases.handle_taken(*number));
        }
    }

    /// Begins work that ends when the lease is lost, and gives the lease back at its end.
    pub(crate) fn begin_work(&self) -> Result<(), LeaseLost> {
        let Self { grant, number, .. } = self;
        let Some(mut client) = grant.client_here() else { return Err(self.forked()) };
        let begun = client.change(grant.id, |leases| leases.begin_work(*number));
        let begun = begun.unwrap_or(Err(LossReason::Released));
        begun.map_err(|reason| grant.lost(Some(&client), reason))
    }

    /// Work under it has ended. Whether a shutdown waited for it, and for no other.
    pub(crate) fn end_work(&self) -> bool {
        let Self { grant, number, .. } = self;
        let Some(mut client) = grant.client_here() else { return false };
        client.change(grant.id, |leases| leases.end_work(*number)).unwrap_or_default()
    }

    /// Reads the clock, and returns the time left, or why it is over.
    pub(crate) fn check(&self) -> Result<Duration, LeaseLost> {
        self.grant.check(Some(self.number))
    }

    /// The answer in a child forked from the holder's process.
    pub(crate) fn forked(&self) -> LeaseLost {
        self.grant.forked()
    }

    /// What the nodes have said to the last extension, if that failed.
    pub(crate) fn doubt(&self) -> Reports {
        let Some(engine) = self.grant.engine.upgrade() else { return Reports::default() };
        let client = self.grant.client_here();
        let doubt = client.as_ref().and_then(|client| client.doubt(self.grant.id));
        doubt.map(|said| engine.reports(said)).unwrap_or_default()
    }

    /// Why the lease is over, if it is.
    pub(crate) fn lost(&self) -> Option<LeaseLost> {
        self.check().err()
    }

    /// Why it is lost, or about to be.
    pub(crate) fn is_ending(&self) -> Option<LossReason> {
        let warning = || self.grant.client_here()?.leases(self.grant.id)?.warning();
        self.lost().map(|lost| lost.reason).or_else(warning)
    }

    /// Whether this is the thread on which its engine runs.
    pub(crate) fn runs_here(&self) -> bool {
        self.grant.engine.upgrade().is_some_and(|engine| engine.runs_here())
    }

    pub(crate) fn heartbeat(&self, now: Timestamp) {
        let Self { grant, number, .. } = self;
        if let Some(mut client) = grant.client_here() {
            client.change(grant.id, |leases| leases.handle_heartbeat(*number, now));
        }
    }

    /// Whether its holder may still extend it.
    pub(crate) fn may_be_extended(&self, now: Timestamp) -> bool {
        let client = self.grant.client_here();
        let leases = client.as_ref().and_then(|client| client.leases(self.grant.id));
        leases.is_none_or(|leases| leases.lifecycle().may_be_extended(now))
    }

    /// Waits for its loss.
    pub(crate) async fn when_lost(&self) -> LeaseLost {
        self.wait(Self::lost).await.unwrap_or_else(|| self.forked())
    }

    /// Waits until `wanted` returns something; `None` in a forked child, where nothing would. It is asked at each poll,
    /// whatever the cause: the timer that tells of a loss may have been stopped together with this process, and work
    /// polled beside this must not go on.
    pub(crate) async fn wait<T>(&self, wanted: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut changed = pin!(self.grant.changed().notified());
        let found = poll_fn(|cx| {
            loop {
                // Registered before it is looked at, so that no change in between is missed.
                let has_changed = changed.as_mut().poll(cx).is_ready();
                if let Some(found) = wanted(self) {
                    return Poll::Ready(found);
                }
                if !has_changed {
                    return Poll::Pending;
                }
                changed.set(self.grant.changed().notified());
            }
        });
        self.grant.client.process().awaits(shield(found)).await
    }
}

/// A lease term in the hands of its one holder. Dropping it releases it in the background.
pub(crate) struct HeldTerm {
    pub(crate) term: LeaseTerm,
    pub(crate) engine: Arc<Engine>,
}

impl HeldTerm {
    pub(in crate::engine) const fn new(term: LeaseTerm, engine: Arc<Engine>) -> Self {
        Self { term, engine }
    }

    /// Shares it with readers from now on, if its holder still has it.
    pub(crate) fn downgrade(&mut self) {
        let LeaseTerm { grant, number, .. } = &self.term;
        if let Some(term) = grant.downgrade(&self.engine, *number) {
            self.term = term;
            // If this panics, the nodes follow with the next renewal.
            shielded(|| self.term.grant.spread(&self.engine, &self.term));
        }
    }

    /// Starts the release, once, if the engine is served.
    pub(crate) fn release(&self) -> Result<ReleaseAnswer, ReleaseError> {
        self.term.grant.release(&self.engine, self.term.number)
    }

    /// Its holder lets go of it without a word on its work. If it has a lock-delay and the work was cut short, by the
    /// loss of the lease or by a panic, the keys keep others out for so long. Otherwise it is released.
    pub(crate) fn let_go(&self) {
        // In a forked child it is the parent's, and threads of the parent may hold the locks.
        if !self.engine.is_served() {
            return;
        }
        if std::thread::panicking() {
            // It reads the clock, which must not panic while another panic goes on.
            shielded(|| self.give_up(true));
        } else {
            self.give_up(false);
        }
    }

    /// Like `let_go`. After a panic, others are kept out for the lock-delay if the lease was taken.
    fn give_up(&self, has_panicked: bool) {
        let LeaseTerm { grant, number, .. } = &self.term;
        if grant.leave_if_lost(&self.engine, *number) {
            return;
        }
        let lock_delay = grant.lock_delay();
        // No work can have begun under a lease that was not taken.
        if has_panicked && !lock_delay.is_zero() && grant.ask(false, Leases::is_taken) {
            // The user's clock may panic too. Without a time the keys stand until they expire, a ttl and the lock-delay.
            let mut is_held = false;
            shielded(|| {
                self.hold_for(lock_delay);
                is_held = true;
            });
            if !is_held {
                self.let_expire();
                return;
            }
        }
        drop(self.release());
    }

    /// One of its holders goes away without a word on its work, and others may still have it. If that work was cut short, the
    /// lock-delay is kept whatever the others say of theirs.
    pub(crate) fn handle_dropped(&self) {
        let LeaseTerm { grant, number, .. } = &self.term;
        if grant.lock_delay().is_zero() || !self.engine.is_served() {
            return;
        }
        // It reads the clock, which must not panic while another panic goes on.
        shielded(|| {
            let is_cut_off = std::thread::panicking() || {
                let is_lost = self.term.check().is_err();
                let now = self.engine.now();
                is_lost && grant.ask(false, |leases| leases.is_cut_off(*number, now))
            };
            if is_cut_off {
                self.hold_for(grant.lock_delay());
            }
        });
    }

    /// Ends it without a release. Returns whether this has ended it, and it was not lost before.
    pub(crate) fn let_expire(&self) -> bool {
        self.term.grant.let_expire(&self.engine, self.term.number)
    }

    /// Keeps others out for `least` from now, whenever it is released.
    pub(crate) fn hold_for(&self, least: Duration) {
        let until = self.engine.steady().saturating_add(least);
        let LeaseTerm { grant, number, .. } = &self.term;
        grant.client().change(grant.id, |leases| leases.hold(*number, until));
    }
}

impl Drop for HeldTerm {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for LeaseTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTerm")
            .field("target", self.target())
            .field("number", &self.number)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
