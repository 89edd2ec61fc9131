//! The decisions: a pure state machine for rounds over N nodes.
//!
//! Nothing here is asynchronous, reads a clock, draws randomness, logs, or knows Redis. Time goes in as an argument and
//! commands come out as values, so that production, simulation and model checking run the same code. It is `no_std` and
//! has no dependency. Users take the `quorlock` crate, which carries out these decisions; this crate may change with
//! every release of that.
//!
//! ```text
//!            handle_reply(node, Granted | Denied | Failed, now)
//!            handle_timeout(now)   handle_abandoned()
//!                       |
//!                       v                                     quorum-th grant, validity left
//!   acquire(..) --> [ Pending ] -------------------------------------------> [ Won  ]
//!                       |  quorum out of reach, win too late, caller gone
//!                       +--------------------------------------------------> [ Lost ] --> Release to every node
//!                                                                               ^        that may hold the key
//!                                                 late Granted, late unknown ---+--> Release again, there
//! ```
//!
//! # Invariants
//!
//! - **P1** The verdict leaves `Pending` once, at the earliest reply that settles it, and never changes.
//! - **P2** `Won` needs floor(N/2)+1 distinct *configured* nodes that replied `Granted` to this round.
//! - **P3** `Won` of an acquire round has validity left at the time of the reply that won it, measured from
//!   before the first send.
//! - **P4** When an acquire round is lost, every node that may hold the key is sent a release, behind the
//!   acquire; a node that denied, or was certainly never reached, is not.
//! - **P5** A reply after the verdict never changes the verdict; a late grant or a late unknown outcome after
//!   `Lost` yields one more release to that node.
//! - **P6** Every node is sent at most one acquire per round, and one owner serves one round.
//!
//! The other invariants stand in these modules:
//!
//! - **K1** to **K7**, the leases and waiters of one handle, in `client`, which composes the machines of a process
//! - **L1** to **L7**, the queue of a resource, in `queue`
//! - **H1** to **H6**, hand-overs, in `handover`
//! - **G1** to **G5**, the leases of a grant, in `leases`
//! - **C1** to **C5**, the rounds under way at once, in `concurrency`
//! - **U1** to **U4**, unconfirmed releases, in `releases`
//! - **T1** to **T7**, a waiter in the lines on the nodes, in [`Waiter`]'s file
//! - **M1** to **M10**, the admission, in `admission`
//!
//! All are tested, each by name, in `tests/proof/protocol`.

#![no_std]
#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "quorlock is to handle every case, and its version goes with this one's"
)]

extern crate alloc;

// First, as the errors' `Debug` macro comes from it.
#[macro_use]
mod debug;

mod acquisition;
mod adaptive_limit;
mod admission;
mod client;
mod command;
mod completion;
mod concurrency;
mod detached;
mod election;
mod fencing;
mod footprint;
mod handover;
mod holder;
pub mod lateness;
mod leases;
mod lifecycle;
mod line;
mod loss;
mod members;
mod node_set;
mod node_store;
mod note;
mod notice;
mod owner;
mod pace;
mod proclaiming;
mod queue;
mod rare;
mod reading;
mod releases;
mod resource;
mod round;
#[cfg(feature = "serde")]
mod serde;
mod slab;
mod slots;
mod target;
mod time;
mod timers;
pub mod validity;
mod waiter;

pub use acquisition::{
    Acquisition, AdoptionEnd, GiveUp, LostRound, Next, Traffic, TurnedAway, WaitPolicy,
    WaitSettings,
};
pub use admission::{
    Admission, AdmissionBlock, AdmissionNews, AdmissionPolicy, Claim, ClockFault, ConnectionView,
    Errand, Floor, Join, Marker, NodeClock, Probe, ProbeStep, Standing, VoteBlock, VoteGuard,
};
pub use client::{
    Answer, AskId, Asks, CallId, Came, Client, ClientSettings, End, Event, Fails, GrantId, Lane,
    Late, Met, Moment, Passed, Pause, QueueId, ReleaseId, Released, RenewalId, RoundAsked,
    RoundStart, Said, Sending, Told, Transmit,
};
pub use command::{Cause, Command, Denial, EpochMark, Failure, Granted, NodeId, Reply};
pub use completion::{Completed, Completion, Period, WorkFound};
pub use concurrency::{Concurrency, Load, Turn};
pub use detached::{DetachedLease, DetachedLeaseError};
pub use election::{Leader, Look, Observation};
pub use fencing::{FencingToken, InvalidToken, TokenRange};
pub use footprint::{Footprint, ReleaseOrder, UnconfirmedRelease};
pub use handover::{
    Cohort, GivenBack, MOST_IN_A_ROW, NotHandedOn, Offer, OthersWait, Stay, Wanted, keeps_back,
    turn as turn_of,
};
pub use holder::{Finding, KeyHolder, Sighting};
pub use leases::{Begun, Due, EndedLease, Leases, NextLease, Situation};
pub use lifecycle::{ExtendOutcome, LeaseAction, Lifecycle, RenewalPolicy};
pub use line::{
    ClientId, Entered, InvalidClientId, LineHint, LineNews, LinePlace, ReadAccess, Stand, Ticket,
    WaitList,
};
pub use loss::LossReason;
pub use members::{Belongs, Members, Relation, Serves};
pub use node_set::NodeSet;
pub use node_store::{NodeKey, NodeNews, NodeRefusal, NodeStore};
pub use note::{Label, LeaderText, Note, Record};
pub use notice::{Manner, Notice, Pacer, Watch, says_at};
pub use owner::{InvalidOwner, Owner};
pub use pace::{Backoff, RttEstimator, UnloadedTrip};
pub use proclaiming::Proclaiming;
pub use queue::{Comer, Joined, Known, Place, Queue, Station};
pub use reading::ReadToken;
pub use releases::{Batch, Kept, Unconfirmed, longest_release};
pub use resource::{Resource, ResourceError};
pub use round::{ExtendSpec, Quorum, Round, RoundLoss, RoundSpec, Tally, Verdict};
pub use slots::{Slot, Slots};
pub use target::{ResourceSet, Target};
pub use time::{Nanos, Timestamp};
pub use timers::{TimerQueue, Wakeup};
pub use validity::Drift;
pub use waiter::{LineAnswer, Patience, Waiter};
