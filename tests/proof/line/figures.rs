//! What a run has cost, and how fast it was.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    network::Who,
    setup::{Faults, Setup},
    world::run,
};

/// The same line in the model, five nodes, as `(clients, what goes wrong, grants per second, p99 of the waits in ms, Jain's
/// index, hand-over p50 and p99 in ms, commands and pushes for each grant and node)`.
pub(crate) const MODEL: [(usize, &str, [f64; 7]); 6] = [
    (2, "nothing", [430.0, 3.2, 0.989, 0.32, 0.59, 3.26, 0.57]),
    (16, "nothing", [426.0, 37.5, 1.000, 0.34, 0.46, 6.11, 2.02]),
    (50, "nothing", [426.0, 117.6, 1.000, 0.34, 0.47, 6.14, 2.02]),
    (16, "kills", [425.0, 36.0, 0.525, 0.34, 0.47, 6.16, 2.02]),
    (16, "stops", [418.0, 219.4, 0.998, 0.34, 2.34, 6.12, 2.02]),
    (16, "down", [420.0, 37.7, 0.999, 0.37, 0.54, 4.95, 1.61]),
];

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) nodes: usize,
    /// How long clients came again.
    pub(crate) time: Duration,
    pub(crate) waits: Vec<Duration>,
    /// From a release to the next grant.
    pub(crate) hand_overs: Vec<Duration>,
    pub(crate) grants: BTreeMap<Who, u64>,
    pub(crate) commands: u64,
    pub(crate) pushes: u64,
    /// Rounds that were begun by wake-ups, and those of them that were lost.
    pub(crate) awakened: u64,
    pub(crate) in_vain: u64,
    pub(crate) gave_up: u64,
}

pub(crate) fn quantile(times: &[Duration], share: f64) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let index = (times.len() as f64 * share) as usize;
    times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Figures {
    pub(crate) fn granted(&self) -> u64 {
        self.grants.values().sum()
    }

    pub(crate) fn jain(&self) -> f64 {
        let sum: u64 = self.grants.values().sum();
        let squares: u64 = self.grants.values().map(|grants| grants * grants).sum();
        (sum * sum) as f64 / (self.grants.len() as f64 * squares as f64)
    }

    /// As in `MODEL`.
    pub(crate) fn all(&self) -> [f64; 7] {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let each = |count: u64| count as f64 / self.granted() as f64 / self.nodes as f64;
        [
            self.granted() as f64 / self.time.as_secs_f64(),
            ms(quantile(&self.waits, 0.99)),
            self.jain(),
            ms(quantile(&self.hand_overs, 0.5)),
            ms(quantile(&self.hand_overs, 0.99)),
            each(self.commands),
            each(self.pushes),
        ]
    }

    pub(crate) fn vain_share(&self) -> f64 {
        self.in_vain as f64 / self.awakened.max(1) as f64
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_figures(f, self.all())?;
        let most = self.hand_overs.iter().max().copied().unwrap_or_default();
        write!(
            f,
            "  latest {:.2} ms  of {} awakened rounds {:.2} % in vain",
            most.as_secs_f64() * 1e3,
            self.awakened,
            self.vain_share() * 100.0
        )
    }
}

fn write_figures(f: &mut fmt::Formatter<'_>, all: [f64; 7]) -> fmt::Result {
    let [rate, wait, jain, half, most, commands, pushes] = all;
    write!(
        f,
        "{rate:4.0}/s  wait p99 {wait:6.1} ms  Jain {jain:.3}  hand-over p50 {half:.2} p99 \
         {most:.2} ms  commands {commands:.2} pushes {pushes:.2}"
    )
}

/// A row of the model.
pub(crate) struct Row(pub(crate) [f64; 7]);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_figures(f, self.0)
    }
}

#[test]
fn they_are_those_of_the_model() {
    let named = |name| {
        let ms = Duration::from_millis;
        match name {
            "kills" => Faults { kill_waiter: Some(ms(50)), ..Faults::NONE },
            "stops" => Faults { stop_waiter: Some((ms(100), ms(200))), ..Faults::NONE },
            "down" => Faults { down: true, ..Faults::NONE },
            _ => Faults::NONE,
        }
    };
    for (clients, name, model) in MODEL {
        let setup = Setup::new(clients, 1).with(named(name)).lasting(Duration::from_secs(2));
        println!("{clients:2} {name:7} model: {}", Row(model));
        let ours = run(setup).figures;
        println!("{clients:2} {name:7} line: {ours}");
        let [rate, wait, jain, half, ..] = ours.all();
        let [model_rate, model_wait, model_jain, model_half, ..] = model;
        assert!(rate >= 0.98 * model_rate && wait <= 1.1 * model_wait && half <= 1.1 * model_half);
        assert!(jain >= model_jain - 0.02 && ours.gave_up == 0);
        assert!(ours.vain_share() <= 0.01 || name == "stops", "{ours}");
    }
}
