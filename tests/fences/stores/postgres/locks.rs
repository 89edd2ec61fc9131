//! Transactions that meet: the later one waits for the earlier, and is judged by what that has left.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::{FILE, KINDS, Kind, LEVELS, code, database, join, server::Server};

/// What moves each fence.
fn moves(kind: Kind, token: i64) -> String {
    match kind {
        Kind::Resource => format!("SELECT move_fence('note:42', {token})"),
        Kind::Row => format!("UPDATE invoice SET fence = {token} WHERE id = 42"),
        Kind::Condition => {
            format!("UPDATE bare SET fence = {token} WHERE id = 42 AND fence <= {token}")
        }
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

/// What came of what moves a fence: nothing, where it was let in.
async fn said(client: &Client, moves: &str) -> String {
    match client.execute(moves, &[]).await {
        Ok(0) => "no row".to_owned(),
        Ok(_) => String::new(),
        Err(error) => code(&error).to_owned(),
    }
}

/// Starts the statement, and waits until it waits for a lock.
async fn waiting(watch: &Client, client: &Arc<Client>, moves: String) -> JoinHandle<String> {
    let of_task = Arc::clone(client);
    let task = tokio::spawn(async move { said(&of_task, &moves).await });
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
    for kind in KINDS {
        let refused = if kind == Kind::Condition { "no row" } else { "QL001" };
        for (at, level) in LEVELS.into_iter().enumerate() {
            let schema = format!("locks_{kind:?}_{at}");
            let watch = database(&server, &schema, FILE).await;
            assert_eq!(said(&watch, &moves(kind, 5)).await, "");
            for (token, says) in [(8, refused), (9, ""), (10, "")] {
                let first = transaction(&server, &schema, level).await;
                assert_eq!(said(&first, &moves(kind, 9)).await, "");
                let second = Arc::new(transaction(&server, &schema, level).await);
                let task = waiting(&watch, &second, moves(kind, token)).await;
                first.batch_execute("COMMIT").await.unwrap();
                // A snapshot that is too old is no answer: the transaction is repeated from its beginning.
                let says = if at == 0 { says } else { "40001" };
                assert_eq!(task.await.unwrap(), says, "{kind:?} {level} {token}");
                second.batch_execute("ROLLBACK").await.unwrap();
            }
            assert_eq!(said(&watch, &moves(kind, 8)).await, refused);
            // What is rolled back has moved nothing.
            let first = transaction(&server, &schema, level).await;
            assert_eq!(said(&first, &moves(kind, 20)).await, "");
            let second = Arc::new(transaction(&server, &schema, level).await);
            let task = waiting(&watch, &second, moves(kind, 10)).await;
            first.batch_execute("ROLLBACK").await.unwrap();
            assert_eq!(task.await.unwrap(), "", "{kind:?} {level}");
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
