//! One acquire from its first round to its answer: when to try again, when to give up, and what to answer then.
//!
//! It decides by its lost rounds, by the time, and by what other rounds of this process have seen. It neither pauses
//! nor sends, and draws no random number.
//!
//! # Invariants
//!
//! - **W1** A request for one round begins one, and repeats it only by W10.
//! - **W2** A request begins no round at or after its deadline, except by W10.
//! - **W3** An outage is borne for a quarter of the wait, and for at least a node timeout; then it is reported. A
//!   quarantine is no outage: it ends by itself. On request an outage is borne for the whole wait.
//! - **W4** Nodes that are slow under the load of this process are not reported as broken.
//! - **W5** A pause is no longer than the configured one or the life of the keys in the way, and no shorter than a
//!   quarter of the shortest configured one.
//! - **W6** A request that runs out of time in line is told what its rounds found, if they found the resource held.
//! - **W7** If only nodes in quarantine keep a quorum from voting, that is the answer, and when the quorum will be
//!   there. Until its deadline the request waits for them, even if they need longer: another client may have watched
//!   the nodes for longer, and what this client sees meanwhile counts for later ones.
//! - **W8** A waiter behind another request for the same resource learns of an outage by that request's rounds, as by
//!   its own: after a quarter of its own wait, counted at the earliest from its own start.
//! - **W9** A request in the nodes' lines begins its next round when [`Waiter`](super::Waiter) says so, instead of
//!   after a pause, until its deadline. That holds for rounds that others have won. It also holds for rounds lost
//!   because nodes whose state has changed must be looked at first, which is waited for.
//! - **W10** A round is repeated if nodes whose state had changed since the last look, for instance because another
//!   client sealed them, would have made the difference. The repetition begins after that look and the shortest pause.
//!   The lost round lengthens no later pause and shortens no wait. The first such round in a row bounds them: a round
//!   that begins a node timeout after its loss counts as any other, and two node timeouts after it the nodes are no
//!   longer waited for.
//!
//! Each is tested by name in `tests/proof/protocol/acquisition.rs`.

mod lost;

use core::time::Duration;

pub use self::lost::{AdoptionEnd, LostRound};
use super::{pace::Backoff, round::RoundLoss, time::Timestamp};

/// How long a caller waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WaitPolicy {
    /// One round, and its repetitions.
    OneRound,
    /// Rounds until this much time has passed, and repetitions of the last.
    For(Duration),
    /// Rounds until one is granted.
    Unlimited,
}

/// The settings of an acquisition.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WaitSettings {
    /// The time for one command to one node.
    pub node_timeout: Duration,
    /// The wait that bounds an outage if the request has none.
    pub wait: Duration,
    /// The bounds of the pauses between rounds.
    pub backoff: Backoff,
    /// Whether an outage is borne for the whole wait.
    pub through_outages: bool,
}

/// What the other rounds of this process have seen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Traffic {
    /// When a quorum of nodes last answered a round.
    pub answered: Timestamp,
    /// When many rounds were last under way. Only then does a late round show that there are too many.
    pub crowded: Timestamp,
}

/// What to do after a lost round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Next {
    /// Begin another round at `at`, once there is a turn for it.
    Again {
        /// First wait until the nodes have been looked at again, at most until this.
        look_until: Option<Timestamp>,
        /// The end of the pause.
        at: Timestamp,
    },
    /// Answer.
    GiveUp(GiveUp),
}

/// The answer to a request that gets no lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GiveUp {
    /// The answer of the last round.
    LastRound,
    /// The answer of the last round that found the resource held, with when it is free, if known.
    FoundHeld {
        /// From now.
        free_after: Option<Duration>,
    },
    /// Only nodes in quarantine keep a quorum from voting, for this long.
    Quarantined {
        /// From now.
        remaining: Duration,
    },
    /// This process has more rounds under way than the nodes answer.
    Crowded,
    /// No more rounds begin.
    Closed,
}

/// Why a wait for a turn was in vain.
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
    /// The lost rounds that lengthen the pauses.
    charged: u32,
    last: Option<LostRound>,
    next_round: Timestamp,
    /// Since when rounds were lost in a row to nodes whose state has changed.
    outdated_since: Option<Timestamp>,
    /// If the next round repeats the last one, until when the nodes are looked at.
    repeats_until: Option<Timestamp>,
    /// Since when too few nodes have answered.
    broken_since: Option<Timestamp>,
    /// When a quorum will vote, if quarantines alone cost the last round.
    quorum_at: Option<Timestamp>,
    /// Since when another owner has had a quorum, of a request that adopts.
    taken_since: Option<Timestamp>,
    waited_for_turn: bool,
    /// Whether a round found the resource held; and when it will be free, if the last such round could tell.
    found_held: Option<Option<Timestamp>>,
}

impl Acquisition {
    /// A request made at `started`.
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
            taken_since: None,
            waited_for_turn: false,
            found_held: None,
        }
    }

    /// The time of the request.
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// Whether the nodes' lines say when the next round begins: the last round was lost to others.
    pub fn is_in_line(&self) -> bool {
        self.last.is_some_and(|last| last.next_in_line().is_some())
    }

    /// When the next round may begin: the end of the pause after the last one.
    pub const fn next_round(&self) -> Timestamp {
        self.next_round
    }

    /// The rounds that were lost so far.
    pub const fn lost_rounds(&self) -> u32 {
        self.lost_rounds
    }

    /// Until when it waits, also for a turn; `None` without a limit. A repetition moves it.
    pub fn turn_deadline(&self) -> Option<Timestamp> {
        let wait = match self.policy {
            WaitPolicy::OneRound => self.settings.node_timeout,
            WaitPolicy::For(wait) => wait,
            WaitPolicy::Unlimited => return None,
        };
        let deadline = self.started.saturating_add(wait);
        Some(self.repeats_until.map_or(deadline, |until| deadline.max(until)))
    }

    /// Whether a round may still begin at `now`: the pause before may have lasted too long.
    pub fn may_begin(&self, now: Timestamp) -> bool {
        self.policy == WaitPolicy::OneRound || self.repeats_until.is_some() || self.lasts_until(now)
    }

    /// A round was lost, as known at `now`. `round_trip` is measured, if any; `random` is any byte, to spread out
    /// requests for the same resource.
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

        if self.is_over_for(&lost, now) {
            return Next::GiveUp(GiveUp::LastRound);
        }
        let at = now.saturating_add(self.pause(&lost, round_trip, random));
        // The lines call it as soon as the resource may be had, and it waits for that as long as it may.
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

    /// Whether nobody can adopt it any more. A quorum of another owner may be an attempt that is being undone, also one of
    /// this very request: it counts once it has lasted for a node timeout.
    fn is_over_for(&mut self, lost: &LostRound, now: Timestamp) -> bool {
        match lost.ended {
            Some(AdoptionEnd::Over) => true,
            Some(AdoptionEnd::Taken) => {
                let since = *self.taken_since.get_or_insert(lost.begun);
                now.saturating_since(since) >= self.settings.node_timeout
            }
            None => {
                self.taken_since = None;
                false
            }
        }
    }

    /// The pause after a lost round.
    fn pause(&mut self, lost: &LostRound, round_trip: Option<Duration>, random: u8) -> Duration {
        let Backoff { min, .. } = self.settings.backoff;
        if self.repeats_until.is_some() {
            return min / 4;
        }
        self.charged = self.charged.saturating_add(1);
        let pause = self.settings.backoff.pause(self.charged, round_trip, random);
        // Expiry is known in advance; a try just before it gains nothing.
        let pause =
            lost.free_after.filter(|_| lost.found_held()).map_or(pause, |expiry| pause.min(expiry));
        // A key that expires right now must not make the pause zero: the nodes would be asked without a pause.
        pause.max(min / 4)
    }

    /// Takes what a round for the same resource found at `at`, its own or another's; nothing later is known.
    pub fn handle_known(&mut self, lost: LostRound, at: Timestamp) {
        self.last = Some(lost);
        // No time counts before this request came.
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

    /// The leader's round was lost, as known at `now`, and the leader goes on at `next`. Returns the answer to this
    /// request, if it does not go on.
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
        // Its deadline is not the leader's, and it does not pause: it waits up to the end.
        let goes_on = self.repeats_until.is_some() || bearable && self.lasts_until(now);
        (!goes_on).then(|| self.verdict(&lost, bearable, traffic, now))
    }

    /// The answer after the last lost round.
    fn verdict(
        &self,
        lost: &LostRound,
        bearable: bool,
        traffic: Traffic,
        now: Timestamp,
    ) -> GiveUp {
        // It ran out of time in line, or its round was in a crowd: neither shows broken nodes.
        let in_a_crowd = traffic.answered >= lost.begun && traffic.crowded >= lost.begun;
        let slow = self.waited_for_turn && bearable || in_a_crowd;
        if lost.loss == RoundLoss::NoQuorum && lost.overrun && slow {
            self.out_of_time(now)
        } else {
            self.last_round(now)
        }
    }

    /// It gets no turn.
    pub fn handle_turned_away(&self, reason: TurnedAway, now: Timestamp) -> GiveUp {
        match (reason, self.last) {
            (TurnedAway::Closed, _) => GiveUp::Closed,
            // The last round's answer says more, unless that only says that nodes were slow.
            (TurnedAway::Late, Some(last)) if !last.found_held() && !last.overrun => {
                self.last_round(now)
            }
            (TurnedAway::Late, _) => self.out_of_time(now),
        }
    }

    /// Its time is up behind another request for the same resource that does not wait for a turn: other rounds of this
    /// process are not in the way.
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

    /// Whether the wait alone lets another round begin at `next`.
    fn lasts_until(&self, next: Timestamp) -> bool {
        match self.policy {
            WaitPolicy::OneRound => false,
            WaitPolicy::For(wait) => next < self.started.saturating_add(wait),
            WaitPolicy::Unlimited => true,
        }
    }

    /// Since when too few nodes answer.
    fn broken_since(&self, lost: &LostRound, traffic: Traffic) -> Option<Timestamp> {
        // A round that a quorum answered ends an outage, as does a round that only a quarantine cost.
        if lost.loss != RoundLoss::NoQuorum || lost.quarantined {
            return None;
        }
        // Of an earlier round only the time that this request has waited counts.
        let since = self.broken_since.unwrap_or(lost.begun).max(self.started);
        // If others were answered meanwhile, the nodes are slow, and not gone.
        Some(if lost.overrun { since.max(traffic.answered) } else { since })
    }

    /// Whether an outage is ridden out until `next`.
    fn is_bearable(&self, next: Timestamp) -> bool {
        let wait = match self.policy {
            WaitPolicy::OneRound => Duration::ZERO,
            WaitPolicy::For(wait) => wait,
            // An outage is reported even to a request that would wait for a holder for ever.
            WaitPolicy::Unlimited => self.settings.wait,
        };
        let bearable = self.settings.node_timeout.max(wait / 4);
        self.settings.through_outages
            || self.broken_since.is_none_or(|since| next < since.saturating_add(bearable))
    }
}
