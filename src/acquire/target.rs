//! The target of a request: one resource, several at once, or any slot of a semaphore.
//!
//! An invalid target is reported when the request is first polled.

use std::{sync::Arc, time::Duration};

use super::Acquire;
use crate::{
    engine::Engine,
    error::{Ability, AcquireError, NotAdopted, Reports},
    kind::{Exclusive, Shared, Slot},
    protocol::{DetachedLease, Resource, ResourceSet, Slots, Target, WaitPolicy},
};

impl Acquire<Exclusive> {
    pub(crate) fn new(engine: Arc<Engine>, resource: &[u8], wait_policy: WaitPolicy) -> Self {
        let target = Resource::behind(&engine.config.key_prefix, resource).map(Target::from);
        Self::of(engine, target.map_err(AcquireError::from), wait_policy)
    }

    /// A request for several resources at once.
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

impl Acquire<Exclusive> {
    /// The resource, where it is one and no holder is named.
    pub(crate) fn one_resource(&self) -> Result<Option<Resource>, AcquireError> {
        let target = self.target.clone()?;
        Ok(match target {
            Target::One(resource) if self.from.is_none() => Some(resource),
            _ => None,
        })
    }

    /// A request for a lease that its holder has let go of.
    pub(crate) fn adopting(
        engine: Arc<Engine>,
        lease: &DetachedLease,
        wait_policy: WaitPolicy,
    ) -> Self {
        let (target, ours) = (lease.target().clone(), &engine.config.fleet);
        let target = if lease.fleet() == ours {
            let sets = if target.is_set() { engine.can(Ability::Sets) } else { Ok(()) };
            let can = sets.and_then(|()| engine.can(Ability::HandingOver));
            can.map(|()| target).map_err(AcquireError::from)
        } else {
            let (of, ours) = (Arc::from(lease.fleet()), Arc::from(&**ours));
            let (target, waited) = (Some(target), Duration::ZERO);
            let (reason, nodes) = (NotAdopted::OtherFleet { of, ours }, Reports::default());
            Err(AcquireError::NotAdopted { target, waited, reason, nodes })
        };
        // It stands in no queue of this process, so that it is neither handed on nor kept.
        let request = Self::of(engine, target, wait_policy);
        Self { from: Some(lease.owner()), linger: Duration::ZERO, ..request }
    }
}

impl Acquire<Shared> {
    /// A request for a resource together with other readers.
    pub(crate) fn read(engine: Arc<Engine>, resource: &[u8], wait_policy: WaitPolicy) -> Self {
        let target = Resource::behind(&engine.config.key_prefix, resource).map(Target::Shared);
        let target = target.map_err(AcquireError::from);
        let target = target.and_then(|target| Ok(engine.can(Ability::Readers).map(|()| target)?));
        // A lingering read would keep writers out, and a lost reader harms no later holder.
        let (linger, lock_delay) = (Duration::ZERO, Duration::ZERO);
        Self { linger, lock_delay, ..Self::of(engine, target, wait_policy) }
    }
}

impl Acquire<Slot> {
    /// A request for any slot of a semaphore.
    pub(crate) fn any(engine: Arc<Engine>, slots: Slots, wait_policy: WaitPolicy) -> Self {
        let acquire = Self::of(engine, Ok(Target::AnyOf(slots)), wait_policy);
        // A lingering permit would be taken without a holder.
        Self { linger: Duration::ZERO, ..acquire }
    }
}
