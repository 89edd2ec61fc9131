//! Events for the `tracing` crate, and nothing without the feature: call sites carry no `cfg`.
//!
//! It must never log a password. A subscriber runs where the event is, which mostly is the engine thread:
//! `docs/observing.md` says what it must not do, and which lines there are. It knows no type but those of `protocol`, so
//! that every layer may tell of something here; what it shows of an error is the error's text.
//!
//! There is one function for each thing that happens. It takes all that can be said of it, so that whatever else is to
//! be told of it, such as a metric, is told here. How often a line is told, `core/src/notice.rs` decides before.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

mod caller;
mod class;
pub(crate) mod metrics;

pub(crate) use self::{
    caller::{Caller, Counts},
    class::Class,
};

/// Tells a subscriber of something: a level, and what its macro in `tracing` takes. A panic of the subscriber stays
/// there. Without the feature none of the arguments is looked at.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($name:ident, $level:ident, $($event:tt)+) => {
        crate::shield::shielded(|| {
            tracing::event!(name: stringify!($name), target: "quorlock", tracing::Level::$level, $($event)+);
        })
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($event:tt)+) => {};
}

/// The same in the span of the caller.
#[cfg(feature = "tracing")]
macro_rules! event_for {
    ($name:ident, $caller:expr, $level:ident, $($event:tt)+) => {
        // Looked at before the subscriber is sought out.
        if tracing::Level::$level <= tracing::level_filters::LevelFilter::current() {
            crate::shield::shielded(|| $caller.tell(|parent| match parent {
                Some(parent) => {
                    tracing::event!(name: stringify!($name), target: "quorlock", parent: parent, tracing::Level::$level, $($event)+);
                }
                None => tracing::event!(name: stringify!($name), target: "quorlock", tracing::Level::$level, $($event)+),
            }));
        }
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event_for {
    ($($event:tt)+) => {};
}

mod leases;
mod nodes;

pub(crate) use self::{leases::*, nodes::*};

/// Whether anybody may be listening.
pub(crate) const IS_ON: bool = cfg!(feature = "tracing");
