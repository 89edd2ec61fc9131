//! One acquire from its first round to its answer: when to try again, when to give up, and what to say then.
//!
//! It decides by what its lost rounds have said, by the time, and by what other rounds of this process have seen. It
//! neither pauses nor sends, and draws no random number.
//!
//! # Invariants
//!
//! - **W1** A request for one round begins one, and begins it again only by W10.
//! - **W2** A request with a deadline begins no round at or after it, but for W10.
//! - **W3** An outage is borne for a quarter of the wait, and for a node timeout at least; then it is reported. A
//!   quarantine is none: it ends by itself. Who asks for it bears an outage for as long as it waits at all.
//! - **W4** Nodes that are slow under the load of this process are not reported as broken.
//! - **W5** A pause is not longer than the configured one, nor than what stands in the way lives, and is no shorter than
//!   a quarter of the shortest configured one.
//! - **W6** Who runs out of time in line is told what its rounds have found, where they found the resource held.
//! - **W7** Where a quorum would be there but for nodes in quarantine, that is the answer, and when it will be there. It is
//!   waited for up to the deadline, also where it ends later: another client may have seen the nodes for longer, and what
//!   this one sees of them meanwhile counts for those that come after it.
//! - **W8** Who waits behind another request for the same resource is told of an outage by that one's rounds, as by its
//!   own: after a quarter of its own wait, counted from when it came at the earliest.
//! - **W9** Who waits in the lines on the nodes begins the next round when [`Waiter`](super::Waiter) says so, in place of
//!   a pause, and waits there up to the deadline. That goes for rounds that others have won, and for those that were lost
//!   since nodes whose state has changed must be looked at first, which is waited for.
//! - **W10** A round is repeated where nodes whose state had changed since they were looked at, as those that another client
//!   has sealed, would have made the difference. The repetition begins once they have been looked at, after the shortest
//!   pause. Nobody is charged with the round that was lost: it makes no later pause longer, and no wait shorter. The first of
//!   such rounds in a row bounds them: a round that begins a node timeout after it was lost counts as any other,
//!   and two node timeouts after it the nodes are waited for no longer.
//!
//! They are tested, each by name, in `tests/proof/protocol/acquisition.rs`.

mod lost;

use core::time::Duration;

pub use self::lost::LostRound;
use super::{pace::Backoff, round::RoundLoss, time::Timestamp};

/// How long a caller waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WaitPolicy {
    /// One round, and its repetitions.
    OneRound,
    /// Rounds until this much time has passed, and repetitions of the last.
    For(Duration),
    /// Rounds until it is granted.
    Unlimited,
}

/// What an acquisition counts with.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WaitSettings {
    /// The time for one command to one node.
    pub node_timeout: Duration,
    /// The wait by which an outage is borne where the request has none.
    pub wait: Duration,
    /// The bounds of the pauses between rounds.
    pub backoff: Backoff,
    /// Whether an outage is borne for the whole of the wait.
    pub through_outages: bool,
}

/// What the other rounds of this process have seen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Traffic {
    /// When a quorum of nodes answered a round last.
    pub answered: Timestamp,
    /// When there were many rounds under way last. Only then is it a sign of too many that one is late.
    pub crowded: Timestamp,
}

/// What to do after a lost round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Next {
    /// Begin another round at `at`, once there is a turn for it.
    Again {
        /// First wait until the nodes have been looked at again, and no longer than up to here.
        look_until: Option<Timestamp>,
        /// The end of the pause.
        at: Timestamp,
    },
    /// Answer.
    GiveUp(GiveUp),
}

/// What to tell whoever asked.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GiveUp {
    /// What the last round has said.
    LastRound,
    /// What the last round has said that found the resource held, which is free after this time if that is known.
    FoundHeld {
        /// From now.
        free_after: Option<Duration>,
    },
    /// A quorum would be there but for nodes in quarantine, and will be there after this time.
    Quarantined {
        /// From now.
        remaining: Duration,
    },
    /// This process has more rounds under way than the nodes answer.
    Crowded,
    /// No more rounds are begun.
    Closed,
}

/// Why the wait for a turn has ended in vain.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TurnedAway {
    /// The deadline has passed.
    Late,
    /// No more turns are given.
    Closed,
}

/// One acquire, between its rounds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acquisition {
    settings: WaitSettings,
    policy: WaitPolicy,
    started: Timestamp,
    lost_rounds: u32,
    /// Those of them that make the pauses longer.
    charged: u32,
    last: Option<LostRound>,
    next_round: Timestamp,
    /// Since when rounds are lost, one after the other, to nodes whose state has changed.
    outdated_since: Option<Timestamp>,
    /// Up to when the nodes are looked at, where the next round repeats the last one.
    repeats_until: Option<Timestamp>,
    /// Since when too few nodes have answered.
    broken_since: Option<Timestamp>,
    /// When a quorum will vote, where the last round was lost by quarantines alone.
    quorum_at: Option<Timestamp>,
    waited_for_turn: bool,
    /// Whether a round has found the resource held; and when it will be free, if the last of them could tell.
    found_held: Option<Option<Timestamp>>,
}

impl Acquisition {
    /// A request that was made at `started`.
    pub const fn new(settings: WaitSettings, policy: WaitPolicy, started: Timestamp) -> Self {
        Self {
            settings,
            policy,
            started,
            lost_rounds: 0,
            charged: 0,
            last: None,
            next_round: started,
            outdated_since: None,
            repeats_until: None,
            broken_since: None,
            quorum_at: None,
            waited_for_turn: false,
            found_held: None,
        }
    }

    /// When it was made.
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// Whether the lines on the nodes say when the next round begins: the last one was lost by others.
    pub fn is_in_line(&self) -> bool {
        self.last.is_some_and(|last| last.next_in_line().is_some())
    }

    /// When the next round would begin, whether or not it does: the end of the pause behind the last one.
    pub const fn next_round(&self) -> Timestamp {
        self.next_round
    }

    /// The rounds that were lost so far.
    pub const fn lost_rounds(&self) -> u32 {
        self.lost_rounds
    }

    /// Up to when it waits for a turn, and at all; `None` for as long as it takes. A repetition moves it.
    pub fn turn_deadline(&self) -> Option<Timestamp> {
        let wait = match self.policy {
            WaitPolicy::OneRound => self.settings.node_timeout,
            WaitPolicy::For(wait) => wait,
            WaitPolicy::Unlimited => return None,
        };
        let deadline = self.started.saturating_add(wait);
        Some(self.repeats_until.map_or(deadline, |until| deadline.max(until)))
    }

    /// Whether a round may still begin at `now`: the pause before it may have lasted longer than it should.
    pub fn may_begin(&self, now: Timestamp) -> bool {
        self.policy == WaitPolicy::OneRound || self.repeats_until.is_some() || self.lasts_until(now)
    }

    /// A round was lost, which is known at `now`. `round_trip` is the measured one, if there is one; `random` is any
    /// byte, by which those who wait for the same resource part.
    pub fn handle_lost_round(
        &mut self,
        lost: LostRound,
        traffic: Traffic,
        round_trip: Option<Duration>,
        random: u8,
        now: Timestamp,
    ) -> Next {
        self.lost_rounds = self.lost_rounds.saturating_add(1);
        self.handle_known(lost, now);
        self.waited_for_turn |= lost.waited_for_turn;
        self.broken_since = self.broken_since(&lost, traffic);

        let at = now.saturating_add(self.pause(&lost, round_trip, random));
        // It is woken as soon as there is something to be had, and waits for that as long as it may.
        if let Some(in_line) = lost.next_in_line().filter(|_| self.lasts_until(now)) {
            let within =
                |at: Timestamp| self.turn_deadline().map_or(at, |deadline| at.min(deadline));
            let look_until = (lost.loss == RoundLoss::NoQuorum)
                .then(|| within(now.saturating_add(self.settings.node_timeout)));
            self.next_round = within(in_line);
            return Next::Again { look_until, at: self.next_round };
        }
        self.next_round = at;

        if let Some(until) = self.repeats_until {
            return Next::Again { look_until: Some(until), at };
        }
        let bearable = self.is_bearable(at);
        if bearable && self.lasts_until(at) {
            return Next::Again { look_until: None, at };
        }
        Next::GiveUp(self.verdict(&lost, bearable, traffic, now))
    }

    /// For how long to pause after a lost round.
    fn pause(&mut self, lost: &LostRound, round_trip: Option<Duration>, random: u8) -> Duration {
        let Backoff { min, .. } = self.settings.backoff;
        if self.repeats_until.is_some() {
            return min / 4;
        }
        self.charged = self.charged.saturating_add(1);
        let pause = self.settings.backoff.pause(self.charged, round_trip, random);
        // Expiry is known in advance, and nothing is gained by trying again just before it.
        let pause =
            lost.free_after.filter(|_| lost.found_held()).map_or(pause, |expiry| pause.min(expiry));
        // A key that expires this moment must not make the pause zero: the nodes would be asked without one.
        pause.max(min / 4)
    }

    /// What a round for the same resource has said, at `at`: one of another request, since when nothing else is known.
    pub fn handle_known(&mut self, lost: LostRound, at: Timestamp) {
        self.last = Some(lost);
        // Of a round that was lost before this one came, no time counts.
        let known = at.max(self.started);
        let since = self.outdated_since.unwrap_or(known);
        self.outdated_since = lost.is_outdated().then_some(since);
        let after = |at: Timestamp| at.saturating_add(self.settings.node_timeout);
        let repeats = lost.is_outdated() && lost.begun < after(since);
        self.repeats_until = repeats.then(|| after(known).min(after(after(since))));
        if lost.found_held() {
            self.found_held = Some(lost.free_after.map(|after| at.saturating_add(after)));
        }
        let quorum_after = lost.quorum_after.filter(|_| lost.loss == RoundLoss::NoQuorum);
        self.quorum_at = quorum_after.map(|after| at.saturating_add(after));
    }

    /// A round of the one who asks for all who wait for the resource was lost, which is known at `now`; that one goes on
    /// at `next`. It says what to tell this one, where that does not go on.
    pub fn handle_shared_round(
        &mut self,
        lost: LostRound,
        traffic: Traffic,
        next: Timestamp,
        now: Timestamp,
    ) -> Option<GiveUp> {
        self.handle_known(lost, now);
        self.waited_for_turn |= lost.waited_for_turn;
        self.broken_since = self.broken_since(&lost, traffic);
        let bearable = self.is_bearable(next);
        // Its deadline is not that of the one who asks, and it pauses for nothing: it waits up to the end.
        let goes_on = self.repeats_until.is_some() || bearable && self.lasts_until(now);
        (!goes_on).then(|| self.verdict(&lost, bearable, traffic, now))
    }

    /// What to tell after a lost round that was the last.
    fn verdict(
        &self,
        lost: &LostRound,
        bearable: bool,
        traffic: Traffic,
        now: Timestamp,
    ) -> GiveUp {
        // Its time went by in line, or its round in a crowd: that does not show that the nodes are broken.
        let in_a_crowd = traffic.answered >= lost.begun && traffic.crowded >= lost.begun;
        let slow = self.waited_for_turn && bearable || in_a_crowd;
        if lost.loss == RoundLoss::NoQuorum && lost.overrun && slow {
            self.out_of_time(now)
        } else {
            self.last_round(now)
        }
    }

    /// There will be no turn for it.
    pub fn handle_turned_away(&self, reason: TurnedAway, now: Timestamp) -> GiveUp {
        match (reason, self.last) {
            (TurnedAway::Closed, _) => GiveUp::Closed,
            // What the nodes have said tells more, but for what only says that they were slow.
            (TurnedAway::Late, Some(last)) if !last.found_held() && !last.overrun => {
                self.last_round(now)
            }
            (TurnedAway::Late, _) => self.out_of_time(now),
        }
    }

    /// Its time is up behind another request for the same resource, which does not wait for its turn: the rest of this
    /// process is in nobody's way.
    pub fn handle_late(&self, now: Timestamp) -> GiveUp {
        if self.found_held.is_some() || self.last.is_none() {
            self.out_of_time(now)
        } else {
            self.last_round(now)
        }
    }

    fn last_round(&self, now: Timestamp) -> GiveUp {
        self.quorum_at.map_or(GiveUp::LastRound, |at| {
            let remaining = at.saturating_since(now);
            GiveUp::Quarantined { remaining }
        })
    }

    fn out_of_time(&self, now: Timestamp) -> GiveUp {
        self.found_held.map_or(GiveUp::Crowded, |free_at| {
            let free_after = free_at.map(|at| at.saturating_since(now));
            GiveUp::FoundHeld { free_after }
        })
    }

    /// Whether another round may begin at `next`, by the wait alone.
    fn lasts_until(&self, next: Timestamp) -> bool {
        match self.policy {
            WaitPolicy::OneRound => false,
            WaitPolicy::For(wait) => next < self.started.saturating_add(wait),
            WaitPolicy::Unlimited => true,
        }
    }

    /// Since when too few nodes answer.
    fn broken_since(&self, lost: &LostRound, traffic: Traffic) -> Option<Timestamp> {
        // A round that a quorum answered ends an outage, and so does one that a quarantine alone has cost.
        if lost.loss != RoundLoss::NoQuorum || lost.quarantined {
            return None;
        }
        // Of a round that began before this one came, no more counts than it has waited for.
        let since = self.broken_since.unwrap_or(lost.begun).max(self.started);
        // Where others have been answered meanwhile, the nodes are slow, and not gone.
        Some(if lost.overrun { since.max(traffic.answered) } else { since })
    }

    /// Whether an outage is ridden out until `next`.
    fn is_bearable(&self, next: Timestamp) -> bool {
        let wait = match self.policy {
            WaitPolicy::OneRound => Duration::ZERO,
            WaitPolicy::For(wait) => wait,
            // An outage is reported also to those who would wait for a holder for ever.
            WaitPolicy::Unlimited => self.settings.wait,
        };
        let bearable = self.settings.node_timeout.max(wait / 4);
        self.settings.through_outages
            || self.broken_since.is_none_or(|since| next < since.saturating_add(bearable))
    }
}
