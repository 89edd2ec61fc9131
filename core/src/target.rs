//! The target: what one lease covers on the nodes, and whether it is shared. A plain lease covers one resource alone.
//!
//! It decides what a set of resources is: each resource once, in an order that does not depend on the client. A target
//! of one resource must need no memory beside that resource.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{fmt, slice};

use super::{
    resource::{Resource, ResourceError},
    slots::{Slot, Slots},
};

/// What a lease covers on the nodes: the keys that are acquired, extended and released together, under one owner.
///
/// A clone is cheap.
///
/// ```
/// use quorlock_core::{Resource, ResourceSet, Target};
///
/// let one = Target::from(Resource::new("a")?);
/// assert_eq!(one.resources(), [Resource::new("a")?]);
/// let names = ["b", "a", "b"].map(Resource::new);
/// let set = ResourceSet::new(names.into_iter().collect::<Result<Vec<_>, _>>()?)?;
/// assert_eq!(Target::from(set).resource(), &Resource::new("a")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// One resource.
    One(Resource),
    /// Several at once: all of them, or none.
    Set(ResourceSet),
    /// One resource, together with other readers: `reading` says what that means on a node.
    Shared(Resource),
    /// One resource that its owner first held alone, and now shares with readers. Where a node still has the owner's
    /// own key, an extension turns it into the owner's entry, and a release deletes it. Otherwise it is as `Shared`.
    Downgraded(Resource),
    /// One slot of a semaphore, held like any resource.
    Slot(Slot),
    /// Any free slot of a semaphore. It is requested, and never held; its release covers all slots that may have been
    /// taken.
    AnyOf(Slots),
}

impl Target {
    /// Its resource; of several, the first in byte order; of any slot, the resource in whose line clients wait.
    pub fn resource(&self) -> &Resource {
        match self {
            Self::One(resource) | Self::Shared(resource) | Self::Downgraded(resource) => resource,
            Self::Set(set) => set.first(),
            Self::Slot(slot) => slot.resource(),
            Self::AnyOf(slots) => slots.line(),
        }
    }

    /// All of its resources, in byte order; slots by their numbers.
    pub fn resources(&self) -> &[Resource] {
        match self {
            Self::One(resource) | Self::Shared(resource) | Self::Downgraded(resource) => {
                slice::from_ref(resource)
            }
            Self::Set(set) => set.as_slice(),
            Self::Slot(slot) => slice::from_ref(slot.resource()),
            Self::AnyOf(slots) => slots.all(),
        }
    }

    /// The resources in whose lines clients wait for it.
    pub fn lines(&self) -> &[Resource] {
        match self {
            Self::One(_) | Self::Set(_) | Self::Shared(_) | Self::Downgraded(_) => self.resources(),
            Self::Slot(slot) => slice::from_ref(slot.line()),
            Self::AnyOf(slots) => slice::from_ref(slots.line()),
        }
    }

    /// The number of its resources.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.resources().len()
    }

    /// Whether it covers this resource.
    pub fn covers(&self, resource: &Resource) -> bool {
        match self {
            Self::One(one) | Self::Shared(one) | Self::Downgraded(one) => one == resource,
            Self::Set(set) => set.as_slice().binary_search(resource).is_ok(),
            Self::Slot(_) | Self::AnyOf(_) => self.resources().contains(resource),
        }
    }

    /// Whether it is any slot of a semaphore.
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::AnyOf(_))
    }

    /// Whether it is several resources at once.
    pub const fn is_set(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// Whether it is held together with other readers.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_) | Self::Downgraded(_))
    }

    /// Whether it is held together with other readers, by an owner that first held it alone.
    pub const fn is_downgraded(&self) -> bool {
        matches!(self, Self::Downgraded(_))
    }
}

impl From<Resource> for Target {
    fn from(resource: Resource) -> Self {
        Self::One(resource)
    }
}

impl From<Slots> for Target {
    fn from(slots: Slots) -> Self {
        Self::AnyOf(slots)
    }
}

impl From<ResourceSet> for Target {
    /// A set of one resource is that resource.
    fn from(set: ResourceSet) -> Self {
        match set.as_slice() {
            [one] => Self::One(one.clone()),
            _ => Self::Set(set),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::AnyOf(slots) = self {
            return slots.fmt(f);
        }
        for (index, resource) in self.resources().iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{resource}")?;
        }
        Ok(())
    }
}

/// Several resources, each once, in byte order: at least one, at most [`ResourceSet::MOST`].
///
/// ```
/// use quorlock_core::{Resource, ResourceError, ResourceSet};
///
/// assert_eq!(ResourceSet::new([]), Err(ResourceError::None));
/// let many = (0..33).map(|number| Resource::new(number.to_string()));
/// let many = ResourceSet::new(many.collect::<Result<Vec<_>, _>>()?);
/// assert_eq!(many, Err(ResourceError::TooMany { resources: 33, max: 32 }));
/// # Ok::<(), quorlock_core::ResourceError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceSet(Arc<Sorted>);

/// Behind one thin pointer, so that a target is no larger than the name of one resource.
#[derive(Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Sorted {
    first: Resource,
    all: Box<[Resource]>,
}

impl ResourceSet {
    /// The most resources of a set. A node sets all their keys in one step, and answers no other client meanwhile.
    pub const MOST: usize = 32;

    /// Sorts them, and drops duplicates.
    ///
    /// # Errors
    ///
    /// [`ResourceError::None`] for none at all, [`ResourceError::TooMany`] above [`ResourceSet::MOST`].
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Result<Self, ResourceError> {
        let mut all: Vec<Resource> = resources.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        let Some(first) = all.first().cloned() else { return Err(ResourceError::None) };
        if all.len() > Self::MOST {
            return Err(ResourceError::TooMany { resources: all.len(), max: Self::MOST });
        }
        Ok(Self(Arc::new(Sorted { first, all: all.into_boxed_slice() })))
    }

    /// All of them, in byte order.
    pub fn as_slice(&self) -> &[Resource] {
        &self.0.all
    }

    /// The first in byte order.
    pub fn first(&self) -> &Resource {
        &self.0.first
    }
}

// A plain lease must not cost more: one word for its kind, and no allocation.
const _: () = assert!(size_of::<Target>() <= size_of::<Resource>() + size_of::<usize>());
