//! Findings from planted facts: each ill is found by its name and of its node, and a good fleet has none.

use std::{sync::Arc, time::Duration};

use super::{Finding, Ill, InspectedSettings, Inspection, NodeFacts, Severity};
use crate::{
    node::{
        ClockSample, LineState, MarkerFacts, NodeError, NodeState, NodeStatus, Refusal, ServerFacts,
    },
    protocol::{Belongs, Members, NodeId},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const EPOCH: u64 = 1_795_000_000_000_000;

/// Looks with this round trip, at a clock that is ahead by so many microseconds and gains so many millionths.
fn looks(trip: Duration, ahead: i64, ppm: i64) -> Vec<ClockSample> {
    let look = |number: u32| {
        let sent = 100 * MS * number;
        let read = i64::try_from((sent + trip / 2).as_micros()).unwrap();
        let node = EPOCH.checked_add_signed(read + read * ppm / 1_000_000 + ahead).unwrap();
        let wall = EPOCH + u64::try_from(sent.as_micros()).unwrap();
        ClockSample::new(sent, sent + trip, wall, Some(node))
    };
    (0..30).map(look).collect()
}

fn server(number: usize) -> ServerFacts {
    ServerFacts {
        version: Some("redis 7.0.15".into()),
        speaks: Some((7, 0)),
        run_id: Some(Arc::from(format!("run {number}"))),
        mode: Some("standalone".into()),
        role: Some("master".into()),
        replicas: Some(0),
        cluster: Some(false),
        max_memory: Some(0),
        eviction: Some("noeviction".into()),
        used_memory: Some(1_000_000),
        append_only: Some(false),
        append_fsync: Some("everysec".into()),
        save: Some("".into()),
        local: true,
        throwaway: Some(false),
        marker: Some(MarkerFacts {
            state: Some("ready".into()),
            max_ttl: Some(10 * SECOND),
            ..MarkerFacts::default()
        }),
        samples: looks(MS, 0, 0),
        ..ServerFacts::default()
    }
}

fn ours() -> Members {
    Members::new("test", ["n0"])
}

fn good(nodes: usize) -> Inspection {
    let node = |number: usize| {
        let mut status = NodeStatus::new(Arc::from(format!("n{number}")), NodeState::Ready);
        status.identity = Some(Arc::from(format!("run {number}")));
        status.line = LineState::On;
        NodeFacts { node: NodeId::new(number), status, server: Ok(server(number)) }
    };
    Inspection {
        nodes: (0..nodes).map(node).collect(),
        needed: nodes / 2 + 1,
        over: 3 * SECOND,
        members: ours(),
        settings: InspectedSettings {
            classic: false,
            node_timeout: 100 * MS,
            max_ttl: 10 * SECOND,
            drift_per_mille: 10,
            allow_eviction: false,
            skip_quarantine: false,
        },
    }
}

/// A good fleet of five but for one thing at node 2.
fn with(plant: impl FnOnce(&mut ServerFacts)) -> Vec<Finding> {
    let mut inspection = good(5);
    plant(inspection.nodes[2].server.as_mut().unwrap());
    inspection.findings()
}

#[track_caller]
fn only(found: &[Finding], ill: Ill, severity: Severity) -> String {
    let [one] = found else { panic!("not one: {found:#?}") };
    assert_eq!((one.ill, one.severity, one.node), (ill, severity, Some(NodeId::new(2))), "{one}");
    assert_eq!(one.address.as_deref(), Some("n2"));
    assert!(!one.cause.is_empty() && !one.remedy.is_empty());
    one.to_string()
}

#[test]
fn a_good_fleet_has_no_findings() {
    assert_eq!(good(5).findings(), []);
    assert_eq!(good(3).findings(), []);
    assert_eq!(good(1).findings(), []);
    let found = good(4).findings();
    assert!(matches!(&found[..], [one] if one.ill == Ill::EvenNumber), "{found:?}");
    let mut classic = good(5);
    classic.settings.classic = true;
    for node in &mut classic.nodes {
        let server = node.server.as_mut().unwrap();
        (server.append_only, server.append_fsync) = (Some(true), Some("always".into()));
        (server.throwaway, server.marker) = (None, None);
        node.status.line = LineState::Off { reason: "classic".into() };
    }
    assert_eq!(classic.findings(), []);
}

#[test]
fn each_kind_of_server_that_must_not_vote_is_named() {
    use Severity::{Error, Note, Warning};
    only(&with(|server| server.role = Some("slave".into())), Ill::Replica, Error);
    only(&with(|server| server.cluster = Some(true)), Ill::Cluster, Error);
    only(&with(|server| server.speaks = Some((5, 0))), Ill::TooOld, Error);
    only(&with(|server| server.run_id = Some("other".into())), Ill::DifferentServers, Error);
    only(&with(|server| server.replicas = Some(1)), Ill::HasReplicas, Warning);
    only(&with(|server| server.database = 3), Ill::DatabaseDiffers, Warning);
    only(&with(|server| server.throwaway = Some(true)), Ill::DangerKey, Warning);
    only(&with(|server| server.local = false), Ill::NotEncrypted, Note);
    let told = with(|server| server.marker.as_mut().unwrap().max_ttl = Some(60 * SECOND));
    only(&told, Ill::MaxTtlDiffers, Warning);
    let rights = with(|server| server.missing_rights = vec!["hset".into(), "time".into()]);
    assert!(only(&rights, Ill::MissingRight, Error).contains("+hset +time"));
}

/// Without a quorum the list may be the wrong one, and of a node that others use nothing else is told.
#[test]
fn a_node_of_others_is_a_warning_beside_a_quorum_and_an_error_without_one() {
    let others = Members::new("test", ["elsewhere"]);
    let mut inspection = good(5);
    let take = |inspection: &mut Inspection, node: usize| {
        let facts = &mut inspection.nodes[node];
        facts.status.state = NodeState::Refused(Refusal::OtherMembers {
            other: others.clone(),
            configured: ours(),
            age: Some(SECOND),
            belongs: Belongs::Record,
        });
        let marker = facts.server.as_mut().unwrap().marker.as_mut().unwrap();
        (marker.members, marker.max_ttl) = (Some(others.clone()), Some(60 * SECOND));
    };
    take(&mut inspection, 2);
    let text = only(&inspection.findings(), Ill::OtherMembers, Severity::Warning);
    assert!(text.contains("quorlock fleet claim"), "{text}");
    take(&mut inspection, 3);
    take(&mut inspection, 4);
    let found = inspection.findings();
    let of_others = found.iter().filter(|found| found.ill == Ill::OtherMembers);
    assert!(of_others.clone().all(|found| found.severity == Severity::Error), "{found:?}");
    assert_eq!((of_others.count(), found.len()), (3, 4), "{found:?}");
}

/// The same server stands twice among the facts of a good connection: the one that came later is named.
#[test]
fn the_same_server_twice_is_told_once() {
    let mut inspection = good(3);
    inspection.nodes[2].server.as_mut().unwrap().run_id = Some("run 0".into());
    let refusal = Refusal::SameServer { other: "n0".into() };
    inspection.nodes[2].status.state = NodeState::Refused(refusal);
    inspection.nodes[2].status.identity = None;
    let text = only(&inspection.findings(), Ill::SameServer, Severity::Error);
    assert!(text.contains("node 0 (n0)"), "{text}");
}

#[test]
fn memory_and_eviction_are_told_by_how_bad_they_are() {
    use Severity::{Error, Note, Warning};
    let evicts = |server: &mut ServerFacts| server.eviction = Some("allkeys-lru".into());
    only(&with(evicts), Ill::MayEvict, Note);
    let limited = |server: &mut ServerFacts| server.max_memory = Some(1_000_000_000);
    only(&with(|server| (evicts(server), limited(server)).0), Ill::MayEvict, Error);
    only(&with(|server| server.max_memory = Some(1_100_000)), Ill::MemoryFull, Warning);
    only(&with(|server| server.max_memory = Some(1_000_000)), Ill::MemoryFull, Error);
    let mut accepted = good(5);
    accepted.settings.allow_eviction = true;
    let server = accepted.nodes[2].server.as_mut().unwrap();
    evicts(server);
    limited(server);
    let found = accepted.findings();
    assert_eq!(found[0].ill, Ill::DangerSetting);
    only(&found[1..], Ill::MayEvict, Warning);
}

#[test]
fn in_classic_mode_a_node_must_keep_its_locks() {
    let classic = |append_only: bool, fsync: &str| {
        let mut inspection = good(5);
        inspection.settings.classic = true;
        for node in &mut inspection.nodes {
            let server = node.server.as_mut().unwrap();
            (server.append_only, server.append_fsync) = (Some(true), Some("always".into()));
        }
        let server = inspection.nodes[2].server.as_mut().unwrap();
        (server.append_only, server.append_fsync) = (Some(append_only), Some(fsync.into()));
        inspection.findings()
    };
    only(&classic(false, "always"), Ill::NotPersistent, Severity::Error);
    only(&classic(true, "everysec"), Ill::NotPersistent, Severity::Warning);
    let failed = with(|server| server.not_written = Some("its last snapshot failed".into()));
    only(&failed, Ill::NotWritten, Severity::Error);
}

#[test]
fn clocks_are_told_by_offset_and_by_rate() {
    use Severity::{Error, Warning};
    let clock = |ahead, ppm| with(|server| server.samples = looks(MS, ahead, ppm));
    only(&clock(5_000_000, 0), Ill::ClockOff, Warning);
    only(&clock(-90_000_000, 0), Ill::ClockOff, Error);
    assert!(clock(900_000, 0).is_empty());
    let text = only(&clock(0, 5_000), Ill::ClockDrifts, Warning);
    assert!(text.contains("gains"), "{text}");
    let text = only(&clock(0, -30_000), Ill::ClockDrifts, Error);
    assert!(text.contains("loses"), "{text}");
    let jumped = with(|server| {
        for sample in server.samples.iter_mut().skip(25) {
            sample.node_us = sample.node_us.map(|us| us + 800_000);
        }
    });
    let text = only(&jumped, Ill::ClockDrifts, Error);
    assert!(text.contains("jumped"), "{text}");
}

#[test]
fn a_clock_of_our_own_that_is_off_is_no_fault_of_the_nodes() {
    let mut inspection = good(5);
    for node in &mut inspection.nodes {
        node.server.as_mut().unwrap().samples = looks(MS, -7_000_000, 0);
    }
    let found = inspection.findings();
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((one.ill, one.node), (Ill::ClockOff, None));
    assert!(one.cause.contains("7.0") && one.cause.contains("ahead of"), "{one}");
    assert_eq!(one.severity, Severity::Warning);
    // Two that agree are enough.
    let mut two = good(3);
    for node in &mut two.nodes[..2] {
        node.server.as_mut().unwrap().samples = looks(MS, -7_000_000, 0);
    }
    let found = two.findings();
    assert_eq!((found[0].ill, found[0].node), (Ill::ClockOff, None), "{found:#?}");
    // One that differs from the others as well is told beside it.
    inspection.nodes[2].server.as_mut().unwrap().samples = looks(MS, 0, 0);
    let found = inspection.findings();
    only(&found[1..], Ill::ClockOff, Severity::Warning);
}

#[test]
fn one_clock_beside_ours_does_not_say_that_ours_is_wrong() {
    let mut inspection = good(1);
    inspection.nodes[0].server.as_mut().unwrap().samples = looks(MS, -7_000_000, 0);
    let found = inspection.findings();
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((one.ill, one.node), (Ill::ClockOff, Some(NodeId::new(0))), "{one}");
}

#[test]
fn a_slow_node_is_told_beside_the_others_or_the_timeout() {
    use Severity::{Error, Warning};
    let slow = |trip| with(|server| server.samples = looks(trip, 0, 0));
    assert!(slow(24 * MS).is_empty(), "too little to matter");
    only(&slow(40 * MS), Ill::Slow, Warning);
    only(&slow(150 * MS), Ill::Slow, Error);
    only(&with(|server| server.unanswered = 2), Ill::Slow, Error);
    // It is why the node has not been looked at yet, which is not told beside it.
    let mut unseen = good(5);
    unseen.nodes[2].status.state = NodeState::Connecting;
    only(&unseen.findings(), Ill::NotVoting, Warning);
    unseen.nodes[2].server.as_mut().unwrap().samples = looks(150 * MS, 0, 0);
    only(&unseen.findings(), Ill::Slow, Error);
    let mut all = good(3);
    for node in &mut all.nodes {
        node.server.as_mut().unwrap().samples = looks(60 * MS, 0, 0);
    }
    let found = all.findings();
    assert!(found.len() == 3 && found.iter().all(|one| one.ill == Ill::Slow), "{found:#?}");
}

/// What a merely busy machine shows: this process is woken late, so that it reads each reply late, of one node more often than of
/// the others by chance; or only some looks at one node have met something else.
#[test]
fn a_busy_machine_makes_no_node_slow() {
    let every = |trips: [u64; 4], late: u64| {
        let mut samples = looks(MS, 0, 0);
        for (sample, trip) in samples.iter_mut().zip(trips.iter().cycle()) {
            sample.arrived = sample.sent + u32::try_from(*trip).unwrap() * MS;
            sample.woken_late = u32::try_from(late).unwrap() * MS;
        }
        samples
    };
    let busy = |trips: [u64; 4], late: u64| {
        let mut inspection = good(5);
        for node in &mut inspection.nodes {
            node.server.as_mut().unwrap().samples = every([1, 1, 2, late.max(1)], late);
        }
        inspection.nodes[2].server.as_mut().unwrap().samples = every(trips, late);
        (inspection.woken_late(), inspection.findings())
    };
    assert_eq!(busy([30, 40, 60, 70], 35), (35 * MS, Vec::new()), "beside the others");
    assert_eq!(busy([70, 80, 120, 120], 50).1, [], "beside node_timeout");
    assert_eq!(busy([1, 30, 40, 40], 0), (Duration::ZERO, Vec::new()), "three looks of four");
    // What is beyond that is the node's, also then.
    only(&busy([80, 90, 90, 95], 25).1, Ill::Slow, Severity::Warning);
    only(&busy([160, 180, 200, 300], 35).1, Ill::Slow, Severity::Error);
}

#[test]
fn a_node_that_does_not_vote_is_told_once_with_its_reason() {
    use Severity::{Error, Note, Warning};
    let state = |state: NodeState, server: Option<NodeError>| {
        let mut inspection = good(5);
        let node = &mut inspection.nodes[2];
        node.status.state = state;
        if let Some(error) = server {
            node.server = Err(error);
        }
        inspection.findings()
    };
    let down = || NodeState::Down { reason: "refused".into() };
    let unreachable = NodeError::NotConnected { reason: "refused".into() };
    only(&state(down(), Some(unreachable)), Ill::NotReached, Error);
    only(&state(down(), None), Ill::NotVoting, Error);
    only(&state(NodeState::Quarantined { remaining: 9 * SECOND }, None), Ill::Quarantined, Warning);
    let held_back = state(NodeState::Quarantined { remaining: Duration::ZERO }, None);
    assert!(only(&held_back, Ill::Quarantined, Warning).contains("held back"));
    let wrong = || Refusal::WrongCredentials { message: "invalid".into() };
    let refused = state(NodeState::Refused(wrong()), Some(NodeError::Refused(wrong())));
    only(&refused, Ill::WrongCredentials, Error);
    only(&state(NodeState::Refused(Refusal::NotThrowaway), None), Ill::Refused, Error);
    let mut no_line = good(5);
    no_line.nodes[2].status.line = LineState::Off { reason: "`zadd`".into() };
    only(&no_line.findings(), Ill::NoLine, Note);
}

#[test]
fn a_node_that_went_away_meanwhile_does_not_answer() {
    let lost = |state: NodeState| {
        let mut inspection = good(5);
        inspection.nodes[2].status.state = state;
        inspection.nodes[2].server.as_mut().unwrap().lost = Some("cut off".into());
        inspection.findings()
    };
    let text =
        only(&lost(NodeState::Down { reason: "x".into() }), Ill::NotReached, Severity::Error);
    assert!(text.contains("cut off"), "{text}");
    only(&lost(NodeState::Connecting), Ill::NotReached, Severity::Error);
    only(&lost(NodeState::Ready), Ill::NotReached, Severity::Warning);
    let waits = lost(NodeState::Quarantined { remaining: SECOND });
    only(&waits, Ill::Quarantined, Severity::Warning);
}

#[test]
fn too_few_votes_stand_first() {
    let mut inspection = good(3);
    for node in inspection.nodes.iter_mut().take(2) {
        node.status.state = NodeState::Quarantined { remaining: SECOND };
    }
    let found = inspection.findings();
    let ills: Vec<Ill> = found.iter().map(|one| one.ill).collect();
    assert_eq!(ills, [Ill::NoQuorum, Ill::Quarantined, Ill::Quarantined]);
    assert_eq!((found[0].severity, found[0].node), (Severity::Error, None));
    assert!(found[0].remedy.contains("wait"), "{}", found[0]);
    assert!(Severity::Note < Severity::Warning && Severity::Warning < Severity::Error);
}
