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

/// Whom something was done to.
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
}

pub(crate) struct Story {
    pub(crate) setting: Setting,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) history: History,
    pub(crate) strikes: Vec<Strike>,
    pub(crate) verdict: Verdict,
}

impl Story {
    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.is_clean()
    }

    /// Late writes that were refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Effect> {
        self.history.effects.iter().filter(|effect| !effect.accepted && !effect.held)
    }

    /// Late writes that were taken behind those of a later holder, each with what it came behind. What two write who hold the
    /// lock at once is not among them.
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
                0 => "no write came late".to_owned(),
                1 => "the one late write refused".to_owned(),
                2 => "both late writes refused".to_owned(),
                many => format!("all {many} late writes refused"),
            };
            return format!(
                "Nothing went wrong: {leases} leases, never two holders at once; {refused}"
            );
        }
        let mut wrong = Vec::new();
        let late = self.late().count();
        let between = verdict.stale.len() - late;
        if !verdict.overlaps.is_empty() {
            let time = |(one, other): &(Held, Held)| one.end.min(other.end) - other.start;
            let longest = verdict.overlaps.iter().map(time).max().unwrap_or_default();
            let mut text = "two workers held the lock at once".to_owned();
            text += &often(verdict.overlaps.len());
            let most = if verdict.overlaps.len() > 1 { "up to " } else { "" };
            text += &format!(" (for {most}{:.2} s)", longest.as_secs_f64());
            if between > 0 {
                text += " and wrote over each other";
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
        if wrong.is_empty() {
            wrong.push(format!("tokens fell at the store{}", often(verdict.falls.len())));
        }
        format!("Wrong: {}", wrong.join("; "))
    }

    /// In which way it was run, in one sentence.
    pub(crate) fn mode(&self) -> &'static str {
        match (self.setting.classic, self.setting.fenced) {
            (true, _) => {
                "Plain Redlock (--classic): nodes that forgot vote at once, and there are no tokens that a store could compare."
            }
            (false, false) => "Quorlock with a store that compares no tokens (--no-fence).",
            (false, true) => {
                "Quorlock: nodes that may have forgotten wait before they vote, and the store refuses smaller tokens."
            }
        }
    }

    /// How much there was of everything.
    pub(crate) fn figures(&self) -> String {
        let Setting { nodes, workers, ttl, seed, .. } = self.setting;
        format!(
            "{nodes} nodes, {workers} workers, leases of {ttl:?}, {} writes, {} faults in {:.0} s, seed {seed}",
            self.history.effects.len(),
            self.faults(),
            self.to.saturating_sub(self.from).as_secs_f64(),
        )
    }

    pub(crate) fn json(&self, picture: &Path, interrupted: bool) -> Value {
        let (verdict, history) = (&self.verdict, &self.history);
        json!({
            "picture": picture.display().to_string(),
            "interrupted": interrupted,
            "clean": self.is_clean(),
            "verdict": self.headline(),
            "overlaps": verdict.overlaps.len(),
            "wrong_tokens": verdict.wrong_tokens.len(),
            "stale_writes_taken": verdict.stale.len(),
            "late_writes_taken": self.late().count(),
            "late_writes_refused": self.refused().count(),
            "falls_at_the_store": verdict.falls.len(),
            "holders_refused": verdict.refused.len(),
            "leases": history.leases.len(),
            "writes": history.effects.len(),
            "losses": history.losses.len(),
            "faults": self.faults(),
            "seconds": self.to.saturating_sub(self.from).as_secs_f64(),
            "nodes": self.setting.nodes,
            "workers": self.setting.workers,
            "ttl": self.setting.ttl.as_secs_f64(),
            "seed": self.setting.seed,
            "classic": self.setting.classic,
            "fenced": self.setting.fenced,
        })
    }
}

/// Behind what was more than once.
fn often(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        2 => " twice".to_owned(),
        many => format!(" {many} times"),
    }
}
