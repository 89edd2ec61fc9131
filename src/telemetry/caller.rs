//! The span of a caller: its events appear there, though they happen on the engine thread.
//!
//! It must never keep a span open: that of a request would end later than the request did. So it knows the span by its
//! number, and a subscriber that has closed it since shows the event without one.

/// The span that was current when something was asked for, and the subscriber that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    #[cfg(feature = "tracing")]
    span: Option<std::sync::Arc<(tracing::Id, tracing::dispatcher::WeakDispatch)>>,
}

impl Caller {
    /// The span that is current on this thread.
    #[cfg_attr(not(feature = "tracing"), allow(clippy::missing_const_for_fn))]
    pub(crate) fn current() -> Self {
        #[cfg(feature = "tracing")]
        {
            use tracing::{dispatcher::get_default, level_filters::LevelFilter};

            let mut caller = Self::default();
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
        Self {}
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
