//! What `run` and `hold` ask of a resource: the options that both have, and the way from these to a lease.
//!
//! It decides which request is made, and for how long nodes are waited for. Nothing here says how long a lease holds: the
//! lease does.

mod holds;

use std::time::{Duration, SystemTime};

use clap::Args;
use quorlock::{AcquireError, CampaignError, Once, OnceError, Redlock};

pub(crate) use self::holds::Holds;
use crate::{
    args::{Nodes, duration},
    connect::{connected, refused},
    exit::{Failure, Status},
};

/// What is held, how it is asked for, and on which nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Want {
    /// What is locked; all that have to exclude each other use the same name, and none of them --semaphore if not all do
    pub(crate) resource: String,
    /// Another resource that is held with it, all or none; may be given again
    #[arg(long, value_name = "RESOURCE", conflicts_with_all = ["semaphore", "shared", "elect"])]
    pub(crate) also: Vec<String>,
    /// Does not wait: where somebody else holds it, ends with status 75
    #[arg(long = "try", short = 'n')]
    pub(crate) try_once: bool,
    /// Waits for so long, as in `90s`, and ends with status 75 then. Without this, --try and the setting of that name it waits for as long as it takes
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration, conflicts_with = "try_once")]
    pub(crate) wait: Option<Duration>,
    /// How long nodes keep the lease if it is not renewed, which it is until it is given back: how late others get it where this machine dies. By default 10 s, and for longer --set max_ttl is needed, alike everywhere
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Others are kept out for so long from the start, also where it is given back before: for jobs that timers of several hosts start. Up to max_ttl the nodes do that by themselves; for longer `run` stays until then, and `hold` refuses
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "elect")]
    pub(crate) hold_at_least: Option<Duration>,
    /// Others are kept out for so much longer where the lease is not given back but expires: ttl and delay together are max_ttl at most
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) lock_delay: Option<Duration>,
    /// So many hold it at once, alike for all of this resource: 1 to 256
    #[arg(long, value_name = "PERMITS", conflicts_with_all = ["shared", "elect"])]
    pub(crate) semaphore: Option<usize>,
    /// Together with others that share it, and never beside one that does not
    #[arg(long, conflicts_with_all = ["elect", "hold_at_least", "lock_delay"])]
    pub(crate) shared: bool,
    /// As the leader of an election. Where the lease is lost, `run` starts its command again with the next term, and `hold` ends
    #[arg(long)]
    pub(crate) elect: bool,
    #[command(flatten)]
    pub(crate) nodes: Nodes,
}

/// The settings that requests of all kinds have; these share no type.
macro_rules! with {
    ($want:expr, $wait:expr, $request:expr) => {{
        let mut request = $request;
        request = match $wait {
            _ if $want.try_once => request,
            Some(wait) => request.wait(wait),
            None => request.wait_without_deadline(),
        };
        if let Some(ttl) = $want.ttl {
            request = request.ttl(ttl);
        }
        request
    }};
}

/// The settings that a reader does not have.
macro_rules! with_more {
    ($want:expr, $wait:expr, $least:expr, $request:expr) => {{
        let mut request = with!($want, $wait, $request);
        if let Some(least) = $least {
            request = request.hold_at_least(least);
        }
        if let Some(delay) = $want.lock_delay {
            request = request.lock_delay(delay);
        }
        request
    }};
}

/// Between two campaigns where the nodes do not answer.
const REST: Duration = Duration::from_secs(1);
/// How long it waits for new nodes, which do not vote before their quarantine is over; and how long with `--try` or a
/// shorter `--wait`, which limit the wait for other holders alone.
const READY: Duration = Duration::from_secs(60);
const READY_AT_ONCE: Duration = Duration::from_secs(3);
/// Nodes that answer are connected by then.
const CONNECTED: Duration = Duration::from_millis(300);
/// After this time it says what it waits for.
const A_WHILE: Duration = Duration::from_secs(2);

/// The label by which others find who holds it: `host/process/name`, in the 128 bytes that a label may have.
pub(crate) fn label(process: i32, name: &[u8]) -> Vec<u8> {
    let mut label = rustix::system::uname().nodename().to_bytes().to_vec();
    label.truncate(64);
    label.extend(format!("/{process}/").into_bytes());
    label.extend_from_slice(name);
    label.truncate(128);
    label
}

impl Want {
    /// How long another holder is waited for; `None` for as long as it takes.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.wait.or_else(|| self.nodes.wait())
    }

    /// Waits until enough nodes vote, and tells why if that takes a while.
    pub(crate) async fn usable(
        &self,
        redlock: &Redlock,
        tell: impl FnOnce(String),
    ) -> Result<(), Failure> {
        let limit = match self.longest() {
            _ if self.try_once => Some(READY_AT_ONCE),
            Some(wait) => Some(wait.max(READY_AT_ONCE)),
            None if self.elect => None,
            None => Some(READY),
        };
        tokio::select! {
            ready = ready(redlock, limit, tell) => ready?,
            refused = refused(redlock, CONNECTED) => return Err(refused),
        }
        // A majority is enough; but if one of its nodes were lost before the first renewal, the lease would be lost.
        connected(redlock, CONNECTED).await
    }

    /// Acquires as was asked for, and waits for so long; `None` for as long as it takes.
    pub(crate) async fn acquire(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
    ) -> Result<Holds, Failure> {
        let asked = self.ask(redlock, wait, self.hold_at_least).await;
        asked.map_err(|refused| self.failure(refused))
    }

    /// The same. It also returns for how long this process has to hold it at least, where the nodes keep it for shorter by
    /// themselves.
    pub(crate) async fn acquire_to_stay(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
    ) -> Result<(Holds, Option<Duration>), Failure> {
        let asked = match self.ask(redlock, wait, self.hold_at_least).await {
            // Nothing was sent. The nodes keep it for `max`, this process for the rest.
            Err(Refused::Acquire(AcquireError::HoldTooLong { max, .. })) => {
                let asked = self.ask(redlock, wait, Some(max)).await;
                asked.map(|holds| (holds, self.hold_at_least))
            }
            asked => asked.map(|holds| (holds, None)),
        };
        asked.map_err(|refused| self.failure(refused))
    }

    /// The same, where the work of this period is not done; otherwise a failure with the status `Done`.
    pub(crate) async fn acquire_once(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
        (every, began): (Duration, SystemTime),
    ) -> Result<Holds, Failure> {
        let request = with_more!(self, wait, None, redlock.try_acquire(&self.resource));
        match request.once_per(every).at(began).await {
            Ok(Once::Due(lease)) => Ok(Holds::Due(lease)),
            Ok(done) => Err(Failure::new(Status::Done, done)),
            Err(OnceError::Acquire(error)) => Err(self.not_acquired(&error)),
            Err(error @ OnceError::Unknown { .. }) => Err(Failure::new(Status::Broken, error)),
            Err(error @ OnceError::Late { .. }) => Err(Failure::new(Status::Busy, error)),
            Err(error) => Err(Failure::new(Status::Usage, error)),
        }
    }

    fn failure(&self, refused: Refused) -> Failure {
        match refused {
            Refused::Acquire(error) => self.not_acquired(&error),
            Refused::Failure(failure) => failure,
        }
    }

    async fn ask(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
        least: Option<Duration>,
    ) -> Result<Holds, Refused> {
        if self.elect {
            return Ok(self.campaign(redlock, wait).await?);
        }
        if let Some(permits) = self.semaphore {
            let semaphore = redlock.semaphore(&self.resource, permits);
            let semaphore = semaphore.map_err(|error| Failure::new(Status::Usage, error))?;
            let request = with_more!(self, wait, least, semaphore.try_acquire());
            return Ok(Holds::Permit(request.await?));
        }
        if self.shared {
            let request = with!(self, wait, redlock.try_read(&self.resource));
            return Ok(Holds::Reader(request.await?));
        }
        let all = std::iter::once(&self.resource).chain(&self.also);
        let request = match self.also.is_empty() {
            true => redlock.try_acquire(&self.resource),
            false => redlock.try_acquire_all(all),
        };
        Ok(Holds::Lease(with_more!(self, wait, least, request).await?))
    }

    async fn campaign(&self, redlock: &Redlock, wait: Option<Duration>) -> Result<Holds, Failure> {
        let mut election = redlock.election(&self.resource);
        if let Some(ttl) = self.ttl {
            election = election.ttl(ttl);
        }
        if let Some(delay) = self.lock_delay {
            election = election.lock_delay(delay);
        }
        let campaign = async {
            loop {
                let elected = match self.try_once {
                    true => return election.try_campaign().await,
                    false => election.campaign().await,
                };
                // A campaign that waits for its turn waits for the nodes too.
                match elected {
                    Err(CampaignError::Acquire(error)) if passes(&error) => {
                        tokio::time::sleep(REST).await;
                    }
                    elected => return elected,
                }
            }
        };
        let elected = match wait {
            None => campaign.await,
            Some(limit) => match tokio::time::timeout(limit, campaign).await {
                Ok(elected) => elected,
                Err(_) => {
                    let name = &self.resource;
                    let by = redlock
                        .holder(name)
                        .await
                        .map_or_else(|_| String::new(), |by| format!(": {by}"));
                    let text = format!("somebody else leads `{name}` after {limit:.1?}{by}");
                    return Err(Failure { status: Status::Busy, text });
                }
            },
        };
        elected.map(Holds::Leader).map_err(|error| match &error {
            CampaignError::Acquire(acquire) => self.not_acquired(acquire),
            _ => Failure::new(Status::Usage, error),
        })
    }

    fn not_acquired(&self, error: &AcquireError) -> Failure {
        let status = match error {
            _ if error.is_contended() => Status::Busy,
            AcquireError::NoQuorum { .. }
            | AcquireError::Quarantined { .. }
            | AcquireError::TooLate { .. } => Status::Broken,
            AcquireError::Resource(_)
            | AcquireError::Unsupported(_)
            | AcquireError::Ttl { .. }
            | AcquireError::HoldTooLong { .. }
            | AcquireError::LockDelayTooLong { .. } => Status::Usage,
            _ => Status::Failed,
        };
        Failure::new(status, error)
    }
}

/// Why nothing was granted.
enum Refused {
    Acquire(AcquireError),
    Failure(Failure),
}

impl From<AcquireError> for Refused {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Whether another campaign may do better.
const fn passes(error: &AcquireError) -> bool {
    matches!(
        error,
        AcquireError::Contended { .. }
            | AcquireError::Quarantined { .. }
            | AcquireError::NoQuorum { .. }
            | AcquireError::TooLate { .. }
            | AcquireError::Crowded { .. }
    )
}

/// Waits until enough nodes vote, and tells why if that takes a while; with `None` only so long: the campaign waits.
async fn ready(
    redlock: &Redlock,
    limit: Option<Duration>,
    tell: impl FnOnce(String),
) -> Result<(), Failure> {
    let broken = |error| Failure::new(Status::Broken, error);
    if limit.is_some_and(|limit| limit <= READY_AT_ONCE) {
        return redlock.ready(READY_AT_ONCE).await.map_err(broken);
    }
    let Err(not_ready) = redlock.ready(A_WHILE).await else { return Ok(()) };
    tell(not_ready.to_string());
    match limit {
        Some(limit) => redlock.ready(limit.saturating_sub(A_WHILE)).await.map_err(|mut error| {
            error.waited += A_WHILE;
            broken(error)
        }),
        None => Ok(()),
    }
}
