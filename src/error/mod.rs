//! What can go wrong with each verb, with what every node said.
//!
//! It keeps two things apart that users must treat differently: *busy*, where waiting helps, and
//! *broken*, where it does not. Each text is complete: it says the cause, with that of the cause, what is left behind,
//! and what to do, in one line. So no error here has a `source()`: a program that prints the chain would print it twice.

mod acquire;
mod acquire_text;
mod adopt;
mod close;
mod connect;
mod lease;
mod named;
mod once;
mod reports;
mod unsupported;

pub use self::{
    acquire::AcquireError,
    adopt::NotAdopted,
    close::{CloseError, Closed, Shutdown, WouldDeadlock},
    connect::{ConnectError, NodeStates},
    lease::{ExtendError, LeaseLost, NoToken, ReleaseError, RunError},
    once::{DoneError, OnceError},
    reports::{NodeOutcome, NodeReport, Reports},
    unsupported::{Ability, Unsupported},
};

/// What is said wherever a blocking form is called on the thread that has to answer it.
const WOULD_DEADLOCK: &str = "blocking here would stop the thread that has to answer it";
