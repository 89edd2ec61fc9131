//! A lease over time: when to extend it, when to warn, and when to declare it lost.
//!
//! It decides. It never extends, notifies or reads a clock: it is called with a time, and says when to call again. A
//! lost lease stays lost.

mod asked;

use alloc::boxed::Box;
use core::time::Duration;

use self::asked::Asked;
use super::{
    loss::LossReason,
    time::{Nanos, Timestamp},
    validity::{self, Drift},
};

/// Must exceed the 2 ms within which the timer queue takes entries together, or a short lease retries in a busy loop.
const LEAST_RETRY: Duration = Duration::from_millis(4);

/// What a holder asked for beyond the ttl.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RenewalPolicy {
    /// Whether the lease is renewed beside the work.
    pub renew: bool,
    /// The longest the lease may be held in all; it is not extended beyond it.
    pub max_hold: Option<Duration>,
    /// The longest time between two heartbeats of the worker; without one, the lease is not renewed.
    pub heartbeat_within: Option<Duration>,
    /// How long before its validity ends the lease is lost to its holder, who needs that time to stop. At most half of
    /// what a grant promises.
    pub stop_within: Duration,
}

impl Default for RenewalPolicy {
    /// Renewed, without a limit.
    fn default() -> Self {
        let stop_within = Duration::ZERO;
        Self { renew: true, max_hold: None, heartbeat_within: None, stop_within }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LeaseAction {
    /// Begin an extension.
    Extend,
    /// Tell the holder that the end is near.
    Warn(LossReason),
    /// Tell the holder that the lease is lost.
    Lose(LossReason),
}

/// How an extension ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ExtendOutcome {
    /// A quorum extended the lease: the validity that was promised now ends at this point.
    Extended(Timestamp),
    /// Too many nodes no longer have the key: the lease is lost.
    Lost,
    /// Too few nodes answered. The validity that was promised before still runs.
    InDoubt,
}

/// One lease over time.
///
/// ```text
///  granted         1/3: Extend          2/3: Warn           deadline - lead: Lose
///  |--------------|-----|-----|--------|-----|-----|---------|------------------|
///                   retries, until the deadline                                validity is zero
/// ```
///
/// The thirds are of what a grant promises: the ttl less its drift, which may be most of it. A longer lead, as by
/// `stop_within`, makes the warning earlier too.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lifecycle {
    ttl: Nanos,
    drift: Drift,
    /// What its holder asked for; boxed, because few ask.
    asked: Option<Box<Asked>>,
    deadline: Timestamp,
    extend_at: Option<Timestamp>,
    /// An extension that was asked for here is under way; its end plans the next.
    extending: bool,
    /// The next renewal comes this long after the last began to count, not a third of what is promised.
    soon: Option<Nanos>,
    warned: bool,
    failing: bool,
    lost: Option<LossReason>,
}

impl Lifecycle {
    /// A lease granted by a round that began at `started` and promised validity up to `deadline`.
    pub fn new(
        started: Timestamp,
        deadline: Timestamp,
        ttl: Duration,
        drift: Drift,
        renewal: RenewalPolicy,
    ) -> Self {
        let mut lifecycle = Self {
            ttl: Nanos::new(ttl),
            drift,
            asked: Asked::at(started, renewal),
            deadline,
            extend_at: None,
            extending: false,
            soon: None,
            warned: false,
            failing: false,
            lost: None,
        };
        lifecycle.plan(started);
        lifecycle
    }

    /// The point up to which the lease may be relied on.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Why the lease is lost; `None` while it is not.
    pub const fn lost(&self) -> Option<LossReason> {
        self.lost
    }

    /// When work that was given time to stop must end: as long before the deadline as a loss is told without that time.
    pub fn stop_by(&self) -> Timestamp {
        self.before_deadline(self.least_lead())
    }

    /// The lifetime that an extension asks for.
    pub const fn ttl(&self) -> Duration {
        self.ttl.get()
    }

    /// Whether it is renewed.
    pub fn renews(&self) -> bool {
        self.renewal().renew
    }

    /// The allowance for clock rates that an extension counts with.
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// When to ask again; `None` once the lease is lost.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.lost.is_some() {
            return None;
        }
        let warn_at = (!self.warned).then(|| self.warn_at());
        let next = [self.extend_at, warn_at].into_iter().flatten().fold(self.lose_at(), Ord::min);
        Some(next)
    }

    /// Whether it certainly holds at `now` and is not about to be lost: no warning is due, and the last extension did
    /// not fail.
    pub fn is_sound(&self, now: Timestamp) -> bool {
        self.lost.is_none()
            && !self.warned
            && !self.failing
            && now < self.warn_at().min(self.lose_at())
    }

    /// How much earlier than [`poll_timeout`](Lifecycle::poll_timeout) it may be handled together with other leases: a
    /// thirtieth of what is promised for a renewal, nothing for a retry, a warning or a loss.
    pub fn slack(&self) -> Duration {
        let is_renewal = self.extend_at.is_some_and(|at| at < self.warn_at().min(self.lose_at()));
        // A heartbeat may come until the last moment, so a watched lease is never early.
        let may_be_early = is_renewal && !self.failing && self.renewal().heartbeat_within.is_none();
        if may_be_early { self.promised() / 30 } else { Duration::ZERO }
    }

    /// Whether the holder may still extend it at `now`: not beyond `max_hold`.
    pub fn may_be_extended(&self, now: Timestamp) -> bool {
        self.limit(now) != Some(LossReason::MaxHold)
    }

    /// Declares the lease lost if its time is up at `now`. It changes nothing else that is due, so that any caller may
    /// ask.
    pub fn handle_check(&mut self, now: Timestamp) -> Option<LeaseAction> {
        if self.lost.is_some() || now < self.lose_at() {
            return None;
        }
        let reason = self.reason(now);
        self.lost = Some(reason);
        self.extend_at = None;
        Some(LeaseAction::Lose(reason))
    }

    /// What is due at `now`. Call it until it returns `None`.
    pub fn handle_timeout(&mut self, now: Timestamp) -> Option<LeaseAction> {
        if self.lost.is_some() {
            return None;
        }
        // The loss first: a lease whose time is up must not be extended instead.
        if let Some(lose) = self.handle_check(now) {
            return Some(lose);
        }
        if self.extend_at.is_some_and(|at| now >= at) {
            self.extend_at = None;
            match self.limit(now) {
                None => {
                    self.extending = true;
                    // It goes to every node that is there by now.
                    self.soon = None;
                    return Some(LeaseAction::Extend);
                }
                // A worker that hangs may recover.
                Some(LossReason::NoHeartbeat) => {
                    self.extend_at = Some(self.retry_at(now));
                }
                // Beyond `max_hold` nothing is extended any more.
                Some(_) => {}
            }
        }
        if !self.warned && now >= self.warn_at() {
            self.warned = true;
            return Some(LeaseAction::Warn(self.reason(now)));
        }
        None
    }

    /// An extension has ended at `now`: one that `handle_timeout` asked for, or the holder's own.
    ///
    /// A lost lease stays lost: a late renewal extends nothing.
    pub fn handle_extension(
        &mut self,
        extension: ExtendOutcome,
        now: Timestamp,
    ) -> Option<LeaseAction> {
        self.extending = false;
        if self.lost.is_some() {
            return None;
        }
        // The deadline may have passed while the answer was under way.
        if now >= self.lose_at() {
            return self.handle_timeout(now);
        }
        match extension {
            ExtendOutcome::Extended(deadline) => {
                // Never back: an extension that began earlier may be answered later.
                self.deadline = self.deadline.max(deadline);
                self.warned = false;
                self.failing = false;
                self.plan(now);
                None
            }
            ExtendOutcome::Lost => {
                self.lost = Some(LossReason::Gone);
                self.extend_at = None;
                Some(LeaseAction::Lose(LossReason::Gone))
            }
            ExtendOutcome::InDoubt => {
                self.failing = true;
                if self.renews() {
                    self.extend_at = Some(self.retry_at(now));
                }
                None
            }
        }
    }

    /// A new holder has it from `now` on, with these terms. Its limits count from here. The deadline and an extension
    /// under way stay. The ttl never gets shorter: the keys may live for as long as an extension under way has asked.
    ///
    /// True: its timer or its slack may change.
    pub fn handle_term(&mut self, ttl: Duration, renewal: RenewalPolicy, now: Timestamp) -> bool {
        // After the limit of the holder before, no renewal is planned.
        let none_planned = renewal.renew && self.extend_at.is_none() && !self.extending;
        let changed = (ttl, renewal) != (self.ttl(), self.renewal()) || none_planned;
        (self.ttl, self.asked) = (self.ttl.max(Nanos::new(ttl)), Asked::at(now, renewal));
        if changed && !self.extending {
            self.plan(now);
        } else if !renewal.renew {
            self.extend_at = None;
        }
        changed
    }

    /// A node that was away votes again at `now`, and may have lost the key. The next renewal, which finds that out,
    /// comes sooner: at the earliest a tenth of what is promised after the last one, so that an unstable node costs
    /// little. `random` adds up to a twentieth of it, so that not all leases come at once.
    ///
    /// True: its timer changes.
    pub fn handle_node_back(&mut self, random: u8, now: Timestamp) -> bool {
        if self.lost.is_some() || !self.renews() || self.failing {
            // A failed extension is retried sooner than that.
            return false;
        }
        let chance = (self.promised() / 20).saturating_mul(u32::from(random)) / u32::from(u8::MAX);
        let soon = self.promised() / 10;
        // An extension under way, also the holder's own, may have been sent before the node was back.
        let after = Nanos::new(soon.saturating_add(chance));
        self.soon = Some(self.soon.map_or(after, |before| before.min(after)));
        if self.extending {
            return false;
        }
        let Some(planned) = self.extend_at else { return false };
        let earliest = now.saturating_add(soon.saturating_sub(self.passed(now)));
        self.extend_at = Some(planned.min(earliest.saturating_add(chance)));
        self.extend_at != Some(planned)
    }

    /// It was ended by other means than its time or its nodes. A lost one keeps its reason.
    pub fn handle_ended(&mut self, reason: LossReason) {
        self.lost = self.lost.or(Some(reason));
        self.extend_at = None;
    }

    /// The worker gave a heartbeat at `now`.
    pub fn handle_heartbeat(&mut self, now: Timestamp) {
        let asked = self.asked.iter_mut();
        asked.for_each(|asked| asked.last_heartbeat = asked.last_heartbeat.max(now));
    }

    pub(super) fn renewal(&self) -> RenewalPolicy {
        self.asked.as_ref().map_or_else(RenewalPolicy::default, |asked| asked.renewal)
    }

    /// What a grant or an extension promises if it takes no time.
    fn promised(&self) -> Duration {
        self.ttl().saturating_sub(self.drift.of(self.ttl()))
    }

    /// How much of the last promise has passed. It counts back from the deadline, and so from before the first send,
    /// like the validity itself.
    fn passed(&self, now: Timestamp) -> Duration {
        self.promised().saturating_sub(validity::left(self.deadline, now))
    }

    /// Plans the next renewal: a third of what is promised after the last one began to count, or sooner.
    fn plan(&mut self, now: Timestamp) {
        let after = self.soon.take().map_or_else(|| self.promised() / 3, Nanos::get);
        let until = after.saturating_sub(self.passed(now));
        self.extend_at = self.renews().then(|| now.saturating_add(until));
    }

    /// When to retry an extension that failed at `now`.
    fn retry_at(&self, now: Timestamp) -> Timestamp {
        now.saturating_add((self.promised() / 20).max(LEAST_RETRY))
    }

    /// The holder's own limit that forbids another extension at `now`.
    fn limit(&self, now: Timestamp) -> Option<LossReason> {
        let over = |limit: Option<Duration>, since: Timestamp| {
            limit.is_some_and(|limit| now.saturating_since(since) >= limit)
        };
        let Asked { renewal, granted, last_heartbeat } = self.asked.as_deref()?;
        if over(renewal.max_hold, *granted) {
            Some(LossReason::MaxHold)
        } else if over(renewal.heartbeat_within, *last_heartbeat) {
            Some(LossReason::NoHeartbeat)
        } else {
            None
        }
    }

    fn reason(&self, now: Timestamp) -> LossReason {
        match self.limit(now) {
            // A limit only stops renewals; without renewals the lease would have ended anyway.
            Some(limit) if self.renews() => limit,
            _ if self.failing || self.renews() => LossReason::RenewalFailed,
            _ => LossReason::NotRenewed,
        }
    }

    /// A loss is told before the validity ends, to be known in time. The lead is a hundredth of the ttl, between 2 and
    /// 50 ms, and at most a tenth of what is promised; or as long as the holder needs to stop.
    fn lead(&self) -> Duration {
        self.least_lead().max(self.renewal().stop_within.min(self.promised() / 2))
    }

    fn least_lead(&self) -> Duration {
        let lead = (self.ttl() / 100).clamp(Duration::from_millis(2), Duration::from_millis(50));
        lead.min(self.promised() / 10)
    }

    fn lose_at(&self) -> Timestamp {
        self.before_deadline(self.lead())
    }

    /// The warning comes when two thirds of what is promised have passed without an extension, and a while before the
    /// loss.
    fn warn_at(&self) -> Timestamp {
        let before_loss = self.lead().saturating_add(self.promised() / 20);
        self.before_deadline(before_loss.max(self.promised() / 3))
    }

    fn before_deadline(&self, lead: Duration) -> Timestamp {
        Timestamp::from_origin(self.deadline.since_origin().saturating_sub(lead))
    }
}

#[cfg(test)]
#[path = "lifecycle_test.rs"]
mod tests;
