//! Transactions that meet: the later one waits for the earlier, and is judged by what that has left.

use std::{sync::Arc, time::Duration};

use tokio_postgres::Client;

use super::{FILE, Kind, LEVELS, code, database, join, server::Server};

/// What moves each fence.
fn moves(kind: Kind, token: i64) -> String {
    match kind {
        Kind::Resource => format!("SELECT move_fence('note:42', {token})"),
        Kind::Row => format!("UPDATE invoice SET text = '{token}', fence = {token} WHERE id = 42"),
    }
}

async fn transaction(server: &Server, schema: &str, level: &str) -> Client {
    let client = server.connect().await;
    join(&client, schema).await;
    client
        .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM note"))
        .await
        .unwrap();
    client
}

/// Starts the statement, and waits until it waits for a lock.
async fn waiting(
    watch: &Client,
    client: &Arc<Client>,
    statement: String,
) -> tokio::task::JoinHandle<Result<(), String>> {
    let of_task = Arc::clone(client);
    let task = tokio::spawn(async move {
        of_task.batch_execute(&statement).await.map_err(|error| code(&error).to_owned())
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let looking = async {
        while watch.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect("it waits for a lock");
    task
}

/// The one that waits has seen the row as it was before; the larger token, the smaller one, and the same.
#[tokio::test]
async fn who_waits_is_compared_with_what_the_other_has_left() {
    let Some(server) = super::server() else { return };
    for kind in [Kind::Resource, Kind::Row] {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let schema = format!("locks_{kind:?}_{at}");
            let watch = database(&server, &schema, FILE).await;
            watch.batch_execute(&moves(kind, 5)).await.unwrap();
            // A snapshot that is too old is no answer: the transaction is repeated from its beginning.
            let sees_new = at == 0;
            for (token, says) in [(8, "QL001"), (9, ""), (10, "")] {
                let first = transaction(&server, &schema, level).await;
                first.batch_execute(&moves(kind, 9)).await.unwrap();
                let second = Arc::new(transaction(&server, &schema, level).await);
                let task = waiting(&watch, &second, moves(kind, token)).await;
                first.batch_execute("COMMIT").await.unwrap();
                let said = task.await.unwrap().err().unwrap_or_default();
                assert_eq!(said, if sees_new { says } else { "40001" }, "{kind:?} {level} {token}");
                second.batch_execute("ROLLBACK").await.unwrap();
            }
            let late = watch.batch_execute(&moves(kind, 8)).await.unwrap_err();
            assert_eq!(code(&late), "QL001");
            // What is rolled back has moved nothing.
            let first = transaction(&server, &schema, level).await;
            first.batch_execute(&moves(kind, 20)).await.unwrap();
            let second = Arc::new(transaction(&server, &schema, level).await);
            let task = waiting(&watch, &second, moves(kind, 10)).await;
            first.batch_execute("ROLLBACK").await.unwrap();
            task.await.unwrap().unwrap();
        }
    }
}

/// A holder that is paused inside its transaction keeps the lock, until the server ends its session.
#[tokio::test]
async fn a_holder_that_is_paused_inside_its_transaction_is_put_out_by_a_time_limit() {
    let Some(server) = super::server() else { return };
    let watch = database(&server, "paused", FILE).await;
    let limit = "SET idle_in_transaction_session_timeout = 2000";
    let paused = server.connect().await;
    join(&paused, "paused").await;
    paused.batch_execute(limit).await.unwrap();
    paused
        .batch_execute("BEGIN; SELECT move_fence('note:42', 5); UPDATE note SET text = 'late'")
        .await
        .unwrap();
    let next = transaction(&server, "paused", LEVELS[0]).await;
    let moves = moves(Kind::Resource, 9);
    let waits = tokio::time::timeout(Duration::from_secs(60), next.batch_execute(&moves));
    waits.await.expect("the paused one has been put out").unwrap();
    next.batch_execute("COMMIT").await.unwrap();
    paused.batch_execute("COMMIT").await.unwrap_err();
    let text = watch.query_one("SELECT text FROM note", &[]).await.unwrap();
    assert_eq!(text.get::<_, &str>(0), "", "nothing of it is there");
}
