//! A model checker over the production's decisions: every state of small worlds around the machines of `protocol`.
//!
//! Goal: what the documentation promises holds in every state that can be reached, and not only in those that a test has
//! thought of. Method: a world is a handful of machines, nodes and messages (`leases`); a configuration says how many,
//! and how often what goes wrong may happen (`configs`, one in each file); the search takes every step from every state
//! (`search`). The same files are compiled a second time by `tests/proof/planted`, against a copy of `protocol` with faults
//! in it, each of which has to be found. They name what they use as `crate::protocol`, which is the one or the other.
//!
//! Each configuration ends by itself ("exhausted") or at the limits that it is given, which is said in its figures.

pub(crate) mod changes;
pub(crate) mod configs;
pub(crate) mod detached;
pub(crate) mod handles;
pub(crate) mod leases;
pub(crate) mod lines;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod prober;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod search;
pub(crate) mod terms;
