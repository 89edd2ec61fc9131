//! Who waits for one resource in this process, in the order of arrival, and who of them may be let in now.
//!
//! It decides who is next. It knows no clock, no node and no lease, and calls nobody: who is let in comes out as a value.
//! What a request is, its user says; one that has been taken out is gone from here.
//!
//! ```text
//!                 ask, next_to_ask                handle_won
//!     [ Free ] --------------------> [ Asked ] ----------------> [ Held ] <--+
//!         ^                              |                         |  |      | hand_on: the first in line has it now
//!         +------------------------------+-------------------------+  +------+
//!                     handle_over: who asks has gone, what was held is over
//! ```
//!
//! # Invariants
//!
//! - **L1** Who is let in, to ask or by a hand-over, came before all who still stand in line.
//! - **L2** At most one asks, and nobody while the resource is held here.
//! - **L3** Whoever has left is not let in, nor told of a round; and nothing is left of it.
//! - **L4** Where anybody waits, somebody asks or holds, or [`next_to_ask`](Queue::next_to_ask) yields who does.
//! - **L5** A request for one round is not handed anything, nor let in while anybody stands in line but who has stood back for
//!   it: it gets what the round finds that is under way, or one of its own where there is nobody else left to ask.
//! - **L6** What is said of a place that is not the one that asks or holds changes nothing: of a lease that was lost
//!   before, or of a leader that has gone already.
//! - **L7** Who asks and stands back is behind all who stand in line, and may leave under the place that it came with.
//!
//! They are tested, each by name, in `tests/proof/protocol/queue.rs`, beside random schedules.

mod join;

use alloc::{collections::BTreeMap, vec::Vec};
use core::{mem, num::NonZeroU64};

pub use self::join::{Comer, Joined, Known};
use super::rare::{Rare, Unwritten};

/// A place in the order of arrival. None is given twice.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place(NonZeroU64);

/// What there is to do with the resource in this process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Station {
    /// Nobody asks for it, and nobody holds it.
    Free,
    /// Who had this place asks the nodes for it.
    Asked(Place),
    /// It is held by what the one with this place has won, or by those to whom that was handed on.
    Held(Place),
}

/// Requests of one process for one resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Queue<W> {
    station: Station,
    next: NonZeroU64,
    line: Rare<Line<W>>,
}

/// Who waits. Where nobody ever has, it takes no room.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Line<W> {
    /// Those who stand in line.
    waiting: BTreeMap<Place, W>,
    /// Those who want to know what the round finds that is under way.
    sharing: BTreeMap<Place, W>,
    /// Those who have stood back, by the places that they came with: which they have now.
    moved: BTreeMap<Place, Place>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { station: Station::Free, next: NonZeroU64::MIN, line: Rare::default() }
    }
}

impl<W> Line<W> {
    const NOBODY: Self =
        Self { waiting: BTreeMap::new(), sharing: BTreeMap::new(), moved: BTreeMap::new() };
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self::NOBODY
    }
}

impl<W> Unwritten for Line<W> {
    fn unwritten<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::NOBODY }
    }
}

impl<W> Queue<W> {
    /// Whether whoever comes may ask the nodes at once, and if so under which place: nobody asks or holds, and nobody
    /// stands before it.
    pub fn ask(&mut self) -> Option<Place> {
        if self.station != Station::Free || !self.line.waiting.is_empty() {
            return None;
        }
        let place = self.place();
        self.station = Station::Asked(place);
        Some(place)
    }

    /// A place in the order of arrival for one who asks beside the line, and may come to stand there later.
    pub const fn reserve(&mut self) -> Place {
        self.place()
    }

    /// Whether whoever has reserved this place asks for all from now on: nobody asks or holds, and nobody stands in line.
    pub fn ask_at(&mut self, place: Place) -> bool {
        let may_ask = self.station == Station::Free && self.line.waiting.is_empty();
        if may_ask {
            self.station = Station::Asked(place);
        }
        may_ask
    }

    /// Stands in line where it has reserved a place.
    pub fn stand_at(&mut self, place: Place, request: W) {
        self.line.waiting.insert(place, request);
    }

    /// Stands in line, behind all others.
    pub fn stand(&mut self, request: W) -> Place {
        let place = self.place();
        self.line.waiting.insert(place, request);
        place
    }

    /// Who asks the nodes stands in line again, behind all others, who may ask from now on: where nobody else stands there, the
    /// first of those who share what it finds. It leaves under the place that it came with, or under the one that is returned.
    ///
    /// # Errors
    ///
    /// The request, where nobody else waits, or this is not the one that asks.
    pub fn stand_back(&mut self, asks: Place, request: W) -> Result<Place, W> {
        let Some(line) = self.line.written().filter(|_| self.station == Station::Asked(asks))
        else {
            return Err(request);
        };
        if line.waiting.is_empty() {
            let Some((place, first)) = line.sharing.pop_first() else { return Err(request) };
            line.waiting.insert(place, first);
        }
        self.station = Station::Free;
        let place = self.stand(request);
        let moved = &mut self.line.moved;
        let came_with = moved.iter().find(|(_, now)| **now == asks).map(|(came, _)| *came);
        moved.insert(came_with.unwrap_or(asks), place);
        Ok(place)
    }

    /// Waits for what the round finds that is under way, or the next one.
    pub fn share(&mut self, request: W) -> Place {
        let place = self.place();
        self.line.sharing.insert(place, request);
        place
    }

    /// One who stands in line shares from now on what the round finds, under the same place: its time is up, and the
    /// round may end a little later. False where it stands there no more.
    pub fn share_instead(&mut self, place: Place) -> bool {
        let place = self.now_at(place);
        let Some(Line { waiting, sharing, .. }) = self.line.written() else { return false };
        waiting.remove(&place).map(|request| sharing.insert(place, request)).is_some()
    }

    /// Leaves, from wherever it is. `None` says that it has been let in, or answered, before.
    pub fn leave(&mut self, place: Place) -> Option<W> {
        let place = self.now_at(place);
        self.forget(place);
        let Line { waiting, sharing, .. } = self.line.written()?;
        waiting.remove(&place).or_else(|| sharing.remove(&place))
    }

    /// Who asks the nodes from now on, where nobody asks or holds.
    pub fn next_to_ask(&mut self) -> Option<(Place, W)> {
        if self.station != Station::Free {
            return None;
        }
        let Line { waiting, sharing, .. } = self.line.written()?;
        let next = waiting.pop_first().or_else(|| sharing.pop_first())?;
        self.station = Station::Asked(next.0);
        Some(next)
    }

    /// Who asks has won. False says that it was not this one.
    pub fn handle_won(&mut self, place: Place) -> bool {
        let is_this = self.station == Station::Asked(place);
        if is_this {
            self.station = Station::Held(place);
            self.forget(place);
        }
        is_this
    }

    /// Who asks has gone without a lease, or what it has won is over and handed to nobody. False says that it was not
    /// this one.
    pub fn handle_over(&mut self, place: Place) -> bool {
        let is_this = [Station::Asked(place), Station::Held(place)].contains(&self.station);
        if is_this {
            self.station = Station::Free;
            self.forget(place);
        }
        is_this
    }

    /// The first in line, if the resource is held under this place, and so might be handed on to it.
    pub fn first(&self, held: Place) -> Option<&W> {
        self.line.waiting.values().next().filter(|_| self.station == Station::Held(held))
    }

    /// Takes out the first in line, to whom what is held under this place has been handed on.
    pub fn hand_on(&mut self, held: Place) -> Option<(Place, W)> {
        if self.station != Station::Held(held) {
            return None;
        }
        let next = self.line.written()?.waiting.pop_first()?;
        self.forget(next.0);
        Some(next)
    }

    /// Takes out those who want to know what a round has found.
    pub fn take_sharing(&mut self) -> Vec<W> {
        let sharing = self.line.written().map(|line| mem::take(&mut line.sharing));
        sharing.unwrap_or_default().into_values().collect()
    }

    /// Takes out all who are told that they wait in vain.
    pub fn take_out(&mut self, mut in_vain: impl FnMut(&mut W) -> bool) -> Vec<W> {
        let mut out = Vec::new();
        let Some(Line { waiting, sharing, moved }) = self.line.written() else { return out };
        for requests in [waiting, sharing] {
            let gone: Vec<Place> = requests
                .iter_mut()
                .filter_map(|(place, request)| in_vain(request).then_some(*place))
                .collect();
            out.extend(gone.iter().filter_map(|place| requests.remove(place)));
            // They are in their order.
            moved.retain(|_, now| gone.binary_search(now).is_err());
        }
        out
    }

    /// Takes out everybody who waits. Who asks may leave as before.
    pub fn take_all(&mut self) -> Vec<W> {
        self.take_out(|_| true)
    }

    /// Who asks or holds.
    pub const fn station(&self) -> Station {
        self.station
    }

    /// Whether nobody asks, holds or waits.
    pub fn is_idle(&self) -> bool {
        self.station == Station::Free
            && self.line.waiting.is_empty()
            && self.line.sharing.is_empty()
    }

    /// Whether nobody stands in line.
    pub fn is_empty(&self) -> bool {
        self.line.waiting.is_empty()
    }

    /// How many stand in line.
    pub fn len(&self) -> usize {
        self.line.waiting.len()
    }

    /// How many stand in line before this place, where it stands there itself.
    pub fn ahead(&self, place: Place) -> Option<usize> {
        let place = self.now_at(place);
        self.line.waiting.contains_key(&place).then(|| self.line.waiting.range(..place).count())
    }

    /// The request with this place, where it waits.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut W> {
        let place = self.now_at(place);
        let Line { waiting, sharing, .. } = self.line.written()?;
        match waiting.get_mut(&place) {
            Some(request) => Some(request),
            None => sharing.get_mut(&place),
        }
    }

    /// Which place one has that came with this.
    pub fn now_at(&self, place: Place) -> Place {
        self.line.moved.get(&place).copied().unwrap_or(place)
    }

    /// The one that has this place now is not here any more.
    fn forget(&mut self, place: Place) {
        if let Some(line) = self.line.written() {
            line.moved.retain(|_, now| *now != place);
        }
    }

    const fn place(&mut self) -> Place {
        self.next = self.next.saturating_add(1);
        Place(self.next)
    }
}
