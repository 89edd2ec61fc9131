//! The resources that are held, as the nodes' keys tell.
//!
//! It decides which names are told: each by the first node that has it, so that no list of names has to be kept. It
//! changes nothing.

use std::{fmt, sync::Arc};

use super::{FleetError, pages::Pages};
use crate::{
    engine::{Engine, Sightings},
    error::Reports,
    holder::Holder,
    protocol::{Resource, Sighting},
    runtime::block_on,
    shield::shield,
};

/// A resource that looks held, and by whom.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed {
    /// Its name, without the [`key_prefix`](crate::Builder::key_prefix).
    pub name: Box<[u8]>,
    /// Who holds it, as a quorum of the nodes says. [`Holder::Unclear`] is what a minority has kept, mostly.
    pub holder: Holder,
}

/// The resources that look held, page by page: made by [`Redlock::resources`](crate::Redlock::resources).
///
/// What is held all the time from the first page to the last is told, and once, but for nodes in quarantine, or that go away
/// meanwhile: a name that one of them has too may be told twice. What is acquired or released meanwhile may be told or not. A page may be empty.
#[must_use = "nothing is asked before the first page is"]
pub struct Resources {
    pages: Pages<Box<[u8]>>,
}

impl Resources {
    pub(crate) fn new(engine: Arc<Engine>, pattern: &[u8]) -> Self {
        Self { pages: Pages::new(engine, pattern) }
    }

    /// The next page; `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`FleetError`]. A node that does not tell its keys is none as long as another does: see
    /// [`untold`](Resources::untold).
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any point; the page is asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Listed>>, FleetError> {
        let Some((keys, receipt)) = self.pages.next().await? else { return Ok(None) };
        let listed = self.listed(keys).await?;
        self.pages.taken(receipt);
        Ok(Some(listed))
    }

    /// [`next_page`](Resources::next_page), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`next_page`](Resources::next_page), and [`FleetError::WouldDeadlock`] on the very thread that runs the
    /// engine.
    pub fn blocking_next_page(&mut self) -> Result<Option<Vec<Listed>>, FleetError> {
        if self.pages.engine.runs_here() {
            return Err(FleetError::WouldDeadlock);
        }
        block_on(self.next_page())
    }

    /// The nodes that have not told their keys up to now, and why: a name that they alone have is missing. What a quorum holds
    /// is not, as long as they are a minority.
    #[must_use]
    pub fn untold(&self) -> Reports {
        self.pages.untold()
    }

    /// Those of these keys that no node before has told, and that are held still.
    async fn listed(&self, mut keys: Vec<Box<[u8]>>) -> Result<Vec<Listed>, FleetError> {
        keys.sort_unstable();
        keys.dedup();
        let engine = &self.pages.engine;
        let prefix = &engine.config.key_prefix;
        let mut listed = Vec::with_capacity(keys.len());
        for key in keys {
            // A key that no resource can have is none of ours.
            let Some(name) = key.strip_prefix(prefix.as_slice()) else { continue };
            let Ok(resource) = Resource::behind(prefix, name) else { continue };
            let seen = shield(engine.ask_who_holds(resource));
            let seen = engine.process().awaits(seen).await;
            let seen = seen.and_then(Result::ok).ok_or(FleetError::RuntimeEnded)?;
            if self.was_told(&seen) {
                continue;
            }
            match Holder::of(engine, seen) {
                Holder::Free => {}
                holder => listed.push(Listed { name: Box::from(name), holder }),
            }
        }
        Ok(listed)
    }

    fn was_told(&self, seen: &Sightings) -> bool {
        let before = self.pages.read().iter().zip(seen);
        before.into_iter().any(|(read, seen)| read.is_ok() && matches!(seen, Ok(Sighting::Held(_))))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}
