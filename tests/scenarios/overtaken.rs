//! Goal: a lost round leaves no key behind, also on a node that does not know the acquire script yet.
//!
//! Method: a server that has restarted, or whose scripts were flushed, knows the script of the release, which every
//! connection brings along, and not that of the acquire. The acquire is then sent twice, by its digest and in full,
//! and the release of a round that was lost meanwhile must not come between the two. The same for the restore of a held
//! lease on a node that lost the key, and a release that follows while it is under way.

use quorlock::Redlock;
use quorlock_harness::{Cluster, Proxy, eventually};

use super::{MS, SECOND, SOON, admitted, all_ready, has_key, ready, texts::RELEASE};

/// Loses a round while the third node, which is slow, is being asked, after `forget`.
fn a_lost_round_leaves_no_key(forget: impl FnOnce(&Cluster)) {
    let ttl = 20 * SECOND;
    let cluster = admitted(3, ttl);
    let slow = Proxy::start(cluster[2].port());
    let nodes = [cluster[0].url(), cluster[1].url(), slow.url()];
    let builder = Redlock::builder().nodes(nodes).node_timeout(SECOND).max_ttl(ttl);
    let redlock = ready(builder.danger_skip_quarantine());
    let identity = redlock.nodes()[2].identity.clone();
    // Another holds a majority, so that the round is lost at their answers.
    (0..2).for_each(|node| cluster[node].set("r", "somebody else", None));
    forget(&cluster);
    let info = cluster[2].run(&["INFO", "server"]);
    let info: String = redis::from_redis_value(info).unwrap();
    let restarted = identity.as_deref().is_none_or(|run_id| !info.contains(run_id));
    eventually("a restart has been noticed", SOON, || {
        !restarted || redlock.nodes()[2].identity != identity
    });
    all_ready(&redlock);
    slow.delay(50 * MS);
    assert!(redlock.try_acquire("r").ttl(ttl).blocking().unwrap_err().is_contended());
    // Nothing is under way any more when it has closed.
    redlock.blocking_close().unwrap();
    // Well before it would expire.
    eventually("no key is left behind", 5 * SECOND, || cluster[2].get("r").is_none());
}

#[test]
fn a_lost_round_leaves_no_key_on_a_node_that_has_restarted() {
    a_lost_round_leaves_no_key(|cluster| cluster[2].restart_empty());
}

#[test]
fn a_lost_round_leaves_no_key_on_a_node_whose_scripts_were_flushed() {
    a_lost_round_leaves_no_key(|cluster| {
        cluster[2].run(&["SCRIPT", "FLUSH"]);
        cluster[2].run(&["SCRIPT", "LOAD", RELEASE]);
    });
}

/// Releases a lease while it is being restored on the third node, which is slow, after `forget`. Returns how many
/// scripts that node was sent in full from then on.
fn a_release_during_a_restore_leaves_no_key(forget: impl FnOnce(&Cluster)) -> u64 {
    let ttl = 20 * SECOND;
    let cluster = admitted(3, ttl);
    let slow = Proxy::start(cluster[2].port());
    let nodes = [cluster[0].url(), cluster[1].url(), slow.url()];
    let builder = Redlock::builder().nodes(nodes).node_timeout(SECOND).max_ttl(ttl);
    // The restore may be on the way for longer than a node timeout, and closing waits for that.
    let redlock = ready(builder.close_timeout(10 * SECOND).danger_skip_quarantine());
    let lease = redlock.acquire("r").ttl(ttl).without_renewal().blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    forget(&cluster);
    assert!(cluster[2].del("r"));
    slow.delay(100 * MS);
    let scripts = || cluster[2].command_calls("evalsha");
    let (before, in_full) = (scripts(), cluster[2].command_calls("eval"));
    futures::executor::block_on(lease.extend()).unwrap();
    // The extension is the first, and the restore the second. Its answer is a tenth of a second away.
    eventually("the restore has arrived", SOON, || scripts() >= before + 2);
    lease.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
    eventually("no key is left behind", 5 * SECOND, || cluster[2].get("r").is_none());
    cluster[2].command_calls("eval") - in_full
}

#[test]
fn a_release_during_a_restore_leaves_no_key_on_a_node_that_knows_the_script() {
    assert_eq!(
        a_release_during_a_restore_leaves_no_key(|_| ()),
        0,
        "it has known all scripts from the start"
    );
}

#[test]
fn a_release_during_a_restore_leaves_no_key_on_a_node_whose_scripts_were_flushed() {
    let in_full = a_release_during_a_restore_leaves_no_key(|cluster| {
        cluster[2].run(&["SCRIPT", "FLUSH"]);
        cluster[2].run(&["SCRIPT", "LOAD", RELEASE]);
    });
    assert_eq!(in_full, 2, "the extension and the restore");
}
