//! `sqlite.sql`: a resource with a row in `fence`, and rows with a column of their own.

use std::path::Path;

use quorlock::Lease;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tempfile::TempDir;

use super::{
    Store, changed, crowd, late, next_lease, page::of_sqlite, short_lease, token, two_clients,
};

pub(crate) const FILE: &str = include_str!("../../../examples/fences/sqlite.sql");

/// Beside the file: what the writers write to.
const OURS: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
    INSERT INTO note (id, text) VALUES (42, '');
    CREATE TABLE payment (invoice INTEGER NOT NULL, amount INTEGER NOT NULL);
    ALTER TABLE invoice ADD COLUMN text TEXT NOT NULL DEFAULT '';
    INSERT INTO invoice (id) VALUES (42);
    CREATE TABLE bare (id INTEGER PRIMARY KEY, text TEXT NOT NULL DEFAULT '', fence BIGINT NOT NULL DEFAULT 0);
    INSERT INTO bare (id) VALUES (42);";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// By the table `fence`, before another statement.
    Resource,
    /// By the triggers of a table.
    Row,
    /// By the condition of `docs/fencing.md`, on a table without triggers.
    Condition,
}

const KINDS: [Kind; 3] = [Kind::Resource, Kind::Row, Kind::Condition];

impl Kind {
    /// What moves the fence, with the token, the key and the new text, where there is one; and the table of the text.
    fn statement(self) -> (String, &'static str) {
        let text = "SET text = coalesce(?3, text)";
        match self {
            Self::Resource => {
                let moves = "REPLACE INTO fence (resource, token) VALUES ('invoice:42', $1)";
                (changed(&of_sqlite(moves), "'invoice:42'", "?2"), "note")
            }
            Self::Row => {
                let row = of_sqlite("UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2");
                (changed(&row, "SET paid = TRUE", text) + " RETURNING text", "invoice")
            }
            Self::Condition => {
                let row =
                    "UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2 AND fence <= $1";
                let row = of_sqlite(row).replace("invoice", "bare");
                (changed(&row, "SET paid = TRUE", text) + " RETURNING text", "bare")
            }
        }
    }
}

/// A database in a directory of its own, and how it is written to.
struct Database {
    directory: TempDir,
    kind: Kind,
    statement: String,
}

impl Database {
    fn of(kind: Kind) -> Self {
        Self::by(kind, FILE, kind.statement().0)
    }

    /// One from which the comparison is taken out.
    fn planted(kind: Kind) -> Self {
        let statement = kind.statement().0;
        let resource = "NEW.token < (SELECT token FROM fence WHERE resource = NEW.resource)";
        match kind {
            Kind::Resource => Self::by(kind, &changed(FILE, resource, "FALSE"), statement),
            Kind::Row => Self::by(
                kind,
                &changed(
                    FILE,
                    "WHERE NEW.fence < max(OLD.fence, coalesce((SELECT fence FROM invoice WHERE id = NEW.id), 0));",
                    "WHERE FALSE;",
                ),
                statement,
            ),
            Kind::Condition => Self::by(kind, FILE, changed(&statement, " AND fence <= ?1", "")),
        }
    }

    fn by(kind: Kind, file: &str, statement: String) -> Self {
        let database = Self { directory: tempfile::tempdir().unwrap(), kind, statement };
        database.open().execute_batch(&[file, OURS].concat()).unwrap();
        database
    }

    fn open(&self) -> Connection {
        open(&self.directory.path().join("invoices.sqlite"))
    }

    fn writer(&self) -> Writer {
        Writer { kind: self.kind, statement: self.statement.clone(), database: self.open() }
    }

    fn writers(&self) -> [Writer; 2] {
        [self.writer(), self.writer()]
    }
}

pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    // For as long as a busy machine may take. Nothing here loses its power.
    connection.execute_batch("PRAGMA busy_timeout = 60000; PRAGMA synchronous = OFF").unwrap();
    connection
}

/// Whether it was let in. Another error than that of a stale token is none of the fence.
fn let_in<T>(said: rusqlite::Result<T>) -> Option<T> {
    said.inspect_err(|error| assert!(error.to_string().starts_with("stale"), "{error}")).ok()
}

struct Writer {
    kind: Kind,
    statement: String,
    database: Connection,
}

impl Writer {
    /// The text behind the fence, after it was written where there is a new one. Nothing where a later holder has been here.
    fn behind_the_fence(&mut self, token: u64, text: Option<&str>) -> Option<String> {
        let transaction = self.database.transaction().unwrap();
        let token = token.cast_signed();
        let text = if self.kind == Kind::Resource {
            let_in(transaction.execute(&self.statement, params![token, "note:42"]))?;
            let write = "UPDATE note SET text = coalesce(?1, text) WHERE id = 42 RETURNING text";
            transaction.query_row(write, [text], |row| row.get(0)).unwrap()
        } else {
            let row = |row: &Row<'_>| row.get(0);
            let said = transaction.query_row(&self.statement, params![token, 42, text], row);
            let_in(said.optional())??
        };
        transaction.commit().unwrap();
        Some(text)
    }
}

impl Store for Writer {
    async fn write(&mut self, token: u64, value: &str) -> bool {
        self.behind_the_fence(token, Some(value)).is_some()
    }

    async fn read(&mut self, token: u64) -> Option<String> {
        self.behind_the_fence(token, None)
    }

    async fn look(&mut self) -> String {
        let look = format!("SELECT text FROM {} WHERE id = 42", self.kind.statement().1);
        self.database.query_row(&look, [], |row| row.get(0)).unwrap()
    }
}

#[tokio::test]
async fn a_late_writer_changes_nothing_in_sqlite() {
    for kind in KINDS {
        let database = Database::of(kind);
        let [mut a, mut b] = database.writers();
        late::write(&mut a, &mut b).await.unwrap();
        let (looking, moving) = (Database::of(kind), Database::of(kind));
        late::reads_move_the_fence(looking.writers(), moving.writers()).await;
    }
}

#[test]
fn of_many_writers_in_sqlite_none_writes_after_a_later_one() {
    for kind in KINDS {
        let database = Database::of(kind);
        crowd::judged(async || database.writer()).unwrap();
    }
}

#[tokio::test]
async fn without_its_comparison_the_file_for_sqlite_is_found_out() {
    for kind in KINDS {
        let database = Database::planted(kind);
        let [mut a, mut b] = database.writers();
        let found = late::write(&mut a, &mut b).await;
        assert_eq!(found.unwrap_err(), "not so: the first one is refused", "{kind:?}");
    }
}

#[test]
fn without_its_comparison_the_history_of_sqlite_is_found_out() {
    for kind in KINDS {
        let database = Database::planted(kind);
        let found = crowd::judged(async || database.writer());
        assert!(found.unwrap_err().contains("was taken after"), "{kind:?}");
    }
}

/// Everything that the work changes, in the transaction that has moved the fence.
fn pay(database: &mut Connection, kind: Kind, lease: &Lease, amount: i64) -> bool {
    let transaction = database.transaction().unwrap();
    let token = token(lease).cast_signed();
    let moved = match kind {
        Kind::Condition => {
            let moves = "UPDATE bare SET fence = ?1 WHERE id = 42 AND fence <= ?1";
            transaction.execute(moves, [token]).unwrap() == 1
        }
        _ => let_in(transaction.execute(&kind.statement().0, params![token, "note:42"])).is_some(),
    };
    if !moved {
        return false; // rolled back
    }
    for statement in ["UPDATE note SET text = text || ?1", "INSERT INTO payment VALUES (42, ?1)"] {
        transaction.execute(statement, [amount]).unwrap();
    }
    transaction.commit().unwrap();
    true
}

#[tokio::test]
async fn several_statements_behind_the_fence_are_done_all_or_none() {
    for kind in [Kind::Resource, Kind::Condition] {
        let database = Database::of(kind);
        let (mut of_a, mut of_b) = (database.open(), database.open());
        let (a, b) = two_clients().await;
        let stale = short_lease(&a).await;
        assert!(pay(&mut of_a, kind, &stale, 1) && pay(&mut of_a, kind, &stale, 2), "and repeats");
        let current = next_lease(&b, &stale).await;
        assert!(pay(&mut of_b, kind, &current, 3));
        assert!(!pay(&mut of_a, kind, &stale, 4), "the first one is refused");
        assert!(pay(&mut of_b, kind, &current, 5));
        let state = "SELECT text, (SELECT max(token) FROM (SELECT token FROM fence UNION SELECT fence FROM bare)),
            (SELECT COUNT(*) FROM payment) FROM note";
        let state: (String, i64, i64) =
            of_a.query_row(state, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(state, ("1235".to_owned(), token(&current).cast_signed(), 4), "{kind:?}");
        current.release().await.unwrap();
    }
}

/// What goes round a fence by mistake, with the beginning of what SQLite says. The row has the token 9.
const MISTAKES: [(&str, &str); 19] = [
    ("UPDATE invoice SET paid = TRUE WHERE id = 42", "no fencing token: the UPDATE"),
    ("UPDATE invoice SET paid = TRUE, fence = NULL WHERE id = 42", "no fencing token: what"),
    ("UPDATE invoice SET paid = TRUE, fence = 'nine' WHERE id = 42", "no fencing token: what"),
    ("UPDATE invoice SET paid = TRUE, fence = 9.5 WHERE id = 42", "no fencing token: what"),
    ("UPDATE invoice SET paid = TRUE, fence = 0 WHERE id = 42", "stale fencing token"),
    ("UPDATE invoice SET paid = TRUE, fence = 0 WHERE id = 43", "no fencing token: what"),
    ("UPDATE invoice SET paid = TRUE, fence = -1 WHERE id = 43", "stale fencing token"),
    ("REPLACE INTO invoice (id, paid, fence) VALUES (42, TRUE, 8)", "stale fencing token"),
    ("REPLACE INTO invoice (id, paid) VALUES (42, TRUE)", "no fencing token: the INSERT"),
    (
        "REPLACE INTO invoice (id, paid, fence) VALUES (42, TRUE, NULL)",
        "no fencing token: the INSERT",
    ),
    ("UPDATE OR REPLACE invoice SET id = 42, fence = 6 WHERE id = 43", "stale fencing token"),
    (
        "INSERT INTO invoice (id, fence) VALUES (42, 9) ON CONFLICT DO UPDATE SET paid = TRUE",
        "no fencing token: the UPDATE",
    ),
    ("INSERT INTO invoice (id, fence) VALUES (44, 'nine')", "CHECK constraint failed"),
    ("REPLACE INTO fence (resource, token) VALUES ('note:42', NULL)", "NOT NULL constraint failed"),
    ("REPLACE INTO fence (resource, token) VALUES ('note:42', 'nine')", "CHECK constraint failed"),
    ("REPLACE INTO fence (resource, token) VALUES ('note:42', 0)", "stale fencing token"),
    ("REPLACE INTO fence (resource, token) VALUES ('note:43', 0)", "CHECK constraint failed"),
    ("INSERT INTO invoice (id, fence) VALUES (44, -1)", "CHECK constraint failed"),
    ("UPDATE fence SET token = 8", "stale fencing token"),
];

/// Three rows of `invoice`, of which the first has the token 9 as its resource has.
const BEFORE: &str = "
    INSERT INTO invoice (id) VALUES (43);
    UPDATE invoice SET fence = 9 WHERE id = 42;
    REPLACE INTO fence (resource, token) VALUES ('note:42', 9);";

fn state(database: &Connection) -> String {
    let rows = "SELECT group_concat(id || ' ' || paid || ' ' || fence), (SELECT token FROM fence),
        (SELECT COUNT(*) FROM fence_given) FROM invoice";
    let row = |row: &Row<'_>| {
        Ok(format!("{:?} {:?} {:?}", row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?))
    };
    database.query_row(rows, [], row).unwrap()
}

#[test]
fn a_statement_that_forgets_the_token_changes_nothing_in_sqlite() {
    for recursive in ["OFF", "ON"] {
        let directory = Database::of(Kind::Row);
        let database = directory.open();
        database.execute_batch(&format!("PRAGMA recursive_triggers = {recursive}")).unwrap();
        database.execute_batch(BEFORE).unwrap();
        let before = state(&database);
        for (statement, says) in MISTAKES {
            let error = database.execute(statement, []).expect_err(statement).to_string();
            assert!(error.starts_with(says), "{statement}: {error}");
            assert_eq!(state(&database), before, "{statement}");
        }
        // Text that is a token is one, several rows at once are, and each resource is for itself. A row that is skipped gives
        // nothing to the next.
        for (statement, rows) in [
            ("UPDATE invoice SET fence = '10'", 2),
            ("INSERT INTO invoice (id, fence) VALUES (44, 10)", 1),
            ("UPDATE OR IGNORE invoice SET id = 42, fence = 11 WHERE id = 43", 0),
            ("REPLACE INTO fence (resource, token) VALUES ('note:43', 1)", 1),
        ] {
            assert_eq!(database.execute(statement, []).unwrap(), rows, "{statement}");
        }
        let error = database
            .execute("UPDATE invoice SET paid = TRUE WHERE id = 43", [])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no fencing token"), "{error}");
    }
}

/// As the file says: another name for `invoice`, and for `id`.
#[test]
fn the_file_is_for_any_table() {
    let file =
        FILE.replace("invoice", "account").replace("id =", "number =").replace("(id", "(number");
    let file = file.replace("NEW.id", "NEW.number");
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&file).unwrap();
    database.execute_batch("INSERT INTO account (number) VALUES (7)").unwrap();
    let mut write = |token: i64| {
        let_in(
            database
                .execute("UPDATE account SET paid = TRUE, fence = ?1 WHERE number = 7", [token]),
        )
    };
    assert_eq!([5, 6, 5].map(&mut write), [Some(1), Some(1), None]);
    let stale = "REPLACE INTO account (number, fence) VALUES (7, 5)";
    assert!(let_in(database.execute(stale, [])).is_none());
}
