//! What is compared with: a round trip, `SET NX PX` on one server, and a bare fan-out of the same to all nodes.
//!
//! It is the least that any lock must do, on connections of its own, with the client library that this crate uses too:
//! no quorum of tokens, no look at what was left behind, no lease. It must never touch a key that is not of this run,
//! nor send anything but `PING`, `SET NX PX` and a script that deletes what that has set; and it must never show an
//! address, which may contain a password.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Script,
    ServerErrorKind, Value, aio::MultiplexedConnection,
};
use tokio::task::JoinSet;

use super::NAMES;

/// It needs no right beyond those that the crate needs.
const RELEASE: &str = "if redis.call('GETRANGE', KEYS[1], 0, 31) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// How long a key stays where its deletion failed.
const TTL_MS: u32 = 10_000;
const LIMIT: Duration = Duration::from_secs(1);
const MOST_LATE: usize = 1_000;

/// One connection to each node that is there.
pub(super) struct Floor {
    nodes: Vec<Option<MultiplexedConnection>>,
    script: Arc<Script>,
    /// Calls to nodes that the majority went on without.
    late: JoinSet<()>,
    /// What all keys of this run begin with.
    run: String,
    owners: usize,
}

impl Floor {
    /// The error says why there is none: mostly certificates or rights that only the settings of the crate know.
    pub(super) async fn connect(urls: &[String], run: String) -> Result<Self, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        let (mut nodes, mut why) = (Vec::new(), String::new());
        for (index, url) in urls.iter().enumerate() {
            let connected = match Client::open(url.as_str()) {
                Ok(client) => client.get_multiplexed_async_connection_with_config(&config).await,
                Err(error) => Err(error),
            };
            if let Err(error) = &connected {
                why = format!("node {}: {}", index + 1, text(error));
            }
            nodes.push(connected.ok());
        }
        if nodes.iter().flatten().count() < majority_of(nodes.len()) {
            return Err(why);
        }
        let (script, late) = (Arc::new(Script::new(RELEASE)), JoinSet::new());
        Ok(Self { nodes, script, late, run, owners: 0 })
    }

    /// One command there and back, until a majority has answered.
    pub(super) async fn ping(&mut self) -> Result<(), String> {
        let pings = self.all().map(Node::ping).collect();
        self.fan_out(pings, majority_of(self.nodes.len())).await
    }

    /// The same for one node by itself.
    pub(super) async fn ping_one(&mut self, node: usize) -> Result<(), String> {
        let one = self.nodes.get(node).into_iter().flatten().cloned().map(Node);
        let pings = one.map(Node::ping).collect();
        self.fan_out(pings, 1).await
    }

    /// Set on the first server that is there, and deleted.
    pub(super) async fn one(&mut self) -> Result<(), String> {
        self.pair("one", 1, 1).await
    }

    /// Set on all nodes, going on at the majority, and deleted likewise.
    pub(super) async fn every(&mut self) -> Result<(), String> {
        self.pair("all", self.nodes.len(), majority_of(self.nodes.len())).await
    }

    /// Waits until everything is done that was sent.
    pub(super) async fn settle(&mut self) {
        while self.late.join_next().await.is_some() {}
    }

    async fn pair(&mut self, what: &str, nodes: usize, needed: usize) -> Result<(), String> {
        self.owners = self.owners.wrapping_add(1);
        let key = format!("{}floor/{what}/{}", self.run, self.owners % NAMES);
        let claim = Arc::new(Claim { key, owner: format!("{:032x}", self.owners) });
        let set = self.all().take(nodes).map(|node| node.set(Arc::clone(&claim))).collect();
        let set = self.fan_out(set, needed).await;
        // Also where that failed: some nodes may have the key.
        let delete = |node: Node| node.delete(Arc::clone(&self.script), Arc::clone(&claim));
        let deleted = self.all().take(nodes).map(delete).collect();
        let deleted = self.fan_out(deleted, needed).await;
        set.and(deleted)
    }

    /// Goes on once as many nodes as needed have said yes. The other calls run to their end: one may have a second
    /// command to send.
    async fn fan_out<F>(
        &mut self,
        mut calls: FuturesUnordered<F>,
        needed: usize,
    ) -> Result<(), String>
    where
        F: Future<Output = RedisResult<Value>> + Send + 'static,
    {
        let (mut yes, mut last) = (0, "no reply".to_owned());
        while yes < needed
            && let Some(reply) = calls.next().await
        {
            match reply {
                Ok(Value::Okay | Value::SimpleString(_) | Value::Int(1)) => yes += 1,
                Ok(Value::Int(_)) => last = "a key had gone before it was deleted".to_owned(),
                Ok(_) => last = "somebody else has the key".to_owned(),
                Err(error) => last = text(&error),
            }
        }
        while self.late.try_join_next().is_some() {}
        // Calls to a node that hangs must not pile up.
        if self.late.len() >= MOST_LATE {
            self.late.join_next().await;
        }
        if !calls.is_empty() {
            self.late.spawn(async move { while calls.next().await.is_some() {} });
        }
        if yes < needed { Err(last) } else { Ok(()) }
    }

    fn all(&self) -> impl Iterator<Item = Node> {
        self.nodes.iter().flatten().cloned().map(Node)
    }
}

/// A key, and a value as long as an owner of a lease is.
struct Claim {
    key: String,
    owner: String,
}

impl Claim {
    fn set(&self) -> Cmd {
        let mut command = redis::cmd("SET");
        command.arg(&self.key).arg(&self.owner).arg("NX").arg("PX").arg(TTL_MS);
        command
    }
}

struct Node(MultiplexedConnection);

impl Node {
    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        // The library returns a refusal of the server as a value.
        self.0.send_packed_command(command).await?.extract_error()
    }

    async fn ping(mut self) -> RedisResult<Value> {
        self.send(&redis::cmd("PING")).await
    }

    async fn set(mut self, claim: Arc<Claim>) -> RedisResult<Value> {
        self.send(&claim.set()).await
    }

    async fn delete(mut self, script: Arc<Script>, claim: Arc<Claim>) -> RedisResult<Value> {
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg(script.get_hash()).arg(1).arg(&claim.key).arg(&claim.owner);
        match self.send(&by_hash).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let mut by_text = redis::cmd("EVAL");
                by_text.arg(RELEASE).arg(1).arg(&claim.key).arg(&claim.owner);
                self.send(&by_text).await
            }
            other => other,
        }
    }
}

const fn majority_of(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What went wrong, without what the address is.
fn text(error: &RedisError) -> String {
    error.code().unwrap_or_else(|| error.category()).to_owned()
}
