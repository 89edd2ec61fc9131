//! A worker: takes the lock over and over, writes to the store while it holds it, and says on standard output what it did.
//!
//! It is as careful as a service should be and no more: it looks whether it still holds the lock, and then writes. A
//! worker stopped between the two writes late, which no look can prevent. It judges nothing, and never records more
//! than it was promised: a lease ends before its release, or when its validity is over, whichever comes first.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::sleep,
    time::Duration,
};

use quorlock::{AcquireError, Builder, Lease, Redlock, Settings, protocol::FencingToken};
use quorlock_harness::{
    history::{
        checker::{Effect, Held},
        record::{Count, Event, Loss, now},
    },
    register::Register,
};
use serde::{Deserialize, Serialize};

use super::dice::Dice;
use crate::{
    exit::{Failure, Status},
    trial::told,
};

const MS: Duration = Duration::from_millis(1);

/// What a worker does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Part {
    pub(crate) number: usize,
    pub(crate) nodes: Vec<String>,
    pub(crate) resource: String,
    /// The address of the store.
    pub(crate) store: String,
    pub(crate) ttl: Duration,
    /// Whether nobody else uses these nodes.
    pub(crate) own: bool,
    pub(crate) classic: bool,
    /// Whether the store compares tokens.
    pub(crate) fenced: bool,
    pub(crate) seed: u64,
}

impl Part {
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

/// What `quorlock chaos-worker` does: it works until its input ends, whose first line is its part. That is no argument, since
/// addresses may contain passwords.
pub(crate) fn work() -> Result<ExitCode, Failure> {
    let (part, over): (Part, _) = told()?;
    // A replacement may start while nodes are away.
    let client = loop {
        match part.builder()?.blocking_connect() {
            Ok(client) => break client,
            Err(_) if !over.load(Relaxed) => sleep(20 * MS),
            Err(error) => return Err(Failure::new(Status::Broken, error)),
        }
    };
    let store = Register::open(&part.store);
    let dice = Dice::new(part.seed);
    let mut worker = Worker { part, client, store, dice, over };
    while !worker.over.load(Relaxed) {
        worker.once();
    }
    // Some nodes may be down at the end, and then a key stays for its ttl.
    drop(worker.client.blocking_close());
    Ok(Status::Done.into())
}

struct Worker {
    part: Part,
    client: Redlock,
    store: Register,
    dice: Dice,
    over: Arc<AtomicBool>,
}

impl Worker {
    fn once(&mut self) {
        let asked = now();
        match self.client.acquire(&self.part.resource).wait(1000 * MS).blocking() {
            Ok(lease) => self.hold(asked, lease),
            Err(AcquireError::Contended { .. }) => say(&Event::Count(Count::Contended)),
            Err(AcquireError::TooLate { .. }) => say(&Event::Count(Count::TooLate)),
            Err(_) => {
                say(&Event::Count(Count::NoQuorum));
                sleep(20 * MS);
            }
        }
        sleep(MS.mul_f64(self.dice.between(10.0, 60.0)));
    }

    fn hold(&mut self, asked: Duration, lease: Lease) {
        let start = now();
        // Read after the start, so that the sum never lies beyond the true end.
        let mut until = start + lease.validity();
        let (owner, worker) = (lease.owner().to_string(), self.part.number);
        let token = lease.token().ok().map(FencingToken::get);
        let held = |end: Duration| {
            let (owner, kept) = (owner.clone(), Duration::ZERO);
            Held { owner, worker, resource: 0, reads: false, token, asked, start, end, kept }
        };
        say(&Event::Granted(held(until)));
        let work_ends = start + self.part.ttl.mul_f64(self.dice.between(0.4, 1.3));
        let mut lost = None;
        while lost.is_none() && now() < work_ends && !self.over.load(Relaxed) {
            let looked = now();
            let validity = match lease.check() {
                Ok(validity) => validity,
                Err(error) => {
                    lost = Some(error.to_string());
                    break;
                }
            };
            if looked + validity > until + 5 * MS {
                until = looked + validity;
                say(&Event::Renewed(held(until)));
            }
            // The write is made ready. A worker stopped here is late when it goes on.
            sleep(MS.mul_f64(self.dice.between(30.0, 100.0)));
            lost = self.write(&lease, token.unwrap_or_else(|| micros(start)));
        }
        // This look promises the lease up to then: the record must not say less.
        let looked = now();
        let left = lease.check();
        let until = left.as_ref().map_or(until, |validity| until.max(looked + *validity));
        say(&Event::Held(held(now().min(until))));
        // The worker may have been stopped after the last write.
        let lost = lost.or_else(|| left.err().map(|error| error.to_string()));
        if let Some(why) = lost {
            say(&Event::Lost(Loss { worker, at: now(), why }));
            drop(lease);
        } else if lease.blocking_release().is_err() {
            say(&Event::Count(Count::ReleaseUnconfirmed));
        }
    }

    /// Returns why the lock was lost, if it no longer holds after the write or the store refused. Without tokens the
    /// time of the grant tells the record whose turn it was; no store could compare it, as clocks of machines differ.
    fn write(&mut self, lease: &Lease, token: u64) -> Option<String> {
        let (worker, fenced) = (self.part.number, self.part.fenced);
        let before = now();
        let accepted = self.store.write(0, token, fenced);
        let after = now();
        let lost = lease.check().err().map(|error| error.to_string());
        let held = lost.is_none();
        let (resource, reads) = (0, false);
        say(&Event::Effect(Effect {
            worker,
            resource,
            reads,
            token,
            before,
            after,
            accepted,
            held,
        }));
        lost.or_else(|| (!accepted).then(|| "the store has refused it".to_owned()))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes one line. The process that started this one may be gone.
fn say(event: &Event) {
    drop(writeln!(std::io::stdout().lock(), "{event}"));
}
