//! Work under a leadership: begun with a term, and ended before another may begin.
//!
//! It decides when work is polled: while the lease holds by the clock, and no longer. It must never resign before the work
//! has ended or was dropped (E3).

use std::{
    fmt::Display,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use super::{CampaignError, Election, Leadership};
use crate::{error::AcquireError, runtime::block_on, shield::shield, telemetry};

/// How long a candidate rests whose work has failed, or who could not campaign, so that others come first.
const REST: Duration = Duration::from_secs(1);

impl Election {
    /// Leads again and again: campaigns, runs `work` for as long as the term lasts, and campaigns anew when that is lost,
    /// until `work` returns `Ok`. Then it resigns, and returns that.
    ///
    /// When the term is lost, `work` is dropped where it stands, before another candidate can lead; it is not polled once the
    /// lease is over, also not in a process that stood still. Where `work` returns an error it resigns and campaigns again a
    /// second later, behind others; the error goes to the log. What `work` returns counts where its term still held then;
    /// otherwise it campaigns again.
    ///
    /// Work that must not be dropped in the middle, or waits for a thread that blocks, stops by itself when
    /// [`Lease::lost`](crate::Lease::lost) says so. With [`stop_within`](Election::stop_within) it is polled for that long behind
    /// the loss, nothing is released meanwhile, and it is dropped if it has not ended by then. Where the keys are gone from the
    /// nodes there is no such time.
    ///
    /// `work` is an `async |leadership|`. In a task that is spawned it is an `async move |leadership: &Leadership|`, which owns
    /// what it captures: `docs/fencing.md`, "Work in a task of its own". `|leadership| async move {…}` is no such closure,
    /// and the compiler then says that `AsyncFnMut` is missing.
    ///
    /// ```
    /// # use std::{convert::Infallible, future::pending};
    /// # use quorlock::{Election, Redlock, node::MemoryNode};
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let election = redlock.election("scheduler");
    /// let work = election.lead(async |leadership| {
    ///     println!("leads in term {}", leadership.term());
    ///     pending::<Result<(), Infallible>>().await
    /// });
    /// tokio::select! {
    ///     ended = work => ended?,
    ///     () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {} // the process ends
    /// }
    /// redlock.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CampaignError`], where campaigning again does not help: what was asked for cannot be, or the handle is closed. A
    /// process that shuts down ends `work` first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and then gives the term up in the background.
    pub async fn lead<T, E: Display>(
        &self,
        mut work: impl AsyncFnMut(&Leadership) -> Result<T, E>,
    ) -> Result<T, CampaignError> {
        loop {
            let leadership = match self.campaign().await {
                Ok(leadership) => leadership,
                Err(error) if error.passes() => {
                    self.rest().await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if leadership.begin_work().is_err() {
                // Lost already, or shut down: the next campaign says which.
                continue;
            }
            let done = {
                let mut over = pin!(self.work_is_over(&leadership));
                let mut work = pin!(work(&leadership));
                poll_fn(|cx| {
                    // By the clock, before each poll: the timer that tells of a loss may have been stopped together with this
                    // process.
                    if over.as_mut().poll(cx).is_ready() || self.may_not_work(&leadership) {
                        return Poll::Ready(None);
                    }
                    work.as_mut().poll(cx).map(Some)
                })
                .await
            };
            // Read again: it may have come to its end too late.
            let done = done.filter(|_| leadership.check().is_ok());
            match done {
                // The work has been dropped, or has ended.
                None => drop(leadership),
                Some(Ok(output)) => {
                    drop(leadership.resign().await);
                    return Ok(output);
                }
                Some(Err(error)) => {
                    telemetry::leader_failed(leadership.target(), leadership.term(), &error);
                    drop(leadership.resign().await);
                    self.rest().await;
                }
            }
        }
    }

    /// [`lead`](Election::lead), blocking this thread. No runtime is needed. Nothing can stop work on a thread from outside:
    /// `work` asks [`Lease::check`](crate::Lease::check) right before each effect, and returns when that says so. Where it does
    /// not, [`health`](Election::health) tells. What `work` returns counts where its term still held then; otherwise it
    /// campaigns again.
    ///
    /// # Errors
    ///
    /// As for [`lead`](Election::lead); and [`AcquireError::WouldDeadlock`] in [`CampaignError::Acquire`].
    pub fn blocking_lead<T, E: Display>(
        &self,
        mut work: impl FnMut(&Leadership) -> Result<T, E>,
    ) -> Result<T, CampaignError> {
        loop {
            let leadership = match self.blocking_campaign() {
                Ok(leadership) => leadership,
                Err(error) if error.passes() => {
                    block_on(self.rest());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if leadership.begin_work().is_err() {
                continue;
            }
            let done = work(&leadership);
            if leadership.check().is_err() {
                drop(leadership);
                continue;
            }
            match done {
                Ok(output) => {
                    drop(leadership.blocking_resign());
                    return Ok(output);
                }
                Err(error) => {
                    telemetry::leader_failed(leadership.target(), leadership.term(), &error);
                    drop(leadership.blocking_resign());
                    block_on(self.rest());
                }
            }
        }
    }

    /// Ends when the term is lost, and the time to stop is over.
    async fn work_is_over(&self, leadership: &Leadership) {
        leadership.lost().await;
        if let Some(until) = leadership.stop_by(self.stop_within) {
            let sleep = self.engine.sleep_until(until);
            self.engine.process().awaits(shield(sleep)).await;
        }
    }

    fn may_not_work(&self, leadership: &Leadership) -> bool {
        leadership.stop_by(self.stop_within).is_some_and(|until| until <= self.engine.now())
    }

    /// In a process that was forked it ends at once, and so does the campaign that follows.
    async fn rest(&self) {
        let sleep = self.engine.sleep_until(self.engine.now().saturating_add(REST));
        self.engine.process().awaits(shield(sleep)).await;
    }
}

impl CampaignError {
    /// Whether another campaign may do better.
    const fn passes(&self) -> bool {
        matches!(
            self,
            Self::Acquire(
                AcquireError::Contended { .. }
                    | AcquireError::Quarantined { .. }
                    | AcquireError::NoQuorum { .. }
                    | AcquireError::TooLate { .. }
                    | AcquireError::Crowded { .. }
            )
        )
    }
}
