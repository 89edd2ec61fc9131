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

/// A statement of `docs/fencing.md`, by its beginning.
fn of_the_page(beginning: &str) -> String {
    let page = include_str!("../../docs/fencing.md");
    let line = page.lines().find(|line| line.starts_with(beginning)).expect("it is there");
    line.split(';').next().expect("a statement").replace('$', "?")
}

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

/// The first holder has read, and is late with its write; the second has read too, and not written yet.
#[tokio::test]
async fn an_accepted_write_is_not_lost_in_sqlite_where_reads_move_the_fence() {
    let database = Connection::open_in_memory().unwrap();
    database
        .execute_batch(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO account (id, balance, fence) VALUES (42, 0, 0);",
        )
        .unwrap();
    let (moving, writing) =
        (of_the_page("UPDATE account SET fence"), of_the_page("UPDATE account SET balance"));
    let (a, b) = two_clients().await;
    let mut seen = Vec::new();
    for moves in [false, true] {
        let balance = || {
            let query = "SELECT balance FROM account WHERE id = 42";
            database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let read = |lease: &Lease| {
            let fence = i64::try_from(token(lease)).unwrap();
            let moved =
                || database.query_row(&moving, params![fence, 42], |row| row.get(0)).unwrap();
            if moves { moved() } else { balance() }
        };
        let write = |lease: &Lease, balance: i64| {
            let fence = i64::try_from(token(lease)).unwrap();
            database.execute(&writing, params![fence, 42, balance]).unwrap() == 1
        };
        let before = balance();
        let stale = short_lease(&a).await;
        let of_a = read(&stale);
        let current = next_lease(&b, &stale).await;
        let of_b = read(&current);
        let accepted = write(&stale, of_a + 10);
        assert!(write(&current, of_b + 1));
        seen.push((accepted, balance() - before));
        current.release().await.unwrap();
    }
    assert_eq!(seen, [(true, 1), (false, 1)], "ten that were accepted and lost, or refused");
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

/// The books of a service that does not compare: they show each charge that reached it.
const CHARGES: &str = "
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL, fence INTEGER NOT NULL);
    CREATE TABLE charge (invoice INTEGER NOT NULL, token INTEGER NOT NULL);
    CREATE TABLE once (invoice INTEGER PRIMARY KEY, token INTEGER NOT NULL);
    INSERT INTO invoice (id, paid, fence) VALUES (42, 0, 0);";

/// How a holder charges the invoice; whether it did.
type Charge = fn(&mut Connection, i64) -> bool;

/// The fence alone: it refuses a late holder, but lets in the next one, which charges again.
fn by_fence_alone(database: &mut Connection, token: i64) -> bool {
    let transaction = database.transaction().unwrap();
    let moved = "UPDATE invoice SET paid = TRUE, fence = ?1 WHERE id = 42 AND fence <= ?1";
    let charges = transaction.execute(moved, [token]).unwrap() == 1;
    if charges {
        transaction.execute("INSERT INTO charge VALUES (42, ?1)", [token]).unwrap();
    }
    transaction.commit().unwrap();
    charges
}

/// The state of the invoice says whether it was done, and the fence which holder may do it.
fn by_state(database: &mut Connection, token: i64) -> bool {
    let transaction = database.transaction().unwrap();
    let pay =
        "UPDATE invoice SET paid = TRUE, fence = ?1 WHERE id = 42 AND NOT paid AND fence <= ?1";
    let charges = transaction.execute(pay, [token]).unwrap() == 1;
    if charges {
        transaction.execute("INSERT INTO charge VALUES (42, ?1)", [token]).unwrap();
    }
    transaction.commit().unwrap();
    charges
}

/// The effect has a row of its own, under what it is an effect of; and the fence is moved in the same transaction.
fn by_own_row(database: &mut Connection, token: i64) -> bool {
    let transaction = database.transaction().unwrap();
    let fence = "UPDATE invoice SET fence = ?1 WHERE id = 42 AND fence <= ?1";
    if transaction.execute(fence, [token]).unwrap() == 0 {
        return false; // rolled back
    }
    let once = "INSERT INTO once (invoice, token) VALUES (42, ?1) ON CONFLICT DO NOTHING";
    let charges = transaction.execute(once, [token]).unwrap() == 1;
    if charges {
        transaction.execute("INSERT INTO charge VALUES (42, ?1)", [token]).unwrap();
    }
    transaction.commit().unwrap();
    charges
}

/// How often the invoice is charged, and by how many holders. There are two, one after the other. The first is paused:
/// before its write, or while it waits for the answer.
async fn charges(charge: Charge, first_writes: bool) -> (i64, i64) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("invoices.sqlite");
    let (mut of_a, mut of_b) = (Connection::open(&file).unwrap(), Connection::open(&file).unwrap());
    of_a.execute_batch(CHARGES).unwrap();
    let (a, b) = two_clients().await;

    let paused = short_lease(&a).await;
    let token = |lease: &Lease| i64::from(lease.token().unwrap());
    let mut done = Vec::new();
    if first_writes {
        done.push(charge(&mut of_a, token(&paused)));
    }
    let current = next_lease(&b, &paused).await;
    done.push(charge(&mut of_b, token(&current)));
    // The first one wakes up: its write arrives after that of the second, or it repeats what was not answered.
    done.push(charge(&mut of_a, token(&paused)));
    done.push(charge(&mut of_b, token(&current)));
    current.release().await.unwrap();
    let query = "SELECT COUNT(*), COUNT(DISTINCT token) FROM charge";
    let (count, holders) = of_a.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let told = done.into_iter().filter(|charged| *charged).count();
    assert_eq!(
        i64::try_from(told).unwrap(),
        count,
        "each worker that charged is told so, and no other"
    );
    (count, holders)
}

#[tokio::test]
async fn an_effect_under_the_name_of_its_work_happens_once_for_all_holders() {
    for (what, charge) in [("state", by_state as Charge), ("own row", by_own_row)] {
        for first_writes in [false, true] {
            assert_eq!(charges(charge, first_writes).await, (1, 1), "{what}, {first_writes}");
        }
    }
}

/// The control: what the recipe above is for. The fence keeps the late write out, and not the next holder's.
#[tokio::test]
async fn a_fence_alone_charges_again_for_each_holder() {
    assert_eq!(charges(by_fence_alone, false).await, (2, 1), "the second, and its repeat");
    assert_eq!(charges(by_fence_alone, true).await, (3, 2), "the first, and the second twice");
}
