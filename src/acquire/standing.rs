//! The place of a request among the waiters for its resource.
//!
//! It only shows what the line knows, and decides nothing.

use super::future::{AcquireFuture, State};
use crate::kind::Kind;

/// Where a request stands in line: [`AcquireFuture::standing`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PlaceInLine {
    /// How many requests of this process come before it, exactly: those in line, and the one that asks the nodes for
    /// all of them. Zero: it is the first, and the next in this process to get the resource.
    pub here: usize,
    /// How many other clients stood before this process on the nodes when last seen. `None` where this process has no
    /// place there: it holds the resource itself, no request has asked yet, or the nodes keep no line.
    pub elsewhere: Option<u32>,
    /// The holder of the resource, as last seen: the value of its key, which is the [`Owner`](crate::Owner) of a lease.
    pub holder: Option<String>,
}

impl<K: Kind> AcquireFuture<K> {
    /// Where it stands in line at this moment. `None` before it is first polled, once it is answered, and for a request
    /// that does not wait.
    ///
    /// ```
    /// # use std::{future::IntoFuture, time::Duration};
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.acquire("invoice:42").await?;
    /// let mut waiting = redlock.acquire("invoice:42").into_future();
    /// tokio::select! {
    ///     _ = &mut waiting => unreachable!("it is held"),
    ///     () = tokio::time::sleep(Duration::from_millis(10)) => {}
    /// }
    /// let place = waiting.standing().expect("it waits");
    /// assert_eq!((place.here, place.holder), (0, Some(lease.owner().to_string())));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn standing(&self) -> Option<PlaceInLine> {
        let State::Asks(acquiring, _) = &self.state else { return None };
        let (ahead, holder) = acquiring.standing()?;
        Some(PlaceInLine { here: ahead.here, elsewhere: ahead.elsewhere, holder })
    }
}
