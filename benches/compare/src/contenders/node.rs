//! Libraries of Node.js in a process of their own, which reads its own clock: what lies between it and this one is not measured.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;

use super::{
    kinds::three,
    pair::{Contender, Outcome, Pair},
};
use crate::waiting::modules;

pub(super) struct Node {
    process: Arc<Mutex<Process>>,
    /// Whether it takes three at once.
    several: bool,
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// Starts it and waits for its connections. The error says why there is none.
    pub(super) fn start(
        library: &str,
        kind: &str,
        several: bool,
        urls: &[String],
    ) -> Result<Self, String> {
        let (modules, root) = modules(library)?;
        let mut command = Command::new("node");
        command.env("NODE_MODULES", modules).arg(root.join("benches/compare/workers/kinds.mjs"));
        command.arg(kind).arg(urls.join(",")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let input = child.stdin.take();
        let mut process = Process { child, input, output: BufReader::new(output) };
        let ready = process.line()?;
        if ready != "ready" {
            return Err(format!("it said {ready}"));
        }
        Ok(Self { process: Arc::new(Mutex::new(process)), several })
    }
}

impl Process {
    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() { Err("it has ended".to_owned()) } else { Ok(line.trim().to_owned()) }
    }

    fn pair(&mut self, names: &str) -> Outcome {
        let mut input = self.input.as_ref().ok_or("it has ended")?;
        writeln!(input, "{names}").map_err(|error| error.to_string())?;
        let line = self.line()?;
        let time = |word: &str| word.parse().ok().map(Duration::from_nanos);
        let times = line.split_once(' ').and_then(|(a, b)| Some((time(a)?, time(b)?)));
        let (acquire, whole) = times.ok_or(line)?;
        Ok(Pair { acquire, whole })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends with its input.
        self.input = None;
        let _ = self.child.wait();
    }
}

impl Contender for Node {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let names = if self.several { three(resource).join(" ") } else { resource.to_owned() };
        let process = Arc::clone(&self.process);
        let ask = move || process.lock().unwrap_or_else(PoisonError::into_inner).pair(&names);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(ask).await;
            asked.unwrap_or_else(|panic| Err(panic.to_string()))
        })
    }
}
