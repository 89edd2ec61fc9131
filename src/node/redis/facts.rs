//! What `INFO`, `CONFIG GET` and the marker say, as facts.
//!
//! It judges nothing; `check` decides who may vote, and `inspect` what people are told. What is missing stays unknown.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use redis::Value;

use super::{
    check::CLIENT_NAME,
    info::{self, field},
};
use crate::{
    node::{ConnectedClient, MarkerFacts, ServerFacts},
    protocol::Members,
};

/// Adds what `INFO` says.
pub(super) fn add_info(facts: &mut ServerFacts, info: &str) {
    let text = |name: &str| field(info, name).map(Arc::<str>::from);
    let number = |name: &str| field(info, name).and_then(|value| value.parse::<u64>().ok());
    let flag = |name: &str| number(name).map(|value| value != 0);
    facts.version = info::version(info);
    facts.speaks = info::speaks(info);
    facts.run_id = text("run_id");
    facts.mode = info::mode(info).map(Arc::from);
    facts.role = text("role");
    facts.replicas = number("connected_slaves");
    facts.cluster = flag("cluster_enabled");
    facts.max_memory = number("maxmemory");
    facts.eviction = text("maxmemory_policy");
    facts.used_memory = number("used_memory");
    facts.append_only = flag("aof_enabled");
    let failed = |name: &str| field(info, name).is_some_and(|status| status != "ok");
    facts.not_written = if failed("aof_last_write_status") {
        Some(Arc::from("its last write to the append-only file failed"))
    } else if failed("rdb_last_bgsave_status") {
        Some(Arc::from("its last snapshot failed"))
    } else {
        None
    };
}

/// The value of one setting, from the answer to `CONFIG GET`.
pub(super) fn setting(answer: &Value) -> Option<Arc<str>> {
    match answer {
        Value::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
        Value::Array(words) => words.get(1).and_then(text),
        _ => None,
    }
}

/// The clients that an answer to `CLIENT LIST` names, each once, without this one.
pub(super) fn clients(list: &str, own: &str) -> Vec<ConnectedClient> {
    let mut hosts = BTreeMap::new();
    for line in list.lines() {
        let field = |is: &str| line.split(' ').find_map(|field| field.strip_prefix(is));
        let named = field("name=").and_then(|name| name.strip_prefix(CLIENT_NAME)?.split_once(':'));
        let Some((client, members)) = named.filter(|(client, _)| *client != own) else { continue };
        let host = field("addr=").and_then(|address| Some(address.rsplit_once(':')?.0));
        hosts.entry((client, members)).or_insert(host);
    }
    let client = |((client, members), host): ((&str, &str), Option<&str>)| {
        ConnectedClient::new(Arc::from(client), Arc::from(members)).at(host.map(Arc::from))
    };
    hosts.into_iter().map(client).collect()
}

/// The fields of a marker that are shown.
pub(super) const MARKER: [&str; 7] =
    ["state", "epoch", "max_ttl", "members", "since", "meant", "meant_until"];

/// What the fields of a marker say, in the order of `MARKER`; `None` if it has none of them.
pub(super) fn marker(answer: &Value) -> Option<MarkerFacts> {
    let Value::Array(fields) = answer else { return None };
    // What is over is written as empty.
    let at = |index: usize| fields.get(index).and_then(text).filter(|text| !text.is_empty());
    let number = |index: usize| at(index).and_then(|value| value.parse::<u64>().ok());
    let members = |index: usize| at(index).map(|text| Members::from_text(&text));
    let time = |since_epoch: Option<Duration>| UNIX_EPOCH.checked_add(since_epoch?);
    let facts = MarkerFacts {
        state: at(0),
        epoch: number(1),
        max_ttl: number(2).map(Duration::from_millis),
        members: members(3),
        since: time(number(4).map(Duration::from_secs)),
        meant: members(5),
        meant_until: time(number(6).map(Duration::from_micros)),
    };
    (facts != MarkerFacts::default()).then_some(facts)
}

/// Seconds and microseconds, as `TIME` answers.
pub(super) fn time(answer: &Value) -> Option<u64> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |value: &Value| text(value)?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

/// Other programs may have written bytes that are no text.
fn text(value: &Value) -> Option<Arc<str>> {
    match value {
        Value::BulkString(bytes) => Some(Arc::from(String::from_utf8_lossy(bytes))),
        Value::SimpleString(text) => Some(Arc::from(text.as_str())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Value {
        Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn info_is_read_field_by_field() {
        let mut facts = ServerFacts::default();
        add_info(
            &mut facts,
            "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\nrun_id:abc\r\n\
             redis_mode:standalone\r\nrole:master\r\nconnected_slaves:2\r\ncluster_enabled:0\r\nmaxmemory:1000\r\n\
             maxmemory_policy:noeviction\r\nused_memory:900\r\naof_enabled:1\r\nrdb_last_bgsave_status:err\r\n\
             aof_last_write_status:ok\r\n",
        );
        assert_eq!(facts.version.as_deref(), Some("valkey 8.1.0"));
        assert_eq!((facts.speaks, facts.replicas), (Some((7, 2)), Some(2)));
        assert_eq!((facts.max_memory, facts.used_memory), (Some(1000), Some(900)));
        assert_eq!((facts.append_only, facts.cluster), (Some(true), Some(false)));
        assert_eq!(facts.not_written.as_deref(), Some("its last snapshot failed"));
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        let mut facts = ServerFacts::default();
        add_info(&mut facts, "redis_version:\r\nmaxmemory:much\r\n");
        assert_eq!(facts, ServerFacts::default());
        assert_eq!(marker(&Value::Array(vec![Value::Nil; 7])), None);
        assert_eq!(setting(&Value::Map(Vec::new())), None);
        assert_eq!(time(&words(&["1", "x"])), None);
    }

    #[test]
    fn settings_come_as_a_map_or_as_a_list() {
        let pair = (Value::SimpleString("save".into()), Value::BulkString(b"3600 1".to_vec()));
        assert_eq!(setting(&Value::Map(vec![pair])).as_deref(), Some("3600 1"));
        assert_eq!(setting(&words(&["save", ""])).as_deref(), Some(""));
    }

    #[test]
    fn a_marker_and_a_time_are_read() {
        let read = marker(&words(&["ready", "17", "10000", "1 a,b us", "60", "", ""])).unwrap();
        assert_eq!((read.state.as_deref(), read.epoch), (Some("ready"), Some(17)));
        assert_eq!(read.max_ttl, Some(Duration::from_secs(10)));
        assert_eq!(read.members, Some(Members::new("us", ["a", "b"])));
        assert_eq!(read.since, Some(UNIX_EPOCH + Duration::from_secs(60)));
        assert_eq!((read.meant, read.meant_until), (None, None));
        let until = marker(&words(&["ready", "17", "0", "", "", "1 a us", "2000000"])).unwrap();
        assert_eq!(until.meant_until, Some(UNIX_EPOCH + Duration::from_secs(2)));
        let held = marker(&words(&["joining", "17", "0", "", "", "1 a us", "held"])).unwrap();
        assert_eq!((held.members, held.meant_until), (None, None));
        assert_eq!(held.meant, Some(Members::new("us", ["a"])));
        assert_eq!(time(&words(&["7", "000123"])), Some(7_000_123));
    }
}
