//! `postgres.sql`, on a server of the test's own: `move_fence`, and the triggers of `add_fence`.
//!
//! Where no PostgreSQL is, these tests are undecided, as one.

mod locks;
mod mistakes;
mod server;

use std::path::Path;

use tokio_postgres::{Client, Error};

use self::server::Server;
use super::{Store, changed, crowd, late};

pub(crate) const FILE: &str = include_str!("../../../../examples/fences/postgres.sql");

/// Beside the file: what the writers write to.
const OURS: &str = "
    CREATE TABLE note (id bigint PRIMARY KEY, text text NOT NULL DEFAULT '');
    INSERT INTO note VALUES (42);
    CREATE TABLE invoice (id bigint PRIMARY KEY, paid boolean NOT NULL DEFAULT FALSE, text text NOT NULL DEFAULT '');
    INSERT INTO invoice VALUES (42);
    CALL add_fence('invoice');";

/// The comparison of each, and what takes its place where it is taken out.
const PLANTED: [(Kind, &str, &str); 2] = [
    (Kind::Resource, "WHERE seen.token <= excluded.token", "WHERE TRUE"),
    (Kind::Row, "NEW.fence < OLD.fence", "FALSE"),
];

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Resource,
    Row,
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
    client: Client,
}

impl Writer {
    async fn connect(server: &Server, schema: &str, kind: Kind, level: &str) -> Self {
        let client = server.connect().await;
        join(&client, schema).await;
        let level = format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}");
        client.batch_execute(&level).await.unwrap();
        Self { kind, client }
    }

    /// One transaction behind the fence, repeated where the store asks for that. The text that was there before.
    async fn behind_the_fence(&mut self, token: u64, value: Option<&str>) -> Option<String> {
        loop {
            let done = self.transaction(token.cast_signed(), value).await;
            if let Some(done) = let_in(done) {
                return done;
            }
        }
    }

    async fn transaction(&mut self, token: i64, value: Option<&str>) -> Result<String, Error> {
        let transaction = self.client.transaction().await?;
        let before = match self.kind {
            Kind::Resource => {
                transaction.execute("SELECT move_fence('note:42', $1)", &[&token]).await?;
                let row = transaction.query_one("SELECT text FROM note WHERE id = 42", &[]).await?;
                let write = "UPDATE note SET text = coalesce($1, text) WHERE id = 42";
                transaction.execute(write, &[&value]).await?;
                row.get(0)
            }
            Kind::Row => {
                let write = "UPDATE invoice SET text = coalesce($2, text), fence = $1 WHERE id = 42 RETURNING text";
                transaction.query_one(write, &[&token, &value]).await?.get(0)
            }
        };
        transaction.commit().await?;
        Ok(before)
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
        let table = if matches!(self.kind, Kind::Row) { "invoice" } else { "note" };
        let look = format!("SELECT text FROM {table} WHERE id = 42");
        self.client.query_one(&look, &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn a_late_writer_changes_nothing_in_postgres() {
    let Some(server) = server() else { return };
    for kind in [Kind::Resource, Kind::Row] {
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
    for kind in [Kind::Resource, Kind::Row] {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let schema = format!("crowd_{kind:?}_{at}");
            database(&server, &schema, FILE).await;
            judged(&server, &schema, kind, level).unwrap();
        }
    }
}

fn judged(server: &Server, schema: &str, kind: Kind, level: &str) -> Result<(), String> {
    crowd::judged(async || Writer::connect(server, schema, kind, level).await)
}

#[tokio::test]
async fn without_its_comparison_the_file_for_postgres_is_found_out() {
    let Some(server) = server() else { return };
    for (kind, comparison, nothing) in PLANTED {
        let faulty = changed(FILE, comparison, nothing);
        for schema in ["late", "crowd"].map(|of| format!("{of}_{kind:?}")) {
            database(&server, &schema, &faulty).await;
            if schema.starts_with("crowd") {
                let found = judged(&server, &schema, kind, LEVELS[0]);
                assert!(found.unwrap_err().contains("was taken after"), "{kind:?}");
                continue;
            }
            let mut a = Writer::connect(&server, &schema, kind, LEVELS[0]).await;
            let mut b = Writer::connect(&server, &schema, kind, LEVELS[0]).await;
            let found = late::write(&mut a, &mut b).await;
            assert_eq!(found.unwrap_err(), "not so: the first one is refused", "{kind:?}");
        }
    }
}
