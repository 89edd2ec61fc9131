//! Every knob, with its default, its range, and what breaks at either end; checked once, at build.
//!
//! It decides which settings are accepted. Nothing below it checks a setting again.

mod too_long;

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use thiserror::Error;

pub(crate) use self::too_long::{LockDelayTooLong, TooLong};
use crate::{
    protocol::{
        AdmissionPolicy, Backoff, Drift, Label, RenewalPolicy, Resource, WaitSettings, validity,
    },
    settings::WrongVariable,
};

pub(crate) const TTL: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(86_400);
const WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::MAX;
const NODE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const CONNECT_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);
const DRIFT_FIXED: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);
const DRIFT_PER_MILLE: RangeInclusive<u32> = 1..=Drift::MAX_PER_MILLE;
const RETRY: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(60);
const COUNTER_RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);
const CLOSE_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);

/// The most nodes that are accepted.
pub(crate) const MAX_NODES: usize = 32;
/// The longest key prefix that is accepted, in bytes.
const MAX_PREFIX: usize = 1024;
/// The longest name of a fleet that is accepted, in bytes.
const MAX_FLEET: usize = 64;

/// The settings, as [`Builder`](crate::Builder) collects them; its methods say what each is.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) drift_per_mille: u32,
    pub(crate) drift_fixed: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_min: Duration,
    pub(crate) retry_max: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) key_prefix: Vec<u8>,
    pub(crate) allow_eviction: bool,
    pub(crate) allow_two_nodes: bool,
    pub(crate) classic: bool,
    pub(crate) admission: AdmissionPolicy,
    pub(crate) max_ttl: Duration,
    pub(crate) counter_retention: Duration,
    pub(crate) fleet: String,
    pub(crate) renewal: RenewalPolicy,
    /// Or the length of one that cannot be a label.
    pub(crate) label: Result<Option<Label>, usize>,
    pub(crate) require_all_nodes: bool,
    pub(crate) through_outages: bool,
    pub(crate) linger: Duration,
    pub(crate) lock_delay: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            wait: Duration::from_secs(15),
            min_validity: Duration::ZERO,
            drift_per_mille: 10,
            drift_fixed: Duration::from_millis(2),
            node_timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_secs(1),
            retry_min: Duration::from_millis(1),
            retry_max: Duration::from_millis(100),
            close_timeout: Duration::from_secs(2),
            key_prefix: Vec::new(),
            allow_eviction: false,
            allow_two_nodes: false,
            classic: false,
            admission: AdmissionPolicy::Quarantine,
            max_ttl: Duration::from_secs(10),
            counter_retention: Duration::from_secs(3600),
            fleet: "default".to_owned(),
            renewal: RenewalPolicy::default(),
            label: Ok(None),
            require_all_nodes: false,
            through_outages: false,
            linger: Duration::ZERO,
            lock_delay: Duration::ZERO,
        }
    }
}

impl Config {
    /// What an acquisition counts with that bears an outage for the whole of its wait, or not.
    pub(crate) const fn wait_settings(&self, through_outages: bool) -> WaitSettings {
        let backoff = Backoff { min: self.retry_min, max: self.retry_max };
        let (node_timeout, wait) = (self.node_timeout, self.wait);
        WaitSettings { node_timeout, wait, backoff, through_outages }
    }

    pub(crate) fn drift(&self) -> Drift {
        Drift::new(self.drift_per_mille, self.drift_fixed)
    }

    /// The longest ttl that a request may ask for.
    pub(crate) const fn most_ttl(&self) -> Duration {
        // Without a quarantine there is nothing that a longer lease could outlive.
        if self.classic { *TTL.end() } else { self.max_ttl }
    }

    /// The longest ttl that this process asks for.
    pub(crate) const fn longest_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// Checks every knob.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        within("drift per mille", self.drift_per_mille, &DRIFT_PER_MILLE)?;
        within("drift fixed part", Shown(self.drift_fixed), &shown(&DRIFT_FIXED))?;
        within("max_ttl", Shown(self.max_ttl), &shown(&TTL))?;
        within("wait", Shown(self.wait), &shown(&WAIT))?;
        within("node_timeout", Shown(self.node_timeout), &shown(&NODE_TIMEOUT))?;
        within("connect_timeout", Shown(self.connect_timeout), &shown(&CONNECT_TIMEOUT))?;
        within("retry minimum", Shown(self.retry_min), &shown(&RETRY))?;
        let retry_max = Shown(self.retry_min)..=Shown(*RETRY.end());
        within("retry maximum", Shown(self.retry_max), &retry_max)?;
        within("close_timeout", Shown(self.close_timeout), &shown(&CLOSE_TIMEOUT))?;
        let retention = Shown(self.counter_retention);
        within("counter_retention", retention, &shown(&COUNTER_RETENTION))?;
        within("key_prefix bytes", self.key_prefix.len(), &(0..=MAX_PREFIX))?;
        within("fleet name bytes", self.fleet.len(), &(1..=MAX_FLEET))?;
        if let Err(bytes) = self.label {
            within("label bytes", bytes, &(1..=Label::MAX_BYTES))?;
        }
        if self.key_prefix.starts_with(Resource::RESERVED.as_bytes()) {
            let prefix = Arc::from(self.key_prefix.escape_ascii().to_string());
            return Err(ConfigError::ReservedPrefix { prefix });
        }
        // Last, since it counts with the drift and with `max_ttl`, which are in range by now.
        self.check_ttl(self.ttl, self.min_validity).map_err(|error| match error {
            TtlError::OutOfRange { ttl, max, .. } if ttl > max && !self.classic => {
                ConfigError::TtlTooLong { ttl, max_ttl: max }
            }
            TtlError::OutOfRange { ttl, min, max } => {
                ConfigError::out_of_range("ttl", Shown(ttl), &(Shown(min)..=Shown(max)))
            }
            TtlError::NothingLeft { ttl, drift, min_validity } => {
                ConfigError::TtlTooShort { ttl, drift, min_validity }
            }
        })?;
        let (lock_delay, ttl) = (self.lock_delay, self.ttl);
        self.check_lock_delay(ttl, lock_delay).map_err(|max_ttl| ConfigError::LockDelayTooLong {
            lock_delay,
            ttl,
            max_ttl,
        })
    }

    /// Checks that no key stands for longer than a node that has forgotten it is kept from voting. The error is the
    /// longest that one may stand.
    pub(crate) fn check_lock_delay(
        &self,
        ttl: Duration,
        lock_delay: Duration,
    ) -> Result<(), Duration> {
        let longest = self.most_ttl();
        if validity::key_life(ttl, lock_delay) <= longest { Ok(()) } else { Err(longest) }
    }

    /// Checks the ttl and the minimum validity of one request, or of the configuration.
    pub(crate) fn check_ttl(&self, ttl: Duration, min_validity: Duration) -> Result<(), TtlError> {
        let max = self.most_ttl();
        if ttl < *TTL.start() || ttl > max {
            return Err(TtlError::OutOfRange { ttl, min: *TTL.start(), max });
        }
        let drift = self.drift().of(ttl);
        if ttl.saturating_sub(drift) <= min_validity {
            return Err(TtlError::NothingLeft { ttl, drift, min_validity });
        }
        Ok(())
    }

    pub(crate) fn check_node_count(&self, nodes: usize) -> Result<(), ConfigError> {
        match nodes {
            0 => Err(ConfigError::NoNodes),
            2 if !self.allow_two_nodes => Err(ConfigError::TwoNodes),
            nodes if nodes > MAX_NODES => Err(ConfigError::TooManyNodes { nodes }),
            _ => Ok(()),
        }
    }
}

/// Why a ttl cannot work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TtlError {
    OutOfRange { ttl: Duration, min: Duration, max: Duration },
    NothingLeft { ttl: Duration, drift: Duration, min_validity: Duration },
}

/// A duration that prints as a person would write it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Shown(Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const fn shown(range: &RangeInclusive<Duration>) -> RangeInclusive<Shown> {
    Shown(*range.start())..=Shown(*range.end())
}

fn within<T: PartialOrd + fmt::Display>(
    knob: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::out_of_range(knob, value, range))
}

/// Why a [`Redlock`](crate::Redlock) cannot be built. Nothing has been connected, so nothing is left on any
/// node: change the configuration.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The list of nodes is empty. Name one independent master, or better three or five.
    #[error("no nodes are configured, name one, or better three or five, independent masters")]
    NoNodes,
    /// Two nodes have a quorum of two, so either of them failing stops every lock: that is less than
    /// one node gives. Name three, or one, or call `danger_allow_two_nodes`.
    #[error(
        "two nodes are less available than one, since both are needed, name three, or one (Builder::danger_allow_two_nodes accepts them)"
    )]
    TwoNodes,
    /// More nodes than any quorum gains from; each costs a command per acquire. Name five.
    #[error("{nodes} nodes are configured and at most {MAX_NODES} can be, five are plenty")]
    TooManyNodes {
        /// How many there are.
        nodes: usize,
    },
    /// URLs cannot be used. Each that is wrong is named, with what to write instead.
    #[cfg(feature = "redis")]
    #[error("{}", wrong_addresses(.wrong))]
    Address {
        /// All that are wrong, in the order of the list.
        wrong: Arc<[crate::node::redis::WrongAddress]>,
    },
    /// Variables of the environment cannot be used. Each that is wrong is named, with what to write instead.
    #[error("the environment cannot be used: {}", joined(.wrong))]
    Environment {
        /// All that are wrong, in the order of their names.
        wrong: Arc<[WrongVariable]>,
    },
    /// A URL was given and the crate was built without Redis. Enable the feature `redis`.
    #[error("node {index} is a URL, and the feature `redis` of quorlock is off, enable it")]
    RedisFeatureMissing {
        /// The place of the node in the list, counted from zero.
        index: usize,
    },
    /// The key prefix begins with what is kept for the nodes' own keys, so that no name could be locked behind it.
    /// Choose another prefix.
    #[error(
        "the key prefix `{prefix}` begins with `{reserved}`, which is kept for the nodes' own keys, choose another",
        reserved = Resource::RESERVED
    )]
    ReservedPrefix {
        /// The prefix, with whatever is not ASCII escaped.
        prefix: Arc<str>,
    },
    /// Two entries name one server, perhaps with different databases: its vote would count twice.
    #[error(
        "nodes {first} and {second} are one server, {address}, whose vote would count twice, name each server once, whatever the database"
    )]
    SameAddress {
        /// The place of the first.
        first: usize,
        /// The place of the second.
        second: usize,
        /// What both name.
        address: Arc<str>,
    },
    /// The name of a node in the list of its fleet cannot be used: `NodeSpec::named`, or `#name` behind its URL.
    #[error("the name of node {index} cannot be used, write 1 to 255 bytes")]
    NodeName {
        /// Its place.
        index: usize,
    },
    /// Two nodes have one name in the list of their fleet. Give each a name of its own, by `NodeSpec::named` or `#name` behind
    /// its URL.
    #[error(
        "nodes {first} and {second} have one name in the list of the fleet, {name}, give each a name of its own"
    )]
    SameName {
        /// The place of the first.
        first: usize,
        /// The place of the second.
        second: usize,
        /// What both are called.
        name: Arc<str>,
    },
    /// A setting is out of its range. The documentation of the setting says what breaks beyond it.
    #[error("{knob} is {value} and must be between {min} and {max}")]
    OutOfRange {
        /// The setting.
        knob: &'static str,
        /// What was asked for.
        value: Arc<str>,
        /// The least that is accepted.
        min: Arc<str>,
        /// The most that is accepted.
        max: Arc<str>,
    },
    /// The default ttl is longer than `max_ttl`. Leases are renewed while they are held, so that a longer one is seldom
    /// needed; `max_ttl` says what raising it costs.
    #[error("{}", TooLong { ttl: *ttl, max_ttl: *max_ttl })]
    TtlTooLong {
        /// The default ttl.
        ttl: Duration,
        /// The longest that is accepted.
        max_ttl: Duration,
    },
    /// The default ttl leaves no validity after drift and minimum validity, so no round could be won.
    #[error(
        "the ttl of {ttl:?} leaves no more than the minimum validity of {min_validity:?} after {drift:?} for clocks, ask for a longer ttl, or for less validity"
    )]
    TtlTooShort {
        /// The default ttl.
        ttl: Duration,
        /// The drift of such a lease.
        drift: Duration,
        /// The minimum validity.
        min_validity: Duration,
    },
    /// The default ttl and the default lock-delay together are longer than `max_ttl`, for which a node that may have
    /// forgotten a key is kept from voting. Ask for less of one of them, or raise `max_ttl`, which says what that costs.
    #[error("{}", LockDelayTooLong { lock_delay: *lock_delay, ttl: *ttl, max_ttl: *max_ttl })]
    LockDelayTooLong {
        /// The default lock-delay.
        lock_delay: Duration,
        /// The default ttl.
        ttl: Duration,
        /// The longest that both together may be.
        max_ttl: Duration,
    },
    /// The operating system gave no thread, or no event queue, for the engine. Raise its limits.
    #[error("the engine thread cannot be started, raise the limits of this process: {error}")]
    Runtime {
        /// What the operating system said.
        error: Arc<std::io::Error>,
    },
}

debug_is_text! { enum ConfigError {
    NoNodes,
    TwoNodes,
    TooManyNodes { nodes },
    #[cfg(feature = "redis")]
    Address { wrong },
    Environment { wrong },
    RedisFeatureMissing { index },
    ReservedPrefix { prefix },
    SameAddress { first, second, address },
    NodeName { index },
    SameName { first, second, name },
    OutOfRange { knob, value, min, max },
    TtlTooLong { ttl, max_ttl },
    TtlTooShort { ttl, drift, min_validity },
    LockDelayTooLong { lock_delay, ttl, max_ttl },
    Runtime { error },
} }

#[cfg(feature = "redis")]
fn wrong_addresses(wrong: &[crate::node::redis::WrongAddress]) -> String {
    if let [only] = wrong {
        return format!("the address of node {} cannot be used: {}", only.index, only.error);
    }
    format!("the addresses of {} nodes cannot be used: {}", wrong.len(), joined(wrong))
}

/// Several errors, in one line.
fn joined(errors: &[impl fmt::Display]) -> String {
    let each: Vec<String> = errors.iter().map(ToString::to_string).collect();
    each.join("; ")
}

impl ConfigError {
    fn out_of_range<T: fmt::Display>(
        knob: &'static str,
        value: T,
        range: &RangeInclusive<T>,
    ) -> Self {
        let text = |value: &T| Arc::<str>::from(value.to_string());
        Self::OutOfRange {
            knob,
            value: text(&value),
            min: text(range.start()),
            max: text(range.end()),
        }
    }
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
