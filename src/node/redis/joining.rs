//! Runs looks at a node's marker, and its admission, on a session.
//!
//! It decides that data which went back, such as to a backup, has to join again. It must never replace what it has seen
//! of a node by an older answer.

use std::{sync::Arc, time::Duration};

use super::{
    codec::{self, Looked},
    errors,
    session::Session,
};
use crate::{
    node::{Join, NodeError, Refusal},
    protocol::{Floor, Marker, Serves},
};

/// How often a look is repeated because the data was exchanged meanwhile: a server reports that of all its databases,
/// and another program may empty its own again and again.
const REPEATS: usize = 3;

/// Reads the marker, and marks a node that was not admitted.
pub(super) async fn join(session: Arc<Session>, join: Join) -> Result<Marker, NodeError> {
    for _ in 0..REPEATS {
        match look(&session, join).await {
            Err(NodeError::VoteLapsed) => {}
            answer => return answer,
        }
    }
    look(&session, join).await
}

/// Reads the marker again whenever the server reports that all its data was dropped or exchanged. Mostly that was
/// another database than ours. It never ends.
pub(super) async fn attend_exchanges(session: &Arc<Session>) {
    loop {
        session.exchanged().await;
        // The session keeps what this shows; if it fails, the next probe looks again.
        let _ = join(Arc::clone(session), Join::look(Duration::ZERO)).await;
    }
}

/// Looks. If the data is older than what was seen before, such as a backup, it looks once more and makes the node join
/// again. What was seen stays known, so that this is so until the node has joined.
async fn look(session: &Arc<Session>, join: Join) -> Result<Marker, NodeError> {
    match look_once(session, join).await? {
        Seen::Marker(marker) => Ok(marker),
        Seen::Older { epoch, seen } => {
            let again = join.force(Some(epoch)).lost().after(seen);
            match look_once(session, again).await? {
                Seen::Marker(marker) => Ok(marker),
                Seen::Older { .. } => Err(NodeError::NotAdmitted),
            }
        }
    }
}

/// What one look has shown.
enum Seen {
    Marker(Marker),
    /// Data of an older epoch than was seen, or of the same one with a lower seal or high-water mark.
    Older {
        epoch: u64,
        seen: u64,
    },
}

async fn look_once(session: &Arc<Session>, join: Join) -> Result<Seen, NodeError> {
    // Read before the send: what is learnt while the look is under way may be newer than what it tells.
    let exchanges = session.exchanges();
    let before = session.known_once().map(|known| (known.mark(), known.high_water()));
    let nonce = session.nonce();
    let latest = session.latest(session.now()).unwrap_or(0);
    let script = || codec::look(session.process(), join, nonce, latest);
    match codec::looked(&session.vote(script, session.now()).await?)? {
        Looked::Marker(known) => {
            if let Some((mark, high)) = before
                && known.is_older_than(mark, high)
            {
                return Ok(Seen::Older { epoch: known.mark().epoch, seen: mark.epoch });
            }
            let marker = known.marker();
            session.learn(exchanges, Arc::new(known));
            Ok(Seen::Marker(marker))
        }
        Looked::OtherMembers { other, age, belongs } => {
            let configured = session.process().members.clone();
            Err(NodeError::Refused(Refusal::OtherMembers { other, configured, age, belongs }))
        }
        Looked::Replica => {
            session.link().give_up(errors::BECAME_A_REPLICA);
            Err(NodeError::Refused(Refusal::Replica))
        }
    }
}

/// Lets a joining node vote.
pub(super) async fn admit(
    session: Arc<Session>,
    epoch: u64,
    floor: Floor,
    serves: Serves,
) -> Result<bool, NodeError> {
    let identity = session.identity()?;
    let script = || codec::admit(session.process(), &identity, epoch, floor, serves);
    codec::admitted(&session.vote(script, session.now()).await?)
}
