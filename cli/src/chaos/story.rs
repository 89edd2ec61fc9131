//! What happened in a run: what was done to whom, what workers wrote down, what the checker found, and all of that in one
//! sentence.
//!
//! It must never call a run good in which anything was found.

use std::{path::Path, time::Duration};

use quorlock_harness::history::{
    Verdict,
    checker::{Effect, Held},
    record::History,
};
use serde_json::{Value, json};

use crate::shown::counted;

/// The node or the worker that a fault hit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lane {
    Node(usize),
    Worker(usize),
}

/// What was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    Killed,
    Stopped,
    Emptied,
    Cut,
    /// Nothing was: the node does not vote, because it may have forgotten.
    Quarantined,
}

impl What {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Emptied => "emptied",
            Self::Cut => "cut",
            Self::Quarantined => "no vote",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    pub(crate) lane: Lane,
    pub(crate) what: What,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// In which way it was run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Setting {
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    pub(crate) ttl: Duration,
    pub(crate) seed: u64,
    pub(crate) classic: bool,
    /// Whether the store compares tokens.
    pub(crate) fenced: bool,
    /// Whether the workers are of the user's.
    pub(crate) theirs: bool,
}

pub(crate) struct Story {
    pub(crate) setting: Setting,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) history: History,
    pub(crate) strikes: Vec<Strike>,
    /// Its stale effects are writes that overwrote another's update, which had come after their writer's read.
    pub(crate) verdict: Verdict,
    /// Updates that the store had taken, and that its counter lacks in the end.
    pub(crate) lost: usize,
}

impl Story {
    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.is_clean() && self.lost == 0
    }

    /// What was written, or was to be.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Effect> {
        self.history.effects.iter().filter(|effect| !effect.reads)
    }

    /// Late writes that were refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Effect> {
        self.writes().filter(|effect| !effect.accepted && !effect.held)
    }

    /// Writes that were taken although their lease was over by the answer, and that overwrote no later holder's.
    pub(crate) fn harmless(&self) -> usize {
        let taken = self.writes().filter(|effect| effect.accepted && !effect.held);
        taken.count().saturating_sub(self.late().count())
    }

    /// Late writes that were taken after those of a later holder, each behind the write that it came after. Writes of
    /// two simultaneous holders are not among them.
    pub(crate) fn late(&self) -> impl Iterator<Item = &(Effect, Effect)> {
        self.verdict.stale.iter().filter(|(_, late)| !late.held)
    }

    /// Faults of nodes and workers.
    pub(crate) fn faults(&self) -> usize {
        self.strikes.iter().filter(|strike| strike.what != What::Quarantined).count()
    }

    /// The verdict in one sentence.
    pub(crate) fn headline(&self) -> String {
        let (leases, verdict) = (self.history.leases.len(), &self.verdict);
        if self.is_clean() {
            let refused = match self.refused().count() {
                _ if self.writes().next().is_none() => "nothing was written".to_owned(),
                0 if self.harmless() > 0 => "no late write overwrote another's".to_owned(),
                0 => "no write came late".to_owned(),
                1 => "the one late write refused".to_owned(),
                2 => "both late writes refused".to_owned(),
                many => format!("all {many} late writes refused"),
            };
            let refused = match (self.refused().count(), self.harmless()) {
                (1.., taken @ 1..) => {
                    format!("{refused}, but for {taken} that overwrote nobody's")
                }
                _ => refused,
            };
            let leases = counted(leases, "lease");
            // A run without faults shows nothing.
            let wrong = match self.faults() {
                0 => "Nothing was done to anybody in so short a time, and nothing went wrong",
                _ => "Nothing went wrong",
            };
            return format!("{wrong}: {leases}, never two holders at once; {refused}");
        }
        let mut wrong = Vec::new();
        let late = self.late().count();
        let between = verdict.stale.len() - late;
        if !verdict.overlaps.is_empty() {
            let time = |(one, other): &(Held, Held)| one.end.min(other.end) - other.start;
            let longest = verdict.overlaps.iter().map(time).max().unwrap_or_default();
            let longest = format!("{:.2} s", longest.as_secs_f64());
            let mut text = "two workers held the lock at once ".to_owned();
            text += &match verdict.overlaps.len() {
                0 | 1 => format!("for {longest}"),
                many => format!("{many} times, for up to {longest}"),
            };
            if between > 0 {
                text += ", and wrote over each other";
            }
            wrong.push(text);
        } else if between > 0 {
            wrong.push(format!("a holder wrote out of turn{}", often(between)));
        }
        match late {
            0 => {}
            1 => wrong.push("a late write overwrote a later holder's".to_owned()),
            count => wrong.push(format!("{count} late writes overwrote those of later holders")),
        }
        if !verdict.wrong_tokens.is_empty() {
            let often = often(verdict.wrong_tokens.len());
            wrong.push(format!("a token fell or came twice{often}"));
        }
        if !verdict.refused.is_empty() {
            wrong.push(format!("a holder was refused{}", often(verdict.refused.len())));
        }
        if self.lost > 0 {
            let taken = self.writes().filter(|effect| effect.accepted).count();
            wrong.push(format!("{} of {taken} updates lost", self.lost));
        }
        if wrong.is_empty() {
            wrong.push(format!("tokens fell at the store{}", often(verdict.falls.len())));
        }
        format!("Wrong: {}", wrong.join("; "))
    }

    /// In which way it was run, in one sentence.
    pub(crate) fn mode(&self) -> String {
        if self.setting.theirs {
            let has = self.history.leases.iter().any(|held| held.token.is_some());
            let store = match (has, self.setting.fenced) {
                (false, _) => "Its leases have no tokens, so that the store takes every write.",
                (true, true) => "The store refuses smaller tokens.",
                (true, false) => "The store compares no tokens (--no-fence).",
            };
            return format!("A lock of yours (--worker). {store}");
        }
        let text = match (self.setting.classic, self.setting.fenced) {
            (true, _) => {
                "Plain Redlock (--classic): nodes that forgot vote at once, and there are no tokens that a store could compare."
            }
            (false, false) => "Quorlock with a store that compares no tokens (--no-fence).",
            (false, true) => {
                "Quorlock: nodes that may have forgotten wait before they vote, and the store refuses smaller tokens."
            }
        };
        text.to_owned()
    }

    /// How much there was of everything.
    pub(crate) fn figures(&self) -> String {
        let Setting { nodes, workers, ttl, seed, .. } = self.setting;
        format!(
            "{}, {}, leases of {ttl:?}, {}, {} in {:.0} s, seed {seed}",
            counted(nodes, "node"),
            counted(workers, "worker"),
            counted(self.writes().count(), "write"),
            counted(self.faults(), "fault"),
            self.to.saturating_sub(self.from).as_secs_f64(),
        )
    }

    pub(crate) fn json(&self, picture: Option<impl AsRef<Path>>, interrupted: bool) -> Value {
        let (verdict, history) = (&self.verdict, &self.history);
        json!({
            "picture": picture.map(|picture| picture.as_ref().display().to_string()),
            "interrupted": interrupted,
            "clean": self.is_clean(),
            "verdict": self.headline(),
            "overlaps": verdict.overlaps.len(),
            "wrong_tokens": verdict.wrong_tokens.len(),
            "stale_writes_taken": verdict.stale.len(),
            "late_writes_taken": self.late().count(),
            "late_writes_refused": self.refused().count(),
            "late_writes_taken_before_any_later_one": self.harmless(),
            "falls_at_the_store": verdict.falls.len(),
            "holders_refused": verdict.refused.len(),
            "leases": history.leases.len(),
            "writes": self.writes().count(),
            "lost_updates": self.lost,
            "losses": history.losses.len(),
            "faults": self.faults(),
            "seconds": self.to.saturating_sub(self.from).as_secs_f64(),
            "nodes": self.setting.nodes,
            "workers": self.setting.workers,
            "ttl": self.setting.ttl.as_secs_f64(),
            "seed": self.setting.seed,
            "classic": self.setting.classic,
            "fenced": self.setting.fenced,
            "worker": self.setting.theirs,
        })
    }
}

/// A suffix for what happened more than once.
fn often(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        many => format!(" {many} times"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use quorlock_harness::history::checker;

    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(1_000_000 + ms)
    }

    pub(crate) fn held(worker: usize, token: u64, from: u64, to: u64) -> Held {
        let (asked, start, end) = (at(from), at(from), at(to));
        let (owner, token, kept) = (format!("{worker}"), Some(token), Duration::ZERO);
        Held { owner, worker, resource: 0, reads: false, token, asked, start, end, kept }
    }

    pub(crate) fn wrote(
        worker: usize,
        token: u64,
        time: u64,
        accepted: bool,
        held: bool,
    ) -> Effect {
        let (before, after) = (at(time), at(time + 1));
        Effect { worker, resource: 0, reads: false, token, before, after, accepted, held }
    }

    /// Of ten seconds, with three nodes and two workers.
    pub(crate) fn story(leases: Vec<Held>, effects: Vec<Effect>) -> Story {
        let mut history = History::default();
        (history.leases, history.effects) = (leases, effects);
        let verdict = Verdict::on(&history, vec![]);
        let (nodes, workers, ttl) = (3, 2, Duration::from_secs(1));
        let setting =
            Setting { nodes, workers, ttl, seed: 1, classic: false, fenced: true, theirs: false };
        let strikes = [What::Killed, What::Stopped, What::Emptied, What::Cut, What::Quarantined];
        let strike = |(node, what): (usize, What)| {
            let (from, to) = (at(1000 * node as u64), at(1500 * node as u64));
            Strike { lane: Lane::Node(node % 3), what, from, to }
        };
        let strikes = strikes.into_iter().enumerate().map(strike).collect();
        Story { setting, from: at(0), to: at(10_000), history, strikes, verdict, lost: 0 }
    }

    /// One after the other, and a late write that is refused.
    pub(crate) fn good() -> Story {
        let leases = vec![held(0, 1, 100, 1000), held(1, 2, 2000, 3000)];
        let late = wrote(0, 1, 2500, false, false);
        story(leases, vec![wrote(0, 1, 500, true, true), wrote(1, 2, 2200, true, true), late])
    }

    /// Both at once for half a second, and a late write that is taken.
    pub(crate) fn bad() -> Story {
        let leases = vec![held(0, 1, 100, 2500), held(1, 2, 2000, 3000)];
        let between = wrote(0, 1, 2300, true, true);
        let late = wrote(0, 1, 2900, true, false);
        story(leases, vec![wrote(1, 2, 2200, true, true), between, late])
    }

    #[test]
    fn what_is_good_is_said_with_figures() {
        let story = good();
        assert_eq!(
            story.headline(),
            "Nothing went wrong: 2 leases, never two holders at once; the one late write refused"
        );
        assert_eq!(story.faults(), 4);
        let mut idle = good();
        idle.strikes.clear();
        assert!(idle.headline().starts_with("Nothing was done to anybody"), "{}", idle.headline());
        let found = story.json(Some("x.svg"), false);
        assert_eq!((found["clean"].as_bool(), found["leases"].as_u64()), (Some(true), Some(2)));
    }

    #[test]
    fn a_late_write_that_was_taken_is_not_kept_quiet() {
        let leases = || vec![held(0, 1, 100, 1000), held(1, 2, 2000, 3000)];
        // Behind the end of its lease, and before anybody else's.
        let taken = wrote(0, 1, 1500, true, false);
        let alone = story(leases(), vec![taken.clone()]);
        assert!(alone.is_clean() && alone.headline().contains("no late write overwrote"));
        let told = |story: &Story| {
            story.json(Some("x.svg"), false)["late_writes_taken_before_any_later_one"].clone()
        };
        assert_eq!(told(&alone), 1);
        let refused = wrote(0, 1, 2500, false, false);
        let both = story(leases(), vec![taken, wrote(1, 2, 2200, true, true), refused]);
        let headline = both.headline();
        assert!(both.is_clean() && headline.contains("but for 1 that overwrote"), "{headline}");
        assert_eq!(told(&both), 1);
    }

    #[test]
    fn what_is_wrong_is_said_of_every_kind() {
        let story = bad();
        assert_eq!(story.late().count(), 1);
        assert_eq!(
            story.headline(),
            "Wrong: two workers held the lock at once for 0.50 s, and wrote over each other; a late write overwrote a later holder's"
        );
        // Each kind alone is enough.
        let (pair, effect) = (story.verdict.overlaps[0].clone(), wrote(0, 1, 1, false, true));
        for kind in 0..6 {
            let mut story = good();
            match kind {
                0 => story.verdict.overlaps.push(pair.clone()),
                1 => story.verdict.wrong_tokens.push(pair.clone()),
                2 => story.verdict.stale.push((effect.clone(), effect.clone())),
                3 => story.verdict.falls.push((2, 1)),
                4 => story.lost = 1,
                _ => story.verdict.refused.push(effect.clone()),
            }
            assert!(!story.is_clean(), "{kind}");
            let headline = story.headline();
            assert!(headline.starts_with("Wrong: ") && headline.len() > 20, "{kind}: {headline}");
            assert_eq!(story.json(Some("x"), false)["clean"], false);
        }
        assert!(checker::refused_though_held(&[effect]).len() == 1);
        let lost = Story { lost: 1, ..good() };
        assert_eq!(lost.headline(), "Wrong: 1 of 2 updates lost");
        assert_eq!(lost.json(Some("x"), false)["lost_updates"], 1);
    }

    /// Nothing is said of tokens that a lock does not have.
    #[test]
    fn a_lock_of_the_users_is_told_by_its_leases() {
        let mut story = good();
        story.setting.theirs = true;
        assert!(story.mode().contains("refuses smaller tokens"), "{}", story.mode());
        story.setting.fenced = false;
        assert!(story.mode().contains("(--no-fence)"), "{}", story.mode());
        story.history.leases.iter_mut().for_each(|held| held.token = None);
        assert!(story.mode().contains("have no tokens"), "{}", story.mode());
        story.history.effects.clear();
        assert!(story.headline().ends_with("nothing was written"), "{}", story.headline());
    }
}
