//! One node, with its marker, a lock and a counter, and the flaws that it may have.

use super::*;

pub(crate) struct Server {
    pub(super) up: bool,
    /// It is away from the beginning to the end.
    pub(super) gone: bool,
    pub(super) life: u64,
    /// Whether it has a marker: a flush takes that too.
    pub(super) marked: bool,
    pub(super) ready: bool,
    pub(super) mark: Mark,
    pub(super) kept: bool,
    pub(super) orphaned: bool,
    pub(super) joined_at: u64,
    pub(super) holder: Option<(Owner, u64)>,
    pub(super) counter: Option<u64>,
    pub(super) floor: u64,
    pub(super) high: u64,
    /// It has lost its data, and has not been admitted since.
    pub(super) lost: bool,
    pub(super) jumps: u64,
}

impl Server {
    pub(super) fn new(ready: bool) -> Self {
        Self {
            up: true,
            gone: false,
            life: 0,
            marked: ready,
            ready,
            mark: Mark::new(1, 0),
            kept: false,
            orphaned: false,
            joined_at: 0,
            holder: None,
            counter: None,
            floor: 0,
            high: 0,
            lost: !ready,
            jumps: 0,
        }
    }

    pub(super) fn forget(&mut self) {
        (self.marked, self.ready, self.lost) = (false, false, true);
        (self.holder, self.counter, self.floor, self.high) = (None, None, 0, 0);
    }

    /// Its clock, in ms.
    pub(super) const fn clock(&self, now: u64) -> u64 {
        now + self.jumps * JUMP
    }

    pub(super) fn begin_era(&mut self) {
        self.mark = Mark::new(self.mark.era + 1, 0);
        (self.kept, self.orphaned) = (false, false);
    }

    pub(super) fn join(&mut self, join: Join, now: u64, flaw: Flaw) -> Marker {
        let forced = self.ready && join.force == Some(self.mark.era);
        if !self.marked || forced {
            self.begin_era();
            (self.marked, self.ready, self.joined_at) = (true, false, now);
            self.kept = forced && !join.lost;
        }
        let is_of_now = join.waited.is_some_and(|(era, _)| era == self.mark.era);
        self.orphaned |= join.orphaned && is_of_now && !self.ready && flaw != Flaw::Untold;
        if self.ready && join.seal {
            self.mark.seal += 1;
        }
        let marker = Marker::new(self.ready, TTL, self.high).above(self.floor);
        let marker = marker.in_era(self.mark.era).sealed(self.mark.seal);
        marker.kept(self.kept).orphaned(self.orphaned)
    }

    /// Whether it was joining, and what is wrong with that it was let in now.
    pub(super) fn admit(
        &mut self,
        era: u64,
        floor: Floor,
        now: u64,
        flaw: Flaw,
    ) -> (bool, Option<String>) {
        let any = flaw == Flaw::AdmittedInAnyEra;
        if self.ready || !self.marked || self.mark.era != era && !any {
            return (false, None);
        }
        let waited = now - self.joined_at;
        let early = (waited < QUARANTINE).then(|| format!("let in after {waited} ms"));
        let floor = floor.known.max(floor.wall_us).max(self.high);
        (self.floor, self.high) = (floor, floor);
        self.begin_era();
        (self.ready, self.lost) = (true, false);
        (true, early)
    }

    pub(super) fn execute(&mut self, command: &Command, now: u64) -> Answered {
        let clock = self.clock(now);
        if self.holder.is_some_and(|(_, expires)| expires <= clock) {
            self.holder = None;
        }
        let knows = |mark: &Mark| self.ready && *mark == self.mark;
        match command {
            Command::Acquire { mark, .. } | Command::Confirm { mark, .. } if !knows(mark) => {
                NOT_SENT
            }
            Command::Acquire { owner, hint: Some(hint), ttl, count, .. }
                if self.holder.is_none() =>
            {
                self.holder = Some((*owner, clock + u64::try_from(ttl.as_millis()).unwrap()));
                let counter = (*hint).max(self.counter.unwrap_or(self.floor) + count);
                self.counter = Some(counter);
                self.high = self.high.max(counter);
                Ok(Reply::Granted(Granted::at(FencingToken::new(counter))))
            }
            Command::Confirm { owner, token, .. }
                if self.holder.is_some_and(|(holder, _)| holder == *owner)
                    && self.counter.is_some_and(|counter| counter <= token.get()) =>
            {
                self.counter = Some(token.get());
                self.high = self.high.max(token.get());
                Ok(Reply::Granted(Granted::at(*token)))
            }
            Command::Release { owner, .. } => {
                if self.holder.is_some_and(|(holder, _)| holder == *owner) {
                    self.holder = None;
                }
                Ok(Reply::Granted(Granted::DONE))
            }
            _ => Ok(Reply::Denied(Denial::default())),
        }
    }
}
