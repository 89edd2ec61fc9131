//! `quorlock release --force`: takes a resource from its holder, after asking the user.
//!
//! It decides when it asks, and which status says what. It must never go on without a yes, by `--yes` or on a terminal.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;
use quorlock::{
    HeldBy, Holder, Owner,
    inspect::{ForceError, Forced},
};
use serde_json::{Value, json};

use crate::{
    args::{Form, Nodes},
    ask,
    exit::{Failure, Status},
    holder::{held_by, with},
    output::{BAD, json, line, styled},
    shown::{counted, name, plain},
};

/// Takes a resource from its holder: status 0 done, 1 nobody holds it or it was not confirmed, 75 it cannot be taken
/// (readers, another program's, or another holder than the one that was shown), 69 the nodes do not agree or answer.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It breaks the lock. The holder is not asked, and learns of it when it next renews: until then it goes on with its work, and somebody \
else may hold the resource. So end that process first, if you can reach it.

Then the resource is acquired once, so that its counter is above the old holder's token, and that number is printed. Stores that \
compare tokens (QUORLOCK_TOKEN of `run`) refuse whatever the old holder still sends once they have seen it: tell it to each of \
them. Nothing protects a store that compares none.

A permit of a semaphore is taken as NAME/0, NAME/1 and so on: `quorlock list 'NAME/*'`.")]
pub(crate) struct Release {
    /// The resource
    resource: OsString,
    /// Takes it from its holder. There is no other way to release what somebody else holds
    #[arg(long, required = true)]
    force: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

pub(crate) async fn take(asked: Release) -> Result<ExitCode, Failure> {
    let resource = asked.resource.as_encoded_bytes();
    let redlock = asked.nodes.connect()?;
    crate::connect::connected(&redlock, crate::holder::CONNECTED).await?;
    let mut seen = None;
    if !asked.yes {
        let holder = redlock.holder(resource).await;
        let holder = holder.map_err(|error| Failure::new(Status::Usage, error))?;
        let (by, owner) = nameable(holder).map_err(|error| failure(&error))?;
        if !confirmed(resource, &by)? {
            return Err(Failure::new(Status::No, "nothing was changed"));
        }
        seen = Some(owner);
    }
    // The yes was for that holder, and another may have come before it was given.
    let forced = match seen {
        Some(owner) => redlock.force_release_from(resource, owner).await,
        None => redlock.force_release(resource).await,
    };
    let forced = forced.map_err(|error| failure(&error))?;
    if asked.form.json {
        json(&as_json(resource, &forced));
    } else {
        line(&plain(&format!(
            "taken from {}, on {}",
            forced.was,
            counted(forced.released, "node")
        )));
        match forced.fence {
            Some(fence) => {
                line(&format!("tell its stores this token, which refuses all before it: {fence}"))
            }
            None => line(
                "there are no tokens in classic mode: nothing refuses what the old holder still sends",
            ),
        }
        if let Some(next) = &forced.next {
            line(&plain(&format!("held since by {next}")));
        }
    }
    Ok(Status::Done.into())
}

/// The one holder from which it can be taken. The user is asked about no other, so no other is taken.
fn nameable(holder: Holder) -> Result<(HeldBy, Owner), ForceError> {
    match holder {
        Holder::Free => Err(ForceError::Free),
        Holder::Held(by) if by.is_shared() => Err(ForceError::Readers { remaining: by.remaining }),
        Holder::Held(by) => match by.owner {
            Some(owner) => Ok((by, owner)),
            None => Err(ForceError::Foreign(Box::new(by))),
        },
        Holder::Unclear { nodes } => Err(ForceError::Unclear { nodes }),
        _ => Err(ForceError::Unclear { nodes: Vec::new() }),
    }
}

/// Explains, and waits for a yes on the terminal.
fn confirmed(resource: &[u8], by: &HeldBy) -> Result<bool, Failure> {
    let what = "it is held, and nobody can be asked whether to take it";
    let lines = [
        format!("{} is held by {}", name(resource), plain(&by.to_string())),
        format!(
            "{} That holder is not asked. It goes on with its work until it next renews, while somebody else may hold the \
             resource, and only stores that compare fencing tokens refuse what it sends. End that process first, if you can.",
            styled(BAD, "This breaks the lock.")
        ),
    ];
    ask::confirmed(what, &lines, "Write yes to take it from that holder")
}

fn failure(error: &ForceError) -> Failure {
    let status = match error {
        ForceError::Free => Status::No,
        ForceError::Readers { .. } | ForceError::Foreign(_) | ForceError::Changed(_) => {
            Status::Busy
        }
        ForceError::Resource(_) => Status::Usage,
        _ => Status::Broken,
    };
    Failure::new(status, error)
}

fn as_json(resource: &[u8], forced: &Forced) -> Value {
    let forced = json!({
        "was": held_by(&forced.was),
        "released": forced.released,
        "fence": forced.fence.map(|fence| fence.to_string()),
        "next": forced.next.as_ref().map(held_by),
    });
    with(crate::shown::resource(resource), forced)
}
