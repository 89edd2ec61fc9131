//! `quorlock holder`: who holds a resource, by a quorum of the nodes.
//!
//! It decides nothing; the crate does.

use std::{
    ffi::OsString,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::Args;
use quorlock::{HeldBy, Holder as Found, NodeSighting, protocol::Sighting};
use serde_json::{Value, json};

use crate::{
    args::{Form, Nodes},
    exit::{Failure, Status},
    output::{DOUBTFUL, FAINT, GOOD, json, line, styled},
    shown,
};

/// Says who holds a resource: status 0 where somebody does, 1 where nobody does, 69 where the nodes do not agree or answer.
#[derive(Args, Clone, Debug)]
pub(crate) struct Holder {
    /// The resource
    resource: OsString,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

/// Nodes that answer are connected by then.
pub(crate) const CONNECTED: Duration = Duration::from_secs(2);

pub(crate) async fn show(asked: Holder) -> Result<ExitCode, Failure> {
    let resource = asked.resource.as_encoded_bytes();
    let redlock = asked.nodes.connect()?;
    crate::connect::connected(&redlock, CONNECTED).await?;
    let found = redlock.holder(resource).await;
    let found = found.map_err(|error| Failure::new(Status::Usage, error))?;
    if asked.form.json {
        json(&as_json(resource, &found));
    } else {
        let style = match found {
            Found::Held(_) => GOOD,
            Found::Free => FAINT,
            _ => DOUBTFUL,
        };
        line(&styled(style, &found.to_string()));
    }
    Ok(match found {
        Found::Held(_) => Status::Done,
        Found::Free => Status::No,
        _ => Status::Broken,
    }
    .into())
}

pub(crate) fn as_json(resource: &[u8], found: &Found) -> Value {
    let more = match found {
        Found::Free => json!({ "state": "free" }),
        Found::Held(by) => with(held_by(by), json!({ "state": "held" })),
        Found::Unclear { nodes } => {
            let nodes: Vec<Value> = nodes.iter().map(sighting).collect();
            json!({ "state": "unclear", "text": found.to_string(), "nodes": nodes })
        }
        other => json!({ "state": "unclear", "text": other.to_string(), "nodes": [] }),
    };
    with(shown::resource(resource), more)
}

/// What one node says: `free`, `held` or, with the error, `unknown`.
fn sighting(of: &NodeSighting) -> Value {
    let (state, held, error) = match &of.seen {
        Ok(Sighting::Free) => ("free", None, None),
        Ok(Sighting::Held(by)) => ("held", Some(by), None),
        Err(error) => ("unknown", None, Some(error.to_string())),
    };
    json!({
        "node": of.node.index(),
        "address": &*of.address,
        "state": state,
        "value": held.and_then(|by| by.value.as_deref()).map(shown::text),
        "remaining": held.and_then(|by| by.remaining).map(|left| left.as_secs_f64()),
        "error": error,
    })
}

/// An object with more fields.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut object, more) {
        fields.extend(more);
    }
    object
}

pub(crate) fn held_by(by: &HeldBy) -> Value {
    let since = by.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    json!({
        "owner": by.owner.map(|owner| owner.to_string()),
        "shared": by.is_shared(),
        "value": shown::text(&by.value),
        "label": by.label.as_ref().map(|label| shown::text(label.as_bytes())),
        "since": since.map(|since| since.as_secs_f64()),
        "remaining": by.remaining.map(|left| left.as_secs_f64()),
        "token": by.token.map(|token| token.to_string()),
        "leads": by.leads.as_ref().map(|record| {
            json!({ "term": record.term.to_string(), "text": shown::text(record.text.as_bytes()) })
        }),
        "text": by.to_string(),
    })
}
