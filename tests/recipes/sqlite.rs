//! Goal: a row that carries the token of its last writer is not written to by a stale holder.
//!
//! Method: two connections to one file, and the statement of `docs/fencing.md`.

use quorlock::Lease;
use rusqlite::{Connection, Transaction, params};

use super::{next_lease, short_lease, token, two_clients};

const SCHEMA: &str = "
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL, fence INTEGER NOT NULL);
    CREATE TABLE payment (invoice INTEGER NOT NULL, amount INTEGER NOT NULL);
    INSERT INTO invoice (id, paid, fence) VALUES (42, 0, 0);";

/// Raises the fence to our token. Equality is our own repeat: no other holder ever has the same token.
const FENCE: &str = "UPDATE invoice SET fence = ?2 WHERE id = ?1 AND fence <= ?2";

/// Everything that the work changes, in the transaction that has moved the fence.
fn pay(database: &mut Connection, lease: &Lease, amount: i64) -> Result<(), &'static str> {
    let transaction = database.transaction().unwrap();
    fenced(&transaction, lease)?;
    transaction
        .execute("UPDATE invoice SET paid = paid + ?2 WHERE id = ?1", params![42, amount])
        .unwrap();
    transaction
        .execute("INSERT INTO payment (invoice, amount) VALUES (?1, ?2)", params![42, amount])
        .unwrap();
    transaction.commit().unwrap();
    Ok(())
}

fn fenced(transaction: &Transaction<'_>, lease: &Lease) -> Result<(), &'static str> {
    let fence = i64::try_from(token(lease)).unwrap();
    match transaction.execute(FENCE, params![42, fence]).unwrap() {
        1 => Ok(()),
        _ => Err("a later holder has been here"),
    }
}

fn state(database: &Connection) -> (i64, i64, i64) {
    let query = "SELECT paid, fence, (SELECT COUNT(*) FROM payment) FROM invoice WHERE id = 42";
    database.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

#[tokio::test]
async fn a_stale_writer_changes_nothing_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("invoices.sqlite");
    let (mut of_a, mut of_b) = (Connection::open(&file).unwrap(), Connection::open(&file).unwrap());
    of_a.execute_batch(SCHEMA).unwrap();
    let (a, b) = two_clients().await;

    let stale = short_lease(&a).await;
    pay(&mut of_a, &stale, 10).expect("the first holder pays");
    pay(&mut of_a, &stale, 1).expect("and repeats, with an equal token");
    let current = next_lease(&b, &stale).await;
    pay(&mut of_b, &current, 100).expect("the second holder pays");
    assert!(pay(&mut of_a, &stale, 1000).is_err(), "the first one is refused");
    pay(&mut of_b, &current, 10_000).expect("the second one goes on");

    let fence = i64::try_from(token(&current)).unwrap();
    assert_eq!(state(&of_a), (10_111, fence, 4), "nothing of the refused transaction is there");
    current.release().await.unwrap();
}

#[tokio::test]
async fn with_less_instead_of_less_or_equal_a_token_writes_once() {
    let mut database = Connection::open_in_memory().unwrap();
    database.execute_batch(SCHEMA).unwrap();
    let (a, b) = two_clients().await;
    let mut once = |lease: &Lease| {
        let fence = i64::try_from(token(lease)).unwrap();
        let write = "UPDATE invoice SET paid = paid + 1, fence = ?2 WHERE id = ?1 AND fence < ?2";
        let transaction = database.transaction().unwrap();
        let rows = transaction.execute(write, params![42, fence]).unwrap();
        transaction.commit().unwrap();
        rows == 1
    };
    let stale = short_lease(&a).await;
    assert!(once(&stale));
    assert!(!once(&stale), "a repeat after an answer that was lost changes nothing");
    let current = next_lease(&b, &stale).await;
    assert!(once(&current));
    assert!(!once(&stale));
    current.release().await.unwrap();
}
