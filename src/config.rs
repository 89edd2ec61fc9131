//! Every setting, with its default and its range; checked once, at build.
//!
//! It decides which settings are accepted. Nothing below it checks a setting again.

mod error;
mod too_long;

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

pub use self::error::ConfigError;
pub(crate) use self::too_long::{LockDelayTooLong, TooLong};
use crate::protocol::{
    AdmissionPolicy, Backoff, Drift, Label, RenewalPolicy, Resource, WaitSettings, validity,
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
    /// Or the length of bytes that cannot be a label.
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
    /// The wait settings of an acquisition; with `through_outages` it waits through an outage for the whole of its
    /// wait.
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
        // Without a quarantine, no lease can outlive one.
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
        // Last, since it uses the drift and `max_ttl`, which are in range by now.
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

    /// Checks that no key lives for longer than a node that has forgotten it is kept from voting. The error is the
    /// longest allowed life.
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

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
