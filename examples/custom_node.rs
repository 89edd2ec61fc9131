//! A transport of one's own: commands travel over a channel to a thread that owns the keys.
//!
//!     cargo run --example custom_node
//!
//! A node must keep the contract N1 to N5 on the trait; the comments name each rule where it is kept.
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
    node::{
        Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState, NodeStatus,
        never_forgets,
    },
    protocol::{Command, Denial, FencingToken, Granted, Join, Marker, Owner, Reply, Resource},
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
            // N1: a channel keeps the order. N2: it delivers once. N3: a closed channel is an error at once.
            letters.send((command, answer)).map_err(|_| NodeError::NotConnected {
                reason: Arc::from("the thread has ended"),
            })?;
            // N5: no answer is neither yes nor no.
            answered.await.unwrap_or_else(|_| {
                Err(NodeError::ConnectionLost { reason: Arc::from("the thread has ended") })
            })
        })
    }

    // The thread keeps its keys for as long as any client can ask for them. A server that may restart without its data
    // must not say this: it must keep a marker, and implement `admit` too: docs/architecture.md, "Writing a node".
    fn join(&self, join: Join) -> NodeFuture<Marker> {
        never_forgets(join)
    }

    // An acquire takes as many fencing tokens as are asked for: see `Server::execute`.
    fn counts_ranges(&self) -> bool {
        true
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(Arc::clone(&self.address), NodeState::Ready)
    }
}

/// The server's side: values with their time of expiry, and a counter for each name, which never falls.
#[derive(Default)]
struct Server {
    keys: HashMap<Vec<u8>, (Vec<u8>, Instant)>,
    counters: HashMap<Vec<u8>, u64>,
}

fn serve(inbox: &mpsc::Receiver<Letter>) {
    let mut server = Server::default();
    for (command, answer) in inbox {
        let reply = server.execute(command);
        // The caller may have stopped waiting; the command has been executed all the same.
        let _ = answer.send(reply);
    }
}

impl Server {
    fn execute(&mut self, command: Command) -> Result<Reply, NodeError> {
        let now = Instant::now();
        self.keys.retain(|_, (_, expires)| now < *expires);
        Ok(match command {
            // A node that does not say that it takes sets is asked for one resource at a time.
            //
            // This server never forgets, so it ignores what a round knew of it (the mark); and it keeps no notes of
            // holders.
            Command::Acquire { target, owner, ttl, hint, count, .. } => {
                let resource = target.resource();
                if let Some((holder, expires)) = self.keys.get(resource.as_bytes()) {
                    let holder = holder.clone().into_boxed_slice();
                    let remaining = expires.saturating_duration_since(now);
                    return Ok(Reply::Denied(Denial::new(Some(holder), Some(remaining))));
                }
                let name = resource.as_bytes().to_vec();
                self.keys.insert(name.clone(), (owner.to_hex().to_vec(), now + ttl));
                // Takes `count` fencing tokens above all earlier ones, and returns the last. Without a hint (classic
                // mode) none is wanted.
                let token = hint.map(|hint| {
                    let counter = self.counters.entry(name).or_default();
                    *counter = hint.max(*counter + count);
                    FencingToken::new(*counter)
                });
                Reply::Granted(token.into())
            }
            Command::Confirm { target, owner, token, mark: _ } => {
                let resource = target.resource();
                let held = self.holds(resource, owner);
                match self.counters.get_mut(resource.as_bytes()) {
                    // The guard against two holders with one token: a counter never falls.
                    Some(counter) if held && *counter <= token.get() => {
                        *counter = token.get();
                        Reply::Granted(Granted::at(token))
                    }
                    _ => Reply::Denied(Denial::default()),
                }
            }
            Command::Extend { target, owner, ttl, .. } => {
                let resource = target.resource();
                let held = self.holds(resource, owner);
                match self.keys.get_mut(resource.as_bytes()) {
                    Some((_, expires)) if held => {
                        // Never earlier than before: an extension may arrive after a later one.
                        *expires = (*expires).max(now + ttl);
                        Reply::Granted(Granted::DONE)
                    }
                    Some(_) => Reply::Denied(Denial::default()),
                    None => Reply::Denied(Denial::gone()),
                }
            }
            Command::Release { target, owner, keep } => {
                let resource = target.resource();
                if !self.holds(resource, owner) {
                    return Ok(Reply::Denied(Denial::default()));
                }
                match (keep, self.keys.get_mut(resource.as_bytes())) {
                    // Its holder is done, and nobody else may have it before `keep` is over.
                    (Some(keep), Some((_, expires))) => *expires = now + keep,
                    _ => drop(self.keys.remove(resource.as_bytes())),
                }
                Reply::Granted(Granted::DONE)
            }
            // This server never loses a key, so there is nothing to restore; and a command of a later version has
            // no effect either.
            _ => {
                let (code, message) = (Arc::from("ERR"), Arc::from("unknown command"));
                return Err(NodeError::Rejected { sent: false, code, message });
            }
        })
    }

    fn holds(&self, resource: &Resource, owner: Owner) -> bool {
        self.keys.get(resource.as_bytes()).is_some_and(|(holder, _)| *holder == owner.to_hex())
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
