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
/// use quorlock::protocol::{Resource, ResourceError};
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

    /// Takes the bytes as they are.
    ///
    /// # Errors
    ///
    /// [`ResourceError::Empty`] for no bytes at all, [`ResourceError::TooLong`] above
    /// [`Resource::MAX_BYTES`], [`ResourceError::Reserved`] for the names of what is kept beside locks. Nothing has been sent to any node.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let name = name.as_ref();
        match name.len() {
            _ if name == b"quorlock:node" || name.starts_with(b"fence:{") => {
                Err(ResourceError::Reserved)
            }
            0 => Err(ResourceError::Empty),
            bytes if bytes > Self::MAX_BYTES => Err(ResourceError::TooLong { bytes }),
            _ => Ok(Self(name.into())),
        }
    }

    /// The same name behind a prefix: the key on the nodes.
    ///
    /// # Errors
    ///
    /// As for [`new`](Resource::new), of the whole key.
    pub fn prefixed(&self, prefix: &[u8]) -> Result<Self, ResourceError> {
        if prefix.is_empty() {
            return Ok(self.clone());
        }
        Self::new([prefix, self.as_bytes()].concat())
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

/// Why a name cannot be a [`Resource`]. Nothing has been sent; pass another name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The name has no bytes, which is nearly always a variable that was never set. Nothing is left
    /// on the nodes. Name what you want to lock.
    Empty,
    /// The name is one under which the nodes keep counters or their marker: it begins with `fence:{`, or is
    /// `quorlock:node`. Nothing is left on the nodes. Choose another name.
    Reserved,
    /// The name is longer than [`Resource::MAX_BYTES`]. Nothing is left on the nodes. Lock a digest
    /// of the long name instead.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a resource needs a name of at least one byte"),
            Self::Reserved => write!(
                f,
                "the names `quorlock:node` and `fence:{{...` are kept for the nodes' own keys"
            ),
            Self::TooLong { bytes } => write!(
                f,
                "a resource may have at most {} bytes, lock a digest of it instead, bytes={bytes}",
                Resource::MAX_BYTES
            ),
        }
    }
}

impl core::error::Error for ResourceError {}
