//! The lock around everything that `protocol::Client` decides, and what this process keeps beside it.
//!
//! It decides nothing. Nothing that is taken out may be dropped under the lock, no waker called and no code of the user's run:
//! each of them may come back here.

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
};

use tokio::sync::oneshot;

use super::{Grant, Request, held::Outcomes, release::Releasing};
use crate::{
    lock::Lock,
    node::{Hurries, NodeError},
    protocol::{self, ClientSettings, ExtendOutcome, Lane, RenewalId, Timestamp},
    runtime::Process,
    telemetry::Caller,
};

/// So often somebody looks at a clock anew since another one had the lock.
const LOOKS: usize = 16;

/// What is decided of the grants and requests of this process.
pub(super) type Client = protocol::Client<Kept, Box<Request>, Releasing, NodeError>;

/// What is kept with a grant.
#[derive(Default)]
pub(super) struct Kept {
    /// The grant as its leases know it.
    pub(super) grant: Weak<Grant>,
    /// While it is nobody's.
    pub(super) kept: Option<Arc<Grant>>,
    /// In which span the current lease was asked for.
    pub(super) caller: Caller,
    /// Of the shutdown that has ended it.
    pub(super) report: Option<Arc<Outcomes>>,
    /// While it counts as held, nodes that are away are tried the sooner for it.
    pub(super) hurries: Option<Hurries>,
    /// Those who wait for the end of an extension.
    pub(super) extending: Vec<(RenewalId, oneshot::Sender<ExtendOutcome>)>,
}

/// The lock. It outlives its engine where somebody keeps a signal of a lease.
#[derive(Clone)]
pub(super) struct SharedClient {
    client: Arc<Lock<Client>>,
    process: Process,
}

impl SharedClient {
    pub(super) fn new(process: Process, settings: ClientSettings) -> Self {
        Self { client: Arc::new(Lock::new(Client::new(settings))), process }
    }

    /// The one in which anybody is told what becomes of what it holds.
    pub(super) const fn process(&self) -> Process {
        self.process
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Client> {
        self.client.lock()
    }

    /// The same for what may be called in a process that was forked since: nothing there where somebody has it, who may be a
    /// thread of the parent's.
    pub(super) fn lock_here(&self) -> Option<MutexGuard<'_, Client>> {
        self.client.lock_if(|| self.process.is_here())
    }

    /// The same with what a clock shows right before: not before a wait for somebody who has the lock, which may take longer
    /// than what is left of a lease.
    pub(super) fn lock_here_at(
        &self,
        clock: impl Fn() -> Timestamp,
    ) -> Option<(MutexGuard<'_, Client>, Timestamp)> {
        for _ in 0..LOOKS {
            let now = clock();
            if let Some(client) = self.client.try_lock() {
                return Some((client, now));
            }
            if !self.process.is_here() {
                return None;
            }
            drop(self.client.lock());
        }
        let now = clock();
        Some((self.client.lock(), now))
    }
}

impl fmt::Debug for SharedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Client");
        // Nothing where somebody has the lock: in a forked process that may be for ever.
        if let Some(client) = self.client.try_lock() {
            shown.field("queues", &client.queues());
            shown.field("waiting", &client.crowd(Lane::Acquires));
        }
        shown.finish_non_exhaustive()
    }
}
