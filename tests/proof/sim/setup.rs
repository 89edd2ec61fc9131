//! What a run is made of, beside its seed.
//!
//! It decides nothing: one name for each world that is tried, and what is different there.

use std::time::Duration;

use crate::{MS, SECOND, node::Bug};

/// How the clients lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// With fencing tokens and quarantine: the default.
    Fenced,
    /// With fencing tokens, and servers that restarted vote at once.
    Skip,
    /// Plain Redlock.
    Classic,
}

/// What a run is made of, beside its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) bug: Bug,
    /// How many of the servers have the bug.
    pub(crate) bugged: usize,
    /// Every client has servers of its own: a mistake in the configuration.
    pub(crate) apart: bool,
    pub(crate) mode: Mode,
    /// The longest ttl that a client asks for.
    pub(crate) longest_ttl: Duration,
    /// For how long a loss keeps others out.
    pub(crate) lock_delay: Duration,
    /// A client releases what it has lost, and says that it has dropped it.
    pub(crate) releases_lost: bool,
    /// How long a killed server stays away before it comes back empty.
    pub(crate) away: Duration,
    /// In each period of this length only a minority is killed, because nobody would hold anything meanwhile...
    pub(crate) spared: Duration,
    /// ...but for this share of the kills.
    pub(crate) reckless: f64,
    /// A client is another process every few requests, and none of them lives as long as a quarantine.
    pub(crate) short_lives: bool,
    /// Clients want one, two or three resources at once, which overlap.
    pub(crate) sets: bool,
    /// Most of them only read.
    pub(crate) readers: bool,
    /// Clients want permits, of so many; none says that they want leases.
    pub(crate) permits: Option<usize>,
}

impl Setup {
    /// Leases that live long beside everything else, and servers that come back at once with nothing.
    pub(crate) const SOUND: Self = Self {
        bug: Bug::None,
        bugged: 0,
        apart: false,
        mode: Mode::Fenced,
        longest_ttl: Duration::from_secs(20),
        lock_delay: Duration::ZERO,
        releases_lost: false,
        away: MS,
        // Every client counts the quarantine of 22 s from when it first met the server, which may be late.
        spared: Duration::from_secs(60),
        reckless: 0.0,
        short_lives: false,
        sets: false,
        readers: false,
        permits: None,
    };

    /// Fewer permits than clients, where quarantines follow each other.
    pub(crate) const PERMITS: Self = Self { permits: Some(2), ..Self::BUSY };

    /// Several resources at once, where quarantines follow each other.
    pub(crate) const SETS: Self = Self { sets: true, ..Self::BUSY };

    /// Readers beside writers, where quarantines follow each other.
    pub(crate) const READERS: Self = Self { readers: true, ..Self::BUSY };

    /// Processes that come and go, and wait out quarantines together.
    pub(crate) const SHORT_LIVED: Self =
        Self { short_lives: true, longest_ttl: Duration::from_secs(2), ..Self::BUSY };

    /// Short leases, so that one quarantine follows another, and now and then a majority forgets.
    pub(crate) const BUSY: Self = Self {
        longest_ttl: SECOND,
        spared: Duration::from_millis(1_500),
        reckless: 0.1,
        ..Self::SOUND
    };

    /// Losses keep others out, where nobody says that nothing is on its way.
    pub(crate) const DELAYED: Self = Self {
        longest_ttl: Duration::from_secs(2),
        lock_delay: Duration::from_secs(3),
        ..Self::SOUND
    };

    /// Plain Redlock, in which a killed server has to stay away for longer than the longest ttl.
    pub(crate) const CLASSIC: Self = Self {
        mode: Mode::Classic,
        away: Duration::from_secs(22),
        spared: Duration::from_secs(22),
        ..Self::SOUND
    };
}
