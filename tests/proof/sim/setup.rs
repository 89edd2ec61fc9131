//! What a run is made of, beside its seed, and what it promises.
//!
//! It decides nothing: one name for each world that is tried, and what is different there. Where a world breaks an
//! assumption of `docs/safety.md`, it says which, and what is not asked of it then.

use std::time::Duration;

use crate::{
    MS, SECOND,
    faults::{Fault, Faults},
    node::Bug,
};

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

/// What is wrong with the clients or their machines, on purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Flaw {
    #[default]
    None,
    /// It releases what it has lost, and says that it has dropped it.
    ReleasesLost,
    /// Now and then its source of randomness repeats itself.
    RepeatsOwners,
    /// It goes on for a while when it has been told of a loss.
    GoesOn,
    /// It takes what it did while it stood still for done.
    IgnoresStops,
    /// Timers ring late.
    RingsLate,
    /// The store takes whatever comes.
    WritesUnfenced,
    /// It closes its handle, and does not wait for what that does.
    ClosesInHaste,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) bug: Bug,
    /// How many of the servers have the bug.
    pub(crate) bugged: usize,
    pub(crate) flaw: Flaw,
    /// Every client has servers of its own: a mistake in the configuration.
    pub(crate) apart: bool,
    pub(crate) mode: Mode,
    /// The longest ttl that a client asks for.
    pub(crate) longest_ttl: Duration,
    /// Clients ask for ttls up to different longest ones.
    pub(crate) mixed: bool,
    /// For how long a loss keeps others out.
    pub(crate) lock_delay: Duration,
    /// How long a killed server stays away before it comes back empty.
    pub(crate) away: Duration,
    /// In each period of this length only a minority forgets or loses its clock, because nobody would hold anything
    /// meanwhile...
    pub(crate) spared: Duration,
    /// ...but for this share of those faults.
    pub(crate) reckless: f64,
    /// A client is another process every few requests, and none of them lives as long as a quarantine.
    pub(crate) short_lives: bool,
    /// So many tasks of a process ask at once, at the most, so that what one releases is handed on to another.
    pub(crate) workers: u64,
    /// Clients want one, two or three resources at once, which overlap.
    pub(crate) sets: bool,
    /// Most of them only read.
    pub(crate) readers: bool,
    /// Clients want permits, of so many; none says that they want leases.
    pub(crate) permits: Option<usize>,
    /// Leases ask for ttls far apart, are kept as nobody's for a while, keep others out for a least time, and go on as readers.
    pub(crate) varied: bool,
    /// Some hold for so long, and renew.
    pub(crate) long_hold: Option<Duration>,
    /// The clocks of clients and of servers are fast or slow by so many thousandths at the most. The drift allows for ten
    /// between two of them.
    pub(crate) rates: (i64, i64),
    /// How often which fault is tried.
    pub(crate) faults: Faults,
    /// Clocks of servers run ahead by days, together with those of clients: then nobody may believe a counter in the end.
    pub(crate) counts_ahead: bool,
    /// Exclusion and lock-delay are promised: the world breaks none of A1, A2, A3, A6 and A9.
    pub(crate) excludes: bool,
    /// Everybody cleans up, and whatever is sent arrives soon or not at all: nothing is left as soon as all is released.
    /// Otherwise it is gone when the longest ttl is over.
    pub(crate) tidy: bool,
}

impl Setup {
    /// Leases that live long beside everything else, and servers that come back at once with nothing.
    pub(crate) const SOUND: Self = Self {
        name: "sound",
        bug: Bug::None,
        bugged: 0,
        flaw: Flaw::None,
        apart: false,
        mode: Mode::Fenced,
        longest_ttl: Duration::from_secs(20),
        mixed: false,
        lock_delay: Duration::ZERO,
        away: MS,
        // Every client counts the quarantine of 22 s from when it first met the server, which may be late.
        spared: Duration::from_secs(60),
        reckless: 0.0,
        short_lives: false,
        workers: 1,
        sets: false,
        readers: false,
        permits: None,
        varied: false,
        long_hold: None,
        rates: (0, 4),
        faults: Faults::NETWORK,
        counts_ahead: false,
        excludes: true,
        tidy: true,
    };

    /// Short leases, so that one quarantine follows another, and now and then a majority forgets.
    pub(crate) const BUSY: Self = Self {
        name: "busy",
        longest_ttl: SECOND,
        spared: Duration::from_millis(1_500),
        reckless: 0.1,
        ..Self::SOUND
    };

    /// Processes that come and go, and wait out quarantines together.
    pub(crate) const SHORT_LIVED: Self = Self {
        name: "short lived",
        short_lives: true,
        longest_ttl: Duration::from_secs(2),
        ..Self::BUSY
    };

    /// Losses keep others out, where nobody says that nothing is on its way.
    pub(crate) const DELAYED: Self = Self {
        name: "delayed",
        longest_ttl: Duration::from_secs(2),
        lock_delay: Duration::from_secs(3),
        ..Self::SOUND
    };

    /// Plain Redlock, in which a killed server has to stay away for longer than the longest ttl.
    pub(crate) const CLASSIC: Self = Self {
        name: "classic",
        mode: Mode::Classic,
        away: Duration::from_secs(22),
        spared: Duration::from_secs(22),
        ..Self::SOUND
    };

    /// Fewer permits than clients, where quarantines follow each other.
    pub(crate) const PERMITS: Self = Self { name: "permits", permits: Some(2), ..Self::BUSY };

    /// Several resources at once, where quarantines follow each other.
    pub(crate) const SETS: Self = Self { name: "sets", sets: true, ..Self::BUSY };

    /// Readers beside writers, where quarantines follow each other.
    pub(crate) const READERS: Self = Self { name: "readers", readers: true, ..Self::BUSY };

    /// Clients with clocks of their own that are stepped, processes that stand still, and machines that sleep.
    pub(crate) const CLOCKS: Self = Self {
        name: "clocks",
        // Where a majority forgets, tokens go on from wall clocks, which are wrong here: A3.
        reckless: 0.0,
        longest_ttl: SECOND,
        rates: (4, 4),
        faults: Faults::NETWORK
            .with(Fault::PauseClient, 3)
            .with(Fault::SuspendClient, 2)
            .with(Fault::HaltClient, 2)
            .with(Fault::StepWall, 3)
            .with(Fault::StandWall, 1),
        ..Self::BUSY
    };

    /// Servers whose clocks go back or stand, and servers that restart with what they had, are emptied, or taken over by
    /// an older copy, also behind a proxy.
    pub(crate) const SERVERS: Self = Self {
        name: "servers",
        // Where a majority forgets, tokens go on from wall clocks, which are wrong here: A3.
        reckless: 0.0,
        rates: (4, 4),
        faults: Faults::NETWORK
            .with(Fault::RestartKept, 2)
            .with(Fault::RollBack, 2)
            .with(Fault::Flush, 1)
            .with(Fault::RestartHidden, 1)
            .with(Fault::StepBack, 1)
            .with(Fault::StandClock, 1)
            .with(Fault::StepWall, 1),
        tidy: false,
        ..Self::BUSY
    };

    /// Several tasks in each process, clients that are killed, and hints that are wrong: lines and hand-overs.
    pub(crate) const CROWD: Self = Self {
        name: "crowd",
        workers: 3,
        mixed: true,
        rates: (4, 4),
        faults: Faults::NETWORK.with(Fault::KillClient, 2).with(Fault::Rumour, 3),
        tidy: false,
        ..Self::BUSY
    };

    /// Messages that are seconds late, or are delivered twice, and links that are cut in one direction: what a proxy may
    /// do, or a driver that sends again. It breaks N2, on which no promise but the tidiness rests.
    pub(crate) const MESSAGES: Self = Self {
        name: "messages",
        reckless: 0.0,
        workers: 2,
        faults: Faults::NETWORK
            .with(Fault::Late, 4)
            .with(Fault::Twice, 4)
            .with(Fault::CutRequests, 2)
            .with(Fault::CutReplies, 2)
            .with(Fault::StepWall, 1)
            .with(Fault::KillClient, 1),
        tidy: false,
        ..Self::BUSY
    };

    /// Leases that are held while all servers restart empty, one after the other.
    pub(crate) const ROLLING: Self = Self {
        name: "rolling",
        longest_ttl: SECOND,
        long_hold: Some(Duration::from_secs(9)),
        spared: Duration::from_millis(1_600),
        reckless: 0.0,
        faults: Faults::NETWORK.with(Fault::Kill, 6),
        ..Self::BUSY
    };

    /// Clocks of servers that jump forward, which A2 excludes: the order of tokens is what is left, and nothing stays.
    pub(crate) const AHEAD: Self = Self {
        name: "ahead",
        // Where a majority forgets, tokens go on from wall clocks, which are wrong here: A3.
        reckless: 0.0,
        workers: 2,
        faults: Faults::NETWORK
            .with(Fault::StepAhead, 4)
            .with(Fault::StepBack, 1)
            .with(Fault::StepWall, 1)
            .with(Fault::PauseClient, 2)
            .with(Fault::Late, 1),
        counts_ahead: true,
        excludes: false,
        tidy: false,
        ..Self::BUSY
    };

    /// Leases of all lengths under one owner, while clients connect anew and what was under way arrives seconds later.
    pub(crate) const RENEWALS: Self = Self {
        name: "renewals",
        longest_ttl: Duration::from_secs(8),
        varied: true,
        workers: 3,
        lock_delay: Duration::from_millis(200),
        rates: (4, 4),
        faults: Faults::NONE
            .with(Fault::Mend, 40)
            .with(Fault::Pause, 1)
            .with(Fault::Lose, 1)
            .with(Fault::Slow, 1)
            .with(Fault::Reconnect, 6),
        tidy: false,
        ..Self::SOUND
    };

    /// All of them.
    pub(crate) const ALL: [Self; 15] = [
        Self::SOUND,
        Self::BUSY,
        Self::SHORT_LIVED,
        Self::DELAYED,
        Self::CLASSIC,
        Self::PERMITS,
        Self::SETS,
        Self::READERS,
        Self::CLOCKS,
        Self::SERVERS,
        Self::CROWD,
        Self::MESSAGES,
        Self::ROLLING,
        Self::AHEAD,
        Self::RENEWALS,
    ];
}
