//! `quorlock bench`: what locks cost on one's own fleet, and how much of that is the network, the quorum, and the tokens.
//!
//! It asks the nodes for what a service would ask them for (`work`, `handover`, `renewals`), for the same without this crate
//! (`floor`), and shows both as a table, as JSON and as a picture. The nodes may be in use: it must never touch a name that is
//! not of this run, nor ask for more than it has said before, and it gives back all that it holds, also when it is ended.

mod figures;
mod floor;
mod handover;
mod lines;
mod partner;
mod picture;
mod renewals;
mod report;
mod stage;
mod table;
mod work;

use std::{
    fs::File,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorlock::{
    Redlock,
    node::{NodeState, NodeStatus},
};
use quorlock_harness::history::record::now;

pub(crate) use self::partner::pass_on;
use self::{
    figures::Figures,
    floor::Floor,
    handover::{between, take_turns},
    lines::Line,
    partner::{Part, Partner},
    report::Report,
    stage::Stage,
    work::{Work, keep},
};
use crate::{
    args::{Form, Nodes},
    exit::{Failure, Status},
    output::{json, line, note},
    trial::{interrupted, possible},
};

/// How many names each line uses in turn: each leaves a counter on the nodes.
const NAMES: usize = 8;
/// How often each line is measured, in turns, so that what disturbs one disturbs the others too.
const TURNS: u32 = 3;
/// The least time for hand-overs, so that there are some.
const SOME: Duration = Duration::from_millis(300);
/// The default rate, on nodes that others may be using.
const CAREFUL: u32 = 100;

/// Measures what locks cost on your nodes, beside the same without this crate, and draws it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It acquires and releases names of its own, `quorlock-bench/<random>/…`, and looks how long that takes: a lease, a permit, a read lease, \
the hand-over to a waiter, a renewal, many tasks at once, and a lease while one node is away. Beside them stand a round trip, \
SET NX PX on one server, and the same sent to all nodes without this crate.

Nodes in use are safe: it says first what load it makes, which --rate limits, harms no server (one is away for this process alone), \
and gives everything back, also on Ctrl-C. What stays is about a hundred counters on each node, and one for each \
task of --clients, for one to two times their retention, which is an hour by default.

  quorlock bench                           on five servers of its own
  quorlock bench --nodes URLS              on yours, 100 operations a second at most
  quorlock bench --nodes URLS --rate max   the same as fast as it goes")]
pub(crate) struct Bench {
    #[command(flatten)]
    nodes: Nodes,
    /// Starts so many servers of its own on this machine, one of which it kills; five where no nodes are named
    #[arg(long, value_name = "NUMBER", conflicts_with = "nodes", value_parser = servers)]
    servers: Option<usize>,
    /// For how long in all, beside the start
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// So many tasks at once in the line that has many
    #[arg(long, default_value_t = 16, value_parser = clients)]
    clients: usize,
    /// So many operations a second at most, or `max`; by default 100 on nodes of yours, and `max` on servers of its own
    #[arg(long, value_name = "NUMBER|max", value_parser = rate)]
    rate: Option<Rate>,
    /// Where the picture goes
    #[arg(long, value_name = "FILE.svg", default_value = "quorlock-bench.svg")]
    out: PathBuf,
    #[command(flatten)]
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Rate {
    At(u32),
    Max,
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse() {
        Ok(rate @ 10..=1_000) => Ok(Rate::At(rate)),
        _ if text == "max" => Ok(Rate::Max),
        _ => Err("take 10 to 1000, or max".to_owned()),
    }
}

fn within(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().map_err(|_| "it is no number".to_owned())?;
    let fits = (least..=most).contains(&number);
    fits.then_some(number).ok_or_else(|| format!("take {least} to {most}"))
}

fn servers(text: &str) -> Result<usize, String> {
    let servers = within(text, 1, 15)?;
    (servers != 2)
        .then_some(servers)
        .ok_or_else(|| "two are no better than one: take 1, or 3 to 15".to_owned())
}

fn clients(text: &str) -> Result<usize, String> {
    within(text, 1, 1_000)
}

impl Bench {
    /// How many servers of its own, where there are no nodes.
    fn own(&self) -> Option<usize> {
        let named = !self.nodes.nodes.is_empty() || stage::given().is_some();
        self.servers.or_else(|| (!named).then_some(5))
    }

    fn limit(&self) -> Option<u32> {
        match self.rate {
            Some(Rate::At(rate)) => Some(rate),
            Some(Rate::Max) => None,
            None => self.own().is_none().then_some(CAREFUL),
        }
    }
}

/// What `quorlock bench` does.
pub(crate) async fn run(asked: Bench) -> Result<ExitCode, Failure> {
    let own = asked.own();
    if own.is_some() {
        possible("Or name nodes of yours, by --nodes or QUORLOCK_NODES")?;
    } else {
        // What is wrong with the settings is said before a file is made.
        drop(asked.nodes.builder()?);
    }
    let is_new = !asked.out.exists();
    let unwritable = |error: std::io::Error| {
        let out = asked.out.display();
        let text = format!(
            "the picture cannot be written to {out}: {error}. Name another place with --out"
        );
        Failure::new(Status::Config, text)
    };
    File::options().append(true).create(true).open(&asked.out).map_err(unwritable)?;
    let report = measure(&asked, own).await.inspect_err(|_| {
        if is_new {
            let _ = std::fs::remove_file(&asked.out);
        }
    })?;
    let drawn = std::fs::write(&asked.out, picture::draw(&report));
    // What was measured is told, also where there is no room for the picture.
    if asked.form.json {
        json(&report.json(drawn.is_ok().then_some(&asked.out)));
    } else {
        table::print(&report);
        if drawn.is_ok() {
            line(&format!("picture: {}", asked.out.display()));
        }
    }
    drawn.map_err(unwritable)?;
    let any = report.lines.iter().any(|line| line.count() > 0);
    Ok(if any || report.interrupted { Status::Done } else { Status::Broken }.into())
}

/// A prefix that nobody else uses.
fn prefix() -> String {
    // The random number is from the operating system.
    format!("quorlock-bench/{:016x}/", RandomState::new().build_hasher().finish())
}

async fn measure(asked: &Bench, own: Option<usize>) -> Result<Report, Failure> {
    let over = interrupted(|| ())?;
    let run = prefix();
    let stage = Stage::start(&asked.nodes, own)?;
    let limit = asked.limit();
    let load = limit.map_or_else(
        || "as many operations as the nodes answer".to_owned(),
        |limit| format!("at most {limit} operations a second"),
    );
    let whose = if stage.is_own() { "servers of its own" } else { "nodes" };
    let count = stage.urls().len();
    let seconds = asked.seconds;
    note(&format!(
        "{count} {whose}: {load}, of about two commands to each node, for {seconds} s; names under {run}"
    ));
    let redlock = stage.connect(asked.nodes.classic).await?;
    let classic = stage.connect(true).await?;
    let floor = Floor::connect(stage.urls(), format!("{}{run}", stage.key_prefix())).await;
    let known = |status: NodeStatus| {
        let version =
            status.version.map_or_else(|| report::UNKNOWN.to_owned(), |text| text.to_string());
        (status.address.to_string(), version)
    };
    let nodes = redlock.nodes().into_iter().map(known).collect();
    let is_missing_one = redlock.nodes().iter().any(|node| node.state != NodeState::Ready);
    let gap = limit.map(|limit| Duration::from_secs(1) / limit);
    let work =
        Work { redlock, classic, floor, run, clients: asked.clients, gap, over: Arc::clone(&over) };
    let mut bench = Running { asked, stage, work, bar: bar(asked.form.json), is_missing_one };
    let (lines, trips, renewals, left) = bench.all().await;
    bench.bar.finish_and_clear();
    let Running { stage, work, .. } = bench;
    Ok(Report {
        own: stage.is_own(),
        nodes,
        seconds,
        clients: asked.clients,
        rate: limit,
        run: work.run,
        interrupted: over.load(Relaxed),
        lines,
        trips,
        renewals,
        left,
    })
}

fn bar(quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    let style = ProgressStyle::with_template("[{bar:30.cyan/blue}] {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}

struct Running<'a> {
    asked: &'a Bench,
    stage: Stage,
    work: Work,
    bar: ProgressBar,
    /// Whether one of the nodes was not there from the beginning.
    is_missing_one: bool,
}

type Found = (
    Vec<Figures>,
    Vec<Option<Figures>>,
    Option<Result<renewals::Renewals, String>>,
    Option<String>,
);

impl Running<'_> {
    fn is_over(&self) -> bool {
        self.work.over.load(Relaxed)
    }

    fn lines(&self) -> Vec<Figures> {
        let classic = self.asked.nodes.classic;
        let wanted = Line::ALL.into_iter().filter(|line| match line {
            Line::Lease | Line::Permit | Line::Read => !classic,
            Line::Down => self.stage.urls().len() >= 3,
            _ => true,
        });
        wanted.filter_map(Figures::new).collect()
    }

    /// Measures everything, and then gives everything back.
    async fn all(&mut self) -> Found {
        let mut lines = self.lines();
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let each = Duration::from_secs(self.asked.seconds) / (count + 1);
        self.bar.set_length(u64::from(count * TURNS));
        self.bar.set_message("a round trip to each node");
        let trips = self.work.trips(self.stage.urls().len()).await;
        for turn in 0..TURNS {
            for figures in &mut lines {
                if self.is_over() || matches!(figures.line, Line::Processes | Line::Down) {
                    continue;
                }
                self.bar.set_message(figures.line.text(self.asked.clients));
                if let Some(mut measured) = Figures::new(figures.line) {
                    self.work.slice(figures.line, each / TURNS, turn == 0, &mut measured).await;
                    figures.turn(&measured);
                }
                self.bar.inc(1);
            }
        }
        let renewals = if self.is_over() {
            None
        } else {
            self.bar.set_message("renewals of leases that are held");
            let Work { redlock, run, over, .. } = &self.work;
            let long = each.max(Duration::from_secs(1));
            Some(renewals::watch(redlock, run, self.asked.limit(), long, over).await)
        };
        let mut left = Vec::new();
        for figures in &mut lines {
            if self.is_over() {
                break;
            }
            if figures.line == Line::Processes {
                self.bar.set_message(figures.line.text(self.asked.clients));
                self.processes(each, figures).await;
                self.bar.inc(u64::from(TURNS));
            }
        }
        if let Ok(floor) = &mut self.work.floor {
            floor.settle().await;
        }
        left.extend(ended(&self.work.classic).await);
        if let Some(down) = lines.iter_mut().find(|figures| figures.line == Line::Down)
            && !self.is_over()
        {
            self.bar.set_message(down.line.text(self.asked.clients));
            // What is under way must reach the node before it goes away.
            left.extend(ended(&self.work.redlock).await);
            left.extend(self.without_one(each, down).await);
        } else {
            left.extend(ended(&self.work.redlock).await);
        }
        (lines, trips, renewals, left.into_iter().next())
    }

    async fn processes(&self, long: Duration, into: &mut Figures) {
        let long = long.max(SOME);
        let resource = format!("{}processes", self.work.run);
        let (hold, nodes) = (self.work.hold(), self.stage.nodes().clone());
        let partner = match Partner::start(&Part { nodes, resource: resource.clone(), hold }) {
            Ok(partner) => partner,
            Err(why) => return into.failed(why),
        };
        let (begun, mut turns, mut errors) = (now(), Vec::new(), Vec::new());
        let Work { redlock, over, .. } = &self.work;
        take_turns(redlock, &resource, hold, begun + long, over, |turn| {
            keep(turn, &mut turns, &mut errors);
        })
        .await;
        into.lasted += now().saturating_sub(begun);
        let (others, more) = partner.end();
        between(&turns, &others).into_iter().for_each(|took| into.add(took));
        errors.into_iter().chain(more).for_each(|why| into.failed(why));
    }

    /// A lease while the last node is away, by a handle of its own. Says what may stay.
    async fn without_one(&mut self, long: Duration, into: &mut Figures) -> Option<String> {
        if self.is_missing_one {
            into.why = Some("a node is away already, as all of this was measured".to_owned());
            return None;
        }
        match self.stage.without_one().await {
            Ok(redlock) => {
                self.work.redlock = redlock;
                self.work.slice(Line::Down, long, true, into).await;
                ended(&self.work.redlock).await
            }
            Err(failure) => {
                into.failed(failure.text);
                None
            }
        }
    }
}

/// Gives back what a handle holds. Says what may stay until it expires.
async fn ended(redlock: &Redlock) -> Option<String> {
    let error = redlock.shutdown().await.err()?;
    Some(format!("not everything was given back, and expires with its ttl: {error}"))
}
