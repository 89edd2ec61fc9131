//! What a run consists of: how many clients and nodes, what goes wrong, and what is wrong with the world on purpose.

use std::time::Duration;

/// What goes wrong in a run, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A client that waits is killed, and another one comes.
    pub(crate) kill_waiter: Option<Duration>,
    /// Any client is killed, also the holder or one whose round is under way.
    pub(crate) kill_any: Option<Duration>,
    /// A client that waits is stopped, for so long.
    pub(crate) stop_waiter: Option<(Duration, Duration)>,
    /// Any client is stopped, for so long.
    pub(crate) stop_any: Option<(Duration, Duration)>,
    /// The last node answers nothing.
    pub(crate) down: bool,
    /// Another node is down, and comes back empty when the next one goes.
    pub(crate) restart: Option<Duration>,
    /// The clocks of the nodes are up to so many seconds apart.
    pub(crate) apart: u64,
    /// They run at rates that differ by so many parts in a million from each other.
    pub(crate) rates: i64,
    /// The lines of a node, or of all of them, are gone.
    pub(crate) flush: Option<Duration>,
    /// A connection is lost, or all of a client.
    pub(crate) disconnect: Option<Duration>,
    /// The share of wake-ups that are lost, and as many told twice.
    pub(crate) lose: f64,
    /// The share of wake-ups that reach the wrong client or say something else.
    pub(crate) garble: f64,
    /// The share of answers of a line that are anything at all.
    pub(crate) lie: f64,
    /// Requests that wait for no longer than this.
    pub(crate) impatient: Option<Duration>,
    /// The first client is so much further from all nodes than the others are, one way.
    pub(crate) far: Duration,
    /// The clock of the next node is set back by so many seconds; not that by which its keys expire.
    pub(crate) set_back: Option<(Duration, u64)>,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Bug {
    #[default]
    None,
    /// A node lets every newcomer in.
    NewcomersOvertake,
    /// A node wakes the last in the line, and nobody asks without having been woken.
    WakesTheWrongAndNobodyPolls,
    /// Nobody names a head that did not come.
    HeadIsNeverNamed,
    /// A node never again lets in a client that was named.
    NamedForGood,
    /// Clients take their tickets from their own clocks.
    OwnClocks,
    /// A node grants a held resource to the first in its line.
    LineGrants,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) clients: usize,
    pub(crate) nodes: usize,
    pub(crate) seed: u64,
    /// How long clients come again, and faults happen. After that everybody who waits must be served.
    pub(crate) time: Duration,
    pub(crate) faults: Faults,
    pub(crate) bug: Bug,
    /// Whether nodes have lines at all.
    pub(crate) lines: bool,
    /// Clients stand in the line from their first round on.
    pub(crate) at_once: bool,
    /// Clients know the clocks of nodes that have not answered, from before.
    pub(crate) knows_clocks: bool,
    /// They look at answers that come after a round is lost.
    pub(crate) hears_late: bool,
    /// The lifetime of a lease, which nobody extends.
    pub(crate) ttl: Duration,
}

/// How long a lease is held.
pub(crate) const HOLD: Duration = Duration::from_millis(2);

impl Setup {
    pub(crate) const fn new(clients: usize, seed: u64) -> Self {
        Self {
            clients,
            nodes: 5,
            seed,
            time: Duration::from_secs(2),
            faults: Faults {
                kill_waiter: None,
                kill_any: None,
                stop_waiter: None,
                stop_any: None,
                down: false,
                restart: None,
                apart: 0,
                rates: 0,
                flush: None,
                disconnect: None,
                lose: 0.0,
                garble: 0.0,
                lie: 0.0,
                impatient: None,
                far: Duration::ZERO,
                set_back: None,
            },
            bug: Bug::None,
            lines: true,
            at_once: false,
            knows_clocks: true,
            hears_late: true,
            ttl: Duration::from_millis(500),
        }
    }

    pub(crate) const fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(crate) const fn planted(self, bug: Bug) -> Self {
        Self { bug, ..self }
    }

    pub(crate) const fn lasting(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

impl Faults {
    pub(crate) const NONE: Self = Setup::new(0, 0).faults;

    /// Each kind of failure, by its name.
    pub(crate) fn each() -> [(&'static str, Self); 17] {
        let ms = |millis| Some(Duration::from_millis(millis));
        let for_ms = |every, lasts| ms(every).zip(ms(lasts));
        let none = Self::NONE;
        [
            ("nothing", none),
            ("waiters killed", Self { kill_waiter: ms(50), ..none }),
            ("anybody killed", Self { kill_any: ms(300), ..none }),
            ("waiters stopped", Self { stop_waiter: for_ms(100, 200), ..none }),
            ("waiters stopped for long", Self { stop_waiter: for_ms(300, 1_000), ..none }),
            ("anybody stopped", Self { stop_any: for_ms(100, 200), ..none }),
            ("anybody stopped for long", Self { stop_any: for_ms(300, 1_000), ..none }),
            ("a node down", Self { down: true, ..none }),
            ("nodes restarted", Self { restart: ms(700), ..none }),
            ("clocks apart", Self { apart: 5, rates: 5_000, ..none }),
            ("lines flushed", Self { flush: ms(150), ..none }),
            ("connections lost", Self { disconnect: ms(30), ..none }),
            ("wake-ups lost", Self { lose: 0.3, ..none }),
            ("wake-ups garbled", Self { garble: 0.3, ..none }),
            ("lines at random", Self { lie: 0.3, ..none }),
            ("impatient ones", Self { impatient: ms(20), ..none }),
            (
                "everything",
                Self {
                    kill_waiter: ms(170),
                    kill_any: ms(430),
                    stop_waiter: for_ms(290, 1_000),
                    stop_any: for_ms(150, 200),
                    restart: ms(900),
                    apart: 5,
                    rates: 5_000,
                    flush: ms(410),
                    disconnect: ms(70),
                    lose: 0.05,
                    garble: 0.05,
                    lie: 0.05,
                    impatient: ms(50),
                    down: false,
                    ..none
                },
            ),
        ]
    }
}
