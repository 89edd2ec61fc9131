//! Goal: a late grant is released all the same, and no panic costs a node for good.
//!
//! Method: real servers; a proxy that breaks a connection and delivers what was sent on it later; a runtime that panics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quorlock::{
    Redlock,
    node::NodeState,
    runtime::{Runtime, TokioRuntime},
};
use quorlock_harness::{Alter, Altered};

use super::{MS, SECOND, SOON, admitted, ready, settings};

/// Forwards to a server; once armed, a chunk that names `needle` is delivered this much later, and its client is cut off at
/// once.
mod interposer {
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        sync::{Arc, Mutex},
        thread,
        time::Duration,
    };

    /// What a chunk has to name, and how much later it is delivered then.
    type Armed = (Vec<u8>, Duration);

    pub(super) struct Interposer {
        pub(super) port: u16,
        armed: Arc<Mutex<Option<Armed>>>,
    }

    impl Interposer {
        pub(super) fn start(target: u16) -> Self {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let armed: Arc<Mutex<Option<Armed>>> = Arc::default();
            let seen = Arc::clone(&armed);
            thread::spawn(move || {
                for client in listener.incoming() {
                    let client = client.unwrap();
                    let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                    for socket in [&client, &server] {
                        socket.set_nodelay(true).unwrap();
                    }
                    let (mut from, mut to) =
                        (server.try_clone().unwrap(), client.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                    let seen = Arc::clone(&seen);
                    let (mut from, mut to) = (client, server);
                    thread::spawn(move || {
                        let mut chunk = vec![0; 1 << 16];
                        while let Ok(length @ 1..) = from.read(&mut chunk) {
                            let chunk = &chunk[..length];
                            let held = {
                                let mut armed = seen.lock().unwrap();
                                let hit = armed.as_ref().is_some_and(|(needle, _)| {
                                    chunk.windows(needle.len()).any(|window| window == needle)
                                });
                                if hit { armed.take() } else { None }
                            };
                            if let Some((_, time)) = held {
                                from.shutdown(Shutdown::Both).unwrap();
                                thread::sleep(time);
                                let _ = to.write_all(chunk);
                                thread::sleep(Duration::from_secs(1));
                                return;
                            }
                            if to.write_all(chunk).is_err() {
                                return;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            });
            Self { port, armed }
        }

        pub(super) fn arm(&self, needle: &[u8], time: Duration) {
            *self.armed.lock().unwrap() = Some((needle.to_owned(), time));
        }
    }
}

#[test]
fn an_acquire_that_arrives_as_late_as_it_may_is_released() {
    const NODE_TIMEOUT: Duration = Duration::from_millis(400);
    let ttl = 20 * SECOND;
    let cluster = admitted(3, ttl);
    let proxy = interposer::Interposer::start(cluster[2].port());
    let nodes = [
        cluster[0].url(),
        cluster[1].url(),
        format!("redis://127.0.0.1:{}#127.0.0.1:{}", proxy.port, cluster[2].port()),
    ];
    let redlock = ready(
        Redlock::builder()
            .nodes(nodes)
            .node_timeout(NODE_TIMEOUT)
            .max_ttl(ttl)
            .connect_timeout(10 * SECOND),
    );
    let mut left = Vec::new();
    for beyond in [0u32, 30, 50, 70, 90, 150, 400] {
        super::all_ready(&redlock);
        let name = format!("late:{beyond}");
        (0..2).for_each(|node| cluster[node].set(&name, "somebody else", None));
        proxy.arm(name.as_bytes(), NODE_TIMEOUT + beyond * MS);
        let error = redlock.try_acquire(&name).ttl(ttl).blocking().unwrap_err();
        std::thread::sleep(3 * SECOND);
        let stands = cluster[2].get(&name).is_some();
        println!("{beyond} ms beyond the node timeout: stands {stands}; {error}");
        if stands {
            left.push(beyond);
        }
    }
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A user's runtime whose random numbers fail now and then.
#[derive(Debug)]
struct Unlucky {
    inner: TokioRuntime,
    armed: AtomicBool,
}

impl Alter for Unlucky {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn random(&self) -> [u8; 16] {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "no random numbers");
        self.inner.random()
    }
}

#[test]
fn a_runtime_that_panics_once_costs_no_node_for_good() {
    let cluster = admitted(3, SECOND);
    let inner = TokioRuntime::shared().unwrap();
    let runtime = Arc::new(Altered(Unlucky { inner, armed: AtomicBool::new(false) }));
    let redlock = ready(settings(&cluster, SECOND).runtime(Arc::clone(&runtime)));
    runtime.armed.store(true, Ordering::SeqCst);
    // Its connection ends, and the pause before the next attempt is drawn.
    cluster[0].run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    super::eventually("it has panicked", SOON, || !runtime.armed.load(Ordering::SeqCst));
    super::eventually("it is ready again", SOON, || redlock.nodes()[0].state == NodeState::Ready);
}
