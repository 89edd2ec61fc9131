//! The link between one client and one server: what the nemesis does to it.

use std::sync::{
    Arc, Mutex, OnceLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use quorlock::{
    node::NodeContext,
    protocol::{ClientId, LineHint, Resource, Timestamp},
};

/// What is wrong with a link.
#[derive(Default)]
pub(crate) struct Link {
    cut_requests: AtomicBool,
    cut_replies: AtomicBool,
    late: AtomicBool,
    twice: AtomicBool,
    /// What is sent now arrives then, on a connection that has been given up, and nobody hears of it.
    arrives: Mutex<Option<Timestamp>>,
    /// Of the client, once it has started.
    context: OnceLock<NodeContext>,
}

macro_rules! flags {
    ($($flag:ident: $is:ident, $set:ident;)*) => {$(
        pub(crate) fn $is(&self) -> bool {
            self.$flag.load(Ordering::Relaxed)
        }

        pub(crate) fn $set(&self, to: bool) {
            self.$flag.store(to, Ordering::Relaxed);
        }
    )*};
}

impl Link {
    flags! {
        cut_requests: loses_requests, set_loses_requests;
        cut_replies: loses_replies, set_loses_replies;
        late: is_late, set_late;
        twice: is_twice, set_twice;
    }

    pub(super) fn arrives(&self) -> Option<Timestamp> {
        *self.arrives.lock().unwrap()
    }

    /// From now on what is sent arrives then; `None` says that there is another connection.
    pub(crate) fn set_arrives(&self, at: Option<Timestamp>) {
        *self.arrives.lock().unwrap() = at;
    }

    pub(super) fn begin(&self, context: NodeContext) {
        let _ = self.context.set(context);
    }

    pub(super) fn context(&self) -> Option<&NodeContext> {
        self.context.get()
    }

    /// Tells the client something that need not be so: which of it, the number says.
    pub(crate) fn rumour(&self, resource: &Resource, number: u64) {
        let Some(context) = self.context.get() else { return };
        let head = ClientId::new([0; 8]);
        match number % 5 {
            0 => context.freed(resource),
            1 => context.line(resource, LineHint::Next),
            2 => context.line(resource, LineHint::StandBy { head }),
            3 => context.line(resource, LineHint::Wanted),
            _ => context.line(resource, LineHint::Alone),
        }
    }

    pub(crate) fn mend(&self) {
        for flag in [&self.cut_requests, &self.cut_replies, &self.late, &self.twice] {
            flag.store(false, Ordering::Relaxed);
        }
    }
}

/// The links of a server, in the order in which they were made.
#[derive(Default)]
pub(super) struct Links(Vec<Weak<Link>>);

impl Links {
    pub(super) fn add(&mut self, link: &Arc<Link>) {
        self.0.retain(|link| link.strong_count() > 0);
        self.0.push(Arc::downgrade(link));
    }

    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.0.iter().filter_map(Weak::upgrade).collect()
    }
}
