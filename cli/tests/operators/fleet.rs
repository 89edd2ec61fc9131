//! `fleet` shows whose the nodes are, takes them from a list that is gone, and lowers a longest ttl that is unused.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use quorlock::{
    Builder, Redlock,
    node::{NodeState, Refusal},
};
use quorlock_harness::{Cluster, admit, connected, eventually};
use serde_json::{Value, json};

use super::{SECOND, SOON, code, on, patient, quorlock, text};

/// Quarantines are short with these.
const SHORT: [&str; 4] = ["--set", "ttl=1s", "--set", "max_ttl=1s"];

fn short(urls: &[String]) -> Builder {
    patient().nodes(urls).ttl(SECOND).max_ttl(SECOND)
}

/// Nodes of the cluster, in this order.
fn of(cluster: &Cluster, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|node| cluster[*node].url()).collect()
}

fn fleet(command: &str, urls: &[String], more: &[&str]) -> Output {
    quorlock(&format!("fleet {command}")).args(more).args(on(urls)).output().unwrap()
}

#[track_caller]
fn show(urls: &[String]) -> (i32, Value) {
    let output = fleet("show", urls, &["--json"]);
    let said = serde_json::from_str(&text(&output.stdout));
    (code(&output), said.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

fn name(cluster: &Cluster, node: usize) -> String {
    format!("127.0.0.1:{}", cluster[node].port())
}

fn field(cluster: &Cluster, node: usize, field: &str) -> String {
    match cluster[node].run(&["HGET", "quorlock:node", field]) {
        redis::Value::BulkString(bytes) => text(&bytes),
        _ => String::new(),
    }
}

#[test]
fn show_says_whose_each_node_is_and_leaves_new_ones_to_others() {
    let cluster = Cluster::start(5);
    let (left, right) = (of(&cluster, &[0, 1, 2]), of(&cluster, &[2, 3, 4]));
    for urls in [&left, &right] {
        let (status, said) = show(urls);
        assert_eq!((status, &said["verdict"]), (1, &json!("nobodys")), "{said:#}");
        assert_eq!(said["nodes"][0]["meant"], Value::Null, "{said:#}");
    }
    assert_eq!(field(&cluster, 2, "meant"), "");
    // A process with one of both lists means to use them.
    let waits = short(&left).build().unwrap();
    eventually("it means to", SOON, || {
        (0..3).all(|node| !field(&cluster, node, "meant").is_empty())
    });
    let (status, said) = show(&left);
    assert_eq!((status, &said["nodes"][0]["meant_fleet"]), (1, &json!("default")), "{said:#}");
    let (status, said) = show(&right);
    assert_eq!((status, &said["verdict"]), (2, &json!("differs")), "{said:#}");
    assert_eq!(said["nodes"][0]["state"], "refused", "{said:#}");
    drop(waits);
    admit(short(&left));
    let (status, said) = show(&left);
    println!("{said:#}");
    assert_eq!((status, &said["verdict"]), (0, &json!("agrees")), "{said:#}");
    let mut names: Vec<String> = (0..3).map(|node| name(&cluster, node)).collect();
    names.sort();
    assert_eq!((&said["members"], &said["nodes"][1]["members"]), (&json!(names), &json!(names)));
    assert_eq!(said["nodes"][1]["max_ttl"], 1.0, "this command tells no longer one: {said:#}");
    assert!(said["nodes"][1]["since"].as_f64().is_some_and(|since| since > 1e9), "{said:#}");
    let people = fleet("show", &left, &[]);
    let people = text(&people.stdout);
    println!("{people}");
    assert!(people.contains("a quorum of the nodes belongs to this list"), "{people}");
    let (status, said) = show(&right);
    assert_eq!((status, &said["verdict"]), (2, &json!("differs")), "{said:#}");
    cluster[0].kill();
    cluster[1].kill();
    let (status, said) = show(&left);
    assert_eq!((status, &said["verdict"]), (69, &json!("too-few")), "{said:#}");
}

#[test]
fn claim_takes_nodes_of_those_who_are_gone_and_nothing_without_a_yes() {
    let cluster = Cluster::start(4);
    let (before, after) = (of(&cluster, &[0, 1, 2]), of(&cluster, &[1, 2, 3]));
    admit(short(&before));
    let token = {
        let redlock = connected(short(&before));
        let lease = redlock.acquire("r").blocking().unwrap();
        let token = lease.token().unwrap();
        lease.blocking_release().unwrap();
        token
    };
    let nothing = fleet("claim", &before, &[&["--yes"][..], &SHORT].concat());
    assert_eq!(code(&nothing), 1, "{nothing:?}");
    let members = field(&cluster, 1, "members");
    let asked = fleet("claim", &after, &SHORT);
    assert_eq!(code(&asked), 64, "{asked:?}");
    assert!(text(&asked.stderr).contains("--yes"), "{asked:?}");
    assert_eq!(field(&cluster, 1, "members"), members);
    let claimed = fleet("claim", &after, &[&["--yes"][..], &SHORT].concat());
    let said = text(&claimed.stdout);
    println!("{said}");
    assert_eq!(code(&claimed), 0, "{claimed:?}");
    assert!(said.contains("2 nodes taken") && said.contains("belongs to nobody yet"), "{said}");
    let used = said.lines().find(|line| line.starts_with("used as default (")).unwrap();
    assert!(used.contains(&name(&cluster, 0)), "{said}");
    assert_eq!(field(&cluster, 0, "members"), members, "it was not named");
    assert_ne!(field(&cluster, 1, "members"), members);
    let (status, said) = show(&after);
    assert_eq!(status, 0, "{said:#}");
    let redlock = connected(short(&after));
    let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
    assert!(lease.token().unwrap() > token);
}

#[test]
fn a_process_that_still_uses_nodes_that_are_taken_loses_them_and_says_so() {
    let cluster = Cluster::start(4);
    let (before, after) = (of(&cluster, &[0, 1, 2]), of(&cluster, &[1, 2, 3]));
    admit(short(&before));
    let runs = connected(short(&before));
    let lease = runs.acquire("r").blocking().unwrap();
    let claimed = fleet("claim", &after, &[&["--yes"][..], &SHORT].concat());
    assert_eq!(code(&claimed), 0, "{claimed:?}");
    assert!(lease.check().is_err(), "a quorum has refused it");
    let is_refused = |redlock: &Redlock, node: usize| {
        let state = &redlock.nodes()[node].state;
        matches!(state, NodeState::Refused(Refusal::OtherMembers { .. }))
    };
    eventually("it says so", SOON, || {
        let _ = runs.try_acquire("other").blocking();
        is_refused(&runs, 1) && is_refused(&runs, 2)
    });
    let works = connected(short(&after)).acquire("r").wait(SOON).blocking();
    assert!(works.is_ok(), "{works:?}");
}

/// In a terminal that `script` of util-linux makes.
#[test]
fn on_a_terminal_claim_asks_whether_the_others_have_ended() {
    let cluster = Cluster::start(4);
    let (before, after) = (of(&cluster, &[0, 1, 2]), of(&cluster, &[1, 2, 3]));
    admit(short(&before));
    let program = env!("CARGO_BIN_EXE_quorlock");
    let line = format!("{program} fleet claim --nodes {} {}", after.join(","), SHORT.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("`script` of util-linux");
    script.stdin.as_mut().unwrap().write_all(b"no\n").unwrap();
    let output = script.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(code(&output), 1, "{said}");
    assert!(said.contains("has ended?") && said.contains("nothing was changed"), "{said}");
    assert!(show(&before).0 == 0);
}

/// For as long as nodes wait for clients at the least.
#[test]
fn the_longest_ttl_is_lowered_once_its_client_is_gone_and_not_before() {
    std::thread::scope(|scope| {
        for stays in [false, true] {
            scope.spawn(move || {
                let cluster = Cluster::start(3);
                let urls = cluster.urls();
                admit(short(&urls));
                let long = connected(short(&urls).max_ttl(5 * SECOND));
                eventually("they know", SOON, || {
                    (0..3).all(|node| field(&cluster, node, "max_ttl") == "5000")
                });
                let long = stays.then_some(long);
                let output = fleet("max-ttl 1s", &urls, &[]);
                let said = text(&output.stdout);
                println!("{said}");
                let (status, to) = if stays { (1, "5s") } else { (0, "1s") };
                assert_eq!(code(&output), status, "{output:?}");
                assert_eq!(said.matches(&format!("from 5s to {to}")).count(), 3, "{said}");
                assert_eq!(said.contains("uses max_ttl 5s"), stays, "{said}");
                let known = if stays { "5000" } else { "1000" };
                assert!((0..3).all(|node| field(&cluster, node, "max_ttl") == known));
                drop(long);
            });
        }
    });
}

#[test]
fn without_all_nodes_nothing_is_lowered() {
    let cluster = Cluster::start(3);
    admit(short(&cluster.urls()).max_ttl(5 * SECOND));
    cluster[2].kill();
    let output = fleet("max-ttl 1s", &cluster.urls(), &[]);
    assert_eq!(code(&output), 69, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(&name(&cluster, 2)) && said.contains("nothing was lowered"), "{said}");
    assert_eq!(field(&cluster, 0, "max_ttl"), "5000");
    let classic = fleet("max-ttl 1s", &cluster.urls(), &["--classic"]);
    assert_eq!(code(&classic), 64, "{classic:?}");
}

#[test]
fn a_command_that_raises_the_longest_ttl_says_so_once() {
    const SAYS: &str = "this process raises the longest ttl of the fleet";
    let cluster = super::admitted(3);
    let run = |ttl: &str, more: &[&str]| {
        let set = format!("max_ttl={ttl}");
        let mut run = quorlock("run");
        run.args(["--set", &set]).args(on(&cluster.urls())).args(more).args(["r", "--", "true"]);
        let output = run.output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        text(&output.stderr)
    };
    assert!(!run("10s", &[]).contains(SAYS));
    let said = run("60s", &[]);
    println!("{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(SAYS) && said.contains("from 10s to 60s"), "{said}");
    assert!(!run("60s", &[]).contains(SAYS), "they know by now");
    let said = run("70s", &["--json"]);
    let raised = said.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let raised: Vec<Value> = raised.filter(|line| line["event"] == "max_ttl_raised").collect();
    assert_eq!((raised.len(), &raised[0]["to"]), (1, &json!("70s")), "{said}");
    assert_eq!(raised[0]["resource"], "r", "{said}");
    // Any other command too.
    let mut holder = quorlock("holder");
    let holder = holder.args(["--set", "max_ttl=80s", "r"]).args(on(&cluster.urls())).output();
    assert!(text(&holder.unwrap().stderr).contains(SAYS));
}

/// From three nodes to five, while processes hold leases. The command is killed at any moment, and begun again.
#[test]
fn a_fleet_goes_from_three_nodes_to_five_while_processes_run_and_the_command_is_killed() {
    let cluster = Cluster::start(5);
    let (before, after) = (of(&cluster, &[0, 1, 2]), of(&cluster, &[0, 1, 2, 3, 4]));
    admit(short(&before));
    let left_behind = connected(short(&before));
    let lost = left_behind.acquire("left behind").blocking().unwrap();
    let process = short(&after).nodes_before(before.clone()).blocking_connect().unwrap();
    let kept = process.acquire("kept").wait(SOON).blocking().unwrap();
    let (from, to) = (before.join(","), after.join(","));
    let given = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.args(["fleet", "change", "--from", &from, "--to", &to]).args(SHORT).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // Whose processes run, by their lists, also to one that is given another.
    let lists = |said: &Value| -> Vec<(u64, usize, usize, Value)> {
        let connected = said["connected"].as_array().expect("a list").iter();
        let count = |value: &Value| value.as_array().map_or(0, Vec::len);
        let each = connected.map(|of| {
            let clients = of["clients"].as_u64().expect("a number");
            (clients, count(&of["members"]), count(&of["members_after"]), of["generation"].clone())
        });
        each.collect()
    };
    let (status, said) = show(&before);
    assert_eq!(status, 0, "{said:#}");
    assert_eq!(lists(&said), [(1, 3, 0, json!(1)), (1, 3, 5, json!(1))], "{said:#}");
    let (status, said) = show(&after);
    assert_eq!((status, lists(&said)), (2, lists(&show(&before).1)), "{said:#}");
    let people = text(&fleet("show", &before, &[]).stdout);
    println!("{people}");
    assert!(
        people.contains("connected: 1 client with (") && people.contains(", generation 1 to 2")
    );
    let asked = given(&[]).output().expect("it runs");
    assert_eq!(code(&asked), 64, "nobody can be asked: {asked:?}");
    assert!(process.is_changing() && lost.is_valid());
    for killed_after in [0, 200, 700, 1_200] {
        let mut child = given(&["--yes"]).spawn().expect("it runs");
        std::thread::sleep(std::time::Duration::from_millis(killed_after));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert!(kept.is_valid(), "killed after {killed_after} ms");
    }
    let done = given(&["--yes"]).output().expect("it runs");
    println!("{}", text(&done.stdout));
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(text(&done.stdout).contains("roll out the new list alone"), "{done:?}");
    assert!(kept.is_valid(), "{:?}", kept.check());
    assert!(!lost.is_valid(), "the old list alone");
    eventually("the process sees that it has ended", SOON, || !process.is_changing());
    let again = given(&["--yes"]).output().expect("it runs");
    assert_eq!(code(&again), 0, "{again:?}");
    assert!(text(&again.stdout).contains("the change has ended before"), "{again:?}");
    let new = connected(short(&after));
    assert!(new.try_acquire("kept").blocking().is_err());
    assert!(new.try_acquire("left behind").blocking().is_ok());
    let (status, said) = show(&after);
    assert_eq!(status, 0, "{said:#}");
    assert!(lists(&said).contains(&(1, 5, 0, json!(2))), "{said:#}");
    let people = text(&fleet("show", &before, &[]).stdout);
    println!("{people}");
    assert!(people.contains("the fleet has left this list"), "{people}");
}

/// A user without the right to `CLIENT LIST` sees all but who is connected.
#[test]
fn who_is_connected_is_shown_to_those_who_may_see_it() {
    let cluster = Cluster::start(3);
    let urls = cluster.urls();
    admit(short(&urls));
    let _connected = connected(short(&urls));
    let rights = [&["~*"][..], &quorlock_harness::RIGHTS, &quorlock_harness::LINE_RIGHTS].concat();
    for (more, seen) in [(None, None), (Some("+client|list"), Some(1))] {
        let users: Vec<String> =
            (0..3).map(|node| cluster[node].user(rights.iter().copied().chain(more))).collect();
        let (status, said) = show(&users);
        assert_eq!(status, 0, "{said:#}");
        assert_eq!(said["connected"].as_array().map(Vec::len), seen, "{said:#}");
        let people = text(&fleet("show", &users, &[]).stdout);
        assert_eq!(people.contains("connected: not known"), seen.is_none(), "{people}");
    }
}
