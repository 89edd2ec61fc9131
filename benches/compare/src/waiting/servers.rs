//! What the servers count: the commands that have come to them.

use std::collections::BTreeMap;

use quorlock_harness::Cluster;

use super::who::Who;

/// What nothing but clients sends: scripts are sent as these, and what they call inside is counted by other names.
const SENT: [&str; 4] = ["eval", "evalsha", "fcall", "ping"];

/// Calls of each command since the servers started, over all servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// As the servers have it now.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let mut calls = BTreeMap::new();
        for server in cluster.iter() {
            let info = server.run(&["INFO", "commandstats"]);
            let info: String = redis::from_redis_value(info).expect("a text");
            for (name, count) in info.lines().filter_map(parsed) {
                *calls.entry(name).or_default() += count;
            }
        }
        Self(calls)
    }

    fn since(&self, before: &Self, counted: impl Fn(&str) -> bool) -> f64 {
        let new = |(name, count): (&String, &u64)| {
            count.saturating_sub(before.0.get(name).copied().unwrap_or_default())
        };
        let sum: u64 = self.0.iter().filter(|(name, _)| counted(name)).map(new).sum();
        #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let sum = sum as f64;
        sum
    }

    /// How many commands clients have sent since then, as this contender sends them.
    pub(super) fn sent(&self, before: &Self, who: Who) -> f64 {
        self.since(before, |name| {
            SENT.contains(&name)
                || name.contains("subscribe")
                || name.contains('|')
                || (name == "set" && who.sends_set())
        })
    }

    /// How many pushes the servers have sent.
    pub(super) fn pushed(&self, before: &Self) -> f64 {
        self.since(before, |name| name == "publish")
    }

    /// All commands that were run, those inside of scripts too.
    pub(super) fn run(&self, before: &Self) -> f64 {
        self.since(before, |name| name != "info")
    }
}

/// A line such as `cmdstat_evalsha:calls=12,usec=...`.
fn parsed(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(of: &[(&str, u64)]) -> Calls {
        Calls(of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    #[test]
    fn a_line_of_commandstats() {
        assert_eq!(
            parsed("cmdstat_client|tracking:calls=3,usec=9,usec_per_call=3.00"),
            Some(("client|tracking".to_owned(), 3))
        );
        assert_eq!(parsed("# Commandstats"), None);
    }

    #[test]
    fn what_a_script_calls_is_not_sent() {
        let before = calls(&[("evalsha", 10), ("set", 10)]);
        let after = calls(&[("evalsha", 14), ("set", 12), ("publish", 1), ("info", 7)]);
        assert_eq!(after.sent(&before, Who::Quorlock).to_bits(), 4.0_f64.to_bits());
        assert_eq!(after.sent(&before, Who::Rslock).to_bits(), 6.0_f64.to_bits());
        assert_eq!(after.run(&before).to_bits(), 7.0_f64.to_bits());
        assert_eq!(after.pushed(&before).to_bits(), 1.0_f64.to_bits());
    }
}
