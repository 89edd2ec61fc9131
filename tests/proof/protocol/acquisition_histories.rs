//! Acquires with random histories: lost rounds, traffic and times, which never go back.
//!
//! Goal: W1 to W7 and W10 hold whatever happens. Method: what the machine decides is compared with a second statement of each
//! invariant, which looks through the whole history every time; and with the decision as it was taken before the machine
//! was made (`acquisition_reference.rs`).

use proptest::{collection::vec, option, prelude::*};
use quorlock_core::{
    Acquisition, Backoff, GiveUp, LostRound, Next, RoundLoss, Traffic, TurnedAway, WaitPolicy,
    WaitSettings,
};

use super::{
    acquisition::{MS, again},
    acquisition_reference::Reference,
    *,
};

/// One lost round of a random history, by how long things took.
#[derive(Clone, Debug)]
struct Past {
    lost: LostRound,
    traffic: Traffic,
    round_trip: Option<Duration>,
    random: u8,
    now: Timestamp,
    /// How long it waits for its next turn.
    line: Duration,
}

fn millis(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_millis)
}

fn loss() -> impl Strategy<Value = RoundLoss> {
    prop_oneof![
        3 => Just(RoundLoss::Contended),
        5 => Just(RoundLoss::NoQuorum),
        1 => Just(RoundLoss::TooLate),
        1 => Just(RoundLoss::Abandoned),
    ]
}

/// Rounds one after the other; those that follow an answer are never given to the machine.
fn history() -> impl Strategy<Value = Vec<Past>> {
    let facts = (loss(), any::<[bool; 3]>(), option::of(millis(60)), any::<u8>());
    let times = (millis(12), millis(110), millis(120), millis(120), millis(30));
    let past = (facts, times, option::of(millis(20)));
    vec(past, 1..9).prop_map(|pasts| {
        let mut now = start();
        let past = |(facts, times, round_trip)| {
            let (loss, [overrun, flag, waited_for_turn], free_after, random) = facts;
            let (pause, took, answered, crowded, line): (
                Duration,
                Duration,
                Duration,
                Duration,
                _,
            ) = times;
            let begun = now.saturating_add(pause);
            now = begun.saturating_add(took);
            let before = |ago| Timestamp::from_origin(now.since_origin().saturating_sub(ago));
            let traffic = Traffic { answered: before(answered), crowded: before(crowded) };
            // An abandoned round needs no look at the nodes: there the two may differ, and nobody sees it.
            let outdated = flag && random % 2 == 0 && loss != RoundLoss::Abandoned;
            let quarantined = flag && random % 3 == 0;
            // Both where it can be waited for and where it cannot.
            let after = Duration::from_millis(u64::from(random) * 4);
            let quorum_after = (quarantined && random % 2 == 1).then_some(after);
            let facts = LostRound {
                loss,
                begun,
                overrun,
                outdated,
                quarantined,
                quorum_after,
                free_after,
                waited_for_turn,
                in_line: None,
                ended: None,
            };
            let past = Past { lost: facts, traffic, round_trip, random, now, line };
            now = now.saturating_add(line);
            past
        };
        pasts.into_iter().map(past).collect()
    })
}

fn policy() -> impl Strategy<Value = WaitPolicy> {
    prop_oneof![
        Just(WaitPolicy::OneRound),
        millis(600).prop_map(WaitPolicy::For),
        Just(WaitPolicy::Unlimited),
    ]
}

fn settings() -> impl Strategy<Value = WaitSettings> {
    let backoff = (0..=9u32, 0..=40u32)
        .prop_map(|(min, more)| Backoff { min: min * MS, max: (min + more) * MS });
    (1..=100u32, millis(600), backoff, any::<bool>()).prop_map(
        |(timeout, wait, backoff, through_outages)| WaitSettings {
            node_timeout: timeout * MS,
            wait,
            backoff,
            through_outages,
        },
    )
}

/// The invariants, each stated by the whole history of the request, the last round included.
struct Naive<'a> {
    settings: WaitSettings,
    policy: WaitPolicy,
    history: &'a [Past],
}

impl Naive<'_> {
    fn last(&self) -> &Past {
        self.history.last().unwrap()
    }

    fn is_held(past: &Past) -> bool {
        matches!(past.lost.loss, RoundLoss::Contended | RoundLoss::Abandoned)
    }

    /// W10: up to when the last of these is repeated.
    fn repeated_until(&self, history: &[Past]) -> Option<Timestamp> {
        let lost = |past: &&Past| {
            let counts = matches!(past.lost.loss, RoundLoss::Contended | RoundLoss::NoQuorum);
            counts && past.lost.outdated
        };
        let first = history.iter().rev().take_while(lost).last()?;
        let last = history.last().unwrap();
        let timeout = self.settings.node_timeout;
        let until = last.now.saturating_add(timeout).min(first.now.saturating_add(2 * timeout));
        (last.lost.begun < first.now.saturating_add(timeout)).then_some(until)
    }

    /// W5.
    fn pause(&self) -> Duration {
        let Past { round_trip, random, lost, .. } = self.last();
        let charged = |until: &usize| self.repeated_until(&self.history[..*until]).is_none();
        if !charged(&self.history.len()) {
            return self.settings.backoff.min / 4;
        }
        let rounds = (1..=self.history.len()).filter(charged).count();
        let rounds = u32::try_from(rounds).unwrap();
        let mut pause = self.settings.backoff.pause(rounds, *round_trip, *random);
        if let (true, Some(free)) = (Self::is_held(self.last()), lost.free_after) {
            pause = pause.min(free);
        }
        pause.max(self.settings.backoff.min / 4)
    }

    fn next(&self) -> Timestamp {
        self.last().now.saturating_add(self.pause())
    }

    /// W3: the rounds at the end in which too few nodes answered, and none was in quarantine.
    fn is_bearable(&self) -> bool {
        if self.settings.through_outages {
            return true;
        }
        let outage = |past: &&Past| past.lost.loss == RoundLoss::NoQuorum && !past.lost.quarantined;
        let outage: Vec<&Past> = self.history.iter().rev().take_while(outage).collect();
        let Some(first) = outage.last() else { return true };
        let others =
            outage.iter().filter(|past| past.lost.overrun).map(|past| past.traffic.answered);
        let since = others.fold(first.lost.begun, Ord::max);
        let quarter = match self.policy {
            WaitPolicy::OneRound => Duration::ZERO,
            WaitPolicy::For(wait) => wait / 4,
            WaitPolicy::Unlimited => self.settings.wait / 4,
        };
        self.next().saturating_since(since) < quarter.max(self.settings.node_timeout)
            || self.next() < since
    }

    fn next_step(&self) -> Next {
        let Past { lost, traffic, now, .. } = self.last();
        if let Some(until) = self.repeated_until(self.history) {
            return Next::Again { look_until: Some(until), at: self.next() };
        }
        let lasts = match self.policy {
            // W1.
            WaitPolicy::OneRound => false,
            // W2.
            WaitPolicy::For(wait) => self.next().saturating_since(start()) < wait,
            WaitPolicy::Unlimited => true,
        };
        if lasts && self.is_bearable() {
            return again(self.next());
        }
        // W4.
        let waited = self.history.iter().any(|past| past.lost.waited_for_turn);
        let crowd = traffic.answered >= lost.begun && traffic.crowded >= lost.begun;
        let load = lost.loss == RoundLoss::NoQuorum
            && lost.overrun
            && (waited && self.is_bearable() || crowd);
        Next::GiveUp(if load { self.out_of_time(*now) } else { self.last_round(*now) })
    }

    /// W7: when the last round has found that a quorum will vote.
    fn quorum_at(&self) -> Option<Timestamp> {
        let Past { lost, now, .. } = self.last();
        let after = lost.quorum_after.filter(|_| lost.loss == RoundLoss::NoQuorum)?;
        Some(now.saturating_add(after))
    }

    fn last_round(&self, now: Timestamp) -> GiveUp {
        match self.quorum_at() {
            Some(at) => GiveUp::Quarantined { remaining: at.saturating_since(now) },
            None => GiveUp::LastRound,
        }
    }

    /// W6.
    fn out_of_time(&self, now: Timestamp) -> GiveUp {
        match self.history.iter().rfind(|past| Self::is_held(past)) {
            None => GiveUp::Crowded,
            Some(held) => {
                let free_at = held.lost.free_after.map(|after| held.now.saturating_add(after));
                GiveUp::FoundHeld { free_after: free_at.map(|at| at.saturating_since(now)) }
            }
        }
    }

    fn turned_away_late(&self, now: Timestamp) -> GiveUp {
        let last = self.last();
        let tells_more = !Self::is_held(last) && !last.lost.overrun;
        if tells_more { self.last_round(now) } else { self.out_of_time(now) }
    }
}

/// Gives the machine one round after the other until it answers, and calls `check` after each.
fn replay(
    settings: WaitSettings,
    policy: WaitPolicy,
    history: &[Past],
    mut check: impl FnMut(&[Past], &Acquisition, Next) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut acquisition = Acquisition::new(settings, policy, start());
    for (index, past) in history.iter().enumerate() {
        let Past { lost, traffic, round_trip, random, now, .. } = past.clone();
        let next = acquisition.handle_lost_round(lost, traffic, round_trip, random, now);
        check(&history[..=index], &acquisition, next)?;
        // What would follow an answer is tried as well: the machine does not know that it is over.
    }
    Ok(())
}

/// An answer as it was before a quarantine was one of its own.
fn as_before(told: GiveUp, lost: &LostRound) -> GiveUp {
    let is_quarantine = lost.loss == RoundLoss::NoQuorum && lost.quorum_after.is_some();
    match told {
        GiveUp::Quarantined { .. } if is_quarantine => GiveUp::LastRound,
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn w1_to_w7_and_w10_hold_for_every_history(
        settings in settings(),
        policy in policy(),
        history in history(),
    ) {
        replay(settings, policy, &history, |history, acquisition, next| {
            let naive = Naive { settings, policy, history };
            prop_assert_eq!(next, naive.next_step());
            let Past { now, line, .. } = naive.last();
            let now = now.saturating_add(*line);
            let late = acquisition.handle_turned_away(TurnedAway::Late, now);
            prop_assert_eq!(late, naive.turned_away_late(now));
            let repeated = naive.repeated_until(history);
            if let (WaitPolicy::For(wait), Next::Again { at: next, .. }) = (policy, next) {
                let deadline = start().saturating_add(wait);
                prop_assert!(next < deadline || repeated.is_some(), "W2");
                let deadline = repeated.map_or(deadline, |until| deadline.max(until));
                prop_assert_eq!(acquisition.turn_deadline(), Some(deadline));
            }
            if let Next::Again { at: next, look_until } = next {
                let pause = next.saturating_since(naive.last().now);
                let least = settings.backoff.min / 4;
                prop_assert!(pause >= least && pause <= settings.backoff.max.max(least), "W5");
                prop_assert_eq!(look_until, repeated, "W10");
            }
            Ok(())
        })?;
    }

    /// But for the word for a quarantine, which the loop reported as an outage; and where no nodes have changed, for which it
    /// began no second round but of a request for one.
    #[test]
    fn it_decides_what_the_loop_decided_from_which_it_was_made(
        settings in settings(),
        policy in policy(),
        mut history in history(),
    ) {
        history.iter_mut().for_each(|past| past.lost.outdated = false);
        let mut reference = Reference::new(settings, policy, start());
        replay(settings, policy, &history, |history, acquisition, next| {
            let Past { lost, traffic, round_trip, random, now, line } = history.last().unwrap();
            let rounds = u32::try_from(history.len()).unwrap();
            let pause = settings.backoff.pause(rounds, *round_trip, *random);
            let was = reference.handle_lost_round(lost, *traffic, pause, *now);
            match (next, was) {
                (Next::GiveUp(quarantined @ GiveUp::Quarantined { .. }), Next::GiveUp(was)) => {
                    prop_assert_eq!(as_before(quarantined, lost), was);
                }
                _ => prop_assert_eq!(next, was),
            }
            let now = now.saturating_add(*line);
            for reason in [TurnedAway::Late, TurnedAway::Closed] {
                let told = acquisition.handle_turned_away(reason, now);
                let was = reference.turned_away_after(lost, reason, now);
                prop_assert_eq!(as_before(told, lost), was);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_pause_is_what_it_was_but_for_rounding(
        settings in settings(),
        lost in 1..40u32,
        round_trip in option::of(millis(90)),
        random: u8,
    ) {
        let new = settings.backoff.pause(lost, round_trip, random);
        let old = Reference::pause(settings.backoff, lost, round_trip, random);
        prop_assert!(new.abs_diff(old) <= Duration::from_nanos(8), "{new:?}, was {old:?}");
    }
}
