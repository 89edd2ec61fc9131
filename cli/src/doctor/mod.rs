//! `quorlock doctor`: whether a fleet is fit for locks, and what to do where it is not.
//!
//! It decides which status says what; the crate decides what is wrong. It must never set a key.

pub(crate) mod as_json;
pub(crate) mod table;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use quorlock::inspect::{Finding, Inspection, Severity};

use crate::{
    args::{Form, Nodes, duration},
    exit::{Failure, Status},
    output::{BAD, DOUBTFUL, FAINT, GOOD, doing, json, line, styled},
    shown::{counted, plain},
};

/// Says whether the nodes are fit for locks, and what to do where they are not: status 0 where they are, 1 with warnings, 2 with
/// errors. Notes alone are 0.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It looks at reachability, versions, roles, memory, eviction, persistence, rights, round trips, clocks and their rates, markers \
and quarantines, proxies, and TLS, each on a connection of its own, also of nodes that must not vote. Give it the same URLs and \
settings as the processes that lock: like them it tells the nodes its max_ttl. It sets no key, and needs no right that they do not need; with +config|get it knows more.

For monitoring: the statuses are those of a Nagios plugin, and --json has a word for each finding that stays what it is. 64 and 78 \
say that it could not look: usage, and settings.")]
pub(crate) struct Doctor {
    /// For how long the clocks are looked at: a rate is known to about a round trip in this time
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    over: Duration,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

/// Timers are rounded to a millisecond or two.
const BUSY: Duration = Duration::from_millis(10);

pub(crate) async fn examine(asked: Doctor) -> Result<ExitCode, Failure> {
    let redlock = asked.nodes.connect()?;
    doing(&format!("looking at {} for {:?}", counted(redlock.nodes().len(), "node"), asked.over));
    let inspection = redlock.inspect(asked.over).await;
    let findings = inspection.findings();
    if asked.form.json {
        json(&as_json::of(&inspection, &findings));
    } else {
        tell(&inspection, &findings);
    }
    Ok(status(&findings).into())
}

fn status(findings: &[Finding]) -> Status {
    match findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Note) => Status::Done,
        Some(Severity::Warning) => Status::No,
        // Whatever is worse than a warning.
        Some(_) => Status::Bad,
    }
}

fn tell(inspection: &Inspection, findings: &[Finding]) {
    for row in table::of(inspection) {
        line(&row);
    }
    if inspection.woken_late() >= BUSY {
        let late = table::ms(inspection.woken_late());
        let busy = format!(
            "this machine is busy: this process was woken up to {late} late, and round trips are shown longer by that"
        );
        line(&styled(FAINT, &busy));
    }
    for group in groups(findings) {
        let Some(first) = group.first() else { continue };
        let style = match first.severity {
            Severity::Note => FAINT,
            Severity::Warning => DOUBTFUL,
            _ => BAD,
        };
        line("");
        line(&format!(
            "{} {}{}",
            styled(style, first.severity.name()),
            plain(&nodes_of(&group)),
            plain(&first.cause)
        ));
        line(&format!("  {} {}", styled(FAINT, "do:"), plain(&first.remedy)));
    }
    line("");
    line(&summary(inspection, findings));
}

/// A finding that several nodes share is told once.
fn groups(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        let same = |group: &&mut Vec<&Finding>| {
            group.first().is_some_and(|first| {
                (first.severity, &first.cause, &first.remedy)
                    == (finding.severity, &finding.cause, &finding.remedy)
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// `node 0 (a): `, or `nodes 0, 2 (a, b): `; empty for a finding about all.
fn nodes_of(group: &[&Finding]) -> String {
    let joined = |part: fn(&Finding) -> Option<String>| {
        group.iter().filter_map(|finding| part(finding)).collect::<Vec<String>>().join(", ")
    };
    let nodes = joined(|finding| finding.node.map(|node| node.index().to_string()));
    let addresses = joined(|finding| finding.address.as_deref().map(str::to_owned));
    match (nodes.is_empty(), group.len()) {
        (true, _) => String::new(),
        (false, 1) => format!("node {nodes} ({addresses}): "),
        (false, _) => format!("nodes {nodes} ({addresses}): "),
    }
}

fn summary(inspection: &Inspection, findings: &[Finding]) -> String {
    let nodes = inspection.nodes.len();
    let count = |severity, word: &str| {
        let found = findings.iter().filter(|finding| finding.severity == severity).count();
        (found > 0).then(|| counted(found, word))
    };
    let counts = [
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let (verdict, style) = match status(findings) {
        Status::Done => ("fit", GOOD),
        Status::No => ("fit for now", DOUBTFUL),
        _ => ("not fit", BAD),
    };
    let about = if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") };
    format!("{}: {about}, {}", styled(style, verdict), counted(nodes, "node"))
}
