//! Goal: after a connection that lasted, the pauses between attempts to connect begin small again, and no two clients
//! of a fleet draw the same ones.
//!
//! Method: a real server that is killed and started again, and a clock that advances only by sleeps: whatever the
//! machine does, the pauses are those that were asked for.

use std::future::pending;

use quorlock_harness::Server;

use super::*;
use crate::{
    lock::Lock,
    node::{
        Fleet, NodeSettings,
        redis::{Address, RedisNode, TlsSettings},
    },
    protocol::{ClientId, Members, NodeId, Timestamp},
    runtime::{Runtime, Task},
};

/// A sleep of this length never ends: it is a limit.
const LIMIT: Duration = Duration::from_secs(3600);

/// A clock that advances by sleeps alone, and draws that are always the same.
#[derive(Debug, Default)]
struct Sleeps {
    passed: Lock<Duration>,
    slept: Lock<Vec<Duration>>,
    byte: u8,
}

impl Sleeps {
    fn pass(&self, time: Duration) {
        *self.passed.lock() += time;
    }
}

impl Runtime for Sleeps {
    fn now(&self) -> Timestamp {
        Timestamp::from_origin(*self.passed.lock())
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let time = at.saturating_since(self.now());
        if time >= LIMIT {
            return Box::pin(pending());
        }
        self.slept.lock().push(time);
        self.pass(time);
        Box::pin(tokio::task::yield_now())
    }

    fn spawn(&self, _: Task) {}

    fn random(&self) -> [u8; 16] {
        [self.byte; 16]
    }
}

fn context(runtime: &Arc<Sleeps>, fleet: &Arc<Fleet>) -> NodeContext {
    let settings = NodeSettings {
        connect_timeout: LIMIT,
        node_timeout: LIMIT,
        allow_eviction: false,
        skips_quarantine: false,
        classic: false,
        counter_retention: LIMIT,
        members: Members::new("supervised", ["a"]),
        key_prefix: Vec::new(),
        client: ClientId::new([7; 8]),
    };
    let runtime = Arc::clone(runtime) as Arc<dyn Runtime>;
    NodeContext::new(NodeId::new(0), runtime, Arc::clone(fleet), Arc::new(settings))
}

/// A node that is supervised while the test blocks on its executor.
struct Supervised {
    server: Server,
    runtime: Arc<Sleeps>,
    node: RedisNode,
    executor: tokio::runtime::Runtime,
    _fleet: Arc<Fleet>,
}

impl Supervised {
    fn start() -> Self {
        let server = Server::start();
        let address = Address::parse(&server.url(), &TlsSettings::default()).unwrap();
        let node = RedisNode::new(address);
        let (runtime, fleet) = (Arc::new(Sleeps::default()), Arc::new(Fleet::default()));
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (supervised, context) = (Arc::clone(&node.shared), context(&runtime, &fleet));
        executor.spawn(async move { supervise(&supervised, &context).await });
        Self { server, runtime, node, executor, _fleet: fleet }
    }

    fn until(&self, is_so: impl Fn(&Self) -> bool) {
        self.executor.block_on(async {
            while !is_so(self) {
                tokio::task::yield_now().await;
            }
        });
    }

    fn connects(&self) {
        self.until(|it| it.node.shared.view().session.is_some());
    }

    /// The server ends all connections. Returns the pause after that.
    fn loses_the_connection(&self) -> Duration {
        self.runtime.slept.lock().clear();
        self.server.kill_clients();
        self.until(|it| !it.runtime.slept.lock().is_empty());
        self.runtime.slept.lock()[0]
    }
}

#[test]
fn behind_a_connection_that_lasted_the_next_attempt_follows_at_once_however_long_the_pauses_were() {
    let supervised = Supervised::start();
    supervised.connects();
    supervised.server.kill();
    supervised.until(|it| it.runtime.slept.lock().last() == Some(&(LONGEST_PAUSE / 2)));
    supervised.server.restart();
    supervised.connects();
    supervised.runtime.pass(GOOD_FOR);
    assert_eq!(supervised.loses_the_connection(), Duration::ZERO);
    // A connection that ends at once does not count: else a server in trouble would be asked without a pause.
    supervised.connects();
    let pauses = [(); 3].map(|()| {
        supervised.runtime.pass(GOOD_FOR - FIRST_PAUSE * 4);
        let pause = supervised.loses_the_connection();
        supervised.connects();
        pause
    });
    assert_eq!(pauses, [1, 2, 4].map(|times| times * FIRST_PAUSE / 2), "they grow");
}

#[test]
fn a_pause_is_drawn_from_half_of_it_to_one_and_a_half_of_it() {
    let fleet = Arc::new(Fleet::default());
    let drawn = |byte| {
        let runtime = Arc::new(Sleeps { byte, ..Sleeps::default() });
        jittered(LONGEST_PAUSE, &context(&runtime, &fleet))
    };
    assert_eq!((drawn(0), drawn(u8::MAX)), (LONGEST_PAUSE / 2, LONGEST_PAUSE * 3 / 2));
    assert!((0..u8::MAX).all(|byte| drawn(byte) < drawn(byte + 1)), "each draw gives another one");
}
