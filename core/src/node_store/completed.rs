//! What is said to be done, on a node.
//!
//! It decides which of two completions stays. It touches no lease.

use core::time::Duration;

use super::{NodeRefusal, NodeStore};
use crate::{completion::Completed, resource::Resource, time::Timestamp};

impl NodeStore {
    /// What is said to be done of a resource, of the periods of this length. With `done`, that is kept unless what stands reaches as far.
    ///
    /// # Errors
    ///
    /// [`NodeRefusal::NotAdmitted`] where the node does not vote.
    pub fn completed(
        &mut self,
        resource: &Resource,
        every: Duration,
        done: Option<Completed>,
        now: Timestamp,
    ) -> Result<Option<Completed>, NodeRefusal> {
        self.admitted()?;
        self.completions.retain(|_, (_, end)| now < *end);
        let of = (resource.as_bytes().to_vec(), every);
        let stands = self.completions.get(&of).cloned();
        let is_new = |done: &Completed| {
            stands.as_ref().is_none_or(|(stands, _)| done.completion.is_beyond(stands))
        };
        let stands = match done.filter(is_new) {
            Some(done) => {
                let end = now.saturating_add(done.wire_left());
                let kept = (done.completion, end);
                self.completions.insert(of, kept.clone());
                Some(kept)
            }
            None => stands,
        };
        Ok(stands
            .map(|(completion, end)| Completed { completion, left: end.saturating_since(now) }))
    }
}
