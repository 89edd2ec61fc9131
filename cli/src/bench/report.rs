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
use crate::shown::counted;

/// The version of a node that has not been reached.
pub(super) const UNKNOWN: &str = "unknown version";

/// A line is noisy if its largest median of a turn is more than so many times the least.
const NOISY: f64 = 1.5;
/// How far the medians of two halves of one run differ on an idle machine.
const SAME: f64 = 1.02;

/// How much longer `to` takes than `from`; `None` where that is less than their own turns differ by, or less than
/// nothing.
fn more(from: &Figures, to: &Figures) -> Option<String> {
    let (before, after) = (from.at(50.0)?, to.at(50.0)?);
    let (ratio, noise) = (after / before.max(1.0), from.noise().max(to.noise()));
    match ratio {
        _ if (1.0 / SAME..=SAME).contains(&ratio) => Some("no more".to_owned()),
        _ if ratio > noise.max(SAME) => Some(format!("{} more", span(after - before))),
        _ => None,
    }
}

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

    /// What a lease is here: with tokens, or without where that was asked for.
    fn lease(&self) -> Option<&Figures> {
        self.line(Line::Lease).or_else(|| self.line(Line::Classic))
    }

    /// Whether the machine, or the network, is too noisy for one figure of a lease.
    fn is_noisy(&self) -> bool {
        self.lease().is_some_and(|lease| lease.noise() > NOISY)
    }

    /// What makes the noise.
    const fn noise_of(&self) -> &'static str {
        if self.own { "this machine" } else { "this machine or the network" }
    }

    pub(super) fn headline(&self) -> String {
        let nodes = match (self.nodes.len(), self.own) {
            (1, true) => "one server on this machine".to_owned(),
            (1, false) => "this node".to_owned(),
            (count, true) => format!("{count} servers on this machine"),
            (count, false) => format!("these {count} nodes"),
        };
        let Some(lease) = self.lease() else {
            return format!("A lock on {nodes}: nothing was measured");
        };
        match (lease.turns(), lease.at(50.0)) {
            (Some((least, largest)), _) if self.is_noisy() => format!(
                "A lock on {nodes}: {} to {} to acquire and release, since {} is too noisy for one figure",
                span(least),
                span(largest),
                self.noise_of()
            ),
            (_, median) => {
                let median = median.map_or_else(|| "none".to_owned(), span);
                format!("A lock on {nodes}: {median} to acquire and release")
            }
        }
    }

    /// Where the time of the headline goes, as far as the comparisons say: the parts add up to it, or none is told.
    pub(super) fn parts(&self) -> Option<String> {
        let (floor, classic) = (self.line(Line::FanOut)?, self.line(Line::Classic)?);
        let steps = [(floor, Some(classic)), (classic, self.line(Line::Lease))];
        let steps = steps.into_iter().filter_map(|(from, to)| Some(more(from, to?)));
        let Some(more) = steps.collect::<Option<Vec<String>>>().filter(|_| !self.is_noisy()) else {
            let noise = [Some(floor), Some(classic), self.line(Line::Lease)];
            let noise = noise.into_iter().flatten().map(Figures::noise).fold(1.0, f64::max);
            let apart = ((noise - 1.0) * 100.0).round();
            let by = if apart > 2.0 {
                format!(": medians of turns differ by {apart} %")
            } else {
                String::new()
            };
            let of = self.noise_of();
            return Some(format!("Where that goes cannot be said, since {of} is too noisy{by}"));
        };
        let mut text = format!(
            "At the median: {} for a bare fan-out, without this crate",
            span(floor.at(50.0)?)
        );
        for (what, more) in ["; its leases take", ", and tokens"].into_iter().zip(more) {
            text += &format!("{what} {more}");
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
        Some(format!("{} at once: {rate} leases a second{limited}", counted(self.clients, "task")))
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
        // A node that is away does not tell its version.
        let mut known = self.nodes.iter().map(|(_, version)| version).filter(|one| *one != UNKNOWN);
        let first = known.next().map_or(UNKNOWN, String::as_str);
        let same = known.all(|version| version == first);
        let versions = if same { first } else { "different versions" };
        let rate = self.rate.map_or_else(
            || "as fast as it goes".to_owned(),
            |rate| format!("{} operations a second at most", thousands(f64::from(rate))),
        );
        let seconds = self.seconds;
        // Its figures must not pass for those of a release.
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
            "noisy": self.is_noisy(),
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

    /// With these medians, in microseconds.
    fn measured(all: [(Line, u64); 3]) -> Report {
        let mut report = empty(&[]);
        for (line, micros) in all {
            let mut figures = Figures::new(line).unwrap();
            figures.add(std::time::Duration::from_micros(micros));
            report.lines.push(figures);
        }
        report
    }

    /// The microseconds that a sentence names.
    fn named(text: &str) -> Vec<f64> {
        let words: Vec<&str> = text.split([' ', ';', ',']).collect();
        let micros = |pair: &[&str]| (pair[1] == "us").then(|| pair[0].parse().unwrap());
        words.windows(2).filter_map(micros).collect()
    }

    #[test]
    fn the_parts_are_as_much_as_the_headline_says_or_none_are_told() {
        let mut told = 0;
        for (floor, classic, lease) in [
            (100, 120, 150),
            (100, 101, 150),
            (100, 150, 151),
            (100, 100, 100),
            // What contradicts itself is noise.
            (150, 130, 123),
            (100, 150, 123),
            (150, 100, 160),
        ] {
            let all = [(Line::FanOut, floor), (Line::Classic, classic), (Line::Lease, lease)];
            let report = measured(all);
            let (head, parts) = (report.headline(), report.parts().unwrap());
            let (head, parts_sum) = (named(&head)[0], named(&parts).iter().sum::<f64>());
            if parts.contains("too noisy") {
                assert!(classic * 100 < floor * 98 || lease * 100 < classic * 98, "{parts}");
                assert_eq!(named(&parts), Vec::<f64>::new(), "{parts}");
            } else {
                assert!((parts_sum / head - 1.0).abs() < 0.05, "{head}: {parts}");
                told += 1;
            }
        }
        assert_eq!(told, 4);
    }

    #[test]
    fn what_differs_by_less_than_can_be_seen_differs_by_nothing() {
        assert_eq!(empty(&[]).parts(), None);
        let report = measured([(Line::FanOut, 100), (Line::Classic, 101), (Line::Lease, 150)]);
        let parts = report.parts().unwrap();
        assert!(parts.ends_with("its leases take no more, and tokens 49.0 us more"), "{parts}");
    }

    /// Turns of these medians, in microseconds.
    fn in_turns(line: Line, medians: [u64; 3]) -> Figures {
        let mut all = Figures::new(line).unwrap();
        for micros in medians {
            let mut turn = Figures::new(line).unwrap();
            (0..20).for_each(|_| turn.add(std::time::Duration::from_micros(micros)));
            all.turn(&turn);
        }
        all
    }

    #[test]
    fn a_machine_whose_turns_differ_is_too_noisy_for_a_figure() {
        let of = |floor, classic, lease| {
            let mut report = empty(&[]);
            report.lines.push(in_turns(Line::FanOut, floor));
            report.lines.push(in_turns(Line::Classic, classic));
            report.lines.push(in_turns(Line::Lease, lease));
            (report.headline(), report.parts().unwrap(), report.is_noisy())
        };
        let (head, parts, noisy) = of([100, 101, 102], [120, 121, 120], [150, 151, 149]);
        assert!(head.ends_with(": 150 us to acquire and release") && !noisy, "{head}");
        assert!(parts.ends_with("take 19.0 us more, and tokens 30.0 us more"), "{parts}");
        // The figure stands, and what it is made of is within what the turns differ by.
        let (head, parts, noisy) = of([100, 101, 130], [120, 121, 120], [150, 151, 149]);
        assert!(head.ends_with(": 150 us to acquire and release") && !noisy, "{head}");
        assert!(parts.ends_with("medians of turns differ by 30 %"), "{parts}");
        let (head, parts, noisy) = of([100, 101, 102], [120, 121, 120], [150, 290, 190]);
        assert!(head.contains(": 150 us to 290 us to acquire") && noisy, "{head}");
        assert!(
            head.ends_with("this machine or the network is too noisy for one figure"),
            "{head}"
        );
        assert!(parts.starts_with("Where that goes cannot be said"), "{parts}");
    }
}
