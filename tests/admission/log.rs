//! Goal: a subscriber that is told of an admission may look at the nodes, and may panic.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::every_thread_hears_for_itself;
use tracing_subscriber::{Layer, layer::SubscriberExt as _};

use super::{SECOND, SOON, slow::in_virtual_time};

/// A log that looks at the nodes whenever it is told something, and panics the first time that it is told of a
/// quarantine.
struct Curious {
    redlock: Arc<OnceLock<Redlock>>,
    looks: Arc<AtomicUsize>,
    panicked: AtomicBool,
}

impl<S: tracing::Subscriber> Layer<S> for Curious {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let Some(redlock) = self.redlock.get() else { return };
        drop(redlock.nodes());
        self.looks.fetch_add(1, Ordering::Relaxed);
        let quarantined = event.metadata().fields().field("quarantine").is_some();
        assert!(!quarantined || self.panicked.swap(true, Ordering::Relaxed), "a log that panics");
    }
}

#[test]
fn a_log_that_looks_at_the_nodes_and_panics_stops_no_admission() {
    let (done, ended) = mpsc::channel();
    // It would hang, not fail, if the log were told under a lock.
    let test = std::thread::spawn(move || {
        let (redlock, looks) = (Arc::<OnceLock<Redlock>>::default(), Arc::<AtomicUsize>::default());
        let panicked = AtomicBool::new(false);
        let log = Curious { redlock: Arc::clone(&redlock), looks: Arc::clone(&looks), panicked };
        let subscriber = tracing_subscriber::registry().with(log);
        every_thread_hears_for_itself();
        tracing::subscriber::with_default(subscriber, || {
            let (runtime, slow, ready) = in_virtual_time(3);
            redlock.set(ready.clone()).unwrap();
            slow[0].memory.restart();
            runtime.pass(10 * SECOND);
            assert!(looks.load(Ordering::Relaxed) > 1, "it has been told");
            assert!(ready.nodes().iter().all(|node| node.state == NodeState::Ready));
            runtime.shut_down();
        });
        let _ = done.send(());
    });
    assert_ne!(ended.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    test.join().unwrap();
}

/// The messages that a subscriber has been told.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Messages {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Message<'a>(&'a mut Vec<String>);
        impl tracing::field::Visit for Message<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0.push(format!("{value:?}"));
                }
            }
        }
        event.record(&mut Message(&mut self.0.lock().unwrap()));
    }
}

/// A majority forgets, as in a new deployment: one line for all, with how long it takes, and one when it is over. A
/// minority costs no service, so it is told by node.
#[test]
fn a_quarantine_that_stops_everybody_is_told_in_one_line_and_that_it_is_over_in_another() {
    for (forget, lines) in [(5, 1), (3, 1), (2, 0)] {
        let messages = Messages::default();
        let subscriber = tracing_subscriber::registry().with(messages.clone());
        every_thread_hears_for_itself();
        tracing::subscriber::with_default(subscriber, || {
            let (runtime, slow, redlock) = in_virtual_time(5);
            slow[..forget].iter().for_each(|node| node.memory.restart());
            runtime.pass(10 * SECOND);
            assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
            runtime.shut_down();
        });
        let messages = messages.0.lock().unwrap();
        let told = |text: &str| messages.iter().filter(|line| line.contains(text)).count();
        let all = format!("{forget} of 5 nodes are new or may have forgotten leases: nobody can");
        assert_eq!((told(&all), told("quarantine over")), (lines, lines), "{messages:#?}");
        let single = if lines == 0 { forget } else { 0 };
        assert_eq!(told("node may have forgotten leases"), single, "{messages:#?}");
    }
}
