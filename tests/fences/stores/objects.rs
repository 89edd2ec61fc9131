//! `object_store.rs`, on the back ends in memory and on the local file system.

#[path = "../../../examples/fences/object_store.rs"]
#[allow(dead_code, unreachable_pub, reason = "the file is for users")]
#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
mod fenced;

/// The same without its comparison, and with a put that asks for no version: `build.rs` makes both.
mod planted {
    #[allow(dead_code, unreachable_pub, unused_variables, reason = "a copy with a fault")]
    pub(super) mod comparison {
        include!(concat!(env!("OUT_DIR"), "/comparison.rs"));
    }
    #[allow(dead_code, unreachable_pub, reason = "a copy with a fault")]
    pub(super) mod version {
        include!(concat!(env!("OUT_DIR"), "/version.rs"));
    }
}

use std::{cell::Cell, sync::Arc, thread};

use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, UpdateVersion, local::LocalFileSystem,
    memory::InMemory, path::Path,
};
use quorlock::FencingToken;

use super::{Store, crowd, late};

type Shared = Arc<dyn ObjectStore>;

fn path() -> Path {
    Path::from("notes/42")
}

async fn get(store: &Shared, path: &Path) -> Vec<u8> {
    store.get(path).await.unwrap().bytes().await.unwrap().to_vec()
}

fn text(bytes: impl Into<Vec<u8>>) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// Writers by a copy of the file: one whose store has conditional writes, and one whose store can only create.
macro_rules! writers {
    ($($file:ident)::+: $replacing:ident, $appending:ident) => {
        #[derive(Clone)]
        struct $replacing(Shared);

        impl $replacing {
            /// Nothing where a later holder has been here.
            async fn replace(&self, token: u64, change: impl FnMut(Vec<u8>) -> Vec<u8>) -> Option<String> {
                let token = FencingToken::new(token);
                match $($file)::+::replace(&self.0, &path(), token, change).await {
                    Ok(bytes) => Some(text(bytes)),
                    Err($($file)::+::Refused::Stale(later)) => {
                        assert!(later > token);
                        None
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }

        impl Store for $replacing {
            async fn write(&mut self, token: u64, value: &str) -> bool {
                self.replace(token, |_| value.into()).await.is_some()
            }

            async fn read(&mut self, token: u64) -> Option<String> {
                self.replace(token, |old| old).await
            }

            async fn look(&mut self) -> String {
                text(fenced::split(&get(&self.0, &path()).await).unwrap().1)
            }
        }

        #[derive(Clone)]
        struct $appending(Shared);

        impl Store for $appending {
            async fn write(&mut self, token: u64, value: &str) -> bool {
                let token = FencingToken::new(token);
                match $($file)::+::append(&self.0, &path(), token, value.into()).await {
                    Ok(()) => true,
                    Err($($file)::+::Refused::Stale(_)) => false,
                    Err(other) => panic!("{other:?}"),
                }
            }

            async fn read(&mut self, token: u64) -> Option<String> {
                let (of, bytes) = $($file)::+::newest(&self.0, &path()).await.unwrap().unwrap();
                (of.get() <= token).then(|| text(bytes))
            }

            async fn look(&mut self) -> String {
                text($($file)::+::newest(&self.0, &path()).await.unwrap().unwrap().1)
            }
        }
    };
}

writers! { fenced: Replacing, Appending }
writers! { planted::comparison: Careless, CarelessAppending }

fn memory() -> Shared {
    Arc::new(InMemory::new())
}

/// A back end on a directory of its own, which is kept beside it.
fn local() -> (tempfile::TempDir, Shared) {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    (directory, Arc::new(store))
}

#[tokio::test]
async fn a_late_writer_changes_no_object() {
    let [mut a, mut b] = twice(Replacing(memory()));
    late::write(&mut a, &mut b).await.unwrap();
    late::reads_move_the_fence(twice(Replacing(memory())), twice(Replacing(memory()))).await;
    let (_directory, local) = local();
    for store in [memory(), local] {
        let [mut a, mut b] = twice(Appending(store));
        late::write(&mut a, &mut b).await.unwrap();
    }
}

fn twice<S: Clone>(writer: S) -> [S; 2] {
    [writer.clone(), writer]
}

#[test]
fn of_many_writers_to_an_object_none_writes_after_a_later_one() {
    let store = memory();
    crowd::judged(async || Replacing(store.clone())).unwrap();
    let (_directory, local) = local();
    for store in [memory(), local] {
        crowd::judged(async || Appending(store.clone())).unwrap();
    }
}

#[tokio::test]
async fn without_its_comparison_the_file_for_objects_is_found_out() {
    let [mut a, mut b] = twice(Careless(memory()));
    let found = late::write(&mut a, &mut b).await;
    assert_eq!(found.unwrap_err(), "not so: the first one is refused");
    let (_directory, local) = local();
    let [mut a, mut b] = twice(CarelessAppending(local));
    let found = late::write(&mut a, &mut b).await;
    assert_eq!(found.unwrap_err(), "not so: the first one is refused");
}

#[test]
fn without_its_comparison_the_history_of_an_object_is_found_out() {
    let store = memory();
    let found = crowd::judged(async || Careless(store.clone()));
    assert!(found.unwrap_err().contains("was taken after"));
    let (_directory, local) = local();
    let found = crowd::judged(async || CarelessAppending(local.clone()));
    assert!(found.unwrap_err().contains("was taken after"));
}

/// A later holder writes between the comparison of an earlier one and its put. Whether the earlier one was let in, how often
/// it tried, and what is there.
macro_rules! overtaken {
    ($($file:ident)::+, $before:expr) => {{
        let store = memory();
        let tries = Cell::new(0);
        let put = |token, text: &'static str| {
            let store = store.clone();
            let (path, token) = (path(), FencingToken::new(token));
            let later = fenced::replace(&store, &path, token, |_| text.into());
            crowd::alone(later).unwrap();
        };
        if let Some(text) = $before {
            put(5, text);
        }
        let (early, path) = (FencingToken::new(5), path());
        let change = |_| {
            if tries.replace(tries.get() + 1) == 0 {
                thread::scope(|scope| scope.spawn(|| put(9, "of the ninth")).join().unwrap());
            }
            b"late".to_vec()
        };
        let said = crowd::alone($($file)::+::replace(&store, &path, early, change));
        (said.is_ok(), tries.get(), text(crowd::alone(get(&store, &path))))
    }};
}

#[test]
fn a_writer_that_is_overtaken_between_comparison_and_put_is_refused() {
    for before in [Some("begun"), None] {
        let (refused, late) = ("9\nof the ninth".to_owned(), "5\nlate".to_owned());
        assert_eq!(overtaken!(fenced, before), (false, 1, refused), "{before:?}");
        assert_eq!(overtaken!(planted::version, before), (true, 1, late), "the control");
    }
}

/// What a reader makes of the object is another text with each token: so it has another ETag where that is a digest.
#[tokio::test]
async fn a_read_that_moves_the_fence_changes_the_content() {
    let store = Replacing(memory());
    store.replace(5, |_| "begun".into()).await.unwrap();
    let before = get(&store.0, &path()).await;
    assert_eq!(store.replace(6, |old| old).await.as_deref(), Some("begun"));
    assert_ne!(get(&store.0, &path()).await, before);
    let nothing = Replacing(memory());
    assert_eq!(nothing.replace(6, |old| old).await.as_deref(), Some(""), "it is created");
    assert_eq!(nothing.replace(5, |old| old).await, None);
}

#[tokio::test]
async fn an_object_without_a_token_is_not_overwritten() {
    let store = memory();
    let token = FencingToken::new(9);
    for raw in ["", "no token", "nine\n", "-1\n", "9007199254740992\n", "\u{e9}\n"] {
        store.put(&path(), raw.as_bytes().to_vec().into()).await.unwrap();
        let said = fenced::replace(&store, &path(), token, |old| old).await;
        assert!(matches!(said, Err(fenced::Refused::Unfenced)), "{raw:?}: {said:?}");
        assert_eq!(get(&store, &path()).await, raw.as_bytes());
    }
}

/// What the file says of the local file system: it can only create, and the second write of `replace` is refused by the store.
#[tokio::test]
async fn the_local_file_system_has_no_conditional_update() {
    let (_directory, store) = local();
    let first = store.put_opts(&path(), "begun".into(), PutMode::Create.into()).await.unwrap();
    let update = PutMode::Update(UpdateVersion::from(first));
    let said = store.put_opts(&path(), "next".into(), update.into()).await;
    assert!(matches!(said, Err(Error::NotImplemented { .. })), "{said:?}");
    let token = FencingToken::new(9);
    let (_directory, store) = local();
    fenced::replace(&store, &path(), token, |_| "begun".into()).await.unwrap();
    let said = fenced::replace(&store, &path(), token, |_| "next".into()).await;
    assert!(matches!(said, Err(fenced::Refused::Store(Error::NotImplemented { .. }))), "{said:?}");
    assert_eq!(get(&store, &path()).await, b"9\nbegun");
}

/// The largest name is the fence, whatever else was deleted or lies in the folder.
#[tokio::test]
async fn the_largest_name_counts_and_the_others_may_be_deleted() {
    let (_directory, local) = local();
    for store in [memory(), local] {
        let mut writer = Appending(store.clone());
        for strange in ["notes/42/readme", "notes/42/x-1", "notes/42/20-1/30-1", "notes/42/7-x"] {
            store.put(&Path::from(strange), "strange".into()).await.unwrap();
        }
        assert!(fenced::newest(&store, &path()).await.unwrap().is_none());
        for (token, value) in [(9, "nine"), (10, "ten"), (10, "ten again")] {
            assert!(writer.write(token, value).await);
        }
        assert_eq!(writer.look().await, "ten again");
        for earlier in ["9-0", "10-0"] {
            store.delete(&path().join(earlier)).await.unwrap();
        }
        assert!(!writer.write(9, "late").await);
        assert!(writer.write(10, "ten once more").await);
        assert_eq!(writer.look().await, "ten once more");
    }
}

/// What does not hold where a store can only create: the read of the second holder moves no fence.
#[tokio::test]
async fn where_a_read_moves_no_fence_an_accepted_write_is_lost() {
    let [mut a, mut b] = twice(Appending(memory()));
    let lost = late::after_reads(&mut a, &mut b, true).await;
    assert_eq!(lost, (true, "begun, b".to_owned()));
}
