//! A web service of several instances that charges an invoice once, however often it is asked.
//!
//!     QUORLOCK_NODES=redis://127.0.0.1:7401,... DATABASE=invoices.sqlite cargo run --example service
//!     curl -i -X POST http://127.0.0.1:8080/invoices/42/payment
//!
//! The lease keeps two instances from working on one invoice at a time. The condition of the write keeps out a late
//! holder: it is true once for each invoice, and never for a holder after whom another has written.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and sleeps is for the library")]

use std::{env, error::Error, io, path::PathBuf, sync::Arc, thread::sleep, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use quorlock::{AcquireError, FencingToken, Lease, Redlock, RunError};
use rusqlite::{Connection, params};
use tokio::{net::TcpListener, signal, task::spawn_blocking};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS invoice (
        id INTEGER PRIMARY KEY, paid INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE IF NOT EXISTS charge (invoice INTEGER NOT NULL, token INTEGER NOT NULL);";

struct Service {
    redlock: Redlock,
    database: PathBuf,
    /// How long the bank takes to answer.
    bank: Duration,
}

/// What came of a payment.
enum Payment {
    Charged,
    PaidBefore,
    /// Another instance has had the invoice since, and may be at work on it.
    TooLate,
}

type Failure = Box<dyn Error + Send + Sync>;

async fn pay(State(service): State<Arc<Service>>, Path(invoice): Path<i64>) -> Response {
    let request = service.redlock.acquire(format!("invoice:{invoice}"));
    match request.run(async |lease| service.pay(invoice, lease).await).await {
        Ok(Ok(Payment::Charged)) => "charged\n".into_response(),
        Ok(Ok(Payment::PaidBefore)) => "paid before\n".into_response(),
        Ok(Ok(Payment::TooLate)) => again(StatusCode::SERVICE_UNAVAILABLE, None, "too late\n"),
        Ok(Err(failure)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}\n")).into_response()
        }
        Err(RunError::Acquire(error)) => refuse(&error),
        Err(error) => again(StatusCode::SERVICE_UNAVAILABLE, None, &format!("{error}\n")),
    }
}

/// Busy is 409: the request was fine, and another instance is at it. An outage is 503.
fn refuse(error: &AcquireError) -> Response {
    let status =
        if error.is_busy() { StatusCode::CONFLICT } else { StatusCode::SERVICE_UNAVAILABLE };
    again(status, error.suggested_pause(), &format!("{error}\n"))
}

fn again(status: StatusCode, pause: Option<Duration>, text: &str) -> Response {
    let seconds = pause.unwrap_or(Duration::from_secs(1)).as_secs_f64().ceil();
    (status, [(RETRY_AFTER, seconds.to_string())], text.to_owned()).into_response()
}

impl Service {
    /// The work under the lease.
    async fn pay(&self, invoice: i64, lease: &Lease) -> Result<Payment, Failure> {
        let (database, bank, token) = (self.database.clone(), self.bank, lease.token()?);
        lease.check()?; // right before the effect
        // From here on nothing stops the write, not even the loss of the lease: its condition does.
        spawn_blocking(move || {
            if is_paid(&open(&database)?, invoice)? {
                return Ok(Payment::PaidBefore);
            }
            println!("invoice {invoice}: paying, token {token}");
            sleep(bank); // the bank is asked, with the invoice as the name of the request
            write(&database, invoice, token)
        })
        .await?
    }
}

fn is_paid(database: &Connection, invoice: i64) -> rusqlite::Result<bool> {
    database.query_row("SELECT paid FROM invoice WHERE id = ?1", [invoice], |row| row.get(0))
}

/// One transaction: it charges the invoice if that is unpaid and has no later holder's fence.
fn write(database: &PathBuf, invoice: i64, token: FencingToken) -> Result<Payment, Failure> {
    let mut connection = open(database)?;
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let fence = i64::from(token);
    let paid = transaction.execute(
        "UPDATE invoice SET paid = 1, fence = ?2 WHERE id = ?1 AND paid = 0 AND fence <= ?2",
        params![invoice, fence],
    )?;
    if paid == 0 {
        println!("invoice {invoice}: not written, token {token}");
        let before = is_paid(&transaction, invoice)?;
        return Ok(if before { Payment::PaidBefore } else { Payment::TooLate });
    }
    transaction
        .execute("INSERT INTO charge (invoice, token) VALUES (?1, ?2)", params![invoice, fence])?;
    transaction.commit()?;
    println!("invoice {invoice}: charged, token {token}");
    Ok(Payment::Charged)
}

fn open(database: &PathBuf) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(io::stderr).init(); // says why it waits, and for how long
    let database = PathBuf::from(env::var("DATABASE").unwrap_or_else(|_| "invoices.sqlite".into()));
    open(&database)?.execute_batch(SCHEMA)?;
    open(&database)?.execute("INSERT OR IGNORE INTO invoice (id) VALUES (42)", [])?;

    let redlock = Redlock::from_env().await?;
    let bank = Duration::from_millis(env::var("BANK_MS").map_or(Ok(50), |text| text.parse())?);
    let service = Arc::new(Service { redlock: redlock.clone(), database, bank });
    let router = Router::new().route("/invoices/{id}/payment", post(pay)).with_state(service);

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    let ended = async { drop(signal::ctrl_c().await) };
    axum::serve(listener, router).with_graceful_shutdown(ended).await?;
    redlock.shutdown().await?; // gives back what is held, so that others need not wait for the ttl
    Ok(())
}
