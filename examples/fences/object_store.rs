//! Fenced objects: a holder that comes too late is refused, and its write changes nothing.
//!
//! [`replace`] is for stores with conditional writes (S3, GCS, Azure, memory): the object begins with a line that is the
//! token, and is put only over the version that was compared. The token must never stand in the metadata alone: the ETag of
//! S3 is made of the content, and would stay the same where only the token has changed.
//!
//! [`append`] and [`newest`] are for stores that can only create, such as `LocalFileSystem`: each write is an object of its
//! own, with the token in its name, and the largest name counts.

use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion, path::Path,
};
use quorlock::FencingToken;

/// Why a holder was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// This later holder has been here, and nothing of the write counts: stop the work, and acquire anew.
    Stale(FencingToken),
    /// There is an object without a token in its first line, which was left as it is. Somebody wrote it round the fence.
    Unfenced,
    /// The store failed, perhaps behind the write. Look before it is repeated.
    Store(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Reads the object, compares, and puts what `change` makes of it, in one step: where another write came in between, it begins
/// anew. Returns what is there now.
///
/// A write is `|_| new`, and a read under a lease is `|old| old`: it moves the fence too. What is not there reads as empty, and
/// is created, since the fence needs a place. Deleting the object deletes the fence. `change` is called anew for each try, and
/// after an answer that was lost it may find what it has made itself.
///
/// # Errors
///
/// [`Refused`]. A store without conditional writes is refused by [`Refused::Store`], once there is an object.
pub async fn replace(
    store: &dyn ObjectStore,
    path: &Path,
    token: FencingToken,
    mut change: impl FnMut(Vec<u8>) -> Vec<u8>,
) -> Result<Vec<u8>, Refused> {
    loop {
        let (old, mode) = match store.get(path).await {
            Ok(found) => {
                let version = UpdateVersion {
                    e_tag: found.meta.e_tag.clone(),
                    version: found.meta.version.clone(),
                };
                let bytes = found.bytes().await?;
                let (largest, old) = split(&bytes).ok_or(Refused::Unfenced)?;
                if largest > token {
                    return Err(Refused::Stale(largest));
                }
                (old.to_vec(), PutMode::Update(version))
            }
            Err(Error::NotFound { .. }) => (Vec::new(), PutMode::Create),
            Err(error) => return Err(error.into()),
        };
        let new = change(old);
        let bytes = [format!("{token}\n").as_bytes(), &new].concat();
        match store.put_opts(path, PutPayload::from(bytes), mode.into()).await {
            Ok(_) => return Ok(new),
            // Each turn means that another has written. Earlier holders do so no more, once this one has.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The token in the first line, and what stands below it.
pub fn split(bytes: &[u8]) -> Option<(FencingToken, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (token, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(token).ok()?.parse().ok()?, rest.get(1..)?))
}

/// Writes a new object into the folder, named by the token and the count of its writes.
///
/// A read moves no fence here, so an accepted write can be lost where what is written was made of what was read. All names
/// but the largest may be deleted at any time; the largest is the fence.
///
/// # Errors
///
/// [`Refused`].
pub async fn append(
    store: &dyn ObjectStore,
    folder: &Path,
    token: FencingToken,
    bytes: Vec<u8>,
) -> Result<(), Refused> {
    let bytes = PutPayload::from(bytes);
    let mut count = match of_folder(store, folder).await? {
        Some((largest, ..)) if largest > token => return Err(Refused::Stale(largest)),
        Some((of, count, _)) if of == token => count.saturating_add(1),
        _ => 0,
    };
    loop {
        let path = folder.clone().join(format!("{token}-{count}"));
        match store.put_opts(&path, bytes.clone(), PutMode::Create.into()).await {
            // A later holder that came in between counts all the same: its name is larger.
            Ok(_) => return Ok(()),
            // Of another task of this holder.
            Err(Error::AlreadyExists { .. }) => count = count.saturating_add(1),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The newest write in the folder, if there is any, and its token: a holder with a smaller one is too late.
///
/// # Errors
///
/// What the store says.
pub async fn newest(
    store: &dyn ObjectStore,
    folder: &Path,
) -> Result<Option<(FencingToken, Vec<u8>)>, Error> {
    loop {
        let Some((token, _, path)) = of_folder(store, folder).await? else { return Ok(None) };
        match store.get(&path).await {
            Ok(found) => return Ok(Some((token, found.bytes().await?.to_vec()))),
            // A later one is there, and this one was deleted.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The write with the largest name: its token, its count among those of the token, and where it is.
type Write = (FencingToken, u64, Path);

/// The largest name in the folder. Others than those of writes are none.
async fn of_folder(store: &dyn ObjectStore, folder: &Path) -> Result<Option<Write>, Error> {
    let objects = store.list_with_delimiter(Some(folder)).await?.objects;
    let writes = objects.into_iter().filter_map(|object| {
        let (token, count) = object.location.filename()?.split_once('-')?;
        Some((token.parse().ok()?, count.parse().ok()?, object.location))
    });
    Ok(writes.max())
}
