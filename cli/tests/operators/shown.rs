//! What a terminal is given does nothing but show; and what programs read has the names of fields that the page of the command
//! lists.

use std::process::Command;

use quorlock_harness::{Cluster, Proxy, connected, eventually};
use serde_json::Value;

use super::{SECOND, SOON, admitted, code, on, patient, quorlock, text};

/// What a command writes in a terminal that `script` of util-linux makes.
fn on_a_terminal(line: &str, cluster_or_urls: &[String], no_color: Option<&str>) -> String {
    let line = format!(
        "exec {} {line} --set node_timeout=2s --nodes {}",
        env!("CARGO_BIN_EXE_quorlock"),
        cluster_or_urls.join(",")
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null());
    script.env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        script.env_remove(variable);
    }
    script.envs(no_color.map(|value| ("NO_COLOR", value)));
    String::from_utf8(script.output().expect("`script` of util-linux").stdout).unwrap()
}

/// What is left of it where colours are taken away.
fn without_colours(said: &str) -> String {
    let mut parts = said.split("\u{1b}[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |all, part| {
        let colour = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        match colour.filter(|at| part[*at..].starts_with('m')) {
            Some(at) => all + &part[at + 1..],
            None => all + "\u{1b}[" + part,
        }
    })
}

#[track_caller]
fn only_shows(said: &str) {
    let left = without_colours(said);
    let acts = |c: char| (c.is_control() && c != '\r' && c != '\n') || c == '\u{202e}';
    assert!(!left.contains(acts), "{left:?}");
}

/// A version that would hide what follows.
fn hostile(reply: Vec<u8>) -> Vec<u8> {
    let key = b"redis_version:";
    let Some(at) = reply.windows(key.len()).position(|window| window == key) else { return reply };
    let mut altered = reply;
    altered[at + key.len()..][..4].copy_from_slice(b"\x1b]0;");
    altered
}

#[test]
fn names_labels_and_what_servers_say_do_nothing_to_a_terminal() {
    let cluster = admitted(3);
    let redlock = connected(patient().nodes(cluster.urls()).label("web\u{1b}]0;x\u{7}\u{9b}5m"));
    let hold = |name: &[u8]| redlock.acquire(name).blocking().unwrap();
    let names: [&[u8]; 5] = [
        b"esc\x1b[2J",
        "c1\u{9b}8m".as_bytes(),
        "rlo\u{202e}gpj".as_bytes(),
        b"bytes\xff\\",
        "caf\u{e9}".as_bytes(),
    ];
    let leases = names.map(hold);
    let waiter = connected(patient().nodes(cluster.urls()));
    let waiting = std::thread::spawn(move || drop(waiter.acquire(names[0]).wait(SOON).blocking()));
    let stands = || !redlock.blocking_lines("*").unwrap().lines.is_empty();
    eventually("somebody waits", SOON, stands);
    cluster.iter().for_each(|server| server.set("foreign", "\u{1b}[8m\u{9b}", None));
    let proxy = Proxy::start(cluster[1].port());
    proxy.alter_replies(hostile);
    let through = [cluster[0].url(), proxy.url(), cluster[2].url()];
    for (line, urls, shows) in [
        ("list", cluster.urls(), r"esc\x1b[2J  held by"),
        ("top --once", cluster.urls(), r"127.0.0.1  esc\x1b[2J"),
        ("list 'b*'", cluster.urls(), r"bytes\xff\\  held by"),
        ("list 'c*'", cluster.urls(), "caf\u{e9}  held by"),
        ("list 'r*'", cluster.urls(), r"rlo\u202egpj  held by"),
        (r#"holder "$(printf 'bytes\377\\')""#, cluster.urls(), r"label=`web\x1b]0;x"),
        ("holder foreign", cluster.urls(), r"held by `\x1b[8m"),
        ("holder foreign --json", cluster.urls(), r#""value":"\u001b[8m\u009b""#),
        (r#"release --force "$(printf 'esc\033[2J')" </dev/null"#, cluster.urls(), "--yes"),
        ("release --force foreign --yes", cluster.urls(), "another program"),
        ("doctor --over 200ms", through.to_vec(), r"redis \x1b]0;"),
        ("doctor --over 200ms --json", through.to_vec(), r"redis \u001b]0;"),
    ] {
        let said = on_a_terminal(line, &urls, None);
        only_shows(&said);
        assert!(without_colours(&said).contains(shows), "{line}: {said:?}");
    }
    drop(leases);
    waiting.join().unwrap();
}

#[test]
fn colours_are_on_a_terminal_alone_and_never_with_no_color() {
    let cluster = admitted(3);
    let _lease = connected(patient().nodes(cluster.urls())).acquire("r").blocking().unwrap();
    for line in ["doctor --over 100ms", "list", "holder r", "release --force r"] {
        let coloured = on_a_terminal(line, &cluster.urls(), None);
        assert!(coloured.contains("\u{1b}["), "{line}: {coloured:?}");
        let plain = on_a_terminal(line, &cluster.urls(), Some("1"));
        assert!(!plain.contains('\u{1b}') && !plain.is_empty(), "{line}: {plain:?}");
        let mut words = line.split(' ');
        let mut piped = quorlock(words.next().unwrap());
        let output = piped.args(words).args(on(&cluster.urls())).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains('\u{1b}') && !said.is_empty(), "{line}: {said:?}");
    }
    let json = on_a_terminal("holder r --json", &cluster.urls(), None);
    assert!(!json.contains('\u{1b}'), "{json:?}");
}

fn json(line: &[&str], cluster: &Cluster) -> Value {
    let mut quorlock = quorlock(line[0]);
    let output =
        quorlock.arg("--json").args(&line[1..]).args(on(&cluster.urls())).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 1, "{output:?}");
    serde_json::from_str(&said).unwrap()
}

/// These fields and no others.
#[track_caller]
fn has(value: &Value, fields: &str) {
    let found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = fields.split_whitespace().collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "{value:#}");
}

const HELD: &str = "owner shared value label since remaining token leads text";

#[test]
fn fields_of_holder() {
    let cluster = admitted(3);
    let redlock = connected(patient().nodes(cluster.urls()));
    has(&json(&["holder", "free"], &cluster), "resource state");
    let _lease = redlock.acquire("r").blocking().unwrap();
    has(&json(&["holder", "r"], &cluster), &format!("resource state {HELD}"));
    cluster[0].set("split", "a", None);
    cluster[1].run(&["LPUSH", "split", "b"]);
    let unclear = json(&["holder", "split"], &cluster);
    has(&unclear, "resource state text nodes");
    let nodes = unclear["nodes"].as_array().unwrap();
    nodes.iter().for_each(|node| has(node, "node address state value remaining error"));
    let states: Vec<&str> = nodes.iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["held", "held", "free"]);
    assert_eq!((&nodes[0]["value"], &nodes[1]["value"]), (&"a".into(), &Value::Null));
    let leader = redlock.election("leads").text("10.0.0.7").blocking_campaign().unwrap();
    let leads = json(&["holder", "leads"], &cluster)["leads"].clone();
    assert_eq!(leads["term"], leader.term().to_string());
    has(&leads, "term text");
    assert_eq!(leads["text"], "10.0.0.7");
}

#[test]
fn fields_of_list_watch_and_release() {
    let cluster = admitted(3);
    let redlock = connected(patient().nodes(cluster.urls()));
    let _lease = redlock.acquire(b"r\xff").ttl(10 * SECOND).blocking().unwrap();
    let listed = json(&["list"], &cluster);
    has(&listed, &format!("resource resource_hex state {HELD}"));
    assert_eq!((&listed["resource"], &listed["resource_hex"]), (&r"r\xff".into(), &"72ff".into()));
    let _other = redlock.acquire("s").ttl(10 * SECOND).blocking().unwrap();
    let mut watch = quorlock("watch");
    watch.args(["s", "--json"]).args(on(&cluster.urls())).stdout(std::process::Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut line = String::new();
    let stdout = watch.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    has(&serde_json::from_str(&line).unwrap(), &format!("at resource state {HELD}"));
    let taken = json(&["release", "--force", "--yes", "s"], &cluster);
    has(&taken, "resource was released fence next");
    has(&taken["was"], HELD);
}

#[test]
fn fields_of_fleet() {
    let cluster = admitted(3);
    let _client = connected(patient().nodes(cluster.urls()));
    let said = json(&["fleet show"], &cluster);
    has(&said, "verdict needed fleet members members_after nodes connected");
    let node = "node address state why fleet generation members members_after since meant_fleet meant meant_until \
                max_ttl error";
    has(&said["nodes"][0], node);
    has(&said["connected"][0], "clients members members_after generation");
}

#[test]
fn fields_of_doctor() {
    let cluster = admitted(3);
    cluster[2].kill();
    let said = json(&["doctor", "--over", "400ms"], &cluster);
    has(&said, "fit worst needed classic woken_late findings nodes");
    has(&said["findings"][0], "severity ill node address cause remedy");
    let node = &said["nodes"][0];
    has(node, "node address state why quarantine line round_trip clock server error");
    has(&node["round_trip"], "least quarter median worst count");
    has(&node["clock"], "offset uncertainty rate_least rate_most");
    let server = "version run_id mode role replicas cluster max_memory eviction used_memory append_only append_fsync save \
                  not_written database encrypted local missing_rights throwaway marker unanswered lost";
    has(&node["server"], server);
    has(&node["server"]["marker"], "state epoch fleet members since max_ttl");
    assert!(said["nodes"][2]["error"].is_string() && said["nodes"][2]["server"].is_null());
    assert_eq!(code(&quorlock("doctor").arg("--json").output().unwrap()), 78);
}
