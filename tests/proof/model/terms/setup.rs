//! What a world over time is made of: who is there, whose clocks are wrong by how much, and what may happen how often.

use super::{LeaseTerms, NODES};
use crate::model::search::{Found, Limits, search};

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) clients: usize,
    pub(crate) ttl_ticks: u8,
    /// Every lease of a grant but the first asks for so many; for as many as the first where this is none.
    pub(crate) later_ticks: u8,
    /// A lease behind the first keeps others out for so many ticks from when it is given back.
    pub(crate) hold_ticks: u8,
    /// A grant is kept as nobody's before the next lease has it.
    pub(crate) lingers: bool,
    /// A holder may go on as a reader.
    pub(crate) downgrades: bool,
    /// How often a client connects anew to all nodes, and what is under way arrives when it likes.
    pub(crate) cuts: u8,
    pub(crate) delay_ticks: u8,
    pub(crate) drift_per_mille: u32,
    /// How many milliseconds of a client's clock pass in a tick.
    pub(crate) rates: [u64; 3],
    /// The clock of a node steps forward by so many ticks, once.
    pub(crate) step_ticks: u8,
    pub(crate) renews: bool,
    /// How many tokens a round asks for.
    pub(crate) count: u64,
    pub(crate) counters: [u16; NODES],
    /// How often a grant is handed on.
    pub(crate) hand_overs: u8,
    /// How often nobody waits for the answers to an extension any more.
    pub(crate) timeouts: u8,
    /// The first client holds it already, on so many nodes.
    pub(crate) held: usize,
    /// How often a node restarts with nothing, and how often a client begins to see to the nodes.
    pub(crate) wipes: u8,
    pub(crate) probes: u8,
    /// The longest ttl of a lease, in ticks, that the clients know of which see to the nodes.
    pub(crate) longest_ticks: u8,
    /// The second client asks once, to see whether it may, and nothing follows.
    pub(crate) asks: bool,
    /// The messages of the second client take no time.
    pub(crate) swift: bool,
    /// So many of the nodes never answer.
    pub(crate) deaf: usize,
    /// The last tick that is looked at.
    pub(crate) until: u8,
}

impl Setup {
    /// Two clients with a ttl of four ticks, whose clocks are right, and nothing goes wrong.
    pub(crate) const PLAIN: Self = Self {
        clients: 2,
        ttl_ticks: 4,
        later_ticks: 0,
        hold_ticks: 0,
        lingers: false,
        downgrades: false,
        cuts: 0,
        delay_ticks: 0,
        drift_per_mille: 0,
        rates: [1_000; 3],
        step_ticks: 0,
        renews: false,
        count: 1,
        counters: [0; 3],
        hand_overs: 0,
        timeouts: 0,
        held: 0,
        wipes: 0,
        probes: 0,
        longest_ticks: 0,
        asks: false,
        swift: false,
        deaf: 0,
        until: 6,
    };
}

impl Default for Setup {
    fn default() -> Self {
        Self::PLAIN
    }
}

impl Setup {
    pub(crate) fn search(self, limits: Limits) -> Found {
        search(&mut LeaseTerms::new(self), limits)
    }
}
