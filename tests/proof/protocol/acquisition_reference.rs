//! An acquire between its rounds as it was decided before `Acquisition` was made of it: in the loop that ran the rounds.
//!
//! Goal: an oracle that a change of the machine cannot move along. Method: the decisions of that loop, word for word,
//! without what it awaited and sent.

use quorlock_core::{
    Backoff, GiveUp, LostRound, Next, RoundLoss, Traffic, TurnedAway, WaitPolicy, WaitSettings,
};

use super::*;

/// The error by which a lost round was known.
#[derive(Clone, Copy)]
enum RoundError {
    Contended { retry_after: Option<Duration> },
    NoQuorum,
    TooLate,
}

impl RoundError {
    const fn of(lost: &LostRound) -> Self {
        match lost.loss {
            RoundLoss::TooLate => Self::TooLate,
            RoundLoss::NoQuorum => Self::NoQuorum,
            _ => Self::Contended { retry_after: lost.free_after },
        }
    }
}

pub(crate) struct Reference {
    settings: WaitSettings,
    patience: WaitPolicy,
    started: Timestamp,
    broken_since: Option<Timestamp>,
    crowded: bool,
    /// What was said when the resource was found held last: when it will be free.
    found_held: Option<Option<Timestamp>>,
}

impl Reference {
    pub(crate) const fn new(
        settings: WaitSettings,
        patience: WaitPolicy,
        started: Timestamp,
    ) -> Self {
        Self { settings, patience, started, broken_since: None, crowded: false, found_held: None }
    }

    pub(crate) fn pause(
        Backoff { min, max }: Backoff,
        lost: u32,
        round_trip: Option<Duration>,
        random: u8,
    ) -> Duration {
        let scale = round_trip.unwrap_or(min);
        let factor = 1u32.checked_shl(lost.min(20)).unwrap_or(u32::MAX);
        let ceiling = scale.saturating_mul(factor).clamp(min, max);
        ceiling.mul_f64(f64::from(random).mul_add(0.75 / 255.0, 0.25))
    }

    pub(crate) fn handle_lost_round(
        &mut self,
        lost: &LostRound,
        traffic: Traffic,
        pause: Duration,
        now: Timestamp,
    ) -> Next {
        let error = RoundError::of(lost);
        if let RoundError::Contended { retry_after } = &error {
            self.found_held = Some(retry_after.map(|after| now.saturating_add(after)));
        }
        self.crowded |= lost.waited_for_turn;
        self.broken_since = self.broken_since(lost, traffic, &error, self.broken_since);
        let pause = match &error {
            RoundError::Contended { retry_after: Some(expiry) } => pause.min(*expiry),
            _ => pause,
        };
        let next = now.saturating_add(pause.max(self.settings.backoff.min / 4));
        let bearable = self.is_bearable(self.broken_since, next);
        // The reports of the nodes, which the error of a round that was won too late did not have.
        let outdated = !matches!(error, RoundError::TooLate) && lost.outdated;
        let again = now.saturating_since(self.started) < self.settings.node_timeout;
        if outdated && again && self.patience == WaitPolicy::OneRound {
            let until = now.saturating_add(self.settings.node_timeout);
            return Next::Again { look_until: Some(until), at: next };
        } else if !bearable || !self.lasts(next) {
            let slow = self.crowded && bearable
                || traffic.answered >= lost.begun && traffic.crowded >= lost.begun;
            return Next::GiveUp(match error {
                RoundError::NoQuorum if lost.overrun && slow => {
                    self.turned_away(TurnedAway::Late, now)
                }
                _ => GiveUp::LastRound,
            });
        }
        Next::Again { look_until: None, at: next }
    }

    /// What was said where there was no turn for another round.
    pub(crate) fn turned_away_after(
        &self,
        lost: &LostRound,
        reason: TurnedAway,
        now: Timestamp,
    ) -> GiveUp {
        match RoundError::of(lost) {
            RoundError::NoQuorum | RoundError::TooLate
                if !lost.overrun && reason == TurnedAway::Late =>
            {
                GiveUp::LastRound
            }
            _ => self.turned_away(reason, now),
        }
    }

    fn turned_away(&self, reason: TurnedAway, now: Timestamp) -> GiveUp {
        match (reason, self.found_held) {
            (TurnedAway::Closed, _) => GiveUp::Closed,
            (TurnedAway::Late, Some(free_at)) => {
                let retry_after = free_at.map(|at| at.saturating_since(now));
                GiveUp::FoundHeld { free_after: retry_after }
            }
            (TurnedAway::Late, None) => GiveUp::Crowded,
        }
    }

    fn lasts(&self, next: Timestamp) -> bool {
        match self.patience {
            WaitPolicy::OneRound => false,
            WaitPolicy::For(wait) => next < self.started.saturating_add(wait),
            WaitPolicy::Unlimited => true,
        }
    }

    fn broken_since(
        &self,
        lost: &LostRound,
        traffic: Traffic,
        error: &RoundError,
        before: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match error {
            RoundError::NoQuorum if !lost.quarantined => {
                let slow = lost.overrun.then_some(traffic.answered);
                Some(before.unwrap_or(lost.begun).max(slow.unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn is_bearable(&self, broken_since: Option<Timestamp>, next: Timestamp) -> bool {
        let wait = match self.patience {
            WaitPolicy::OneRound => Duration::ZERO,
            WaitPolicy::For(wait) => wait,
            WaitPolicy::Unlimited => self.settings.wait,
        };
        let bearable = self.settings.node_timeout.max(wait / 4);
        // It was not there then: who asks for it bears whatever lasts no longer than its wait.
        self.settings.through_outages
            || broken_since.is_none_or(|since| next < since.saturating_add(bearable))
    }
}
