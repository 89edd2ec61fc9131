//! What lets a node vote again: what stands on a node about it, and one client that looks after the nodes.
//!
//! Goal: the production's admission decides when and with which counters a node that has forgotten votes again. Method: its
//! `Admission` and `Visit`, pumped as `src/engine/visit.rs` does it, one answer after the other; what a node does with a
//! look is the rule of its script, written down once more.
//!
//! Not modelled: nodes that tell their clocks (`tests/proof/protocol/admission` has those), several who look after the nodes
//! at once, and nodes that cannot be reached.

use core::time::Duration;

use crate::protocol::{
    Admission, AdmissionPolicy, Floor, Join, Mark, Marker, NodeId, Quorum, Sight, Timestamp, Visit,
    VisitStep,
};

const NODES: usize = 3;
/// Their wall clocks, in microseconds: long before any counter is implausible.
const WALL: u64 = 1;

/// What stands on a node about its votes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Station {
    pub(crate) ready: bool,
    /// Whether it has a marker.
    marked: bool,
    pub(crate) era: u8,
    pub(crate) seal: u8,
    orphaned: bool,
    /// In milliseconds, as the longest that it was told.
    waited: u16,
    /// When it was first looked at in this era, by its own clock, in milliseconds.
    joined: Option<u16>,
    /// Counters go on above this.
    pub(crate) floor: u16,
}

impl Station {
    /// Of a node that votes.
    pub(crate) const fn new() -> Self {
        Self {
            ready: true,
            marked: true,
            era: 1,
            seal: 0,
            orphaned: false,
            waited: 0,
            joined: None,
            floor: 0,
        }
    }

    pub(crate) fn mark(self) -> Mark {
        Mark::new(u64::from(self.era), u64::from(self.seal))
    }

    /// It has restarted with nothing.
    pub(crate) const fn forget(&mut self) {
        (self.ready, self.marked, self.floor) = (false, false, 0);
    }

    const fn begin_era(&mut self) {
        (self.era, self.seal) = (self.era + 1, 0);
        (self.orphaned, self.waited, self.joined) = (false, 0, None);
    }

    /// It is looked at when its clock shows so many milliseconds, with counters up to `high`.
    pub(crate) fn join(&mut self, join: Join, high: u16, clock: u16) -> Marker {
        if !self.marked {
            self.begin_era();
            self.marked = true;
        }
        if !self.ready {
            let is_of_now = join.waited.is_some_and(|(era, _)| era == u64::from(self.era));
            self.orphaned |= join.orphaned && is_of_now;
            let passed = clock - *self.joined.get_or_insert(clock);
            if let Some((era, waited)) = join.waited
                && era == u64::from(self.era)
            {
                let waited = u16::try_from(waited.as_millis()).expect("short");
                self.waited = self.waited.max(waited.min(passed));
            }
        }
        if self.ready && join.seal {
            self.seal += 1;
        }
        Marker::new(self.ready, Duration::ZERO, u64::from(high))
            .above(u64::from(self.floor))
            .in_era(u64::from(self.era))
            .sealed(u64::from(self.seal))
            .orphaned(self.orphaned)
            .waited(Duration::from_millis(u64::from(self.waited)))
    }

    /// It is let in, with counters up to `high`.
    pub(crate) fn admit(&mut self, era: u64, floor: Floor, high: u16) -> bool {
        if self.ready || !self.marked || u64::from(self.era) != era {
            return false;
        }
        let floor = floor.known.max(floor.wall_us);
        let floor = u16::try_from(floor).expect("a small number");
        self.floor = self.floor.max(floor).max(high);
        self.begin_era();
        self.ready = true;
        true
    }
}

/// What a node is asked.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Look(Join),
    Admit(u64, Floor),
}

/// One client that looks after the nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Visitor {
    admission: Admission,
    visit: Option<Visit>,
    open: [Option<Asked>; NODES],
}

impl Visitor {
    /// One that has seen nothing yet, where leases last for this long at the most, as far as it knows.
    pub(crate) fn new(longest: Duration) -> Self {
        let policy = AdmissionPolicy::Quarantine;
        let quorum = Quorum::of(NODES);
        let admission = Admission::new(quorum, policy, longest, Duration::ZERO);
        Self { admission, visit: None, open: [const { None }; NODES] }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.visit.is_none()
    }

    pub(crate) fn asks(&self, at: usize) -> bool {
        self.open[at].is_some()
    }

    /// The same where all are asked one after the other.
    pub(crate) fn asks_next(&self, at: usize) -> bool {
        self.open.iter().position(Option::is_some) == Some(at)
    }

    pub(crate) fn waits(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// It begins to see to the nodes.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.visit = Some(Visit::new(false));
        self.go_on(now);
    }

    /// All have answered.
    pub(crate) fn go_on(&mut self, now: Timestamp) {
        let Some(visit) = &mut self.visit else { return };
        let sights: [Sight; NODES] = std::array::from_fn(|_| Sight::new(Some(true), None, None));
        match visit.poll(&mut self.admission, &sights, now, WALL) {
            VisitStep::Look(joins) => {
                joins.into_iter().for_each(|(at, join)| {
                    self.open[at.index()] = Some(Asked::Look(join));
                });
            }
            VisitStep::Admit { node, era, floor } => {
                self.open[node.index()] = Some(Asked::Admit(era, floor));
            }
            VisitStep::Done(_) => self.visit = None,
        }
        while self.admission.poll_news().is_some() {}
    }

    /// The node does what it was asked, and is heard at once.
    pub(crate) fn answer(
        &mut self,
        at: usize,
        station: &mut Station,
        (high, clock): (u16, u16),
        now: Timestamp,
    ) {
        let (Some(asked), Some(visit)) = (self.open[at].take(), &mut self.visit) else { return };
        match asked {
            Asked::Look(join) => {
                let marker = station.join(join, high, clock);
                visit.handle_marker(&mut self.admission, NodeId::new(at), marker, now);
            }
            Asked::Admit(era, floor) => {
                if station.admit(era, floor, high) {
                    visit.handle_admitted();
                }
            }
        }
        if !self.waits() {
            self.go_on(now);
        }
    }

    /// The node gives no answer.
    pub(crate) fn no_answer(&mut self, at: usize, now: Timestamp) {
        self.open[at] = None;
        if !self.waits() {
            self.go_on(now);
        }
    }

    pub(crate) fn tell(&self, at: usize) -> &'static str {
        match &self.open[at] {
            Some(Asked::Look(join)) if join.seal => "looked at and sealed",
            Some(Asked::Look(_)) => "looked at",
            Some(Asked::Admit(..)) => "let in",
            None => "left alone",
        }
    }
}
