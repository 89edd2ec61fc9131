//! The scripts of readers beside a node in memory, in the cases that attack them: both must answer the same, keep the same
//! key, and have the same counter. Random commands to both are those of `src/node/alike_test`.

use std::time::Duration;

use futures::executor::block_on;
use quorlock::{
    node::{MemoryNode, Node as _},
    protocol::{Command, EpochMark, FencingToken, Owner, Reply, Resource, Target, Timestamp},
};
use quorlock_harness::redis::{Value, from_redis_value};

use super::{
    MARKER, MS,
    scripts::{ETAG, IDENTITY, Node, RESOURCE, without_early_end},
    texts::{
        ACQUIRE, ACQUIRE_READ, CONFIRM, CONFIRM_READ, EXTEND, EXTEND_DOWNGRADED, EXTEND_READ,
        RELEASE, RELEASE_READ, RESTORE, RESTORE_READ,
    },
};

const READERS: &str = "quorlock:readers:r";

/// What both say: no, yes, or yes with a counter.
type Said = Option<Option<u64>>;

struct Both {
    server: Node,
    memory: MemoryNode,
}

impl Both {
    fn new() -> Self {
        Self { server: Node::admitted(), memory: MemoryNode::new() }
    }

    /// By the scripts.
    fn script(&self, command: &Command) -> Said {
        let target = command.target().unwrap();
        let reads = target.is_shared();
        let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, READERS];
        let own = &own[..if reads { 5 } else { 4 }];
        let (node, soon) = (&self.server, (self.server.now_us() + 10_000_000).to_string());
        let eval = |script: &str, keys: &[&str], args: &[&str]| {
            let count = keys.len().to_string();
            node.server.run(&[&["EVAL", script, &count], keys, args].concat())
        };
        let ms = |ttl: &Duration| ttl.as_millis().to_string();
        let answer = match command {
            Command::Acquire { owner, ttl, hint: Some(hint), .. } => {
                let (high, next) = (node.marked("high_water"), node.marked("next_floor"));
                let (head, hint) = (format!("{ETAG} {high:016} {next:016}"), format!("{hint:016}"));
                let script = if reads { ACQUIRE_READ } else { ACQUIRE };
                eval(script, own, &[&head, &owner.to_string(), &ms(ttl), &hint, "0", "-1"])
            }
            Command::Confirm { owner, token, .. } => {
                let script = if reads { CONFIRM_READ } else { CONFIRM };
                eval(script, own, &[ETAG, &owner.to_string(), &format!("{:016}", token.get())])
            }
            Command::Extend { owner, ttl, .. } => {
                let script = match target {
                    Target::Downgraded(_) => EXTEND_DOWNGRADED,
                    Target::Shared(_) => EXTEND_READ,
                    _ => EXTEND,
                };
                let answer = eval(script, own, &[IDENTITY, &owner.to_string(), &ms(ttl)]);
                let Value::Array(answer) = answer else { panic!("{answer:?}") };
                return (answer[2] == Value::Int(1)).then_some(None);
            }
            Command::Restore { owner, ttl, .. } => {
                let script = if reads { RESTORE_READ } else { RESTORE };
                eval(script, own, &[IDENTITY, &owner.to_string(), &ms(ttl), &soon])
            }
            Command::Release { owner, .. } => {
                let (script, keys) = match target {
                    Target::Downgraded(_) | Target::Shared(_) => {
                        (RELEASE_READ, &[RESOURCE, READERS][..])
                    }
                    _ => (RELEASE, &[RESOURCE][..]),
                };
                return (eval(script, keys, &[&owner.to_string()]) == Value::Int(1))
                    .then_some(None);
            }
            other => panic!("{other:?}"),
        };
        let Value::Array(answer) = answer else { panic!("{answer:?}") };
        match &answer[..] {
            [Value::Int(1), _, counter, ..] => {
                Some(Some(from_redis_value(counter.clone()).unwrap()))
            }
            [Value::Int(1), ..] => Some(None),
            [Value::Int(0), ..] => None,
            other => panic!("{other:?}"),
        }
    }

    fn memory(&self, command: &Command) -> Said {
        match block_on(self.memory.call(command.clone())).unwrap() {
            Reply::Granted(granted) => Some(granted.token.map(FencingToken::get)),
            Reply::Denied(_) => None,
        }
    }

    /// What both say, which is the same.
    #[track_caller]
    fn run(&self, command: &Command) -> Said {
        let (of_script, in_memory) = (self.script(command), self.memory(command));
        // A confirm need not say to what it was.
        let counts = matches!(command, Command::Acquire { .. });
        let shown = |said: Said| said.map(|counter| counter.filter(|_| counts));
        assert_eq!(shown(of_script), shown(in_memory), "{command:?}");
        let value: Option<Vec<u8>> = self.server.server.get(RESOURCE.as_bytes());
        assert_eq!(value, self.memory.get(RESOURCE), "behind {command:?}");
        of_script
    }

    fn vanish(&self) {
        self.server.server.del(RESOURCE);
        self.memory.set(RESOURCE, "", Some(Duration::ZERO));
    }
}

fn target(reads: bool) -> Target {
    let resource = Resource::new(RESOURCE).unwrap();
    if reads { Target::Shared(resource) } else { resource.into() }
}

const TTL: Duration = Duration::from_secs(10);

fn acquire(reads: bool, owner: Owner, ttl: Duration, hint: u64) -> Command {
    Command::Acquire {
        target: target(reads),
        owner,
        ttl,
        hint: Some(hint),
        count: 1,
        first: 0,
        mark: EpochMark::new(1, 0),
        note: None,
        stand: None,
    }
}

fn confirm(reads: bool, owner: Owner, token: u64) -> Command {
    let token = FencingToken::new(token);
    Command::Confirm { target: target(reads), owner, token, mark: EpochMark::new(1, 0) }
}

fn extend(reads: bool, owner: Owner) -> Command {
    Command::Extend { target: target(reads), owner, ttl: TTL, fenced: true }
}

fn restore(reads: bool, owner: Owner) -> Command {
    let (target, until) = (target(reads), Timestamp::from_origin(Duration::MAX));
    Command::Restore { target, owner, ttl: TTL, until, fenced: true, note: None }
}

fn release(reads: bool, owner: Owner) -> Command {
    Command::Release { target: target(reads), owner, keep: None }
}

/// The same of a reader that was a writer.
fn downgraded(command: Command) -> Command {
    let target = Target::Downgraded(Resource::new(RESOURCE).unwrap());
    match command {
        Command::Extend { owner, ttl, fenced, .. } => {
            Command::Extend { target, owner, ttl, fenced }
        }
        Command::Restore { owner, ttl, until, fenced, note, .. } => {
            Command::Restore { target, owner, ttl, until, fenced, note }
        }
        Command::Release { owner, keep, .. } => Command::Release { target, owner, keep },
        other => other,
    }
}

#[test]
fn a_confirm_needs_the_entry_and_never_lowers_the_counter() {
    let both = Both::new();
    let hint = both.server.now_us();
    let [a, b, writer] = [1, 2, 3].map(|byte| Owner::from_random([byte; 16]));
    assert_eq!(both.run(&acquire(true, a, TTL, hint)), Some(Some(hint)));
    assert_eq!(both.run(&confirm(true, b, hint + 9)), None, "it has no entry");
    assert!(both.run(&confirm(true, a, hint + 5)).is_some());
    assert!(both.run(&confirm(true, a, hint + 2)).is_some(), "nothing is lowered, and it stands");
    assert_eq!(both.run(&acquire(true, b, TTL, hint)), Some(Some(hint + 5)));
    for reader in [a, b] {
        assert!(both.run(&release(true, reader)).is_some());
    }
    assert_eq!(both.run(&acquire(false, writer, TTL, hint)), Some(Some(hint + 6)));
    assert_eq!(both.run(&confirm(true, a, hint + 9)), None);
    assert_eq!(both.run(&restore(true, a)), None, "a writer has it");
    assert_eq!(both.run(&extend(true, a)), None);
    assert_eq!(both.run(&release(true, a)), None);
}

#[test]
fn an_entry_that_has_ended_counts_for_nothing_beside_one_that_has_not() {
    let both = Both::new();
    let hint = both.server.now_us();
    let [short, long] = [1, 2].map(|byte| Owner::from_random([byte; 16]));
    assert!(both.run(&acquire(true, short, 30 * MS, hint)).is_some());
    assert!(both.run(&acquire(true, long, TTL, hint)).is_some());
    std::thread::sleep(60 * MS);
    assert_eq!(both.run(&confirm(true, short, hint + 1)), None);
    assert_eq!(both.run(&extend(true, short)), None);
    assert_eq!(both.run(&release(true, short)), None);
    assert!(both.run(&extend(true, long)).is_some());
    assert!(both.run(&restore(true, short)).is_some(), "of one that is held it is set again");
    assert!(both.run(&release(true, long)).is_some());
    assert!(both.run(&release(true, short)).is_some());
    assert_eq!(both.memory.get(RESOURCE), None);
    // The only one, under a key that others have given a longer life: nobody wrote meanwhile, and nothing is left.
    let server = &both.server.server;
    both.script(&acquire(true, short, 30 * MS, hint));
    let _ = server.run(&["PERSIST", RESOURCE]);
    let _ = server.run(&["PERSIST", READERS]);
    std::thread::sleep(60 * MS);
    assert!(both.script(&release(true, short)).is_some());
    assert!(server.get(RESOURCE).is_none() && server.get(READERS).is_none());
}

/// Otherwise a writer would get a token that an earlier reader has.
#[test]
fn a_counter_that_others_have_written_is_no_vote_for_a_readers_token() {
    for planted in ["9000000000000000", "no number at all"] {
        let both = Both::new();
        let node = &both.server;
        let [reader, writer] = [1, 2].map(|byte| Owner::from_random([byte; 16]));
        let hint = node.now_us();
        both.script(&acquire(false, writer, TTL, hint));
        both.script(&release(false, writer));
        let entry = format!("{planted}{writer}");
        let _ = node.server.run(&["HSET", "quorlock:counters", RESOURCE, &entry]);
        assert_eq!(
            both.script(&acquire(true, reader, TTL, hint)),
            Some(Some(node.marked("high_water")))
        );
        let token = node.marked("high_water") + 5; // as another node has answered
        assert!(both.script(&confirm(true, reader, token)).is_some());
        assert!(both.script(&release(true, reader)).is_some());
        let Some(Some(written)) = both.script(&acquire(false, writer, TTL, hint)) else { panic!() };
        assert!(token < written, "{planted}: a reader of {token}, then a writer of {written}");
    }
}

/// Whatever becomes of the entries, such as that others delete them or that the clock is set back, they end with the key.
#[test]
fn entries_have_an_end_also_where_they_were_lost_under_a_key_that_lives_longer() {
    let both = Both::new();
    let server = &both.server.server;
    let [a, b, c] = [1, 2, 3].map(|byte| Owner::from_random([byte; 16]));
    let hint = both.server.now_us();
    let ends = |behind: &str| {
        // At nearly one moment: a millisecond may pass in between, and then the key has one less.
        let both = "return {redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])}";
        let left: [i64; 2] =
            from_redis_value(server.run(&["EVAL", both, "2", READERS, RESOURCE])).unwrap();
        assert!(0 < left[1] && left[1] <= left[0], "behind {behind}: {left:?}");
    };
    both.script(&acquire(true, a, 3 * TTL, hint));
    ends("the first");
    server.del(READERS);
    both.script(&acquire(true, b, TTL, hint));
    ends("one that finds no others");
    server.del(READERS);
    both.script(&extend(true, b));
    both.script(&acquire(true, b, TTL, hint));
    let _ = server.run(&["PERSIST", RESOURCE]);
    both.script(&acquire(true, c, TTL, hint));
    ends("a key without an end");
    both.script(&extend(true, b));
    ends("an extension");
    let _ = server.run(&["PERSIST", RESOURCE]);
    both.script(&extend(true, b));
    ends("an extension of a key without an end");
    let _ = server.run(&["PERSIST", RESOURCE]);
    both.script(&release(true, b));
    ends("a release of one of two");
}

#[test]
fn a_writer_that_goes_on_as_a_reader_makes_one_entry_of_its_key_and_of_nothing_else() {
    let both = Both::new();
    let hint = both.server.now_us();
    let [writer, void, other] = [1, 2, 3].map(|byte| Owner::from_random([byte; 16]));
    let lower = downgraded(extend(true, writer));
    assert_eq!(both.run(&lower), None, "no key is made");
    assert!(both.run(&acquire(true, void, TTL, hint)).is_some());
    assert_eq!(both.run(&lower), None, "nor an entry");
    // The key ends by hand, and leaves its entries behind.
    both.vanish();
    assert!(both.run(&acquire(false, writer, TTL, hint)).is_some());
    assert!(both.run(&lower).is_some());
    assert_eq!(both.run(&extend(true, void)), None, "it is of an earlier phase");
    assert_eq!(both.run(&extend(false, writer)), None, "it is no key of its own any more");
    assert_eq!(both.run(&restore(false, writer)), None);
    assert_eq!(both.run(&downgraded(restore(true, writer))), None, "it stands");
    assert!(both.run(&lower).is_some(), "again, as any reader's");
    assert!(both.run(&acquire(true, other, TTL, hint)).is_some());
    assert!(both.run(&downgraded(release(true, writer))).is_some());
    assert!(both.run(&extend(true, other)).is_some(), "that of the other stays");
    assert!(both.run(&release(true, other)).is_some());
    // Where the node has not followed.
    assert!(both.run(&acquire(false, writer, TTL, hint)).is_some());
    assert_eq!(both.run(&downgraded(release(true, other))), None, "it is not the other's");
    assert!(both.run(&downgraded(release(true, writer))).is_some());
    assert_eq!(both.memory.get(RESOURCE), None);
}

/// The early end of the script does what the rest would have done, whatever the keys hold.
#[test]
fn the_fast_path_of_a_reader_does_what_the_rest_does() {
    const LINE: &str = "quorlock:line:r";
    const OWNER: &str = "11111111111111111111111111111111";
    const OTHER: &str = "22222222222222222222222222222222";
    const HIGH_WATER: u64 = 1_000;
    let rest = without_early_end(ACQUIRE_READ);
    let node = Node::admitted();
    let entry = |counter: &str| format!("{counter}{OTHER}");
    let put: [&dyn Fn(); 5] = [
        &|| {},
        &|| drop(node.server.run(&["SET", RESOURCE, OTHER])),
        &|| drop(node.server.run(&["ZADD", READERS, "99999999999999", OTHER])),
        &|| drop(node.server.run(&["ZADD", LINE, "1", &OTHER[..16]])),
        &|| drop(node.server.run(&["SET", LINE, "of another type"])),
    ];
    let counters = [
        None,
        Some(entry("0000000000000100")),
        Some(entry("0000000000001000")),
        Some(entry("0000000000002000")),
        Some(entry("0x00000000000064")),
        Some("12".to_owned()),
    ];
    let fields = ["quorlock:counters", "quorlock:older"];
    let (mut granted, mut by_hint) = (0, 0);
    // How the client knows the head, when it arrives, and whether it waits in line.
    let plain = (0, "0", false);
    let ways = [plain, (1, "0", false), (0, "1", false), (0, "0", true)];
    let run = |script: &str, hint: u64, count: &str, (behind, latest, waits)| {
        let high = node.marked("high_water") - behind;
        let (head, hint) = (format!("{ETAG} {high:016} {:016}", 50), format!("{hint:016}"));
        let own = [MARKER, fields[0], fields[1], RESOURCE, READERS, LINE];
        let args = [&*head, OWNER, "10000", &hint, latest, count];
        let client: &[&str] = if waits { &["", &OWNER[..16], "7", ""] } else { &[] };
        node.server.run(&[&["EVAL", script, "6"], &own[..], &args[..], client].concat())
    };
    for (put, (newer, older)) in
        put.iter().flat_map(|put| counters.iter().map(move |newer| (put, newer))).flat_map(
            |(put, newer)| [None, Some(entry("0000000000000060"))].map(|it| (put, (newer, it))),
        )
    {
        let asked = [(500, "1"), (500, "-1"), (20, "-1"), (5_000, "-1")];
        for ((hint, count), way) in asked.map(|asked| ways.map(|way| (asked, way))).concat() {
            let [fast, slow] = [ACQUIRE_READ, &*rest].map(|script| {
                let high = HIGH_WATER.to_string();
                node.mark(&[("high_water", &high), ("floor", "40"), ("next_floor", "50")]);
                node.server.run(&["DEL", RESOURCE, READERS, LINE]);
                for (hash, entry) in fields.iter().zip([newer, &older]) {
                    node.server.run(&["HDEL", hash, RESOURCE]);
                    if let Some(entry) = entry {
                        node.server.run(&["HSET", hash, RESOURCE, entry]);
                    }
                }
                put();
                let answer = match run(script, hint, count, way) {
                    // As it was asked for.
                    Value::Int(_) => {
                        by_hint += 1;
                        (1, Some(Value::Int(i64::try_from(hint).unwrap())))
                    }
                    Value::Array(told) => match &told[..] {
                        [Value::Int(1), _, counter, ..] => (1, Some(counter.clone())),
                        [Value::Int(code), ..] => (*code, None),
                        other => panic!("{other:?}"),
                    },
                    other => panic!("{other:?}"),
                };
                let left = |key: &str| {
                    let left: i64 = from_redis_value(node.server.run(&["PTTL", key])).unwrap();
                    left / 1_000
                };
                let of = |args: &[&str]| node.server.run(args);
                (
                    answer,
                    of(&["GET", RESOURCE]),
                    of(&["ZRANGE", READERS, "0", "-1"]),
                    of(&["HGET", fields[0], RESOURCE]),
                    of(&["TYPE", LINE]),
                    [left(RESOURCE), left(READERS)].map(|left| left.min(9)),
                    node.marked("high_water") > HIGH_WATER,
                )
            });
            assert_eq!(fast, slow, "{newer:?} {older:?}, hint {hint}, count {count}, {way:?}");
            granted += usize::from(fast.0.0 == 1);
        }
    }
    assert!(granted > 60 && by_hint > 0, "{granted} {by_hint}");
    // A hint that is too far ahead of the node's clock is cut by both.
    for script in [ACQUIRE_READ, &rest] {
        let ahead = node.now_us() + 90_000_000;
        node.mark(&[("high_water", &(ahead + 1_000_000).to_string()), ("next_floor", "50")]);
        node.server.run(&["DEL", RESOURCE, READERS, LINE]);
        fields.iter().for_each(|hash| drop(node.server.run(&["HDEL", hash, RESOURCE])));
        let Value::Array(told) = run(script, ahead, "1", plain) else {
            panic!("it was as asked for")
        };
        let Value::Int(counter) = told[2] else { panic!("{told:?}") };
        assert!(u64::try_from(counter).unwrap() < ahead, "{told:?}");
    }
}

/// A server whose memory is full still extends the keys of writers, which needs none.
#[test]
fn readers_are_extended_where_the_memory_is_full() {
    let both = Both::new();
    let (server, hint) = (&both.server.server, both.server.now_us());
    let [one, other, writer] = [1, 2, 3].map(|byte| Owner::from_random([byte; 16]));
    for reader in [one, other] {
        assert!(both.run(&acquire(true, reader, TTL, hint)).is_some());
    }
    let full = |is_full| {
        let _ = server.run(&["CONFIG", "SET", "maxmemory", if is_full { "1" } else { "0" }]);
    };
    full(true);
    assert!(both.run(&extend(true, one)).is_some());
    assert!(both.run(&extend(true, one)).is_some(), "also where the key lives for long enough");
    assert!(both.run(&release(true, other)).is_some());
    assert!(both.run(&extend(true, one)).is_some(), "the last of them");
    assert_eq!(both.run(&extend(true, other)), None, "and no other");
    assert!(both.run(&release(true, one)).is_some());
    full(false);
    assert!(both.run(&acquire(false, writer, TTL, hint)).is_some());
    full(true);
    let lower = downgraded(extend(true, writer));
    assert!(both.run(&lower).is_some(), "one that was a writer");
    assert!(both.run(&lower).is_some());
    assert!(both.run(&downgraded(release(true, writer))).is_some());
    assert_eq!(both.memory.get(RESOURCE), None);
}
