//! From the command line and the environment to a handle.
//!
//! It decides which of the two is used, and that refused nodes count as wrong settings. It must never show a password.

use std::time::Duration;

use quorlock::{
    Builder, ConfigError, NodeStates, Redlock, Settings,
    node::{NodeSpec, NodeState},
};
use tokio::time::{Instant, sleep};

use crate::{
    args::{Nodes, duration},
    exit::{Failure, Status},
};

impl Nodes {
    /// The settings that these arguments and the environment name.
    pub(crate) fn builder(&self) -> Result<Builder, Failure> {
        self.labelled(None)
    }

    /// The same, with this label where none is set.
    fn labelled(&self, label: Option<Vec<u8>>) -> Result<Builder, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::new(Status::Config, error);
        let mut builder = if self.nodes.is_empty() {
            Builder::from_env().map_err(|error| wrong(&error))?
        } else {
            let settings = Settings::from_env().map_err(|error| wrong(&error))?;
            Redlock::builder().nodes(NodeSpec::urls(&self.nodes.join(","))).settings(settings)
        };
        if let Some(label) = label.filter(|_| std::env::var_os("QUORLOCK_LABEL").is_none()) {
            builder = builder.label(label);
        }
        let settings: Settings = self.set.join(" ").parse().map_err(|error| wrong(&error))?;
        builder = builder.settings(settings);
        if self.classic {
            builder = builder.classic();
        }
        if self.danger_skip_quarantine {
            builder = builder.danger_skip_quarantine();
        }
        Ok(builder)
    }

    /// How long to wait for another holder, if a setting says so. The command line overrides the environment. An
    /// unreadable setting counts as none here: making the handle reports it by name.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait_beside(std::env::var("QUORLOCK_WAIT").ok().as_deref())
    }

    pub(crate) fn wait_beside(&self, environment: Option<&str>) -> Option<Duration> {
        let given = self.set.iter().flat_map(|setting| setting.split_whitespace());
        let given = given.filter_map(|setting| setting.strip_prefix("wait=")).next_back();
        given.or(environment).and_then(|wait| duration(wait.trim()).ok())
    }

    /// A handle that connects in the background.
    pub(crate) fn connect(&self) -> Result<Redlock, Failure> {
        self.connect_as(None)
    }

    /// The same, with this label where none is set.
    pub(crate) fn connect_as(&self, label: Option<Vec<u8>>) -> Result<Redlock, Failure> {
        built(self.labelled(label)?)
    }
}

/// The handle of these settings.
pub(crate) fn built(builder: Builder) -> Result<Redlock, Failure> {
    builder.build().map_err(|error| {
        let of_machine = matches!(error, ConfigError::Runtime { .. });
        Failure::new(if of_machine { Status::Failed } else { Status::Config }, error)
    })
}

/// Between two looks at nodes that are being connected to.
const LOOK: Duration = Duration::from_millis(5);

/// Waits up to the limit until no node is connecting any more: a command that asks once wants all nodes that there are.
/// An error if nodes are refused and waiting does not help before they have been put right.
pub(crate) async fn connected(redlock: &Redlock, limit: Duration) -> Result<(), Failure> {
    let is_settled = || redlock.nodes().iter().all(|node| node.state != NodeState::Connecting);
    let end = Instant::now() + limit;
    while !is_settled() && Instant::now() < end {
        sleep(LOOK).await;
    }
    let nodes: NodeStates = redlock.nodes().into_iter().collect();
    if !nodes.is_refused() {
        return Ok(());
    }
    let (refused, all) = (nodes.refused().count(), nodes.iter().count());
    let text = format!(
        "{refused} of {all} nodes cannot vote as configured; fix each as told here: {nodes}"
    );
    Err(Failure::new(Status::Config, text))
}

/// Returns that error once nodes are refused. The others get up to the limit, so that the error names them too.
pub(crate) async fn refused(redlock: &Redlock, limit: Duration) -> Failure {
    loop {
        let nodes: NodeStates = redlock.nodes().into_iter().collect();
        if nodes.is_refused()
            && let Err(refused) = connected(redlock, limit).await
        {
            return refused;
        }
        sleep(LOOK).await;
    }
}
