//! What nodes have of keys or lines, page by page: of several, one after the other.
//!
//! It decides how fast nodes are asked. It must never ask a node without a pause, and changes nothing.

use std::{marker::PhantomData, ops::Range, sync::Arc, time::Duration};

use super::FleetError;
use crate::{
    engine::{Engine, Scanned},
    error::{NodeOutcome, NodeReport, Reports},
    node::{NodeError, Scan},
    protocol::{NodeId, Timestamp},
    shield::shield,
};

/// About how many keys a server looks at for one page.
const PAGE: usize = 250;

/// The least pause between two pages. It is longer where a page takes longer, so that a node has half of its time at least.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Pages<T> {
    pub(super) engine: Arc<Engine>,
    pattern: Arc<[u8]>,
    /// Which nodes are asked.
    of: Range<usize>,
    /// Whose turn it is, and where its next page begins.
    node: usize,
    cursor: u64,
    /// Of each of them before: why it did not tell what it has, if it did not.
    read: Vec<Result<(), NodeError>>,
    pause: Duration,
    found: PhantomData<fn() -> T>,
}

/// When a page was asked for, and where it ends.
#[derive(Clone, Copy)]
pub(super) struct Receipt {
    begun: Timestamp,
    end: u64,
}

impl<T: Scanned> Pages<T> {
    /// Of those whose names match, behind the prefix.
    pub(super) fn new(engine: Arc<Engine>, pattern: &[u8]) -> Self {
        let all = 0..engine.addresses().count();
        Self::of(engine, pattern, all)
    }

    /// Of these nodes.
    pub(super) fn of(engine: Arc<Engine>, pattern: &[u8], of: Range<usize>) -> Self {
        let pattern = behind(&engine.config.key_prefix, pattern);
        let (node, read, pause) = (of.start, Vec::new(), Duration::ZERO);
        Self { engine, pattern, of, node, cursor: 0, read, pause, found: PhantomData }
    }

    /// The next page, which counts once it is [`taken`](Pages::taken); `None` after the last one of the last node. It may be
    /// dropped at any point.
    pub(super) async fn next(&mut self) -> Result<Option<(Vec<T>, Receipt)>, FleetError> {
        while self.node < self.of.end {
            let begun = self.engine.now();
            let rest = self.engine.sleep_until(begun.saturating_add(self.pause));
            let rested = self.engine.process().awaits(shield(rest)).await;
            rested.ok_or(FleetError::RuntimeEnded)?;
            let begun = self.engine.now();
            let node = NodeId::new(self.node);
            let scan = Scan { cursor: self.cursor, ..Scan::new(Arc::clone(&self.pattern), PAGE) };
            let answers = shield(self.engine.ask_page(node, scan));
            let answers = self.engine.process().awaits(answers).await;
            let answers = answers.and_then(Result::ok).ok_or(FleetError::RuntimeEnded)?;
            match answers.into_iter().nth(self.node) {
                Some(Ok(page)) => {
                    return Ok(Some((page.found, Receipt { begun, end: page.cursor })));
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

    /// All of a page was told.
    pub(super) fn taken(&mut self, Receipt { begun, end }: Receipt) {
        self.cursor = end;
        if end == 0 {
            self.next_node(Ok(()));
        }
        self.pause = self.engine.now().saturating_since(begun).max(PAUSE);
    }

    fn next_node(&mut self, read: Result<(), NodeError>) {
        self.read.push(read);
        (self.node, self.cursor) = (self.node + 1, 0);
    }

    /// Of each node that all was asked of: whether it told.
    pub(super) fn read(&self) -> &[Result<(), NodeError>] {
        &self.read
    }

    /// The nodes that have not told what they have up to now, and why.
    pub(super) fn untold(&self) -> Reports {
        let read = self.engine.addresses().enumerate().skip(self.of.start).zip(&self.read);
        let untold = read.filter_map(|((index, address), read)| {
            let error = read.as_ref().err()?.clone();
            let outcome = NodeOutcome::Failed(error);
            Some(NodeReport::new(NodeId::new(index), Arc::clone(address), outcome))
        });
        untold.collect()
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
