//! The lock around everything that `protocol::Client` decides, and what this process keeps beside it.
//!
//! It decides nothing. Under the lock, nothing taken out may be dropped, no waker called and no user code run: each may
//! come back here.

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
};

use tokio::sync::{Notify, oneshot};

use super::{Grant, Request, held::Outcomes, release::Releasing};
use crate::{
    lock::Lock,
    node::{Hurries, NodeError},
    protocol::{self, ClientSettings, ExtendOutcome, Lane, RenewalId, Timestamp},
    runtime::Process,
    telemetry::Caller,
};

/// How often a thread reads the clock again because another thread held the lock.
const LOOKS: usize = 16;

/// The state machine of the grants and requests of this process.
pub(super) type Client = protocol::Client<Kept, Box<Request>, Releasing, NodeError>;

/// The engine's data of a grant.
#[derive(Default)]
pub(super) struct Kept {
    /// The grant as its leases know it.
    pub(super) grant: Weak<Grant>,
    /// Keeps the grant alive while it lingers without a holder.
    pub(super) kept: Option<Arc<Grant>>,
    /// The span in which the current lease was asked for.
    pub(super) caller: Caller,
    /// Where the shutdown that ended it gets the result.
    pub(super) report: Option<Arc<Outcomes>>,
    /// Makes the engine reconnect sooner to lost nodes while the grant counts as held.
    pub(super) hurries: Option<Hurries>,
    /// The callers that wait for an extension.
    pub(super) extending: Vec<(RenewalId, oneshot::Sender<ExtendOutcome>)>,
    /// Tells of each extension that counts. Made by the first that waits for one without asking for it.
    pub(super) extended: Option<Arc<Notify>>,
}

/// The lock. It outlives its engine while a lease's signal is kept.
#[derive(Clone)]
pub(super) struct SharedClient {
    client: Arc<Lock<Client>>,
    process: Process,
}

impl SharedClient {
    pub(super) fn new(process: Process, settings: ClientSettings) -> Self {
        Self { client: Arc::new(Lock::new(Client::new(settings))), process }
    }

    /// The process in which holders are told of their leases.
    pub(super) const fn process(&self) -> Process {
        self.process
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Client> {
        self.client.lock()
    }

    /// Like `lock`, for code that may run in a forked child. There, `None` while the lock is held: its holder may be a
    /// thread of the parent.
    pub(super) fn lock_here(&self) -> Option<MutexGuard<'_, Client>> {
        self.client.lock_if(|| self.process.is_here())
    }

    /// Like `lock_here`, with the clock read right before locking, not before a wait for the lock, which may take
    /// longer than the time left of a lease.
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
        // Left out while the lock is held: in a forked child that may be for ever.
        if let Some(client) = self.client.try_lock() {
            shown.field("queues", &client.queues());
            shown.field("waiting", &client.crowd(Lane::Acquires));
        }
        shown.finish_non_exhaustive()
    }
}
