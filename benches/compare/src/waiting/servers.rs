//! What the servers count: the commands that have come to them.

use std::collections::BTreeMap;

use quorlock_harness::{Cluster, Server};

use super::who::Who;

/// Commands that only clients send: scripts arrive as these, and the commands inside them have other names.
const SENT: [&str; 4] = ["eval", "evalsha", "fcall", "ping"];

/// Calls of each command since the servers started, server by server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Vec<BTreeMap<String, u64>>);

impl Calls {
    /// As the servers have it now.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let of = |server: &Server| {
            let info = server.run(&["INFO", "commandstats"]);
            let info: String = redis::from_redis_value(info).expect("a text");
            info.lines().filter_map(parsed).collect()
        };
        Self(cluster.iter().map(of).collect())
    }

    /// New calls of what is counted, server by server.
    fn since(&self, before: &Self, counted: impl Fn(&str) -> bool) -> impl Iterator<Item = f64> {
        self.0.iter().zip(&before.0).map(move |(after, before)| {
            let new = |(name, count): (&String, &u64)| {
                count.saturating_sub(before.get(name).copied().unwrap_or_default())
            };
            let sum: u64 = after.iter().filter(|(name, _)| counted(name)).map(new).sum();
            #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            let sum = sum as f64;
            sum
        })
    }

    /// How many scripts clients have sent to each server since then, on average.
    #[allow(clippy::cast_precision_loss, reason = "a handful of servers")]
    pub(crate) fn scripts(&self, before: &Self) -> f64 {
        let scripts = self.since(before, |name| SENT.contains(&name) && name != "ping");
        scripts.sum::<f64>() / self.0.len() as f64
    }

    /// How many commands clients have sent to each server since then, as this contender sends them.
    pub(super) fn sent(&self, before: &Self, who: Who) -> Vec<f64> {
        let sent = |name: &str| {
            SENT.contains(&name)
                || name.contains("subscribe")
                || name.contains('|')
                || (name == "set" && who.sends_set())
        };
        self.since(before, sent).collect()
    }

    /// How many pushes all servers have sent.
    pub(super) fn pushed(&self, before: &Self) -> f64 {
        self.since(before, |name| name == "publish").sum()
    }

    /// All commands that were run on all servers, those inside of scripts too.
    pub(super) fn run(&self, before: &Self) -> f64 {
        self.since(before, |name| name != "info").sum()
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
        Calls(vec![of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()])
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
        assert_eq!(after.sent(&before, Who::Quorlock), [4.0]);
        assert_eq!(after.sent(&before, Who::Rslock), [6.0]);
        assert_eq!(after.scripts(&before).to_bits(), 4.0_f64.to_bits());
        assert_eq!([after.run(&before), after.pushed(&before)], [7.0, 1.0]);
    }
}
