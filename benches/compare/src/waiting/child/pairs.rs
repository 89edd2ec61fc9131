//! One task that acquires and releases one resource over and over.

use super::Worker;
use crate::{
    cpu,
    waiting::{
        figures::Spread,
        own::{self, micros},
    },
};

impl Worker {
    /// Pairs up to that time; those that began before `from` are not counted.
    pub(super) async fn pairs(&self, resource: &str, from: u64, until: u64) -> Result<(), String> {
        let (mut acquires, mut pairs) = (Spread::default(), Spread::default());
        let mut before = None;
        loop {
            let asked = own::now();
            if asked >= until {
                break;
            }
            if asked >= from && before.is_none() {
                before = Some(cpu::used());
            }
            let held = self.lockers[0].lock(resource).await?;
            let got = own::now();
            held().await?;
            if asked >= from {
                acquires.push(micros(got - asked));
                pairs.push(micros(own::now() - asked));
            }
        }
        let used = cpu::used() - before.unwrap_or_default();
        let count = pairs.len();
        self.number("pairs", count);
        self.number("pairs_s", count / micros(until - from) * 1e6);
        self.number("cpu", used.as_secs_f64() * 1e6 / count.max(1.0));
        for (name, spread) in [("acquire", &mut acquires), ("pair", &mut pairs)] {
            for (at, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
                if let Some(value) = spread.at(percent) {
                    self.number(&format!("{name}_{at}"), value);
                }
            }
        }
        Ok(())
    }
}
