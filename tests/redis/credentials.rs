//! Goal: credentials that change are asked for at every connect, and a callback that fails is one node's failure.
//!
//! Method: the passwords of real servers are changed by `ACL SETUSER`, and their connections are killed. What stands in
//! the URLs is wrong, so that it shows where it is used.

use std::{
    convert::Infallible,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use quorlock::{
    Builder, Credentials,
    node::{NodeState, Refusal},
};
use quorlock_harness::{Cluster, Server, all_ready, connected, eventually};

use super::{SECOND, SOON, patient, undisturbed};

/// Servers that ask everybody for a password.
fn closed(n: usize) -> Cluster {
    Cluster::start_with(n, |_, builder| builder.password("closed"))
}

/// Gives the user `app` of the server this password instead of the one before.
fn set_password(server: &Server, password: &str) {
    let password = format!(">{password}");
    server.run(&["ACL", "SETUSER", "app", "on", "resetpass", &password, "~*", "&*", "+@all"]);
}

/// A wrong password, a wrong user and none.
fn urls(cluster: &Cluster) -> Vec<String> {
    let url = |(index, server): (usize, &Server)| {
        let credentials = ["app:stale@", ":stale@", ""][index % 3];
        format!("redis://{credentials}127.0.0.1:{}", server.port())
    };
    cluster.iter().enumerate().map(url).collect()
}

/// The user `app`, with whatever password stands there by then.
fn following(builder: Builder, password: &Arc<RwLock<&'static str>>) -> Builder {
    let password = Arc::clone(password);
    builder.credentials(move |_| {
        let password = *password.read().unwrap();
        async move { Ok::<_, Infallible>(Credentials::new("app", password)) }
    })
}

#[test]
fn a_password_that_has_changed_is_asked_for_when_a_connection_has_ended() {
    let cluster = closed(3);
    cluster.iter().for_each(|server| set_password(server, "sesame1"));
    let password = Arc::new(RwLock::new("sesame1"));
    let builder = following(patient().nodes(urls(&cluster)), &password);
    let mut shown = format!("{builder:?}");
    let redlock = connected(builder);
    let lease = redlock.try_acquire("held").ttl(60 * SECOND).blocking().unwrap();

    // Connections that are authenticated stay so.
    cluster.iter().for_each(|server| set_password(server, "sesame2"));
    undisturbed(&redlock, 2 * SECOND);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));

    // A new one with the old password is refused, and the other nodes do not mind.
    cluster[0].run(&["CLIENT", "KILL", "USER", "app"]);
    eventually("the old password is refused", SOON, || {
        matches!(redlock.nodes()[0].state, NodeState::Refused(Refusal::WrongCredentials { .. }))
    });
    shown += &format!("{:?}", redlock.nodes());
    undisturbed(&redlock, 2 * SECOND);

    // With the new one it begins again, by itself, and so do all others when theirs are killed.
    *password.write().unwrap() = "sesame2";
    all_ready(&redlock);
    for server in cluster.iter() {
        server.run(&["CLIENT", "KILL", "USER", "app"]);
    }
    eventually("all have authenticated as the user again", SOON, || {
        cluster
            .iter()
            .all(|server| format!("{:?}", server.run(&["CLIENT", "LIST"])).contains("user=app"))
    });
    all_ready(&redlock);
    undisturbed(&redlock, 2 * SECOND);
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    shown += &format!("{redlock:?} {:?}", redlock.nodes());
    assert!(!shown.contains("sesame") && !shown.contains("stale"), "{shown}");
}

#[test]
fn a_callback_that_fails_panics_or_hangs_is_the_failure_of_its_node() {
    let cluster = closed(9);
    cluster.iter().for_each(|server| set_password(server, "sesame"));
    let ports: Vec<String> = cluster.iter().map(|server| server.port().to_string()).collect();
    let mended = Arc::new(AtomicBool::new(false));
    let hung = Arc::new(AtomicU32::new(0));
    let (well, count) = (Arc::clone(&mended), Arc::clone(&hung));
    let builder =
        patient().connect_timeout(SECOND).nodes(urls(&cluster)).credentials(move |address| {
            let place = ports.iter().position(|port| address.ends_with(port)).unwrap();
            assert!(well.load(Ordering::SeqCst) || place != 0, "panicked at once");
            let (well, count) = (well.load(Ordering::SeqCst), Arc::clone(&count));
            async move {
                match place {
                    1 if !well => Err(std::io::Error::other("the vault is sealed")),
                    2 if !well => panic!("panicked later"),
                    3 if !well => {
                        count.fetch_add(1, Ordering::SeqCst);
                        std::future::pending().await
                    }
                    _ => Ok(Credentials::new("app", "sesame")),
                }
            }
        });
    // Five of nine are a quorum.
    let redlock = builder.build().unwrap();
    eventually("five are ready and the others say why not", SOON, || {
        let nodes = redlock.nodes();
        let down = |place: usize, text: &str| matches!(&nodes[place].state, NodeState::Down { reason } if reason.contains(text));
        down(0, "panicked at once")
            && down(1, "no credentials were given, error=`the vault is sealed`")
            && down(2, "panicked later")
            && down(3, "no credentials were given within the connect timeout")
            && nodes[4..].iter().all(|node| node.state == NodeState::Ready)
    });
    assert!(hung.load(Ordering::SeqCst) > 0);
    undisturbed(&redlock, 2 * SECOND);
    mended.store(true, Ordering::SeqCst);
    all_ready(&redlock);
    undisturbed(&redlock, 2 * SECOND);
}

/// The certificates of the connection are kept where its credentials change.
#[cfg(feature = "tls-rustls-ring")]
#[test]
fn credentials_are_given_to_encrypted_connections_too() {
    let ca = quorlock_harness::TestCa::new();
    let cluster = Cluster::start_with(3, |_, builder| builder.tls(&ca).password("closed"));
    let urls = cluster.iter().map(|server| format!("rediss://127.0.0.1:{}", server.tls_port()));
    let builder = patient().nodes(urls).tls_ca(ca.ca_pem());
    let redlock = connected(
        builder.credentials(async |_| Ok::<_, Infallible>(Credentials::password("closed"))),
    );
    undisturbed(&redlock, 2 * SECOND);
}
