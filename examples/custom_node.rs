//! A transport of one's own: commands travel over a channel to a thread that owns the keys.
//!
//!     cargo run --example custom_node
//!
//! What a node must keep to is the contract N1 to N5 on the trait; the comments name each where it is kept.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use quorlock::{
    Redlock,
    node::{Node, NodeCall, NodeContext, NodeError, NodeSpec, NodeState, NodeStatus},
    protocol::{Command, Denial, Reply},
};
use tokio::sync::oneshot;

type Letter = (Command, oneshot::Sender<Result<Reply, NodeError>>);

/// The client's side: an address, and the sending end of the channel.
#[derive(Debug)]
struct ChannelNode {
    address: Arc<str>,
    letters: mpsc::Sender<Letter>,
}

impl ChannelNode {
    fn open(name: &str) -> Self {
        let (letters, inbox) = mpsc::channel();
        thread::spawn(move || serve(&inbox));
        Self { address: Arc::from(name), letters }
    }
}

impl Node for ChannelNode {
    // There is nothing to connect, so there is nothing to announce through `context.changed()`.
    fn start(&self, _context: NodeContext) {}

    fn call(&self, command: Command) -> NodeCall {
        let letters = self.letters.clone();
        // N4: nothing is sent before the first poll, because nothing is sent outside the block.
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // N1: a channel keeps the order. N2: it delivers once. N3: where it is closed, that is said at once.
            letters.send((command, answer)).map_err(|_| NodeError::NotConnected {
                reason: Arc::from("the thread has ended"),
            })?;
            // N5: no answer is neither yes nor no.
            answered.await.unwrap_or_else(|_| {
                Err(NodeError::ConnectionLost { reason: Arc::from("the thread has ended") })
            })
        })
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(Arc::clone(&self.address), NodeState::Ready)
    }
}

/// The server's side: values with their time of expiry.
fn serve(inbox: &mpsc::Receiver<Letter>) {
    let mut keys: HashMap<Vec<u8>, (Vec<u8>, Instant)> = HashMap::new();
    for (command, answer) in inbox {
        let now = Instant::now();
        keys.retain(|_, (_, expires)| now < *expires);
        let reply = match command {
            Command::Acquire { resource, owner, ttl } => match keys.get(resource.as_bytes()) {
                Some((holder, expires)) => Ok(Reply::Denied(Denial::new(
                    Some(holder.clone().into_boxed_slice()),
                    Some(expires.saturating_duration_since(now)),
                ))),
                None => {
                    let value = (owner.to_hex().to_vec(), now + ttl);
                    keys.insert(resource.as_bytes().to_vec(), value);
                    Ok(Reply::Granted)
                }
            },
            Command::Release { resource, owner } => match keys.get(resource.as_bytes()) {
                Some((holder, _)) if *holder == owner.to_hex() => {
                    keys.remove(resource.as_bytes());
                    Ok(Reply::Granted)
                }
                _ => Ok(Reply::Denied(Denial::default())),
            },
            // A command of a later version: say that it had no effect.
            _ => Err(NodeError::Rejected {
                code: Arc::from("ERR"),
                message: Arc::from("unknown command"),
            }),
        };
        // Nobody may be waiting any more; the command has been executed all the same.
        let _ = answer.send(reply);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes = ["channel-a", "channel-b", "channel-c"]
        .map(|name| NodeSpec::new(Arc::new(ChannelNode::open(name))));
    let redlock = Redlock::connect(nodes).await?;

    let lease = redlock.acquire("invoice:42").ttl(Duration::from_secs(5)).await?;
    println!("acquired, validity={:?}", lease.validity());
    match redlock.try_acquire("invoice:42").await {
        Err(busy) if busy.is_contended() => println!("busy: {busy}"),
        other => return Err(format!("unexpected: {other:?}").into()),
    }
    lease.release().await?;
    println!("released");
    redlock.close().await?;
    Ok(())
}
