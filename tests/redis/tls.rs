//! Goal: `rediss://` works with a private authority and with client certificates, and says what is
//! wrong when it does not.
//!
//! Method: real servers with the certificates of an authority that lives as long as the test.

use quorlock::{
    Builder, ConnectError, Redlock,
    node::{NodeState, Refusal},
};
use quorlock_harness::{Cluster, Server, TestCa};

use super::{MS, SECOND, SOON, chain, connected, no_key_within, patient};

fn encrypted(cluster: &Cluster) -> Builder {
    patient().nodes(cluster.iter().map(Server::tls_url))
}

/// The text of a connect that must fail because of TLS, on every node.
fn refused(builder: Builder) -> String {
    let error = builder.connect_timeout(3 * SECOND).blocking_connect().unwrap_err();
    let ConnectError::Refused { nodes } = &error else { panic!("{error:?}") };
    for (_, state) in nodes.iter() {
        assert!(matches!(state, NodeState::Refused(Refusal::Tls { .. })), "{error:?}");
    }
    let text = chain(&error);
    println!("{text}");
    text
}

fn lock_and_release(redlock: &Redlock, cluster: &Cluster) {
    let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    assert!(redlock.try_acquire("r").blocking().unwrap_err().is_contended());
    lease.blocking_release().unwrap();
    no_key_within(cluster, SOON);
}

#[test]
fn a_private_authority_is_trusted_once_it_is_given() {
    let ca = TestCa::new();
    let cluster = Cluster::start_with(3, |_, builder| builder.tls(&ca));
    let redlock = connected(encrypted(&cluster).tls_ca(ca.ca_pem()));
    lock_and_release(&redlock, &cluster);

    // By name as well as by address: the certificate names both.
    let named = cluster.iter().map(|server| {
        format!("rediss://localhost:{}#127.0.0.1:{}", server.tls_port(), server.tls_port())
    });
    let redlock = connected(patient().nodes(named).tls_ca(ca.ca_pem()));
    lock_and_release(&redlock, &cluster);
}

#[test]
fn a_scheme_in_capitals_or_behind_a_space_is_encrypted_too() {
    let ca = TestCa::new();
    let cluster = Cluster::start_with(3, |_, builder| builder.tls(&ca));
    let capitals = |server: &Server| server.tls_url().replacen("rediss", "REDISS", 1);
    let valkeys = |server: &Server| server.tls_url().replacen("rediss", " Valkeys", 1);
    for urls in [cluster.iter().map(capitals).collect(), cluster.iter().map(valkeys).collect()] {
        let urls: Vec<String> = urls;
        let redlock = connected(patient().nodes(urls).tls_ca(ca.ca_pem()));
        lock_and_release(&redlock, &cluster);
    }
}

#[test]
fn an_unknown_authority_is_refused_and_named() {
    let ca = TestCa::new();
    let cluster = Cluster::start_with(3, |_, builder| builder.tls(&ca));
    let system_roots = refused(encrypted(&cluster));
    assert!(system_roots.contains("certificate"), "{system_roots}");
    let wrong_roots = refused(encrypted(&cluster).tls_ca(TestCa::new().ca_pem()));
    assert!(wrong_roots.contains("certificate"), "{wrong_roots}");
    assert_eq!(cluster.locks_left(), []);
}

#[test]
fn a_client_certificate_is_sent_where_one_is_required() {
    let ca = TestCa::new();
    let cluster =
        Cluster::start_with(3, |_, builder| builder.tls(&ca).arg("tls-auth-clients", "yes"));
    let trusting = || encrypted(&cluster).tls_ca(ca.ca_pem());
    let identified = trusting().tls_identity(ca.client_cert_pem(), ca.client_key_pem());
    lock_and_release(&connected(identified), &cluster);

    let anonymous = refused(trusting());
    assert!(anonymous.to_lowercase().contains("certificate"), "{anonymous}");
    let stranger = TestCa::new();
    let strange = trusting().tls_identity(stranger.client_cert_pem(), stranger.client_key_pem());
    refused(strange.node_timeout(100 * MS));
}

#[test]
fn a_port_without_tls_is_named() {
    let ca = TestCa::new();
    let cluster = Cluster::start(3);
    let urls = cluster.iter().map(|server| server.url().replacen("redis", "rediss", 1));
    let builder = patient().nodes(urls).tls_ca(ca.ca_pem()).connect_timeout(SECOND);
    let text = chain(&builder.blocking_connect().unwrap_err());
    assert!(text.contains("as of a port without TLS: write redis://"), "{text}");
}

#[test]
fn certificates_that_are_none_are_refused_before_connecting() {
    let ca = TestCa::new();
    let nodes = || Redlock::builder().node("rediss://127.0.0.1:1");
    let builders = [
        ("key", nodes().tls_identity(ca.client_cert_pem(), "not a key")),
        ("certificate", nodes().tls_identity("not a certificate", ca.client_key_pem())),
        ("authority", nodes().tls_ca("not a certificate")),
    ];
    let mut accepted = Vec::new();
    for (what, builder) in builders {
        match builder.build() {
            Ok(_) => accepted.push(what),
            Err(error) => assert!(chain(&error).contains("pass PEM"), "{}", chain(&error)),
        }
    }
    assert_eq!(accepted, Vec::<&str>::new(), "what is no PEM must not be accepted");
}
