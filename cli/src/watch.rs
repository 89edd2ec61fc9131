//! `quorlock watch`: who holds a resource, told whenever that changes.
//!
//! It decides what is a change: another owner, another token, or nobody. It must never tell of a moment in which the nodes are
//! between two holders as if that were a state.

use std::{
    ffi::OsString,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use quorlock::{FencingToken, Holder, HolderError, Owner, Redlock};
use serde_json::json;

use crate::{
    args::{Form, Nodes, duration},
    ended,
    exit::{Failure, Status},
    holder::{as_json, with},
    output::{BAD, DOUBTFUL, FAINT, GOOD, styled, try_json, try_line},
    shown::time_of_day,
};

/// Prints who holds a resource, and again whenever that changes: owner, token, since when. It ends by a signal, with status 0.
#[derive(Args, Clone, Debug)]
pub(crate) struct Watch {
    /// The resource
    resource: OsString,
    /// How often the nodes are asked; who holds it for less may be missed
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    every: Duration,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

/// What makes two answers the same.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Seen {
    Free,
    Held(Option<Owner>, Box<[u8]>, Option<FencingToken>),
    Unclear,
}

impl Seen {
    fn of(holder: &Holder) -> Self {
        match holder {
            Holder::Free => Self::Free,
            Holder::Held(by) => Self::Held(by.owner, by.value.clone(), by.token),
            _ => Self::Unclear,
        }
    }
}

pub(crate) async fn watch(asked: Watch) -> Result<ExitCode, Failure> {
    ended::well_by_a_signal()?;
    let redlock = asked.nodes.connect()?;
    go_on(&redlock, &asked).await
}

async fn go_on(redlock: &Redlock, asked: &Watch) -> Result<ExitCode, Failure> {
    crate::connect::connected(redlock, crate::holder::CONNECTED).await?;
    let mut ticks = tokio::time::interval(asked.every.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut told, mut before) = (None, None);
    loop {
        ticks.tick().await;
        let holder = redlock.holder(asked.resource.as_encoded_bytes()).await.map_err(failure)?;
        let seen = Seen::of(&holder);
        // Between two holders the answer is unclear for a moment: that is told only when it is seen twice.
        let passing = seen == Seen::Unclear && before.as_ref() != Some(&Seen::Unclear);
        before = Some(seen.clone());
        if passing || told.as_ref() == Some(&seen) {
            continue;
        }
        told = Some(seen);
        // Nobody reads any more, as behind `head`.
        if tell(asked, &holder).is_err() {
            return Ok(Status::Done.into());
        }
    }
}

fn failure(error: HolderError) -> Failure {
    let status = match error {
        HolderError::Resource(_) => Status::Usage,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}

fn tell(asked: &Watch, holder: &Holder) -> std::io::Result<()> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if asked.form.json {
        let of = as_json(asked.resource.as_encoded_bytes(), holder);
        return try_json(&with(of, json!({ "at": at.as_secs_f64() })));
    }
    let style = match holder {
        Holder::Held(_) => GOOD,
        Holder::Free => DOUBTFUL,
        _ => BAD,
    };
    try_line(&format!("{} {}", styled(FAINT, &time_of_day(at)), styled(style, &holder.to_string())))
}
