//! What is found of a fleet, in words: what it is, how bad it is, and what to do.
//!
//! It decides which word programs know each finding by. When there is one, `node` and `fleet` decide.

use std::{fmt, sync::Arc};

use crate::protocol::NodeId;

/// How bad a finding is. The order is from harmless to bad.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing, and as it may be meant.
    Note,
    /// Locks work, and will not, or not as well, when something else happens.
    Warning,
    /// A node does not take part, locks are not safe, or nothing can be acquired: an operator has to act.
    Error,
}

impl Severity {
    /// The word by which programs know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Makes the list of what may be found, each with its word.
macro_rules! ills {
    ($($(#[doc = $doc:literal])+ $ill:ident $name:literal,)+) => {
        /// What is wrong.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Ill {
            $($(#[doc = $doc])+ $ill,)+
        }

        impl Ill {
            /// The word by which programs know it. It stays what it is.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$ill => $name,)+
                }
            }
        }
    };
}

ills! {
    /// Too few nodes vote for anything to be acquired.
    NoQuorum "no-quorum",
    /// An even number of nodes tolerates no more than the odd one below it.
    EvenNumber "even-number",
    /// A setting is on that gives up what a lock promises.
    DangerSetting "danger-setting",
    /// It could not be asked.
    NotReached "not-reached",
    /// User or password are not accepted, or there is none.
    WrongCredentials "wrong-credentials",
    /// Its ACL user lacks a command that is needed.
    MissingRight "missing-right",
    /// Its version is too old.
    TooOld "too-old",
    /// It is a replica.
    Replica "replica",
    /// It has replicas.
    HasReplicas "has-replicas",
    /// It is part of a cluster.
    Cluster "cluster",
    /// It is the same server as another node.
    SameServer "same-server",
    /// Two connections to its address lead to different servers.
    DifferentServers "different-servers",
    /// It is used with another list of nodes, or a fleet of another name.
    OtherMembers "other-members",
    /// It may not vote, for another reason.
    Refused "refused",
    /// It answers, and does not vote.
    NotVoting "not-voting",
    /// It may have forgotten leases, and does not vote yet.
    Quarantined "quarantine",
    /// It may evict locks.
    MayEvict "eviction",
    /// Its memory is used up, or nearly.
    MemoryFull "memory-full",
    /// In classic mode it may restart without the locks that it has granted.
    NotPersistent "not-persistent",
    /// It cannot write its data to its disk.
    NotWritten "not-written",
    /// Its replies take too long.
    Slow "slow",
    /// Its clock shows another time.
    ClockOff "clock-off",
    /// Its clock runs at another rate, or jumps.
    ClockDrifts "clock-drifts",
    /// It uses another database than the others.
    DatabaseDiffers "database-differs",
    /// It says that it may be thrown away.
    DangerKey "danger-key",
    /// It was told of leases that are longer than those of this process.
    MaxTtlDiffers "max-ttl-differs",
    /// It wakes no waiters.
    NoLine "no-line",
    /// What is sent to it can be read on the way.
    NotEncrypted "not-encrypted",
}

/// One thing that an operator should know, or fix.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub ill: Ill,
    /// Of which node; `None` where it is about all of them, or about this process.
    pub node: Option<NodeId>,
    /// The address of that node, without credentials.
    pub address: Option<Arc<str>>,
    /// What was seen, and what follows from it.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    /// One about all nodes, or about this process.
    pub(super) fn new(
        severity: Severity,
        ill: Ill,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (cause, remedy) = (cause.into(), remedy.into());
        Self { severity, ill, node: None, address: None, cause, remedy }
    }

    /// The same about one node.
    pub(super) fn of(mut self, node: NodeId, address: &Arc<str>) -> Self {
        (self.node, self.address) = (Some(node), Some(Arc::clone(address)));
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, node, address, cause, remedy, .. } = self;
        write!(f, "{severity}: ")?;
        if let (Some(node), Some(address)) = (node, address) {
            write!(f, "{node} ({address}): ")?;
        }
        write!(f, "{cause}; {remedy}")
    }
}
