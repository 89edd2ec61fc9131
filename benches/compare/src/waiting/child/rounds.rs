//! Counts the rounds of quorlock by its own events: won, lost with some votes, lost without any.
//!
//! A round that is lost though some nodes have granted it met another one on its way: such rounds may have had no
//! winner. Counting is on only where it is asked for, since each event costs something.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};

static WON: AtomicU32 = AtomicU32::new(0);
static SPLIT: AtomicU32 = AtomicU32::new(0);
static DENIED: AtomicU32 = AtomicU32::new(0);

/// How many there have been.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    pub(super) won: u32,
    pub(super) split: u32,
    pub(super) denied: u32,
}

pub(super) fn so_far() -> Rounds {
    Rounds { won: WON.load(Relaxed), split: SPLIT.load(Relaxed), denied: DENIED.load(Relaxed) }
}

/// Counts from now on.
pub(super) fn count() {
    let _ = tracing::subscriber::set_global_default(Counter);
}

struct Counter;

#[derive(Default)]
struct Seen {
    won: bool,
    lost: bool,
    granted: u64,
}

impl Visit for Seen {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "granted" {
            self.granted = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let message = format!("{value:?}");
            self.won = message == "acquired";
            self.lost = message == "round lost";
        }
    }
}

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock" && metadata.is_event()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event(&self, event: &Event<'_>) {
        let mut seen = Seen::default();
        event.record(&mut seen);
        let counter = match seen {
            Seen { won: true, .. } => &WON,
            Seen { lost: true, granted: 0, .. } => &DENIED,
            Seen { lost: true, .. } => &SPLIT,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
