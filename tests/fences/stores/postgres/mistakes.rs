//! What goes round a fence by mistake, and how PostgreSQL refuses it.

use super::{FILE, code, database, join, server};

/// Statements, and the SQLSTATE of each. The row 42 and the resource `note:42` have the token 9, the row 43 has none.
const MISTAKES: [(&str, &str); 19] = [
    ("UPDATE fence SET token = 1", "QL001"),
    (
        "INSERT INTO fence VALUES ('note:42', 1) ON CONFLICT (resource) DO UPDATE SET token = excluded.token",
        "QL001",
    ),
    // A table of the session's own chooses nothing.
    (
        "CREATE TEMP TABLE fence (resource text PRIMARY KEY, token bigint); SELECT move_fence('note:42', 5)",
        "QL001",
    ),
    ("UPDATE invoice SET paid = TRUE WHERE id = 42", "QL002"),
    ("UPDATE invoice SET paid = TRUE", "QL002"),
    ("UPDATE invoice SET paid = TRUE, fence = NULL WHERE id = 42", "QL002"),
    ("UPDATE invoice SET paid = TRUE, fence = 0 WHERE id = 43", "QL002"),
    ("UPDATE invoice SET paid = TRUE, fence = -9 WHERE id = 42", "QL002"),
    ("UPDATE invoice SET paid = TRUE, fence = 8 WHERE id = 42", "QL001"),
    ("UPDATE invoice SET paid = TRUE, fence = 8", "QL001"),
    ("INSERT INTO invoice (id, fence) VALUES (44, NULL)", "23502"),
    ("INSERT INTO invoice (id, fence) VALUES (44, -1)", "23514"),
    (
        "INSERT INTO invoice (id, fence) VALUES (42, 10) ON CONFLICT (id) DO UPDATE SET paid = TRUE",
        "QL002",
    ),
    (
        "INSERT INTO invoice (id, fence) VALUES (42, 8) ON CONFLICT (id) DO UPDATE SET paid = TRUE, fence = excluded.fence",
        "QL001",
    ),
    ("SELECT move_fence('note:42', 8)", "QL001"),
    ("SELECT move_fence('note:42', NULL)", "QL002"),
    ("SELECT move_fence('note:42', 0)", "QL002"),
    ("SELECT move_fence(NULL, 10)", "QL002"),
    ("INSERT INTO fence VALUES ('note:43', 0)", "23514"),
];

const BEFORE: &str = "
    INSERT INTO invoice (id) VALUES (43);
    UPDATE invoice SET fence = 9 WHERE id = 42;
    SELECT move_fence('note:42', 9);";

const STATE: &str = "SELECT (SELECT string_agg(invoice::text, ';' ORDER BY id) FROM invoice)
    || (SELECT string_agg(fence::text, ';') FROM fence)";

#[tokio::test]
async fn a_statement_that_forgets_the_token_changes_nothing_in_postgres() {
    let Some(server) = server() else { return };
    let client = database(&server, "mistakes", FILE).await;
    client.batch_execute(BEFORE).await.unwrap();
    let state = async || client.query_one(STATE, &[]).await.unwrap().get::<_, String>(0);
    let before = state().await;
    for (statement, says) in MISTAKES {
        let error = client.batch_execute(statement).await.expect_err(statement);
        assert_eq!(code(&error), says, "{statement}: {error:?}");
        assert_eq!(state().await, before, "{statement}");
    }
    // After a refusal nothing else of the transaction counts either.
    client.batch_execute("BEGIN; UPDATE invoice SET fence = 10 WHERE id = 43").await.unwrap();
    client.batch_execute("SELECT move_fence('note:42', 8)").await.unwrap_err();
    let error = client.batch_execute("INSERT INTO invoice (id) VALUES (44)").await.unwrap_err();
    assert_eq!(code(&error), "25P02");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(state().await, before);
    // Several rows at once, and a row that another statement has made.
    let rows = client.execute("UPDATE invoice SET paid = TRUE, fence = 9", &[]).await.unwrap();
    assert_eq!(rows, 2);
    client.batch_execute("INSERT INTO invoice (id, fence) VALUES (44, 9)").await.unwrap();
    let paid = "SELECT count(*) FROM invoice WHERE fence = 9 AND paid";
    assert_eq!(client.query_one(paid, &[]).await.unwrap().get::<_, i64>(0), 2);
    // Each row and each resource is for itself.
    client.batch_execute("UPDATE invoice SET fence = 99 WHERE id = 44").await.unwrap();
    client.batch_execute("UPDATE invoice SET fence = 9 WHERE id = 43").await.unwrap();
    client.batch_execute("SELECT move_fence('note:43', 1)").await.unwrap();
}

/// A table that had the column before is fenced as well, unless what is in it is no token.
#[tokio::test]
async fn a_table_that_has_the_column_is_fenced_or_refused() {
    let Some(server) = server() else { return };
    let client = database(&server, "before", FILE).await;
    let make = async |column: &str, value: &str| {
        let make = format!(
            "DROP TABLE IF EXISTS account; CREATE TABLE account (id bigint, fence {column});
             INSERT INTO account VALUES (7, {value}); CALL add_fence('account')"
        );
        client.batch_execute(&make).await.map_err(|error| code(&error).to_owned())
    };
    for column in ["bigint", "bigint NOT NULL DEFAULT 0"] {
        make(column, "5").await.unwrap();
        for (statement, says) in [
            ("UPDATE account SET fence = 4", "QL001"),
            ("UPDATE account SET id = 8", "QL002"),
            ("INSERT INTO account VALUES (8, -1)", "23514"),
            ("INSERT INTO account VALUES (8, NULL)", "23502"),
        ] {
            let error = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(code(&error), says, "{column}: {statement}");
        }
    }
    assert_eq!(make("bigint", "-5").await.unwrap_err(), "23514");
    assert_eq!(make("bigint", "NULL").await.unwrap_err(), "23502");
    make("bigint", "5").await.unwrap();
    let twice = client.batch_execute("CALL add_fence('account')").await.unwrap_err();
    assert_eq!(code(&twice), "42710", "its triggers are there");
}

/// A column goes with its row; the resource stays.
#[tokio::test]
async fn a_row_that_was_deleted_is_fenced_by_its_resource() {
    let Some(server) = server() else { return };
    let client = database(&server, "deleted", FILE).await;
    let behind = async |token: i64, statement: &str| {
        let text = format!("BEGIN; SELECT move_fence('invoice:42', {token}); {statement}; COMMIT");
        let said = client.batch_execute(&text).await;
        if said.is_err() {
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        said.map_err(|error| code(&error).to_owned())
    };
    behind(5, "UPDATE invoice SET paid = TRUE, fence = 5 WHERE id = 42").await.unwrap();
    behind(9, "DELETE FROM invoice WHERE id = 42").await.unwrap();
    let insert = "INSERT INTO invoice (id, fence) VALUES (42, 5)";
    assert_eq!(behind(5, insert).await.unwrap_err(), "QL001");
    client.batch_execute(insert).await.expect("the control: the column alone lets it in");
}

/// What the file says of its triggers: these go round them.
#[tokio::test]
async fn what_the_triggers_cannot_see_is_let_in() {
    let Some(server) = server() else { return };
    let client = database(&server, "unseen", FILE).await;
    client.batch_execute(BEFORE).await.unwrap();
    let mapper = "UPDATE invoice SET paid = TRUE, fence = fence WHERE id = 42";
    assert_eq!(client.execute(mapper, &[]).await.unwrap(), 1);
    let merge = "MERGE INTO invoice USING (VALUES (42), (43)) AS of (id) ON invoice.id = of.id
        WHEN MATCHED AND of.id = 42 THEN UPDATE SET paid = FALSE
        WHEN MATCHED THEN UPDATE SET fence = 9";
    match client.execute(merge, &[]).await {
        Ok(rows) => assert_eq!(rows, 2),
        Err(error) => assert_eq!(code(&error), "42601", "before 15 there is none: {error:?}"),
    }
}

/// Two services may have a fence each, in schemas of their own; a caller's search path chooses no table.
#[tokio::test]
async fn the_function_moves_the_fence_of_its_own_schema() {
    let Some(server) = server() else { return };
    let one = database(&server, "one", FILE).await;
    let other = database(&server, "other", FILE).await;
    one.batch_execute("SELECT move_fence('note:42', 9)").await.unwrap();
    let error = other.batch_execute("SELECT one.move_fence('note:42', 8)").await.unwrap_err();
    assert_eq!(code(&error), "QL001");
    other.batch_execute("SELECT move_fence('note:42', 8)").await.unwrap();
    // Neither does it choose the functions of a table that is fenced from elsewhere.
    join(&other, "public").await;
    other.batch_execute("CREATE TABLE account (id bigint PRIMARY KEY)").await.unwrap();
    other
        .batch_execute("INSERT INTO account VALUES (7); CALL one.add_fence('account')")
        .await
        .unwrap();
    let error = other.batch_execute("UPDATE account SET id = 8").await.unwrap_err();
    assert_eq!(code(&error), "QL002");
    other.batch_execute("UPDATE account SET id = 8, fence = 1").await.unwrap();
}
