//! Says on standard error that this process raises the longest ttl of the fleet, as an event of the crate tells it.
//!
//! It shows this event alone: a command reports other troubles itself. It must never panic, and never hold up the
//! engine that tells it.

use std::{
    fmt::{self, Write as _},
    thread::Builder,
};

use serde_json::json;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

use crate::{
    output::{say, say_line},
    shown::line_of_json,
};

/// What the text of that event begins with.
const RAISES: &str = "this process raises the longest ttl of the fleet";

/// Who is told, and on which thread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum To {
    People,
    /// On a thread of its own: output that nobody reads must not cost the lease that the engine renews.
    PeopleAside,
    /// The same with an object on a line, as all that is said of this resource.
    Programs {
        resource: String,
    },
}

/// Listens until this process ends.
pub(crate) fn listen(to: To) {
    // Nobody else listens here.
    let _ = tracing::subscriber::set_global_default(Raised { to });
}

struct Raised {
    to: To,
}

impl Subscriber for Raised {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "quorlock" && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        if !told.message.starts_with(RAISES) {
            return;
        }
        let to = self.to.clone();
        if to == To::People {
            told.tell(&to);
        } else {
            drop(Builder::new().name("raised".to_owned()).spawn(move || told.tell(&to)));
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The fields of that event.
#[derive(Default)]
struct Told {
    message: String,
    address: String,
    from: String,
    to: String,
}

impl Told {
    fn tell(&self, whom: &To) {
        let Self { message, address, from, to } = self;
        if let To::Programs { resource } = whom {
            let line = json!({
                "event": "max_ttl_raised", "resource": resource, "address": address, "from": from, "to": to,
                "reason": message,
            });
            say_line(&line_of_json(&line.to_string()));
        } else {
            say(&format!("{message}, from {from} to {to}; {address} said so first"));
        }
    }

    fn field(&mut self, field: &Field) -> Option<&mut String> {
        match field.name() {
            "message" => Some(&mut self.message),
            "address" => Some(&mut self.address),
            "from" => Some(&mut self.from),
            "to" => Some(&mut self.to),
            _ => None,
        }
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(text) = self.field(field) {
            text.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(text) = self.field(field) {
            let _ = write!(text, "{value:?}");
        }
    }
}
