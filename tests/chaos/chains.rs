//! Workers that pass a lease along, from process to process: each adopts what it is given, works, detaches, and leaves the
//! text for whoever comes next. Where there is none in time, since its holder has lost it, it acquires anew.
//!
//! It judges nothing, and as any worker it never records more than what it was promised.

use std::{thread, time::Duration};

use futures::executor::block_on;
use quorlock::{AcquireError, DetachedLease};

use super::{
    MS, SECOND,
    checker::Held,
    holds::Holds,
    record::{Count, Event, Passed, now},
    register::Register,
    worker::{Worker, counted, name},
};

/// How many there are. A process has one worker for each.
pub(crate) const CHAINS: usize = 4;

/// How long a worker waits for a text before it tries to acquire.
const NEXT: Duration = Duration::from_millis(100);

impl<W: Fn(Event)> Worker<W> {
    /// Takes its part in one chain.
    pub(crate) fn pass_along(&self, register: &mut Register) {
        let resource = self.number % CHAINS;
        while !self.is_stopped() {
            let text = register.take(resource, NEXT);
            let given: Option<DetachedLease> = text.map(|text| text.parse().expect("a lease"));
            let asked = now();
            let granted = match &given {
                Some(detached) => self.client.adopt(detached).wait(SECOND).blocking(),
                None => self.client.try_acquire(name(resource)).blocking(),
            };
            let lease = match granted {
                Ok(lease) => lease,
                Err(AcquireError::NotAdopted { .. }) => {
                    self.count(Count::NotAdopted);
                    continue;
                }
                Err(error) => {
                    self.count(counted(error));
                    continue;
                }
            };
            let start = now();
            let lease = Holds::Alone(lease);
            let (worker, token) = (self.number, lease.token());
            // Read after the start, so that the sum never lies beyond the true end.
            let end = start + lease.validity();
            let (owner, kept) = (lease.owner(), Duration::ZERO);
            let mut held =
                Held { owner, worker, resource, reads: false, token, asked, start, end, kept };
            self.say(Event::Granted(held.clone()));
            let token = token.expect("a token");
            if let Some(detached) = given {
                let before = detached.token().get();
                self.say(Event::Passed(Passed { worker, resource, before, token }));
            }
            let pause = match rand::random::<u8>() {
                // A holder that hangs.
                0 => self.orders.ttl + 50 * MS,
                1..16 => 30 * MS,
                _ => MS,
            };
            let looked = now();
            if let Ok(validity) = lease.check() {
                held.end = held.end.max(looked + validity);
                // The effect is on its way. A worker stopped meanwhile is late when it goes on.
                thread::sleep(pause);
                self.act(register, resource, token, &lease);
            }
            held.end = now().min(held.end);
            self.say(Event::Held(held));
            let Holds::Alone(lease) = lease else { continue };
            let detached = match rand::random_ratio(1, 8) {
                true => block_on(lease.detach_for(self.orders.ttl)),
                false => lease.detach(),
            };
            let Ok(detached) = detached else {
                self.count(Count::Lost);
                continue;
            };
            // Now and then two have the text.
            for _ in 0..1 + usize::from(rand::random_ratio(1, 8)) {
                register.put(resource, &detached.to_string());
            }
        }
    }
}
