//! What is seen while it runs: a bar, the figures so far, and what is being done; and which nodes do not vote, which
//! only a client knows.
//!
//! It decides nothing. Where standard error is no terminal nothing is drawn.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use console::{Term, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorlock::{Redlock, node::NodeState};
use quorlock_harness::history::{checker, record::now};

use super::{
    fleet::Fleet,
    story::{Lane, Strike, What},
};
use crate::output::{BAD, styled};

const LOOK: Duration = Duration::from_millis(20);
/// The number of looks from one set of figures to the next.
const FIGURES: usize = 10;

pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(seconds: u64, quiet: bool) -> Self {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(seconds * 1000), target);
        let style = ProgressStyle::with_template("[{wide_bar:.cyan/blue}]\n{prefix}\n{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Self(bar)
    }

    pub(crate) fn phase(&self, text: &str) {
        self.0.set_message(fitting(text));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }

    /// Looks over and over until the end, and returns which nodes did not vote, and when.
    pub(crate) fn watch(
        &self,
        from: Duration,
        fleet: &Fleet,
        observer: &Redlock,
        doing: &Mutex<String>,
        ended: &AtomicBool,
    ) -> Vec<Strike> {
        let mut since: Vec<Option<Duration>> = observer.nodes().iter().map(|_| None).collect();
        let (mut found, mut looks, mut search) = (Vec::new(), 0, Duration::ZERO);
        while !ended.load(Relaxed) {
            for (node, (since, status)) in since.iter_mut().zip(observer.nodes()).enumerate() {
                match (status.state, &since) {
                    (NodeState::Quarantined { .. }, None) => *since = Some(now()),
                    (NodeState::Quarantined { .. }, Some(_)) => {}
                    _ => found.extend(since.take().map(|from| silent(node, from))),
                }
            }
            if looks % FIGURES == 0 && now() >= search {
                let began = now();
                let done = now().saturating_sub(from).as_millis();
                self.0.set_position(u64::try_from(done).unwrap_or(u64::MAX));
                self.0.set_prefix(fitting(&figures(fleet)));
                let doing = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
                self.0.set_message(fitting(&doing));
                // It searches the whole record, which takes long after some hours: its writers must not wait.
                search = now() + 20 * (now() - began);
            }
            looks += 1;
            thread::sleep(LOOK);
        }
        let last = since.into_iter().enumerate();
        found.extend(last.filter_map(|(node, from)| Some(silent(node, from?))));
        found
    }
}

/// As much of a line as there is room for.
fn fitting(line: &str) -> String {
    let (_, width) = Term::stderr().size();
    truncate_str(line, usize::from(width).saturating_sub(1), "…").into_owned()
}

fn silent(node: usize, from: Duration) -> Strike {
    Strike { lane: Lane::Node(node), what: What::Quarantined, from, to: now() }
}

fn figures(fleet: &Fleet) -> String {
    let lost = fleet.counter().lost();
    let history = fleet.record().lock();
    let writes = || history.effects.iter().filter(|effect| !effect.reads);
    let refused = writes().filter(|effect| !effect.accepted && !effect.held).count();
    let (leases, writes) = (history.granted, writes().count());
    let mut text = format!("leases {leases}, writes {writes}, late writes refused {refused}");
    let overlaps = checker::overlaps(&history.leases).len();
    if overlaps > 0 {
        text += &styled(BAD, &format!(", two holders at once {overlaps}"));
    }
    if lost > 0 {
        text += &styled(BAD, &format!(", updates lost {lost}"));
    }
    text
}
