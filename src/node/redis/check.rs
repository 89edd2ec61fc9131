//! What a server must show before it may vote: who it is, what role it has, whether it may evict locks,
//! and that our user has the rights it needs.
//!
//! It asks nothing that changes the server, touches nobody's key, and judges only what the server said. It leaves
//! nothing in the server's log of denials but for a user that lacks `EVAL`, `INFO` or `CLIENT TRACKING`, which are
//! tried, or `TIME`, which the scripts begin with.

use std::sync::Arc;

use futures::future::{join_all, join3};
use redis::{Cmd, Value, aio::MultiplexedConnection, from_redis_value};

use super::{
    errors, info,
    link::Link,
    liveness::Room,
    push,
    script::{self, OWN, THROWAWAY},
};
use crate::node::{LineState, NodeContext, NodeError, Refusal};

/// What `INFO` says of a server that may vote.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) run_id: String,
    pub(super) version: Arc<str>,
}

/// What the names of our connections begin with.
pub(super) const CLIENT_NAME: &str = "quorlock:";

/// The commands that the client and the scripts run, beside `EVAL` and `INFO`, which are tried.
const CLASSIC_COMMANDS: [&str; 6] = ["set", "getrange", "del", "pttl", "pexpire", "evalsha"];
const OWN_COMMANDS: [&str; 6] = ["hget", "hmget", "hset", "time", "unlink", "rename"];

/// Asks for the commands that the user may not run.
pub(super) fn rights(context: &NodeContext, command: &mut Cmd) {
    command.arg("EVAL").arg(script::RIGHTS.text()).arg(0);
    if context.classic() {
        command.arg(context.probe()).arg(&CLASSIC_COMMANDS);
    } else {
        command.arg(OWN[0]).arg(&CLASSIC_COMMANDS).arg(&OWN_COMMANDS);
    }
}

/// Loads the real scripts before the server is asked for anything. A script that it does not know is sent a second
/// time, in full, behind what was sent in between, such as a release. Without keys the scripts fail at their first
/// command, or do nothing, once the server has kept them.
fn scripts(classic: bool) -> impl Iterator<Item = impl FnMut(&mut Cmd)> {
    let texts = if classic {
        vec![&script::RELEASE, &script::EXTEND_CLASSIC, &script::RESTORE_CLASSIC]
    } else {
        vec![
            &script::RELEASE,
            &script::ACQUIRE,
            &script::ACQUIRE_SET,
            &script::ACQUIRE_ANY,
            &script::RELEASE_SET,
            &script::CONFIRM,
            &script::EXTEND,
            &script::RESTORE,
            &script::ACQUIRE_READ,
            &script::CONFIRM_READ,
            &script::EXTEND_READ,
            &script::RESTORE_READ,
            &script::RELEASE_READ,
            &script::EXTEND_DOWNGRADED,
            &script::LEAVE,
        ]
    };
    texts.into_iter().map(|script| {
        move |command: &mut Cmd| {
            command.arg("EVAL").arg(script.text()).arg(0);
        }
    })
}

/// Asks a server on a new connection who it is, and refuses one that must not vote. `local` says that it is certainly
/// on this machine.
pub(super) async fn check(
    link: &Link,
    context: &NodeContext,
    local: bool,
) -> Result<Identity, NodeError> {
    let info = info(link).await?;
    let identity =
        judge(&info, context.allow_eviction(), context.classic()).map_err(NodeError::Refused)?;
    let loading =
        join_all(scripts(context.classic()).map(|script| link.send(Room::Others, script)));
    // On before the marker is first read, so that no exchange after that is missed.
    if !context.classic() {
        hear_of_exchanges(link).await?;
    }
    let rights = link.send(Room::Others, |command| rights(context, command));
    let (missing, loaded, _) = join3(rights, loading, tell_name(link, context)).await;
    let missing = missing.map_err(|error| errors::of_check("eval", error))?;
    let missing: Vec<String> = from_redis_value(missing).unwrap_or_default();
    if let Some(command) = missing.into_iter().next() {
        let message = Arc::from("its ACL rules do not allow the command");
        return Err(NodeError::Refused(Refusal::MissingRight {
            command: Arc::from(command),
            message,
        }));
    }
    if let Some(error) = loaded.into_iter().find_map(|answer| answer.err().filter(NodeError::sent))
    {
        return Err(error);
    }
    // Whatever else the server said, it knows the scripts now.
    let needs_word = asks_for_throwaway(context.skips_quarantine(), context.classic(), local);
    if needs_word && !says_throwaway(link).await? {
        return Err(NodeError::Refused(Refusal::NotThrowaway));
    }
    Ok(identity)
}

/// Whether waiters may queue in a line on this server, which then wakes them. If so, it subscribes to the client's
/// channel. In classic mode nothing but the resources' keys is touched.
pub(super) async fn line(
    link: &Link,
    connection: &mut MultiplexedConnection,
    context: &NodeContext,
) -> Result<LineState, NodeError> {
    if context.classic() {
        return Ok(LineState::Off { reason: Arc::from("there is none in classic mode") });
    }
    let key = [script::LINE, &context.probe()].concat();
    let channel = push::channel(context.client());
    let ask = |command: &mut Cmd| {
        command.arg("EVAL").arg(script::LINE_RIGHTS.text()).arg(0).arg(&key).arg(&channel);
    };
    let missing = link.send(Room::Others, ask).await;
    let off = |why: &str| LineState::Off { reason: Arc::from(why) };
    match missing.map(from_redis_value::<Vec<String>>) {
        Ok(Ok(missing)) if missing.is_empty() => {}
        Ok(Ok(missing)) => {
            let command = missing.first().map(String::as_str).unwrap_or_default();
            return Ok(off(&format!("its ACL rules do not allow `{command}` for it")));
        }
        Ok(Err(error)) => return Ok(off(&error.to_string())),
        Err(error) => return without_line(error),
    }
    match connection.subscribe(channel).await {
        Ok(()) => Ok(LineState::On),
        Err(error) => without_line(errors::of_command(&error)),
    }
}

/// A refusal of what a line needs costs the line, and nothing else.
fn without_line(error: NodeError) -> Result<LineState, NodeError> {
    match error {
        NodeError::Rejected { .. } | NodeError::Unexpected { .. } => {
            Ok(LineState::Off { reason: Arc::from(error.to_string()) })
        }
        error => Err(error),
    }
}

/// Whether the server itself has to say that it may be thrown away. In classic mode there is no quarantine to skip.
const fn asks_for_throwaway(skips_quarantine: bool, classic: bool, local: bool) -> bool {
    skips_quarantine && !classic && !local
}

/// Whether the server has the throwaway key, of any type. `PTTL` is a right that the scripts need anyway.
async fn says_throwaway(link: &Link) -> Result<bool, NodeError> {
    let ask = |command: &mut Cmd| {
        command.arg("PTTL").arg(THROWAWAY);
    };
    let value = link.send(Room::Others, ask).await?;
    let left = from_redis_value::<i64>(value)
        .map_err(|error| NodeError::Unexpected { message: Arc::from(error.to_string()) })?;
    // -1 is a key without an end, and -2 no key.
    Ok(left != -2)
}

/// Names the connection by client and list, for people to see in `CLIENT LIST`. Every user may do that by `HELLO`. Nothing
/// depends on it.
async fn tell_name(link: &Link, context: &NodeContext) -> Result<Value, NodeError> {
    let list = context.members().names();
    let name = format!("{CLIENT_NAME}{}:{list}", context.client());
    let tell = |command: &mut Cmd| {
        command.arg("HELLO").arg(3).arg("SETNAME").arg(&name);
    };
    link.send(Room::Others, tell).await
}

/// Makes the server report, on this connection, when all its data is dropped or exchanged: by `FLUSHALL`, or by taking
/// over a master's. Nothing left in the data shows that, and a client that sent nothing while the server was a replica
/// could not tell. The server reports it to each client that tracks keys. With `OPTIN` it tracks only the keys that
/// `votes` asks for.
pub(super) async fn hear_of_exchanges(link: &Link) -> Result<(), NodeError> {
    let track = |command: &mut Cmd| {
        command.arg("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
    };
    let answer = link.send(Room::Others, track).await;
    answer.map(drop).map_err(|error| errors::of_check("client|tracking", error))
}

pub(super) async fn info(link: &Link) -> Result<String, NodeError> {
    let ask = |command: &mut Cmd| {
        command.arg("INFO");
    };
    let value = link.send(Room::Others, ask).await;
    let value = value.map_err(|error| errors::of_check("info", error))?;
    from_redis_value::<String>(value)
        .map_err(|error| NodeError::Unexpected { message: Arc::from(error.to_string()) })
}

/// Judges the text of `INFO`.
fn judge(info: &str, allow_eviction: bool, classic: bool) -> Result<Identity, Refusal> {
    // A field that is missing counts as harmless, but for the identity.
    let field = |name: &str| info::field(info, name);
    let run_id = field("run_id").ok_or(Refusal::Unidentified)?;
    // RESP3 came with 6.0. The scripts use nothing younger, but have been tested on nothing older than 6.2.
    let oldest = if classic { (6, 0) } else { (6, 2) };
    if info::speaks(info).is_some_and(|version| version < oldest) {
        let version = Arc::from(field("redis_version").unwrap_or_default());
        return Err(Refusal::TooOld { version });
    }
    // A Sentinel has a role of its own, and no keys.
    if info::mode(info).is_some_and(|mode| mode == "sentinel") {
        return Err(Refusal::Sentinel);
    }
    // A replica may lack a lock that its master granted, so only masters vote.
    if field("role").is_some_and(|role| role != "master") {
        return Err(Refusal::Replica);
    }
    // A cluster would move keys to other servers.
    if field("cluster_enabled").is_some_and(|enabled| enabled == "1") {
        return Err(Refusal::Cluster);
    }
    let limited = field("maxmemory").is_some_and(|bytes| bytes != "0");
    let policy = field("maxmemory_policy").unwrap_or("noeviction");
    if limited && policy != "noeviction" && !allow_eviction {
        return Err(Refusal::MayEvict { policy: Arc::from(policy) });
    }
    let version = info::version(info).unwrap_or_else(|| Arc::from("redis unknown"));
    Ok(Identity { run_id: run_id.to_owned(), version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(extra: &str) -> String {
        format!("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\n{extra}")
    }

    #[test]
    fn a_master_that_keeps_its_keys_may_vote() {
        let identity =
            judge(&info("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), false, false).unwrap();
        assert_eq!((&*identity.run_id, &*identity.version), ("abc", "redis 7.0.15"));
    }

    #[test]
    fn valkey_is_told_from_the_redis_version_that_it_claims() {
        let text = info("server_name:valkey\r\nvalkey_version:9.0.1\r\n");
        assert_eq!(&*judge(&text, false, false).unwrap().version, "valkey 9.0.1");
    }

    #[test]
    fn only_a_server_of_another_machine_is_asked_whether_it_may_be_thrown_away() {
        for (skips, classic, local, asks) in [
            (true, false, false, true),
            (true, false, true, false),
            (true, true, false, false),
            (false, false, false, false),
        ] {
            assert_eq!(asks_for_throwaway(skips, classic, local), asks);
        }
    }

    #[test]
    fn what_must_not_vote_is_refused_by_name() {
        let evicts = info("maxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\n");
        assert!(matches!(judge(&evicts, false, false), Err(Refusal::MayEvict { .. })));
        assert!(judge(&evicts, true, false).is_ok());
        let replica = "redis_version:7.0.15\r\nrun_id:abc\r\nrole:slave\r\n";
        assert_eq!(judge(replica, false, false).unwrap_err(), Refusal::Replica);
        let cluster = info("cluster_enabled:1\r\n");
        assert_eq!(judge(&cluster, false, false).unwrap_err(), Refusal::Cluster);
        // Valkey's says so by another name.
        for field in ["redis_mode", "server_mode"] {
            let sentinel = info(&format!("{field}:sentinel\r\n"));
            assert_eq!(judge(&sentinel, false, false).unwrap_err(), Refusal::Sentinel, "{field}");
        }
        let old = "redis_version:5.0.14\r\nrun_id:abc\r\nrole:master\r\n";
        assert!(matches!(judge(old, false, true), Err(Refusal::TooOld { .. })));
        let older = "redis_version:6.0.16\r\nrun_id:abc\r\nrole:master\r\n";
        assert!(matches!(judge(older, false, false), Err(Refusal::TooOld { .. })));
        assert!(judge(older, false, true).is_ok());
        assert_eq!(judge("", false, false).unwrap_err(), Refusal::Unidentified);
    }
}
