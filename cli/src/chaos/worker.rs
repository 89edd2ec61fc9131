//! Our own worker: takes the lock over and over, and has the counter written while it holds it, by the lines of `protocol`.
//!
//! It is as careful as a service should be and no more: it looks whether it still holds the lock, and then writes. A
//! worker stopped between the two writes late, which no look can prevent. It judges nothing, and never says more
//! than it was promised.

use std::{
    env,
    io::Write as _,
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;
use quorlock::{Builder, Lease, Redlock, Settings, node::NodeSpec, protocol::FencingToken};

use super::{dice::Dice, protocol::Said};
use crate::exit::{Failure, Status};

const MS: Duration = Duration::from_millis(1);

/// How it differs from a worker of the user's.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Worker {
    /// Nobody else uses these nodes
    #[arg(long)]
    own: bool,
    #[arg(long)]
    classic: bool,
}

/// Whoever uses the nodes, the observer among them.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) nodes: Vec<String>,
    pub(crate) ttl: Duration,
    /// Whether nobody else uses these nodes.
    pub(crate) own: bool,
    pub(crate) classic: bool,
}

impl Client {
    /// The settings of a client.
    pub(crate) fn builder(&self) -> Result<Builder, Failure> {
        let mut builder = Redlock::builder().nodes(&self.nodes);
        if !self.own {
            // Above all the longest ttl: a node that forgot must wait for as long as its other clients want.
            let settings = Settings::from_env();
            builder =
                builder.settings(settings.map_err(|error| Failure::new(Status::Config, error))?);
        } else if !self.classic {
            builder = builder.max_ttl(self.ttl);
        }
        let builder = builder.ttl(self.ttl).node_timeout(200 * MS).connect_timeout(1000 * MS);
        Ok(if self.classic { builder.classic() } else { builder })
    }
}

/// A number or a text that every worker is told.
fn told<T: std::str::FromStr>(name: &str) -> Result<T, Failure> {
    let name = format!("CHAOS_{name}");
    let value = env::var(&name).ok().and_then(|value| value.parse().ok());
    value.ok_or_else(|| {
        Failure::new(Status::Usage, format!("{name} is not set, or is no such value"))
    })
}

/// What `quorlock chaos-worker` does: it works until its input ends.
pub(crate) fn work(worker: Worker) -> Result<ExitCode, Failure> {
    let Worker { own, classic } = worker;
    let nodes: String = told("NODES")?;
    let nodes = NodeSpec::urls(&nodes).map(str::to_owned).collect();
    let ttl = told("TTL_MS").map(Duration::from_millis)?;
    let (resource, dice) = (told("RESOURCE")?, Dice::new(told("SEED")?));
    let settings = Client { nodes, ttl, own, classic };
    // A replacement may start while nodes are away; each `ask` is a look whether it is to go on.
    let client = loop {
        if say(&Said::Ask {}).is_none() {
            return Ok(Status::Done.into());
        }
        match settings.builder()?.blocking_connect() {
            Ok(client) => break client,
            Err(error) => {
                say(&Said::Failed { why: Some(error.to_string()) });
            }
        }
    };
    let mut work = Work { client, resource, ttl, dice };
    while say(&Said::Ask {}).is_some() && work.once().is_some() {}
    // Some nodes may be down at the end, and then a key stays for its ttl.
    drop(work.client.blocking_close());
    Ok(Status::Done.into())
}

struct Work {
    client: Redlock,
    resource: String,
    ttl: Duration,
    dice: Dice,
}

impl Work {
    /// One acquire, and what follows; none where the input has ended.
    fn once(&mut self) -> Option<()> {
        let asked = Instant::now();
        match self.client.acquire(&self.resource).wait(1000 * MS).blocking() {
            Ok(lease) => self.hold(asked, lease),
            Err(error) => {
                say(&Said::Failed { why: Some(error.to_string()) })?;
                sleep(20 * MS);
                Some(())
            }
        }
    }

    /// Where the input ends the lease is released as it is dropped.
    fn hold(&mut self, asked: Instant, lease: Lease) -> Option<()> {
        let token = lease.token().ok().map(FencingToken::get);
        let work_ends = Instant::now() + self.ttl.mul_f64(self.dice.between(0.4, 1.3));
        let mut promised = Duration::ZERO;
        let lost = loop {
            // Before the look, so that the sum never lies beyond the true end.
            let looked = asked.elapsed();
            match lease.check() {
                Err(error) => break Some(error.to_string()),
                Ok(validity) if looked + validity > promised + 5 * MS => {
                    promised = looked + validity;
                    let validity_ms = Some(promised.as_secs_f64() * 1000.0);
                    say(&Said::Got { token, validity_ms })?;
                }
                Ok(_) => {}
            }
            if Instant::now() >= work_ends {
                break None;
            }
            if say(&Said::Read {})? || say(&Said::Write {})? {
                // The store has refused it, which is wrong where the lease still holds.
                break lease.check().err().map(|error| error.to_string());
            }
        };
        if let Some(why) = lost {
            if promised == Duration::ZERO {
                // It was over before it could be told.
                return say(&Said::Failed { why: Some(why) }).map(drop);
            }
            say(&Said::Lost { why: Some(why) })?;
            drop(lease);
        } else {
            say(&Said::Release {})?;
            // Where no quorum confirms that, the keys expire.
            drop(lease.blocking_release());
        }
        Some(())
    }
}

/// Says a line, and waits for its answer: whether the store has refused it; none where the input has ended.
fn say(said: &Said) -> Option<bool> {
    let line = serde_json::to_string(said).ok()?;
    writeln!(std::io::stdout().lock(), "{line}").ok()?;
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer).ok()?;
    (read > 0).then(|| answer.trim_end() == "stale")
}
