//! Why a handle cannot be built, in words.
//!
//! It decides nothing.

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use thiserror::Error;

use super::{LockDelayTooLong, MAX_NODES, TooLong};
use crate::{protocol::Resource, settings::WrongVariable};

/// Why a [`Redlock`](crate::Redlock) cannot be built. Nothing has been connected, so nothing is left on any
/// node: change the configuration.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The list of nodes is empty. Name one independent master, or better three or five.
    #[error("no nodes are configured; name one, or better three or five, independent masters")]
    NoNodes,
    /// Two nodes have a quorum of two, so either of them failing stops every lock: that is less than
    /// one node gives. Name three, or one, or call `danger_allow_two_nodes`.
    #[error(
        "two nodes are less available than one, since both are needed; name three, or one \
         (Builder::danger_allow_two_nodes accepts two)"
    )]
    TwoNodes,
    /// More nodes than any quorum gains from; each costs a command per acquire. Name five.
    #[error("{nodes} nodes are configured, at most {MAX_NODES} are allowed; five are plenty")]
    TooManyNodes {
        /// How many there are.
        nodes: usize,
    },
    /// A change of the list of nodes needs nodes that keep their list: in classic mode, in memory or of another kind
    /// they do not. Leave out `nodes_before`.
    #[error(
        "nodes_before needs Redis or Valkey nodes, and tokens: in classic mode, in memory or of another kind nodes keep \
         no list; leave it out"
    )]
    ChangeUnsupported,
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
    #[error("node {index} is a URL, but the feature `redis` of quorlock is off; enable it")]
    RedisFeatureMissing {
        /// The place of the node in the list, counted from zero.
        index: usize,
    },
    /// The key prefix begins with what is kept for the nodes' own keys, so that no name could be locked behind it.
    /// Choose another prefix.
    #[error(
        "the key prefix `{prefix}` begins with `{reserved}`, which is reserved for the nodes' own keys; choose another",
        reserved = Resource::RESERVED
    )]
    ReservedPrefix {
        /// The prefix, with whatever is not ASCII escaped.
        prefix: Arc<str>,
    },
    /// Two entries name one server, perhaps with different databases: its vote would count twice.
    #[error(
        "nodes {first} and {second} are one server, {address}, whose vote would count twice; name each server once, \
         whatever the database"
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
    #[error("the name of node {index} cannot be used; write 1 to 255 bytes")]
    NodeName {
        /// Its place.
        index: usize,
    },
    /// Two nodes have one name in the list of their fleet. Give each a name of its own, by `NodeSpec::named` or `#name` behind
    /// its URL.
    #[error(
        "nodes {first} and {second} share the name {name} in the list of the fleet; give each a name of its own"
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
        "the ttl of {ttl:?}, less {drift:?} for clocks, does not exceed the minimum validity of {min_validity:?}; ask \
         for a longer ttl, or for less validity"
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
    #[error("the engine thread cannot be started; raise the limits of this process: {error}")]
    Runtime {
        /// What the operating system said.
        error: Arc<std::io::Error>,
    },
}

debug_is_text! { enum ConfigError {
    NoNodes,
    TwoNodes,
    TooManyNodes { nodes },
    ChangeUnsupported,
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
    pub(super) fn out_of_range<T: fmt::Display>(
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
