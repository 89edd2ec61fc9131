//! Nodes that refuse are told at once by every command that asks them, with the status of settings that are wrong.

use quorlock_harness::{Cluster, Proxy};

use super::{admitted, code, on, quorlock, text};

/// Each but `doctor`, whose task it is to say what is wrong.
const COMMANDS: [(&str, &[&str]); 4] =
    [("holder", &["r"]), ("list", &[]), ("watch", &["r"]), ("release", &["--force", "--yes", "r"])];

#[track_caller]
fn each_is_refused(urls: &[String], says: &str) {
    for (command, args) in COMMANDS {
        let output = quorlock(command).args(args).args(on(urls)).output().unwrap();
        assert_eq!(code(&output), 78, "{command}: {output:?}");
        assert!(text(&output.stderr).contains(says), "{command}: {output:?}");
        assert!(output.stdout.is_empty(), "{command}: {output:?}");
    }
}

fn refuse(cluster: &Cluster, node: usize) {
    cluster[node].run(&["CONFIG", "SET", "requirepass", "sesame"]);
}

#[test]
fn a_majority_that_refuses_is_told_and_a_minority_is_not_felt() {
    let cluster = admitted(3);
    refuse(&cluster, 0);
    let free = quorlock("holder").arg("r").args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&free), 1, "{free:?}");
    refuse(&cluster, 1);
    each_is_refused(
        &cluster.urls(),
        "2 of 3 nodes cannot vote as configured; fix each as told here: ",
    );
}

#[test]
fn a_list_that_is_wrong_is_told_though_a_quorum_is_left() {
    let cluster = admitted(3);
    let again = Proxy::start(cluster[0].port());
    let mut urls = cluster.urls();
    urls[2] = format!("redis://127.0.0.1:{}#127.0.0.1:{}", again.port(), cluster[2].port());
    each_is_refused(&urls, "configure each server once");
}
