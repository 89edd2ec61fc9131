//! The healing phase: everybody is well again, and so everything must go on, and nothing may be left.

use std::future::IntoFuture;

use quorlock::{AcquireError, CloseError, Redlock};

use super::World;
use crate::{
    SECOND,
    invariants::{self, Violation},
    node::SimServer,
    setup::Setup,
};

impl World {
    pub(super) fn judge(&self, setup: Setup, redlocks: &[Redlock]) -> Result<(), Violation> {
        invariants::check(&self.record.lock().unwrap().history)?;
        // What was lost and dropped stands until then.
        if !setup.lock_delay.is_zero() {
            self.runtime.pass(setup.longest_ttl + setup.lock_delay);
        }
        // What was left behind is being released: nobody has to wait for a ttl, and for a quarantine only
        // where a majority has forgotten.
        let wait = if setup.reckless > 0.0 { 6 } else { 2 };
        for resource in ["a", "b", "c"].into_iter().take(if setup.sets { 3 } else { 2 }) {
            let request = redlocks[0].acquire(resource).wait(wait * SECOND);
            let answer = self.runtime.block_on(request.into_future());
            let resource = resource.to_owned();
            drop(answer.map_err(|e| Violation::NotLive { resource, error: e.to_string() })?);
        }
        let mut held = Vec::new();
        if let Some(permits) = setup.permits {
            let semaphore = redlocks[0].semaphore("s", permits).unwrap();
            for _ in 0..permits {
                let request = semaphore.acquire().wait(wait * SECOND);
                let answer = self.runtime.block_on(request.into_future());
                let (resource, error) = ("s".to_owned(), |e: AcquireError| e.to_string());
                held.push(answer.map_err(|e| Violation::NotLive { resource, error: error(e) })?);
            }
        }
        drop(held);
        for (client, redlock) in redlocks.iter().enumerate() {
            let redlock = redlock.clone();
            let closed = self.runtime.block_on(async move { redlock.close().await });
            if let Err(CloseError::Unfinished { unfinished }) = closed {
                return Err(Violation::NotClosed { client, unfinished });
            }
        }
        for (server, keys) in self.servers.iter().map(SimServer::keys).enumerate() {
            if !keys.is_empty() {
                let keys = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
                return Err(Violation::LeftBehind { server, keys });
            }
        }
        Ok(())
    }
}
