//! The resources that are held, as the nodes' keys tell: one node after the other, page by page.
//!
//! It decides which names are told: each by the first node that has it, so that no list of names has to be kept. It must never
//! ask a node without a pause, and changes nothing.

use std::{fmt, sync::Arc, time::Duration};

use super::FleetError;
use crate::{
    engine::{Engine, Sightings},
    error::{NodeOutcome, NodeReport, Reports},
    holder::Holder,
    node::{NodeError, Scan},
    protocol::{NodeId, Resource, Sighting},
    runtime::block_on,
    shield::shield,
};

/// About how many keys a server looks at for one page.
const PAGE: usize = 250;

/// The least pause between two pages. It is longer where a page takes longer, so that a node has half of its time at least.
const PAUSE: Duration = Duration::from_millis(2);

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
    engine: Arc<Engine>,
    pattern: Arc<[u8]>,
    /// Whose turn it is, and where its next page begins.
    node: usize,
    cursor: u64,
    /// Of each node before: why it did not tell its keys, if it did not.
    read: Vec<Result<(), NodeError>>,
    pause: Duration,
}

impl Resources {
    pub(crate) fn new(engine: Arc<Engine>, pattern: &[u8]) -> Self {
        let pattern = behind(&engine.config.key_prefix, pattern);
        Self { engine, pattern, node: 0, cursor: 0, read: Vec::new(), pause: Duration::ZERO }
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
        let nodes = self.engine.addresses().count();
        while self.node < nodes {
            let begun = self.engine.now();
            let rest = self.engine.sleep_until(begun.saturating_add(self.pause));
            let rested = self.engine.process().awaits(shield(rest)).await;
            rested.ok_or(FleetError::RuntimeEnded)?;
            let begun = self.engine.now();
            let node = NodeId::new(self.node);
            let scan = Scan { cursor: self.cursor, ..Scan::new(Arc::clone(&self.pattern), PAGE) };
            let answers = shield(self.engine.ask_keys(node, scan));
            let answers = self.engine.process().awaits(answers).await;
            let answers = answers.and_then(Result::ok).ok_or(FleetError::RuntimeEnded)?;
            match answers.into_iter().nth(self.node) {
                Some(Ok(page)) => {
                    let listed = self.listed(page.keys).await?;
                    self.cursor = page.cursor;
                    if page.cursor == 0 {
                        self.next_node(Ok(()));
                    }
                    self.pause = self.engine.now().saturating_since(begun).max(PAUSE);
                    return Ok(Some(listed));
                }
                Some(Err(error)) => self.next_node(Err(error)),
                None => return Err(FleetError::RuntimeEnded),
            }
        }
        if self.read.iter().all(Result::is_err) {
            return Err(FleetError::NotTold { nodes: self.untold() });
        }
        Ok(None)
    }

    /// [`next_page`](Resources::next_page), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`next_page`](Resources::next_page), and [`FleetError::WouldDeadlock`] on the very thread that runs the
    /// engine.
    pub fn blocking_next_page(&mut self) -> Result<Option<Vec<Listed>>, FleetError> {
        if self.engine.runs_here() {
            return Err(FleetError::WouldDeadlock);
        }
        block_on(self.next_page())
    }

    /// The nodes that have not told their keys up to now, and why: a name that they alone have is missing. What a quorum holds
    /// is not, as long as they are a minority.
    #[must_use]
    pub fn untold(&self) -> Reports {
        let read = self.engine.addresses().zip(&self.read).enumerate();
        let untold = read.filter_map(|(index, (address, read))| {
            let error = read.as_ref().err()?.clone();
            let outcome = NodeOutcome::Failed(error);
            Some(NodeReport::new(NodeId::new(index), Arc::clone(address), outcome))
        });
        untold.collect()
    }

    fn next_node(&mut self, read: Result<(), NodeError>) {
        self.read.push(read);
        (self.node, self.cursor) = (self.node + 1, 0);
    }

    /// Those of these keys that no node before has told, and that are held still.
    async fn listed(&self, mut keys: Vec<Box<[u8]>>) -> Result<Vec<Listed>, FleetError> {
        keys.sort_unstable();
        keys.dedup();
        let prefix = &self.engine.config.key_prefix;
        let mut listed = Vec::with_capacity(keys.len());
        for key in keys {
            // A key that no resource can have is none of ours.
            let Some(name) = key.strip_prefix(prefix.as_slice()) else { continue };
            let Ok(resource) = Resource::behind(prefix, name) else { continue };
            let seen = shield(self.engine.ask_who_holds(resource));
            let seen = self.engine.process().awaits(seen).await;
            let seen = seen.and_then(Result::ok).ok_or(FleetError::RuntimeEnded)?;
            if self.was_told(&seen) {
                continue;
            }
            match Holder::of(&self.engine, seen) {
                Holder::Free => {}
                holder => listed.push(Listed { name: Box::from(name), holder }),
            }
        }
        Ok(listed)
    }

    fn was_told(&self, seen: &Sightings) -> bool {
        let before = self.read.iter().zip(seen);
        before.into_iter().any(|(read, seen)| read.is_ok() && matches!(seen, Ok(Sighting::Held(_))))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A pattern behind a prefix that is meant as it is.
fn behind(prefix: &[u8], pattern: &[u8]) -> Arc<[u8]> {
    let mut escaped = Vec::with_capacity(prefix.len() + pattern.len());
    for byte in prefix {
        if b"*?[]\\^-".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped.extend_from_slice(pattern);
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn a_prefix_is_meant_as_it_is() {
        assert_eq!(&*behind(b"a*[b]:", b"x*"), br"a\*\[b\]:x*");
        assert_eq!(&*behind(b"", b"*"), b"*");
    }
}
