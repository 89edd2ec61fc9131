//! The statements of `docs/fencing.md`: each is one, for both databases; and a fence does not keep work from being done twice.

use quorlock::Lease;
use rusqlite::{Connection, params};

use super::{next_lease, postgres, short_lease, sqlite, token, two_clients};

const PAGE: &str = include_str!("../../../docs/fencing.md");
const KINDS: &str = include_str!("../../../docs/kinds.md");

/// A statement that stands on the page.
pub(crate) fn shown(statement: &'static str) -> &'static str {
    assert!(statements().any(|it| it == statement), "the page has no `{statement}`");
    statement
}

/// The same, with the parameters as SQLite writes them.
pub(crate) fn of_sqlite(statement: &'static str) -> String {
    shown(statement).replace('$', "?")
}

fn statements() -> impl Iterator<Item = &'static str> {
    statements_of(PAGE)
}

fn statements_of(page: &'static str) -> impl Iterator<Item = &'static str> {
    let blocks = page.split("\n```sql\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| !line.is_empty());
    lines.map(|line| line.split(';').next().unwrap())
}

/// What the statements of the page are about, beside what the files make.
const ABOUT: &str = "
    CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);";

/// Those of one database alone.
const OF_POSTGRES: [&str; 2] = ["CALL add_fence", "SELECT move_fence"];
const OF_SQLITE: &str = "REPLACE INTO fence";

#[test]
fn every_statement_of_the_page_is_one_of_sqlite() {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&[sqlite::FILE, ABOUT].concat()).unwrap();
    let is_common = |it: &&str| !OF_POSTGRES.iter().any(|other| it.starts_with(other));
    let mut count = 0;
    for statement in statements().filter(is_common) {
        let statement = statement.replace('$', "?");
        if statement.starts_with("CREATE TABLE") {
            database.execute_batch(&statement).unwrap();
        } else {
            database.prepare(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        count += 1;
    }
    assert!(count > 6, "only {count}, which proves nothing");
}

#[tokio::test]
async fn every_statement_of_the_page_is_one_of_postgres() {
    let Some(server) = postgres::server() else { return };
    let client = server.connect().await;
    client.batch_execute(postgres::FILE).await.unwrap();
    client.batch_execute(ABOUT).await.unwrap();
    let column = "fence BIGINT NOT NULL DEFAULT 0";
    assert!(PAGE.contains(&format!("`{column}`")));
    let invoice = format!("CREATE TABLE invoice (id bigint PRIMARY KEY, paid boolean, {column})");
    client.batch_execute(&invoice).await.unwrap();
    client.batch_execute(shown("CALL add_fence('invoice')")).await.unwrap();
    for statement in statements().filter(|it| !it.starts_with(OF_SQLITE) && !it.starts_with("CALL"))
    {
        let said = if statement.starts_with("CREATE TABLE") {
            client.batch_execute(statement).await
        } else {
            client.prepare(statement).await.map(drop)
        };
        said.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    // `readers` runs those of docs/kinds.md, which says how the one that is of SQLite alone reads here.
    let catalog = "CREATE TABLE catalog (id bigint, title text, fence bigint, seen bigint)";
    client.batch_execute(catalog).await.unwrap();
    let of_kinds: Vec<&str> = statements_of(KINDS).filter(|it| it.contains(" catalog ")).collect();
    assert_eq!(of_kinds.len(), 3);
    for statement in of_kinds {
        client.prepare(&statement.replace("max(", "greatest(")).await.unwrap();
    }
}

/// The column as the page names it, and none of the triggers of `sqlite.sql`.
const SCHEMA: &str = "
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
    INSERT INTO invoice (id, paid) VALUES (42, 0);";

/// The first holder has read, and is late with its write; the second has read too, and not written yet.
#[tokio::test]
async fn an_accepted_write_is_not_lost_where_the_read_of_the_page_moves_the_fence() {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(ABOUT).unwrap();
    database.execute_batch("INSERT INTO account (id, balance) VALUES (42, 0)").unwrap();
    let moving =
        of_sqlite("UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING balance");
    let writing =
        of_sqlite("UPDATE account SET balance = $3, fence = $1 WHERE id = $2 AND fence <= $1");
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
    assert!(PAGE.contains("With `fence < $1` instead"));
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
    let moved =
        of_sqlite("UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2 AND fence <= $1");
    let charges = transaction.execute(&moved, [token, 42]).unwrap() == 1;
    if charges {
        transaction.execute("INSERT INTO charge VALUES (42, ?1)", [token]).unwrap();
    }
    transaction.commit().unwrap();
    charges
}

/// The state of the invoice says whether it was done, and the fence which holder may do it.
fn by_state(database: &mut Connection, token: i64) -> bool {
    let transaction = database.transaction().unwrap();
    let pay = of_sqlite(
        "UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2 AND NOT paid AND fence <= $1",
    );
    let charges = transaction.execute(&pay, [token, 42]).unwrap() == 1;
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
