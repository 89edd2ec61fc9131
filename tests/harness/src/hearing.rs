//! Subscribers of single threads, in a process whose other threads have none.
//!
//! `tracing` keeps for each place in the code whether anybody listens there. While a process has had one subscriber at
//! a time, it asks that of the thread which comes to the place first. If that thread has none, nobody hears of the place
//! again, a subscriber of another thread neither. It must never be that subscriber which makes a line of a log missing.

use std::sync::Once;

use tracing_subscriber::{filter::dynamic_filter_fn, layer::SubscriberExt as _};

/// From now on each thread is asked anew at every place. To be called before anything is told, once or more.
pub fn every_thread_hears_for_itself() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It hears nothing, but may at any time, so that no place is silenced for good.
        let deaf = tracing_subscriber::registry().with(dynamic_filter_fn(|_, _| false));
        let _ = tracing::subscriber::set_global_default(deaf);
    });
}
