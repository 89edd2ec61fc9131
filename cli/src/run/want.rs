//! What a run asks of a resource, and the lease that it gets, of whatever kind, as one type.
//!
//! It decides which request is made. Nothing here says how long it holds: the lease does.

use std::time::Duration;

use quorlock::{
    AcquireError, CampaignError, Leadership, Lease, LeaseSignal, Permit, ReadLease, Redlock,
    ReleaseError,
};

use super::Run;
use crate::exit::{Failure, Status};

/// The settings that requests of all kinds have; these share no type.
macro_rules! with {
    ($run:expr, $wait:expr, $request:expr) => {{
        let mut request = $request;
        request = match $wait {
            _ if $run.try_once => request,
            Some(wait) => request.wait(wait),
            None => request.wait_without_deadline(),
        };
        if let Some(ttl) = $run.ttl {
            request = request.ttl(ttl);
        }
        request
    }};
}

/// The settings that a reader does not have.
macro_rules! with_more {
    ($run:expr, $wait:expr, $least:expr, $request:expr) => {{
        let mut request = with!($run, $wait, $request);
        if let Some(least) = $least {
            request = request.hold_at_least(least);
        }
        if let Some(delay) = $run.lock_delay {
            request = request.lock_delay(delay);
        }
        request
    }};
}

/// Between two campaigns where the nodes do not answer.
const REST: Duration = Duration::from_secs(1);

/// A lease of any kind.
pub(crate) enum Holds {
    Lease(Lease),
    Permit(Permit),
    Reader(ReadLease),
    Leader(Leadership),
}

impl Holds {
    pub(crate) fn signal(&self) -> LeaseSignal {
        match self {
            Self::Lease(lease) => lease.signal(),
            Self::Permit(permit) => permit.signal(),
            Self::Reader(lease) => lease.signal(),
            Self::Leader(leadership) => leadership.signal(),
        }
    }

    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Lease(lease) => lease.owner(),
            Self::Permit(permit) => permit.owner(),
            Self::Reader(lease) => lease.owner(),
            Self::Leader(leadership) => leadership.owner(),
        }
        .to_string()
    }

    /// In classic mode there is none.
    pub(crate) fn token(&self) -> Option<String> {
        match self {
            Self::Reader(lease) => Some(lease.token().to_string()),
            _ => self.signal().token().ok().map(|token| token.get().to_string()),
        }
    }

    pub(crate) fn slot(&self) -> Option<u8> {
        match self {
            Self::Permit(permit) => Some(permit.slot()),
            _ => None,
        }
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Lease(lease) => lease.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Reader(lease) => lease.release().await,
            Self::Leader(leadership) => leadership.resign().await,
        }
    }
}

impl Run {
    /// The label by which a user finds this run: `host/pid/command`, in the 128 bytes that a label may have. The
    /// process is the supervisor, which gets the signals; the command has its name alone: arguments may be secret.
    pub(crate) fn label(&self) -> Vec<u8> {
        let mut label = rustix::system::uname().nodename().to_bytes().to_vec();
        label.truncate(64);
        label.extend(format!("/{}/", nix::unistd::getppid()).into_bytes());
        let command = self.command.first().map(std::path::Path::new);
        let name = command.and_then(std::path::Path::file_name).unwrap_or_default();
        label.extend_from_slice(name.as_encoded_bytes());
        label.truncate(128);
        label
    }

    /// Acquires as was asked for, and waits for so long; `None` for as long as it takes. Also returns for how long this
    /// process has to hold it at least, where the nodes keep it for shorter by themselves.
    pub(crate) async fn acquire(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
    ) -> Result<(Holds, Option<Duration>), Failure> {
        if self.elect {
            return self.campaign(redlock, wait).await.map(|holds| (holds, None));
        }
        let asked = match self.ask(redlock, wait, self.hold_at_least).await {
            // Nothing was sent. The nodes keep it for `max`, this process for the rest.
            Err(Refused::Acquire(AcquireError::HoldTooLong { max, .. })) => {
                let asked = self.ask(redlock, wait, Some(max)).await;
                asked.map(|holds| (holds, self.hold_at_least))
            }
            asked => asked.map(|holds| (holds, None)),
        };
        asked.map_err(|refused| match refused {
            Refused::Acquire(error) => self.not_acquired(&error),
            Refused::Failure(failure) => failure,
        })
    }

    async fn ask(
        &self,
        redlock: &Redlock,
        wait: Option<Duration>,
        least: Option<Duration>,
    ) -> Result<Holds, Refused> {
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
                    let text = format!("somebody else leads `{}` after {limit:?}", self.resource);
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

    /// The error where the grace that was asked for cannot be given.
    pub(crate) fn too_long_a_grace(&self, validity: Duration) -> Option<Failure> {
        // Stands for a third of the ttl, of which the way to the nodes has taken a part.
        let grace = self.grace.filter(|grace| *grace > validity * 11 / 30)?;
        let text = format!(
            "the grace of {grace:?} is taken out of the lease, of which it may be a third, and that holds for {validity:.1?}: ask for \
             less, or for a longer --ttl, and above max_ttl for that too, as in `--ttl 30s --set max_ttl=30s`; the command was not started"
        );
        Some(Failure::new(Status::Usage, text))
    }

    /// How long the command has between SIGTERM and SIGKILL.
    pub(crate) fn grace(&self, validity: Duration) -> Duration {
        self.grace.unwrap_or(Duration::from_secs(5)).min(validity / 3)
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
