//! The span of a caller, where its events appear though they happen on the engine thread; and what is counted of it.
//!
//! It must never keep a span open: that of a request would end later than the request did. So it knows the span by its
//! number, and a subscriber that has closed it since shows the event without one.

use super::Class;
use crate::protocol::Timestamp;

/// What metrics tell apart of requests and leases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody counts"))]
    pub(super) class: Class,
    /// Since when the lease is held.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody counts"))]
    pub(super) since: Option<Timestamp>,
}

/// The span that was current when something was asked for, and the subscriber that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    #[cfg(feature = "tracing")]
    span: Option<std::sync::Arc<(tracing::Id, tracing::dispatcher::WeakDispatch)>>,
    pub(crate) counts: Counts,
}

impl Caller {
    /// The span that is current on this thread, for a request of this class.
    #[cfg_attr(not(feature = "tracing"), allow(clippy::missing_const_for_fn))]
    pub(crate) fn current(class: Class) -> Self {
        let counts = Counts { class, since: None };
        #[cfg(feature = "tracing")]
        {
            use tracing::{dispatcher::get_default, level_filters::LevelFilter};

            let mut caller = Self { span: None, counts };
            // Most acquires run where nobody listens, and asking costs something.
            if LevelFilter::current() != LevelFilter::OFF {
                // It asks the subscriber, which is code of the user's.
                crate::shield::shielded(|| {
                    caller.span = get_default(|dispatch| {
                        let span = (dispatch.current_span().id()?.clone(), dispatch.downgrade());
                        Some(span.into())
                    });
                });
            }
            caller
        }
        #[cfg(not(feature = "tracing"))]
        Self { counts }
    }

    /// The same of a lease that is held from now on.
    #[must_use]
    pub(crate) const fn holding(mut self, now: Timestamp) -> Self {
        self.counts.since = Some(now);
        self
    }

    /// Calls `event` where its subscriber is listening, with the span as the parent if there is one.
    #[cfg(feature = "tracing")]
    pub(super) fn tell(&self, event: impl Fn(Option<&tracing::Id>)) {
        let span = self.span.as_deref();
        let span = span.and_then(|(id, dispatch)| Some((id, dispatch.upgrade()?)));
        match span {
            // The number means something to that subscriber alone.
            Some((id, dispatch)) => {
                tracing::dispatcher::with_default(&dispatch, || event(Some(id)));
            }
            None => event(None),
        }
    }
}
