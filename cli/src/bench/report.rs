//! What was found, in sentences and as JSON.
//!
//! It decides the words. A difference that is none is called none, and what was limited is said to have been.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    figures::{Figures, span, thousands},
    lines::Line,
    renewals::Renewals,
};

/// The version of a node that has not been reached.
pub(super) const UNKNOWN: &str = "unknown version";

/// Everything that the table, the picture and the JSON are made of.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) own: bool,
    /// Addresses without credentials, and versions.
    pub(super) nodes: Vec<(String, String)>,
    pub(super) seconds: u64,
    pub(super) clients: usize,
    /// Operations in a second, where they are limited.
    pub(super) rate: Option<u32>,
    pub(super) run: String,
    pub(super) interrupted: bool,
    pub(super) lines: Vec<Figures>,
    pub(super) trips: Vec<Option<Figures>>,
    pub(super) renewals: Option<Result<Renewals, String>>,
    /// What may stay until it expires.
    pub(super) left: Option<String>,
}

impl Report {
    pub(super) fn line(&self, line: Line) -> Option<&Figures> {
        self.lines.iter().find(|figures| figures.line == line && figures.count() > 0)
    }

    fn median(&self, line: Line) -> Option<f64> {
        self.line(line)?.at(50.0)
    }

    /// What a lease is here: with tokens, or without where that was asked for.
    fn lease(&self) -> Option<f64> {
        self.median(Line::Lease).or_else(|| self.median(Line::Classic))
    }

    pub(super) fn headline(&self) -> String {
        let nodes = match (self.nodes.len(), self.own) {
            (1, true) => "one server on this machine".to_owned(),
            (1, false) => "this node".to_owned(),
            (count, true) => format!("{count} servers on this machine"),
            (count, false) => format!("these {count} nodes"),
        };
        match self.lease() {
            Some(lease) => format!("A lock on {nodes}: {} to acquire and release", span(lease)),
            None => format!("A lock on {nodes}: nothing was measured"),
        }
    }

    /// Where the time of a lease goes, as far as the comparisons say.
    pub(super) fn parts(&self) -> Option<String> {
        let (floor, classic) = (self.median(Line::FanOut)?, self.median(Line::Classic)?);
        let more = |from: f64, to: f64| {
            // Medians of two halves of one run differ by as much.
            if to > from * 1.02 {
                format!("{} more", span(to - from))
            } else {
                "no more".to_owned()
            }
        };
        let mut text = format!(
            "At the median: {} for a bare fan-out, without this crate; its leases take {}",
            span(floor),
            more(floor, classic)
        );
        if let Some(lease) = self.median(Line::Lease) {
            text += &format!(", and tokens {}", more(classic, lease));
        }
        Some(text)
    }

    pub(super) fn load(&self) -> Option<String> {
        let many = self.line(Line::Many)?;
        let limited = match self.rate {
            Some(rate) => format!(" (limited to {} by --rate)", thousands(f64::from(rate))),
            None => String::new(),
        };
        let rate = thousands(many.rate());
        Some(format!("{} tasks at once: {rate} leases a second{limited}", self.clients))
    }

    pub(super) fn renewal(&self) -> Option<String> {
        Some(match self.renewals.as_ref()? {
            Ok(renewals) => format!(
                "A held lease costs each node {:.2} commands a second, with the ttl of {:?}",
                renewals.per_second(),
                renewals.ttl
            ),
            Err(why) => format!("Renewals were not measured: {why}"),
        })
    }

    pub(super) fn round_trips(&self) -> Option<String> {
        let of = |trip: &Option<Figures>| {
            let median = trip.as_ref().and_then(|trip| trip.at(50.0));
            median.map_or_else(|| "none".to_owned(), span)
        };
        let any = self.trips.iter().flatten().any(|trip| trip.count() > 0);
        any.then(|| {
            let trips: Vec<String> = self.trips.iter().map(of).collect();
            format!("A round trip to each node, in order: {}", trips.join(", "))
        })
    }

    pub(super) fn mode(&self) -> String {
        // One that is away says nothing of itself.
        let mut known = self.nodes.iter().map(|(_, version)| version).filter(|one| *one != UNKNOWN);
        let first = known.next().map_or(UNKNOWN, String::as_str);
        let same = known.all(|version| version == first);
        let versions = if same { first } else { "different versions" };
        let rate = self.rate.map_or_else(
            || "as fast as it goes".to_owned(),
            |rate| format!("{} operations a second at most", thousands(f64::from(rate))),
        );
        let seconds = self.seconds;
        // Nobody should take its figures for those of a release.
        let build = if cfg!(debug_assertions) { ", a slow build for tests" } else { "" };
        let ended = if self.interrupted { ", ended early" } else { "" };
        format!(
            "{versions}, one task where nothing else is said, {rate}, {seconds} s{ended}{build}"
        )
    }

    pub(super) fn json(&self, picture: Option<&Path>) -> Value {
        let nodes = self.nodes.iter().enumerate().map(|(index, (address, version))| {
            let trip = self.trips.get(index).and_then(Option::as_ref);
            let median = trip.and_then(|trip| trip.at(50.0));
            let median = median.map(|nanos| (nanos / 100.0).round() / 10.0);
            json!({ "address": address, "version": version, "round_trip_us": median })
        });
        let renewals = self.renewals.as_ref().and_then(|renewals| renewals.as_ref().ok());
        json!({
            "headline": self.headline(),
            "own_servers": self.own,
            "nodes": nodes.collect::<Vec<_>>(),
            "seconds": self.seconds,
            "clients": self.clients,
            "rate": self.rate,
            "prefix": self.run,
            "interrupted": self.interrupted,
            "lines": self.lines.iter().map(Figures::json).collect::<Vec<_>>(),
            "clients_per_second": self.line(Line::Many).map(|many| many.rate().round()),
            "renewals_in_a_ttl": renewals.map(|seen| (seen.in_a_ttl * 100.0).round() / 100.0),
            "commands_per_held_lease_node_and_second": renewals.map(|seen| (seen.per_second() * 1000.0).round() / 1000.0),
            "left": self.left,
            "picture": picture.map(|path| path.display().to_string()),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Without any figures.
    pub(in crate::bench) fn empty(versions: &[&str]) -> Report {
        let node = |version: &&str| ("<a>&b".to_owned(), (*version).to_owned());
        Report {
            own: false,
            nodes: versions.iter().map(node).collect(),
            seconds: 1,
            clients: 3,
            rate: Some(100),
            run: "quorlock-bench/1/".to_owned(),
            interrupted: true,
            lines: Vec::new(),
            trips: Vec::new(),
            renewals: None,
            left: None,
        }
    }

    #[test]
    fn versions_are_those_of_the_nodes_that_say_theirs() {
        let mode = |versions: &[&str]| empty(versions).mode();
        assert!(mode(&["valkey 8", "valkey 8", UNKNOWN]).starts_with("valkey 8, "));
        assert!(mode(&[UNKNOWN, "valkey 8", "redis 7"]).starts_with("different versions, "));
        assert!(mode(&[UNKNOWN]).starts_with("unknown version, "));
    }

    #[test]
    fn what_differs_by_less_than_can_be_seen_differs_by_nothing() {
        let mut report = empty(&[]);
        assert_eq!(report.parts(), None);
        for (line, micros) in [(Line::FanOut, 100), (Line::Classic, 101), (Line::Lease, 150)] {
            let mut figures = Figures::new(line).unwrap();
            figures.add(std::time::Duration::from_micros(micros));
            report.lines.push(figures);
        }
        let parts = report.parts().unwrap();
        assert!(parts.ends_with("its leases take no more, and tokens 49.0 us more"), "{parts}");
    }
}
