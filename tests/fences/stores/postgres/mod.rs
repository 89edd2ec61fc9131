//! `postgres.sql`, on a server of the test's own: `move_fence`, and the triggers of `add_fence`.
//!
//! Where no PostgreSQL is, these tests are undecided, as one.

mod locks;
mod mistakes;
mod server;

use std::path::Path;

use tokio_postgres::{Client, Error};

use self::server::Server;
use super::{Store, changed, crowd, late, page::shown};

pub(crate) const FILE: &str = include_str!("../../../../examples/fences/postgres.sql");

/// Beside the file: what the writers write to.
const OURS: &str = "
    CREATE TABLE note (id bigint PRIMARY KEY, text text NOT NULL DEFAULT '');
    INSERT INTO note VALUES (42);
    CREATE TABLE invoice (id bigint PRIMARY KEY, paid boolean NOT NULL DEFAULT FALSE, text text NOT NULL DEFAULT '');
    INSERT INTO invoice VALUES (42);
    CALL add_fence('invoice');
    CREATE TABLE bare (id bigint PRIMARY KEY, text text NOT NULL DEFAULT '', fence bigint NOT NULL DEFAULT 0);
    INSERT INTO bare VALUES (42);";

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// By `move_fence`, before another statement.
    Resource,
    /// By the triggers of `add_fence`.
    Row,
    /// By the condition of `docs/fencing.md`, on a table without triggers.
    Condition,
}

const KINDS: [Kind; 3] = [Kind::Resource, Kind::Row, Kind::Condition];

impl Kind {
    /// What moves the fence, with the token, the key and the new text, where there is one; and the table of the text.
    fn statement(self) -> (String, &'static str) {
        let text = "SET text = coalesce($3, text)";
        match self {
            Self::Resource => {
                let moves = shown("SELECT move_fence('invoice:42', $1)");
                (changed(moves, "invoice:42", "note:42"), "note")
            }
            Self::Row => {
                let row = shown("UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2");
                (changed(row, "SET paid = TRUE", text) + " RETURNING text", "invoice")
            }
            Self::Condition => {
                let row = shown(
                    "UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2 AND fence <= $1",
                );
                let row = changed(row, "UPDATE invoice", "UPDATE bare");
                (changed(&row, "SET paid = TRUE", text) + " RETURNING text", "bare")
            }
        }
    }

    /// The file and the statement with the comparison taken out of one of them.
    fn planted(self) -> (String, String) {
        let (statement, _) = self.statement();
        let compares = "WHERE seen.token <= excluded.token";
        match self {
            Self::Resource => {
                let file = changed(FILE, "IF NEW.token < OLD.token", "IF FALSE");
                (changed(&file, compares, "WHERE TRUE"), statement)
            }
            Self::Row => (changed(FILE, "NEW.fence < OLD.fence", "FALSE"), statement),
            Self::Condition => (FILE.to_owned(), changed(&statement, " AND fence <= $1", "")),
        }
    }
}

/// The server of a test, or nothing where the test cannot decide.
pub(crate) fn server() -> Option<Server> {
    let (target, name) = (Path::new(env!("CARGO_TARGET_TMPDIR")), "fences for PostgreSQL");
    match Server::start() {
        Ok(server) => {
            quorlock_harness::decide(target, name);
            Some(server)
        }
        Err(reason) => {
            quorlock_harness::leave_undecided(target, name, &reason);
            None
        }
    }
}

/// A connection to what this text of the file makes in a schema of its own.
async fn database(server: &Server, schema: &str, file: &str) -> Client {
    let client = server.connect().await;
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    join(&client, schema).await;
    client.batch_execute(file).await.unwrap();
    client.batch_execute(OURS).await.unwrap();
    client
}

async fn join(client: &Client, schema: &str) {
    client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
}

/// The SQLSTATE of what was refused.
fn code(error: &Error) -> &str {
    error.code().unwrap_or_else(|| panic!("{error}")).code()
}

/// Whether it was let in; nothing where it is to be repeated.
fn let_in<T>(said: Result<T, Error>) -> Option<Option<T>> {
    match said {
        Ok(done) => Some(Some(done)),
        Err(error) if code(&error) == "QL001" => Some(None),
        Err(error) if ["40001", "40P01"].contains(&code(&error)) => None,
        Err(error) => panic!("{error:?}"),
    }
}

struct Writer {
    kind: Kind,
    statement: String,
    client: Client,
}

impl Writer {
    async fn connect(server: &Server, schema: &str, kind: Kind, level: &str) -> Self {
        let client = server.connect().await;
        join(&client, schema).await;
        let level = format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}");
        client.batch_execute(&level).await.unwrap();
        Self { kind, statement: kind.statement().0, client }
    }

    /// One transaction behind the fence, repeated where the store asks for that. The text behind it.
    async fn behind_the_fence(&mut self, token: u64, text: Option<&str>) -> Option<String> {
        loop {
            let done = self.transaction(token.cast_signed(), text).await;
            if let Some(done) = let_in(done) {
                return done.flatten();
            }
        }
    }

    /// Nothing where the condition is not true.
    async fn transaction(
        &mut self,
        token: i64,
        text: Option<&str>,
    ) -> Result<Option<String>, Error> {
        let transaction = self.client.transaction().await?;
        let row = if self.kind == Kind::Resource {
            transaction.execute(&self.statement, &[&token]).await?;
            let write = "UPDATE note SET text = coalesce($1, text) WHERE id = 42 RETURNING text";
            transaction.query_opt(write, &[&text]).await?
        } else {
            transaction.query_opt(&self.statement, &[&token, &42_i64, &text]).await?
        };
        transaction.commit().await?;
        Ok(row.map(|row| row.get(0)))
    }
}

impl Store for Writer {
    async fn write(&mut self, token: u64, value: &str) -> bool {
        self.behind_the_fence(token, Some(value)).await.is_some()
    }

    async fn read(&mut self, token: u64) -> Option<String> {
        self.behind_the_fence(token, None).await
    }

    async fn look(&mut self) -> String {
        let look = format!("SELECT text FROM {} WHERE id = 42", self.kind.statement().1);
        self.client.query_one(&look, &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn a_late_writer_changes_nothing_in_postgres() {
    let Some(server) = server() else { return };
    for kind in KINDS {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let mut writers = Vec::new();
            for of in ["late", "looking", "moving"] {
                let schema = format!("{of}_{kind:?}_{at}");
                database(&server, &schema, FILE).await;
                for _ in 0..2 {
                    writers.push(Writer::connect(&server, &schema, kind, level).await);
                }
            }
            let [mut a, mut b, c, d, e, f] = writers.try_into().ok().expect("six");
            late::write(&mut a, &mut b).await.unwrap();
            late::reads_move_the_fence([c, d], [e, f]).await;
        }
    }
}

#[tokio::test]
async fn of_many_writers_in_postgres_none_writes_after_a_later_one() {
    let Some(server) = server() else { return };
    for kind in KINDS {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let schema = format!("crowd_{kind:?}_{at}");
            database(&server, &schema, FILE).await;
            crowd::judged(async || Writer::connect(&server, &schema, kind, level).await).unwrap();
        }
    }
}

#[tokio::test]
async fn without_its_comparison_the_file_for_postgres_is_found_out() {
    let Some(server) = server() else { return };
    for kind in KINDS {
        let (file, statement) = kind.planted();
        let writer = async |schema: &str| {
            let writer = Writer::connect(&server, schema, kind, LEVELS[0]).await;
            Writer { statement: statement.clone(), ..writer }
        };
        let [late, crowd] = ["late", "crowd"].map(|of| format!("{of}_{kind:?}"));
        database(&server, &late, &file).await;
        let found = late::write(&mut writer(&late).await, &mut writer(&late).await).await;
        assert_eq!(found.unwrap_err(), "not so: the first one is refused", "{kind:?}");
        database(&server, &crowd, &file).await;
        let found = crowd::judged(async || writer(&crowd).await);
        assert!(found.unwrap_err().contains("was taken after"), "{kind:?}");
    }
}
