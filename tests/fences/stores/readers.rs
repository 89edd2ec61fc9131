//! Goal: a reader that was paused sees no state of a later writer, and a writer that was paused changes nothing under a later
//! reader's eyes.
//!
//! Method: the statements of `docs/kinds.md`, on a database in memory, by holders whose leases are over.

use std::time::Duration;

use quorlock::{Lease, ReadLease, Redlock};
use rusqlite::{Connection, params};

use super::two_clients;

const SCHEMA: &str = "
    CREATE TABLE catalog (id INTEGER PRIMARY KEY, title TEXT NOT NULL, fence INTEGER NOT NULL, seen INTEGER NOT NULL);
    INSERT INTO catalog (id, title, fence, seen) VALUES (7, '', 0, 0);";

/// Whether the store has taken it.
fn write(database: &Connection, lease: &Lease, title: &str) -> bool {
    let write =
        "UPDATE catalog SET title = ?3, fence = ?2 WHERE id = ?1 AND fence <= ?2 AND seen < ?2";
    let token = i64::from(lease.token().unwrap());
    database.execute(write, params![7, token, title]).unwrap() == 1
}

/// What the reader may see, without leaving a trace.
fn look(database: &Connection, lease: &ReadLease) -> Option<String> {
    let read = "SELECT title FROM catalog WHERE id = ?1 AND fence <= ?2";
    database.query_row(read, params![7, i64::from(lease.token())], |row| row.get(0)).ok()
}

/// The same, and from then on the store refuses writers whose lease was before the reader's.
fn read(database: &Connection, lease: &ReadLease) -> Option<String> {
    let read =
        "UPDATE catalog SET seen = max(seen, ?2) WHERE id = ?1 AND fence <= ?2 RETURNING title";
    database.query_row(read, params![7, i64::from(lease.token())], |row| row.get(0)).ok()
}

const SHORT: Duration = Duration::from_millis(150);
const WAIT: Duration = Duration::from_secs(20);

async fn short_read(redlock: &Redlock) -> ReadLease {
    redlock.read("catalog:7").ttl(SHORT).without_renewal().wait(WAIT).await.unwrap()
}

async fn short_write(redlock: &Redlock) -> Lease {
    redlock.write("catalog:7").ttl(SHORT).without_renewal().wait(WAIT).await.unwrap()
}

#[tokio::test]
async fn a_paused_reader_sees_nothing_of_a_later_writer() {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(SCHEMA).unwrap();
    let (a, b) = two_clients().await;
    let first = short_write(&a).await;
    assert!(write(&database, &first, "one"));
    first.release().await.unwrap();

    let (paused, beside) = (short_read(&a).await, short_read(&b).await);
    assert_eq!(look(&database, &paused).as_deref(), Some("one"));
    assert_eq!(read(&database, &beside).as_deref(), Some("one"));
    paused.lost().await;
    beside.lost().await;
    let later = short_write(&b).await;
    assert!(write(&database, &later, "two"), "it comes after both of them");
    assert_eq!((look(&database, &paused), read(&database, &beside)), (None, None));
    later.release().await.unwrap();
    assert_eq!(read(&database, &short_read(&a).await).as_deref(), Some("two"));
}

#[tokio::test]
async fn a_paused_writer_changes_nothing_that_a_later_reader_has_seen() {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(SCHEMA).unwrap();
    let (a, b) = two_clients().await;
    let paused = short_write(&a).await;
    assert!(write(&database, &paused, "one"));
    paused.lost().await;
    let reader = short_read(&b).await;
    // The fence alone lets it write: no other has written since.
    assert_eq!(look(&database, &reader).as_deref(), Some("one"));
    assert!(write(&database, &paused, "half"));
    assert_eq!(read(&database, &reader).as_deref(), Some("half"));
    assert!(!write(&database, &paused, "other half"), "somebody has read with a later lease");
    assert_eq!(read(&database, &reader).as_deref(), Some("half"));
}
