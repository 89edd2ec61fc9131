//! What a request is for: one resource, several at once, or any slot of a semaphore. Whatever is wrong with it is told when it is first polled.

use std::{sync::Arc, time::Duration};

use super::Acquire;
use crate::{
    engine::Engine,
    error::{Ability, AcquireError},
    kind::{Exclusive, Shared, Slot},
    protocol::{Resource, ResourceSet, Slots, Target, WaitPolicy},
};

impl Acquire<Exclusive> {
    pub(crate) fn new(engine: Arc<Engine>, resource: &[u8], wait_policy: WaitPolicy) -> Self {
        let target = Resource::behind(&engine.config.key_prefix, resource).map(Target::from);
        Self::of(engine, target.map_err(AcquireError::from), wait_policy)
    }

    /// Of several at once.
    pub(crate) fn all<I>(engine: Arc<Engine>, resources: I, wait_policy: WaitPolicy) -> Self
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let prefix = &engine.config.key_prefix;
        let resources = resources.into_iter().map(|name| Resource::behind(prefix, name));
        let target = resources.collect::<Result<Vec<_>, _>>().map_err(AcquireError::from);
        let target = target.and_then(|resources| {
            let target = Target::from(ResourceSet::new(resources)?);
            if target.is_set() {
                engine.can(Ability::Sets)?;
            }
            Ok(target)
        });
        Self::of(engine, target, wait_policy)
    }
}

impl Acquire<Shared> {
    /// Of a resource together with other readers.
    pub(crate) fn read(engine: Arc<Engine>, resource: &[u8], wait_policy: WaitPolicy) -> Self {
        let target = Resource::behind(&engine.config.key_prefix, resource).map(Target::Shared);
        let target = target.map_err(AcquireError::from);
        let target = target.and_then(|target| Ok(engine.can(Ability::Readers).map(|()| target)?));
        // What is nobody's would keep writers out, and a reader that is lost harms nobody who comes behind it.
        let (linger, lock_delay) = (Duration::ZERO, Duration::ZERO);
        Self { linger, lock_delay, ..Self::of(engine, target, wait_policy) }
    }
}

impl Acquire<Slot> {
    /// Of any slot of a semaphore.
    pub(crate) fn any(engine: Arc<Engine>, slots: Slots, wait_policy: WaitPolicy) -> Self {
        let acquire = Self::of(engine, Ok(Target::AnyOf(slots)), wait_policy);
        // A permit that is kept as nobody's would be one that nobody has.
        Self { linger: Duration::ZERO, ..acquire }
    }
}
