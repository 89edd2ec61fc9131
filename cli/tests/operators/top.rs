//! `top` names what is waited for, who has it, and from where those come who wait.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    thread::{JoinHandle, spawn},
};

use quorlock::Redlock;
use quorlock_harness::{Cluster, connected, eventually};
use serde_json::Value;

use super::{SOON, admitted, code, on, patient, quorlock, text};

fn client(cluster: &Cluster, label: &str) -> Redlock {
    connected(patient().nodes(cluster.urls()).label(label))
}

/// A client of its own that waits for it, and gives it back as soon as it has it.
fn waits(cluster: &Cluster, name: &'static str) -> JoinHandle<()> {
    let client = client(cluster, "waits");
    spawn(move || drop(client.acquire(name).wait(SOON).blocking().unwrap()))
}

fn once(cluster: &Cluster, more: &[&str]) -> Value {
    let mut top = quorlock("top --once --json");
    let output = top.args(more).args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

#[test]
fn the_longest_line_is_the_first_with_its_holder_and_hosts() {
    let cluster = admitted(3);
    let holder = client(&cluster, "web-1");
    let nobody = once(&cluster, &[]);
    assert_eq!((&nobody["waiting"], &nobody["lines"]), (&0.into(), &0.into()), "{nobody}");
    let leases = ["busy", "other"].map(|name| holder.acquire(name).blocking().unwrap());
    let permit = holder.semaphore("pool", 1).unwrap().acquire().blocking().unwrap();
    let pool = client(&cluster, "waits");
    let mut waiting: Vec<_> =
        ["busy", "busy", "busy", "other"].map(|name| waits(&cluster, name)).into();
    waiting.push(spawn(move || {
        let pool = pool.semaphore("pool", 1).unwrap();
        drop(pool.acquire().wait(SOON).blocking().unwrap());
    }));
    eventually("all stand in line", SOON, || once(&cluster, &[])["waiting"] == 5);
    let all = once(&cluster, &[]);
    assert_eq!((&all["lines"], &all["nodes"]), (&3.into(), &3.into()), "{all}");
    let rows = all["resources"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["resource"] == name).unwrap();
    assert_eq!(rows[0]["resource"], "busy", "{all}");
    let busy = row("busy");
    assert_eq!((&busy["waiting"], &busy["semaphore"]), (&3.into(), &false.into()), "{busy}");
    assert_eq!(busy["holder"]["label"], "web-1");
    assert_eq!(busy["holder"]["token"], leases[0].token().unwrap().to_string());
    let clients = busy["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 3, "{busy}");
    for one in clients {
        assert_eq!((&one["host"], &one["reads"]), (&"127.0.0.1".into(), &false.into()), "{busy}");
    }
    assert_eq!(clients[0]["waited"], busy["longest"]);
    assert_eq!((&row("pool")["semaphore"], &row("pool")["holder"]), (&true.into(), &Value::Null));
    // The rest is counted, and not shown.
    let urls = cluster.urls();
    let [one, two, three] = [0, 1, 2].map(|node| urls[node].as_str());
    let output = quorlock("top --once --json --rows 1 --every 0s")
        .args(["--nodes", one, "--nodes", two, "--nodes", three])
        .output()
        .unwrap();
    let first: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&first["waiting"], first["resources"].as_array().unwrap().len()), (&5.into(), 1));
    assert_eq!(once(&cluster, &["o*"])["waiting"], 1);

    let mut top = quorlock("top --once");
    let output = top.args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code(&output), lines.len()), (0, 5), "{said}");
    assert!(lines[0].ends_with("5 clients wait for 3 resources"), "{said}");
    assert!(lines[2].contains("busy") && lines[2].contains("web-1"), "{said}");
    assert!(lines[2].ends_with("127.0.0.1 (3)  busy"), "{said}");
    assert!(said.contains("pool (semaphore)"), "{said}");
    // One that was seen alive is killed.
    let mut killed = quorlock("hold busy --json");
    let mut killed = killed.args(on(&cluster.urls())).stdin(Stdio::piped()).spawn().unwrap();
    let mut top = quorlock("top busy --json --every 100ms");
    let mut top = top.args(on(&cluster.urls())).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut until = |gone: usize, there: usize| loop {
        let seen: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let clients = seen["resources"][0]["clients"].as_array().cloned().unwrap_or_default();
        let is = |gone: bool| {
            clients
                .iter()
                .filter(|one| one["gone"] == gone && (gone || one["host"] != Value::Null))
                .count()
        };
        if (is(true), is(false)) == (gone, there) {
            break;
        }
    };
    until(0, 4);
    killed.kill().unwrap();
    killed.wait().unwrap();
    until(1, 3);
    top.kill().unwrap();
    top.wait().unwrap();
    drop((leases, permit));
    waiting.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn it_goes_on_until_nobody_reads_and_tells_nodes_that_do_not() {
    let cluster = admitted(3);
    let holder = client(&cluster, "web-1");
    let lease = holder.acquire("busy").blocking().unwrap();
    let waiting = waits(&cluster, "busy");
    let mut top = quorlock("top --json --every 100ms");
    let mut top = top.args(on(&cluster.urls())).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut until = |is: &dyn Fn(&Value) -> bool| loop {
        let seen: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if is(&seen) {
            return seen;
        }
    };
    until(&|seen| seen["waiting"] == 1);
    cluster[0].kill();
    let seen = until(&|seen| seen["untold"].as_array().unwrap().len() == 1);
    assert!(seen["untold"][0]["error"].as_str().is_some(), "{seen}");
    lease.blocking_release().unwrap();
    waiting.join().unwrap();
    until(&|seen| seen["waiting"] == 0);
    let mut once = quorlock("top --once");
    let output = once.args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(said.contains("2 of 3 nodes tell who waits"), "{said}");
    cluster[1].kill();
    cluster[2].kill();
    // It waits for them.
    until(&|seen| seen["untold"].as_array().unwrap().len() == 3);
    cluster[1].restart();
    until(&|seen| seen["untold"].as_array().unwrap().len() == 2);
    let output = quorlock("top --once").args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(text(&output.stderr).contains("1 of 3 nodes have told who waits"), "{output:?}");
    drop(lines);
    assert_eq!(top.wait().unwrap().code(), Some(0));
}

fn end(child: &Child, name: &str) {
    let killed = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
}

/// Of those who are killed, most nodes say that they are gone.
#[test]
fn hundreds_are_counted_and_who_is_gone_is_said() {
    let cluster = admitted(3);
    for node in cluster.iter() {
        let members: Vec<String> = (1..=300).map(|at| format!("{at:016x}")).collect();
        let mut add = vec!["ZADD", "quorlock:line:busy"];
        members.iter().for_each(|member| add.extend(["1", member]));
        node.run(&add);
        // A holder of several tokens stands before all.
        node.run(&["ZADD", "quorlock:line:busy", "-1", "!00000000000000aa"]);
    }
    let all = once(&cluster, &[]);
    let busy = &all["resources"][0];
    assert_eq!((&all["waiting"], &busy["waiting"]), (&300.into(), &300.into()), "{all}");
    let clients = busy["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 100);
    assert!(clients.iter().all(|one| one["gone"] == true && one["host"] == Value::Null), "{busy}");
    let output = quorlock("top --once").args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("gone (100), …  busy"), "{said}");
}

#[test]
fn a_signal_ends_it_though_nobody_reads() {
    let cluster = admitted(3);
    for name in ["TERM", "INT"] {
        let mut top = quorlock("top --json --every 1ms");
        let mut top = top.args(on(&cluster.urls())).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        top.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        end(&top, name);
        assert_eq!(top.wait().unwrap().code(), Some(0), "{name}");
    }
    // Where the pipe is full.
    let members: Vec<String> = (1..=100).map(|at| format!("{at:016x}")).collect();
    for node in cluster.iter() {
        let mut add = vec!["ZADD", "quorlock:line:busy"];
        members.iter().for_each(|member| add.extend(["1", member]));
        node.run(&add);
    }
    let mut top = quorlock("top --json --every 1ms");
    let mut top = top.args(on(&cluster.urls())).stdout(Stdio::piped()).spawn().unwrap();
    let blocked = || {
        let wchan =
            std::fs::read_to_string(format!("/proc/{}/wchan", top.id())).unwrap_or_default();
        wchan.contains("pipe")
    };
    eventually("it waits for its reader", SOON, blocked);
    end(&top, "TERM");
    assert_eq!(top.wait().unwrap().code(), Some(0));
}

/// Who may not read a line has not told it.
#[test]
fn a_right_that_is_missing_is_told() {
    let cluster = admitted(3);
    let holder = client(&cluster, "web-1");
    let lease = holder.acquire("busy").blocking().unwrap();
    let waiting = waits(&cluster, "busy");
    eventually("it stands in line", SOON, || once(&cluster, &[])["waiting"] == 1);
    for node in cluster.iter() {
        node.run(&["ACL", "SETUSER", "looks", "on", ">looks", "~*", "&*", "+@all", "-zcard"]);
    }
    let urls: Vec<String> =
        cluster.urls().iter().map(|url| url.replace("://", "://looks:looks@")).collect();
    let output = quorlock("top --once").args(on(&urls)).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(said.contains("zcard"), "{said}");
    drop(lease);
    waiting.join().unwrap();
}

/// On a terminal each look is drawn over the one before.
#[test]
fn on_a_terminal_it_is_a_screen() {
    let cluster = admitted(3);
    let line = format!(
        "exec {} top --every 100ms --set node_timeout=2s --nodes {}",
        env!("CARGO_BIN_EXE_quorlock"),
        cluster.urls().join(",")
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = script.env("TERM", "xterm").env("SHELL", "/bin/sh").spawn().unwrap();
    let mut said = String::new();
    let mut output = script.stdout.take().unwrap();
    while said.matches("\u{1b}[2J").count() < 3 {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    assert!(said.contains("0 clients wait for 0 resources"), "{said:?}");
    script.kill().unwrap();
    script.wait().unwrap();
}
