//! What is wrong with a server, on purpose: whether the checker notices is tried in `planted.rs`.
//!
//! A server with a bug does something else than the node in memory that it is; without one it is that node.

use std::{future::ready, time::Duration};

use quorlock::{
    node::{Node, NodeCall, NodeFuture},
    protocol::{
        Command, FencingToken, Granted, Join, KeyHolder, LeaderText, Marker, Note, Record, Reply,
        Sighting, Target,
    },
};

use super::SimServer;

/// The key of readers.
const SHARED_KEY: &[u8] = b"shared by readers, see quorlock.";

/// How it begins.
const SHARED: &[u8] = b"shared by readers";

/// What is wrong with the server, on purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Bug {
    #[default]
    None,
    /// It grants every acquire without looking.
    GrantsBlindly,
    /// It confirms releases without deleting anything.
    KeepsReleased,
    /// When it forgets, it says that it has been joining for as long as once before.
    KeepsWaits,
    /// Where one resource of a set is held, it takes the others all the same.
    TakesApart,
    /// Of a set it releases the first alone.
    ReleasesFirst,
    /// It says that it has picked the slot that it was asked to look at first, whichever that was.
    SaysFirst,
    /// It says that it has been joining for so long already: a quarantine that is cut by as much.
    CutsQuarantines(Duration),
    /// It keeps keys for so much less than it was told: a holder that counts with as much more than the nodes.
    CutsKeys(Duration),
    /// An extension sets the end of a key, or of an entry, whatever it was: also to an earlier one.
    Shortens,
    /// An extension of a reader sets the end of the key, whatever it was: the entries of others end with it.
    ShortensShared,
    /// The key of readers ends with the first of them.
    EndsWithFirst,
    /// Whichever reader releases takes the key with it.
    ReleasesForAll,
    /// Where a writer goes on as a reader, it lets readers in and keeps no entry of that one.
    LowersToNobody,
    /// It lets readers in beside a writer.
    LetsReadersIn,
    /// It records a leader when it grants, and does not wait for the round to be won.
    RecordsEarly,
    /// It counts nothing, and gives whatever token it is offered.
    CountsNothing,
    /// It says that it keeps what is done, and forgets it.
    ForgetsDone,
    /// Its code panics now and then.
    Panics,
}

impl SimServer {
    pub(super) fn execute(&self, command: Command) -> NodeCall {
        let bug = self.bug();
        match (bug, &command) {
            (Bug::GrantsBlindly, Command::Acquire { hint, .. }) => {
                let token = hint.map(FencingToken::new);
                Box::pin(ready(Ok(Reply::Granted(token.into()))))
            }
            (Bug::GrantsBlindly, Command::Confirm { .. })
            | (Bug::KeepsReleased, Command::Release { .. }) => {
                Box::pin(ready(Ok(Reply::Granted(Granted::DONE))))
            }
            (Bug::TakesApart, Command::Acquire { target, .. }) if target.is_set() => {
                self.acquire_apart(command)
            }
            (Bug::ReleasesFirst, Command::Release { .. }) => {
                self.memory.call(of_one(&command, 0).unwrap_or(command))
            }
            (
                Bug::EndsWithFirst,
                Command::Acquire { target, .. } | Command::Extend { target, .. },
            ) if target.is_shared() => {
                let (memory, resource) = (self.memory.clone(), target.resource().clone());
                Box::pin(async move {
                    let before = memory.holder(resource.clone(), true).await;
                    let reply = memory.call(command).await;
                    if let Ok(Sighting::Held(KeyHolder {
                        value: Some(value),
                        remaining: Some(remaining),
                        ..
                    })) = before
                        && value.starts_with(SHARED)
                    {
                        memory.set(resource.as_bytes(), value, Some(remaining));
                    }
                    reply
                })
            }
            (Bug::ShortensShared, Command::Extend { target, ttl, .. }) if target.is_shared() => {
                let (resource, ttl) = (target.resource().clone(), *ttl);
                let memory = self.memory.clone();
                Box::pin(async move {
                    let reply = memory.call(command).await;
                    if matches!(reply, Ok(Reply::Granted(_))) {
                        memory.set(resource.as_bytes(), SHARED_KEY, Some(ttl));
                    }
                    reply
                })
            }
            (Bug::ReleasesForAll, Command::Release { target, .. }) if target.is_shared() => {
                let (memory, resource) = (self.memory.clone(), target.resource().clone());
                Box::pin(async move {
                    let reply = memory.call(command).await;
                    if memory
                        .get(resource.as_bytes())
                        .is_some_and(|value| value.starts_with(SHARED))
                    {
                        memory.set(resource.as_bytes(), SHARED, Some(Duration::ZERO));
                    }
                    reply
                })
            }
            (Bug::LowersToNobody, Command::Extend { target, owner, ttl, .. })
                if target.is_downgraded() =>
            {
                let (resource, granted) = (target.resource(), Ok(Reply::Granted(Granted::DONE)));
                let value = self.memory.get(resource.as_bytes()).unwrap_or_default();
                if value == owner.to_hex() || value.starts_with(SHARED) {
                    let ttl = Some(*ttl);
                    self.memory.set(resource.as_bytes(), SHARED_KEY, ttl);
                    return Box::pin(ready(granted));
                }
                self.memory.call(command)
            }
            (Bug::LetsReadersIn, Command::Acquire { target, hint: Some(hint), .. })
                if target.is_shared() =>
            {
                let granted = Reply::Granted(Granted::at(FencingToken::new(*hint)));
                let memory = self.memory.clone();
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    Ok(if matches!(reply, Reply::Denied(_)) { granted } else { reply })
                })
            }
            (Bug::SaysFirst, Command::Acquire { target, first, .. }) if target.is_any() => {
                let (first, memory) = (*first, self.memory.clone());
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    Ok(match reply {
                        Reply::Granted(granted) => Reply::Granted(granted.in_slot(first)),
                        denied => denied,
                    })
                })
            }
            (Bug::Shortens, Command::Extend { target, owner, ttl, .. }) if !target.is_shared() => {
                for resource in target.resources() {
                    let value = self.memory.get(resource.as_bytes());
                    if value.as_deref() == Some(&owner.to_hex()[..]) {
                        self.memory.set(resource.as_bytes(), owner.to_hex(), Some(*ttl));
                    }
                }
                self.memory.call(command)
            }
            (Bug::CutsKeys(less), _) => {
                let mut command = command;
                if let Command::Acquire { ttl, .. }
                | Command::Extend { ttl, .. }
                | Command::Restore { ttl, .. } = &mut command
                {
                    *ttl = ttl.saturating_sub(less);
                }
                self.memory.call(command)
            }
            (Bug::CountsNothing, Command::Acquire { hint: Some(hint), .. }) => {
                let offered = Reply::Granted(Granted::at(FencingToken::new(*hint)));
                let memory = self.memory.clone();
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    Ok(if matches!(reply, Reply::Granted(_)) { offered } else { reply })
                })
            }
            (Bug::CountsNothing, Command::Confirm { .. }) => {
                Box::pin(ready(Ok(Reply::Granted(Granted::DONE))))
            }
            (Bug::RecordsEarly, Command::Acquire { target, owner, .. }) => {
                let (target, owner, memory) = (target.clone(), *owner, self.memory.clone());
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    if let Reply::Granted(granted) = &reply
                        && let Some(term) = granted.token
                    {
                        let record = Record::new(term, 0, LeaderText::default());
                        let note = Note::of_leader(0, None, record);
                        drop(memory.call(Command::Proclaim { target, owner, note }).await);
                    }
                    Ok(reply)
                })
            }
            _ => self.memory.call(command),
        }
    }

    /// Takes a set, or whatever of it is free.
    fn acquire_apart(&self, command: Command) -> NodeCall {
        let memory = self.memory.clone();
        Box::pin(async move {
            let reply = memory.call(command.clone()).await?;
            let of = command.target().map_or(0, Target::len);
            for place in (0..of).filter(|_| matches!(reply, Reply::Denied(_))) {
                drop(memory.call(of_one(&command, place).unwrap()).await);
            }
            Ok(reply)
        })
    }

    pub(super) fn look(&self, join: Join) -> NodeFuture<Marker> {
        let waited = match self.bug() {
            Bug::KeepsWaits => Some(Duration::from_secs(60)),
            Bug::CutsQuarantines(by) => Some(by),
            _ => None,
        };
        let marker = self.memory.join(join);
        Box::pin(async move {
            let told = marker.await?;
            Ok(waited.map_or(told, |waited| told.waited(waited)))
        })
    }
}

/// The same command for one resource of several.
fn of_one(command: &Command, place: usize) -> Option<Command> {
    let mut command = command.clone();
    let (Command::Acquire { target, .. } | Command::Release { target, .. }) = &mut command else {
        return None;
    };
    *target = target.resources().get(place)?.clone().into();
    Some(command)
}
