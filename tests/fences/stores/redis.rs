//! `redis.lua`, on a real server that is asked past this crate: as a script, and as a function.

use std::{path::Path, process::Command};

use quorlock_harness::{
    Server, decided,
    redis::{Client, Connection, RedisResult, cmd},
    undecided,
};

use super::{Store, changed, crowd, late};

const FILE: &str = include_str!("../../../examples/fences/redis.lua");

const COMPARISON: &str = "fence > tonumber(token)";

/// A connection of a writer, and how it calls the file.
struct Writer {
    server: Connection,
    call: [String; 2],
}

impl Writer {
    fn of(server: &Server, file: &str) -> Self {
        Self { server: connection(server), call: ["EVAL".to_owned(), file.to_owned()] }
    }

    fn call(&mut self, args: &[&str]) -> RedisResult<Option<String>> {
        let keys = ["2", "{note:42}", "{note:42}:fence"];
        cmd(&self.call[0]).arg(&self.call[1]).arg(&keys).arg(args).query(&mut self.server)
    }
}

/// Without a time limit, which a busy machine would exceed.
fn connection(server: &Server) -> Connection {
    Client::open(server.url()).and_then(|client| client.get_connection()).expect("it answers")
}

/// Whether it was let in. Another error than that of a stale token is none of the fence.
fn let_in<T>(said: RedisResult<T>) -> Option<T> {
    said.inspect_err(|error| assert_eq!(error.code(), Some("STALE"), "{error}")).ok()
}

impl Store for Writer {
    async fn write(&mut self, token: u64, value: &str) -> bool {
        let said = let_in(self.call(&[&token.to_string(), value]));
        said.inspect(|said| assert_eq!(said.as_deref(), Some("OK"))).is_some()
    }

    async fn read(&mut self, token: u64) -> Option<String> {
        let_in(self.call(&[&token.to_string()])).map(Option::unwrap_or_default)
    }

    async fn look(&mut self) -> String {
        cmd("GET").arg("{note:42}").query(&mut self.server).expect("it answers")
    }
}

#[tokio::test]
async fn a_late_writer_changes_nothing_in_redis() {
    let store = Server::start();
    let writer = || Writer::of(&store, FILE);
    late::write(&mut writer(), &mut writer()).await.unwrap();
    let other = Server::start();
    let [c, d] = [FILE; 2].map(|file| Writer::of(&other, file));
    late::reads_move_the_fence([writer_on_empty(&store), writer()], [c, d]).await;
}

/// A writer, after all that was there is gone.
fn writer_on_empty(store: &Server) -> Writer {
    store.flush();
    Writer::of(store, FILE)
}

#[test]
fn of_many_writers_in_redis_none_writes_after_a_later_one() {
    let store = Server::start();
    crowd::judged(async || Writer::of(&store, FILE)).unwrap();
}

#[tokio::test]
async fn without_its_comparison_the_script_for_redis_is_found_out() {
    let store = Server::start();
    let faulty = changed(FILE, COMPARISON, "false");
    let writer = || Writer::of(&store, &faulty);
    let found = late::write(&mut writer(), &mut writer()).await;
    assert_eq!(found.unwrap_err(), "not so: the first one is refused");
    store.flush();
    let found = crowd::judged(async || writer());
    assert!(found.unwrap_err().contains("was taken after"));
}

#[test]
fn what_is_no_token_changes_nothing_in_redis() {
    let store = Server::start();
    let mut writer = Writer::of(&store, FILE);
    writer.call(&["9007199254740991", "of the largest"]).expect("the largest token there is");
    let there = || (store.get("{note:42}"), store.get("{note:42}:fence"), store.keys().len());
    let before = there();
    assert_eq!(before.1.as_deref(), Some(&b"9007199254740991"[..]), "in full");
    for none in ["", "0", "-1", "01", "1e3", "0x10", " 9", "9.5", "nine", "9007199254740992"] {
        let error = writer.call(&[none, "by nobody"]).unwrap_err();
        assert_eq!(error.code(), Some("NOTOKEN"), "{none}: {error}");
    }
    assert_eq!(writer.call(&[]).unwrap_err().code(), Some("NOTOKEN"));
    for keys in [&["1", "{note:42}"][..], &["3", "{note:42}", "{note:42}:fence", "{note:42}:more"]]
    {
        let mut call = cmd("EVAL");
        let said: RedisResult<String> = call.arg(FILE).arg(keys).arg("9").query(&mut writer.server);
        assert_eq!(said.unwrap_err().code(), Some("NOTOKEN"), "{keys:?}");
    }
    assert_eq!(there(), before);
    // Somebody else's value where the fence should be is no reason to write.
    store.run(&["SET", "{note:42}:fence", "nine"]);
    writer.call(&["9", "late"]).unwrap_err();
    assert_eq!(store.get("{note:42}"), before.0);
}

/// The commands in the comment of the file, run by bash beside it.
fn run(store: &Server, commands: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fences");
    let port = store.port();
    let script =
        format!("set -e\nredis-cli() {{ command redis-cli -p {port} \"$@\"; }}\n{commands}");
    let output = Command::new("bash").arg("-c").arg(script).current_dir(folder).output();
    let output = output.expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[tokio::test]
async fn the_file_is_a_script_of_redis_cli_and_a_function() {
    let store = Server::start();
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return undecided!("there is no redis-cli on PATH");
    }
    if store.try_run(&["FUNCTION", "LIST"]).is_err() {
        return undecided!("this server has no functions");
    }
    decided!();
    let shown: Vec<&str> = FILE.lines().filter_map(|line| line.strip_prefix("--     ")).collect();
    let [script, load @ .., call] = &shown[..] else { panic!("commands, not {shown:?}") };
    assert_eq!(run(&store, script), "OK");
    assert_eq!(store.get("{invoice:42}").as_deref(), Some(&b"paid"[..]));
    store.flush();
    assert_eq!(run(&store, &load.join("\n")), "fence");
    assert_eq!(run(&store, call), "OK");
    assert_eq!(store.get("{invoice:42}").as_deref(), Some(&b"paid"[..]));

    let writer =
        || Writer { server: connection(&store), call: ["FCALL".to_owned(), "fence".to_owned()] };
    late::write(&mut writer(), &mut writer()).await.unwrap();
}
