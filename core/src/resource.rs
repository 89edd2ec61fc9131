//! The resource: what is locked, as the exact bytes of the key on every node.
//!
//! It decides which names are accepted. It must never change one: two spellings are two locks, and
//! other libraries on the same nodes must see the same key.

use alloc::sync::Arc;
use core::fmt;

/// The name of what is locked: any bytes, at least one, at most [`Resource::MAX_BYTES`].
///
/// The Redis key is exactly these bytes, behind the key prefix where one is configured. A clone is
/// cheap.
///
/// ```
/// use quorlock_core::{Resource, ResourceError};
///
/// assert_eq!(Resource::new("invoice:42")?.as_bytes(), b"invoice:42");
/// assert_eq!(Resource::new([0xff, 0x00])?.to_string(), r"\xff\x00");
/// assert_eq!(Resource::new(""), Err(ResourceError::Empty));
/// # Ok::<(), ResourceError>(())
/// ```
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Resource(Arc<[u8]>);

impl Resource {
    /// The longest accepted name. Redis takes 512 MiB; a name is sent to every node in every round.
    pub const MAX_BYTES: usize = 65_536;

    /// Keys that begin with this are the nodes' own: their marker, and what else is kept beside locks.
    pub const RESERVED: &'static str = "quorlock:";

    /// What the name of a line for any slot of a semaphore begins with. No resource of a user begins so.
    pub(super) const SLOTS: &'static str = "quorlock:slots:";

    /// Takes the bytes as they are.
    ///
    /// # Errors
    ///
    /// [`ResourceError::Empty`] for no bytes at all, [`ResourceError::TooLong`] above
    /// [`Resource::MAX_BYTES`], [`ResourceError::Reserved`] for what begins with [`Resource::RESERVED`].
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        Self::behind(&[], name)
    }

    /// A name behind a prefix, which together are the key on the nodes.
    ///
    /// ```
    /// use quorlock_core::{Resource, ResourceError};
    ///
    /// assert_eq!(Resource::behind(b"app:", "quorlock:x")?.as_bytes(), b"app:quorlock:x");
    /// assert_eq!(Resource::behind(b"quor", "lock:x"), Err(ResourceError::Reserved));
    /// assert_eq!(Resource::behind(b"app:", ""), Err(ResourceError::Empty));
    /// # Ok::<(), ResourceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError::Empty`] where the name has no bytes; the others as for [`new`](Resource::new), of the whole
    /// key.
    pub fn behind(prefix: &[u8], name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(ResourceError::Empty);
        }
        // No longer key is built than one that may be accepted.
        let bytes = prefix.len().saturating_add(name.len());
        if bytes > Self::MAX_BYTES {
            return Err(ResourceError::TooLong { bytes });
        }
        let key: Arc<[u8]> =
            if prefix.is_empty() { name.into() } else { [prefix, name].concat().into() };
        // A reader of a key on a node does not see where its prefix ends.
        if key.starts_with(Self::RESERVED.as_bytes()) {
            return Err(ResourceError::Reserved);
        }
        Ok(Self(key))
    }

    /// In whose line those stand who wait for any slot of the semaphore that has this name: nobody can lock it, so that it is
    /// no line of anything else.
    pub(super) fn line_of_slots(semaphore: &Self) -> Result<Self, ResourceError> {
        let line = [Self::SLOTS.as_bytes(), semaphore.as_bytes()].concat();
        let bytes = line.len();
        if bytes > Self::MAX_BYTES {
            Err(ResourceError::TooLong { bytes })
        } else {
            Ok(Self(line.into()))
        }
    }

    /// The name in a message of a node: of a resource, or of the line of a semaphore.
    ///
    /// ```
    /// use quorlock_core::Resource;
    ///
    /// assert_eq!(Resource::of_message("invoice:42"), Resource::new("invoice:42"));
    /// assert!(Resource::of_message("quorlock:slots:api").is_ok());
    /// assert!(Resource::of_message("quorlock:node").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`new`](Resource::new).
    pub fn of_message(name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let name = name.as_ref();
        match name.strip_prefix(Self::SLOTS.as_bytes()) {
            Some(semaphore) => Self::line_of_slots(&Self::new(semaphore)?),
            None => Self::new(name),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({self})")
    }
}

/// Why names cannot be a [`Resource`], a [`ResourceSet`](crate::ResourceSet) or [`Slots`](crate::Slots). Nothing has been
/// sent.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The name has no bytes, which is nearly always a variable that was never set. Nothing is left
    /// on the nodes. Name what you want to lock.
    Empty,
    /// The key begins with [`Resource::RESERVED`], under which the nodes keep their marker and counters. Nothing
    /// is left on the nodes. Choose another name.
    Reserved,
    /// The name is longer than [`Resource::MAX_BYTES`]. Nothing is left on the nodes. Lock a digest
    /// of the long name instead.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// No resource is named, which is nearly always a list that was never filled. Name what you want to lock.
    None,
    /// More than [`ResourceSet::MOST`](crate::ResourceSet::MOST) resources are named. Lock one resource that stands for all
    /// of them instead.
    TooMany {
        /// How many there are, each counted once.
        resources: usize,
        /// How many may be.
        max: usize,
    },
    /// A semaphore has from 1 to [`Slots::MOST`](crate::Slots::MOST) permits. Ask for a number in between.
    Permits {
        /// How many were asked for.
        permits: usize,
        /// How many may be.
        max: usize,
    },
}

debug_is_text! { enum ResourceError {
    Empty,
    Reserved,
    TooLong { bytes },
    None,
    TooMany { resources, max },
    Permits { permits, max },
} }

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "its name is empty; check for a variable that was never set"),
            Self::Reserved => {
                write!(
                    f,
                    "keys that begin with `{}` are reserved for the nodes; choose another name",
                    Resource::RESERVED
                )
            }
            Self::TooLong { bytes } => write!(
                f,
                "its key has {bytes} bytes, at most {} are allowed; lock a digest of it instead",
                Resource::MAX_BYTES
            ),
            Self::None => write!(f, "no resource is named; check for a list that was never filled"),
            Self::TooMany { resources, max } => write!(
                f,
                "{resources} resources are named, at most {max} are allowed; lock one that stands for all of them"
            ),
            Self::Permits { permits, max } => {
                write!(f, "the number of permits is {permits}; ask for 1 to {max}")
            }
        }
    }
}

impl core::error::Error for ResourceError {}
