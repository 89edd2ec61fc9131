//! The requests that wait for one resource in this process, in the order of arrival, and which of them may be let in
//! now.
//!
//! It decides which request is next. It knows no clock, node or lease, and calls nobody: it returns a request that is
//! let in. Its user defines a request; a request that is taken out leaves nothing here.
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
//! - **L1** A request that is let in, to ask or by a hand-over, came before all that still stand in line.
//! - **L2** At most one request asks, and none while the resource is held here.
//! - **L3** A request that left is not let in, nor told of a round, and leaves nothing behind.
//! - **L4** While any request waits, one asks or holds, or [`next_to_ask`](Queue::next_to_ask) yields one.
//! - **L5** A request for one round gets no hand-over. It is not let in while any request stands in line, except one
//!   that has stood back for it. It gets the result of the round under way, or a round of its own if no other request
//!   is left to ask.
//! - **L6** Input for a place that neither asks nor holds changes nothing: for example of a lease lost before, or of a
//!   leader already gone.
//! - **L7** A leader that stands back is behind all that stand in line, and may leave under its first place.
//!
//! Each is tested by name in `tests/proof/protocol/queue.rs`, beside random schedules.

mod join;

use alloc::{collections::BTreeMap, vec::Vec};
use core::{mem, num::NonZeroU64};

pub use self::join::{Comer, Joined, Known};
use super::rare::{Rare, Unwritten};

/// A place in the order of arrival, given once.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place(NonZeroU64);

/// The state of the resource in this process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Station {
    /// No request asks for it or holds it.
    Free,
    /// The request with this place asks the nodes for it.
    Asked(Place),
    /// It is held by the grant that the request with this place won, handed on or not.
    Held(Place),
}

/// The requests of one process for one resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Queue<W> {
    station: Station,
    next: NonZeroU64,
    line: Rare<Line<W>>,
}

/// The waiting requests. It takes no room before the first.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Line<W> {
    /// Requests in line.
    waiting: BTreeMap<Place, W>,
    /// Requests that share the result of the round under way.
    sharing: BTreeMap<Place, W>,
    /// Requests that stood back: their present places by their first ones.
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
    /// Lets a new request ask the nodes at once, and returns its place, if no request asks, holds or stands in line.
    pub fn ask(&mut self) -> Option<Place> {
        if self.station != Station::Free || !self.line.waiting.is_empty() {
            return None;
        }
        let place = self.place();
        self.station = Station::Asked(place);
        Some(place)
    }

    /// A place for a request that asks beside the line, and may stand there later.
    pub const fn reserve(&mut self) -> Place {
        self.place()
    }

    /// Whether the request with this reserved place leads from now on: no request asks, holds or stands in line.
    pub fn ask_at(&mut self, place: Place) -> bool {
        let may_ask = self.station == Station::Free && self.line.waiting.is_empty();
        if may_ask {
            self.station = Station::Asked(place);
        }
        may_ask
    }

    /// Stands in line at a reserved place.
    pub fn stand_at(&mut self, place: Place, request: W) {
        self.line.waiting.insert(place, request);
    }

    /// Stands in line, behind all others.
    pub fn stand(&mut self, request: W) -> Place {
        let place = self.place();
        self.line.waiting.insert(place, request);
        place
    }

    /// The leader stands in line again, behind all others, which may ask from now on. If nobody else stands in line,
    /// the first request that shares its result does from now on. The leader can leave under its first place or the
    /// returned one.
    ///
    /// # Errors
    ///
    /// The request, if no other waits, or `asks` does not ask.
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

    /// Waits for the result of the round under way, or of the next.
    pub fn share(&mut self, request: W) -> Place {
        let place = self.place();
        self.line.sharing.insert(place, request);
        place
    }

    /// A request in line shares the round's result instead, under the same place: its time is up, and the round may end
    /// a little later. False if it is no longer in line.
    pub fn share_instead(&mut self, place: Place) -> bool {
        let place = self.now_at(place);
        let Some(Line { waiting, sharing, .. }) = self.line.written() else { return false };
        waiting.remove(&place).map(|request| sharing.insert(place, request)).is_some()
    }

    /// Leaves, from wherever it is. `None`: it was let in or answered before.
    pub fn leave(&mut self, place: Place) -> Option<W> {
        let place = self.now_at(place);
        self.forget(place);
        let Line { waiting, sharing, .. } = self.line.written()?;
        waiting.remove(&place).or_else(|| sharing.remove(&place))
    }

    /// The request that asks the nodes from now on, if none asks or holds.
    pub fn next_to_ask(&mut self) -> Option<(Place, W)> {
        if self.station != Station::Free {
            return None;
        }
        let Line { waiting, sharing, .. } = self.line.written()?;
        let next = waiting.pop_first().or_else(|| sharing.pop_first())?;
        self.station = Station::Asked(next.0);
        Some(next)
    }

    /// The asking request has won. False if it has another place.
    pub fn handle_won(&mut self, place: Place) -> bool {
        let is_this = self.station == Station::Asked(place);
        if is_this {
            self.station = Station::Held(place);
            self.forget(place);
        }
        is_this
    }

    /// The asking request went without a lease, or its grant is over and was not handed on. False if that has another
    /// place.
    pub fn handle_over(&mut self, place: Place) -> bool {
        let is_this = [Station::Asked(place), Station::Held(place)].contains(&self.station);
        if is_this {
            self.station = Station::Free;
            self.forget(place);
        }
        is_this
    }

    /// The first in line, if the resource is held under this place, and so may be handed on to it.
    pub fn first(&self, held: Place) -> Option<&W> {
        self.line.waiting.values().next().filter(|_| self.station == Station::Held(held))
    }

    /// Takes out the first in line, which gets the grant held under this place.
    pub fn hand_on(&mut self, held: Place) -> Option<(Place, W)> {
        if self.station != Station::Held(held) {
            return None;
        }
        let next = self.line.written()?.waiting.pop_first()?;
        self.forget(next.0);
        Some(next)
    }

    /// Takes out the requests that share a round's result.
    pub fn take_sharing(&mut self) -> Vec<W> {
        let sharing = self.line.written().map(|line| mem::take(&mut line.sharing));
        sharing.unwrap_or_default().into_values().collect()
    }

    /// Takes out all requests that `in_vain` says wait in vain.
    pub fn take_out(&mut self, mut in_vain: impl FnMut(&mut W) -> bool) -> Vec<W> {
        let mut out = Vec::new();
        let Some(Line { waiting, sharing, moved }) = self.line.written() else { return out };
        for requests in [waiting, sharing] {
            let gone: Vec<Place> = requests
                .iter_mut()
                .filter_map(|(place, request)| in_vain(request).then_some(*place))
                .collect();
            out.extend(gone.iter().filter_map(|place| requests.remove(place)));
            // Both are in order.
            moved.retain(|_, now| gone.binary_search(now).is_err());
        }
        out
    }

    /// Takes out all waiting requests. The asking request may leave as before.
    pub fn take_all(&mut self) -> Vec<W> {
        self.take_out(|_| true)
    }

    /// Which request asks or holds.
    pub const fn station(&self) -> Station {
        self.station
    }

    /// Whether no request asks, holds or waits.
    pub fn is_idle(&self) -> bool {
        self.station == Station::Free
            && self.line.waiting.is_empty()
            && self.line.sharing.is_empty()
    }

    /// Whether no request stands in line.
    pub fn is_empty(&self) -> bool {
        self.line.waiting.is_empty()
    }

    /// How many requests stand in line.
    pub fn len(&self) -> usize {
        self.line.waiting.len()
    }

    /// How many requests are in line before this place, if it is in line itself.
    pub fn ahead(&self, place: Place) -> Option<usize> {
        let place = self.now_at(place);
        self.line.waiting.contains_key(&place).then(|| self.line.waiting.range(..place).count())
    }

    /// The request with this place, if it waits.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut W> {
        let place = self.now_at(place);
        let Line { waiting, sharing, .. } = self.line.written()?;
        match waiting.get_mut(&place) {
            Some(request) => Some(request),
            None => sharing.get_mut(&place),
        }
    }

    /// The present place of the request that came with this one.
    pub fn now_at(&self, place: Place) -> Place {
        self.line.moved.get(&place).copied().unwrap_or(place)
    }

    /// Forgets that a request moved to this place.
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
