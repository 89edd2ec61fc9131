//! Commands as bytes, replies as answers, and what each error says about whether a command took effect.
//!
//! Nothing is sent a second time here, except a script that the server said it does not know.

use std::sync::{Arc, LazyLock};

use futures::future::join;
use redis::{Cmd, ErrorKind, RedisError, Script, Value};

use super::link::Link;
use crate::{
    node::{NodeCall, NodeError},
    protocol::{Command, Denial, Owner, Reply, Resource, validity},
};

struct Source {
    text: &'static str,
    sha1: String,
}

impl Source {
    fn new(text: &'static str) -> Self {
        Self { text, sha1: Script::new(text).get_hash().to_owned() }
    }
}

/// Deletes a key if it is the owner's.
pub(super) const RELEASE_SCRIPT: &str = include_str!("scripts/release.lua");

static RELEASE: LazyLock<Source> = LazyLock::new(|| Source::new(RELEASE_SCRIPT));

/// Sends one command and reads the answer.
pub(super) fn execute(link: Arc<Link>, command: Command) -> NodeCall {
    match command {
        Command::Acquire { resource, owner, ttl } => {
            Box::pin(acquire(link, resource, owner, validity::wire_millis(ttl)))
        }
        Command::Release { resource, owner } => Box::pin(release(link, resource, owner)),
    }
}

/// > "SET resource_name my_random_value NX PX 30000" (the Redis page)
async fn acquire(
    link: Arc<Link>,
    resource: Resource,
    owner: Owner,
    ttl_ms: u64,
) -> Result<Reply, NodeError> {
    let mut command = sized(6, &resource, "");
    command.arg("SET").arg(resource.as_bytes()).arg(owner.to_hex().as_slice());
    command.arg("NX").arg("PX").arg(ttl_ms);
    match link.send(&command).await? {
        Value::Okay => Ok(Reply::Granted),
        Value::Nil => Ok(Reply::Denied(holder(&link, &resource).await)),
        other => Err(unexpected(&other)),
    }
}

/// An empty command with room for what it will hold, which spares it growing on the hot path.
fn sized(args: usize, resource: &Resource, script: &str) -> Cmd {
    Cmd::with_capacity(args, resource.as_bytes().len() + script.len() + 96)
}

/// Who holds the key, asked only after a denial. It may be gone by then, and it may be of any type.
async fn holder(link: &Link, resource: &Resource) -> Denial {
    let (mut get, mut pttl) = (Cmd::new(), Cmd::new());
    get.arg("GET").arg(resource.as_bytes());
    pttl.arg("PTTL").arg(resource.as_bytes());
    let (value, remaining) = join(link.send(&get), link.send(&pttl)).await;
    let value = match value {
        Ok(Value::BulkString(bytes)) => Some(bytes.into_boxed_slice()),
        _ => None,
    };
    let remaining = match remaining {
        Ok(Value::Int(millis)) => u64::try_from(millis).ok().map(std::time::Duration::from_millis),
        _ => None,
    };
    Denial::new(value, remaining)
}

async fn release(link: Arc<Link>, resource: Resource, owner: Owner) -> Result<Reply, NodeError> {
    match run(&link, &RELEASE, &resource, owner).await? {
        Value::Int(1) => Ok(Reply::Granted),
        Value::Int(0) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(&other)),
    }
}

/// `EVALSHA`, and `EVAL` where the server does not have the script: it forgets all of them in a restart.
async fn run(
    link: &Link,
    script: &Source,
    resource: &Resource,
    owner: Owner,
) -> Result<Value, NodeError> {
    let command = |verb: &str, script: &str| {
        let mut command = sized(5, resource, script);
        command.arg(verb).arg(script).arg(1);
        command.arg(resource.as_bytes()).arg(owner.to_hex().as_slice());
        command
    };
    match link.send(&command("EVALSHA", &script.sha1)).await {
        Err(NodeError::Rejected { code, .. }) if &*code == "NOSCRIPT" => {
            link.send(&command("EVAL", script.text)).await
        }
        answer => answer,
    }
}

fn unexpected(value: &Value) -> NodeError {
    // A reply may be long and may hold what is none of a log's business.
    let kind = match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "a string",
        Value::Okay => "OK",
        Value::Array(_) => "an array",
        _ => "another type",
    };
    NodeError::Unexpected { message: Arc::from(kind) }
}

/// What an error of the client library says about the command: certainly not executed, or unknown.
pub(super) fn classify(error: &RedisError) -> NodeError {
    let text = || Arc::<str>::from(error.to_string());
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => NodeError::Rejected {
            code: Arc::from(error.code().unwrap_or("ERR")),
            message: Arc::from(error.detail().unwrap_or_default()),
        },
        ErrorKind::AuthenticationFailed => NodeError::Rejected {
            code: Arc::from("WRONGPASS"),
            message: Arc::from(error.detail().unwrap_or_default()),
        },
        ErrorKind::Io => NodeError::ConnectionLost { reason: text() },
        _ => NodeError::Unexpected { message: text() },
    }
}
