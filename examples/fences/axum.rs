//! Fenced requests of an axum service: one that comes too late is answered with 412, and changes nothing.
//!
//! [`Fenced`] takes the token from the header, and [`Fenced::transaction`] compares, moves the fence and does the work in
//! one transaction, by `sqlite.sql`. It must never do the work first, and never keep the largest token in memory: a restart
//! would forget it, and other instances would not know it. With PostgreSQL the statement is `SELECT move_fence($1, $2)`.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Router,
    extract::{FromRequestParts, OptionalFromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use quorlock::FencingToken;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use tokio::task::spawn_blocking;

/// The header that bears the token.
pub const HEADER: &str = "x-fencing-token";

/// A connection to a database that has run `sqlite.sql`. Instances of the service may share the file.
#[derive(Clone, Debug)]
pub struct Database(Arc<Mutex<Connection>>);

impl Database {
    /// Takes what the service keeps its objects in.
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    /// One transaction. What moves the fence takes the write lock, so that comes first. A panic of the work undoes it.
    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Refused> {
        let connection = Arc::clone(&self.0);
        let transaction = spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction()?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        transaction.await.map_err(|error| Refused::Failed(error.to_string()))?
    }
}

/// A request with a token. As `Option<Fenced>` it may have none, which is for reads by those who hold nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fenced(FencingToken);

impl Fenced {
    /// The token, for other services that the work calls.
    #[must_use]
    pub const fn token(self) -> FencingToken {
        self.0
    }

    /// Moves the fence of the resource, and does the work behind it, in one transaction. A read under a lease comes here too.
    ///
    /// # Errors
    ///
    /// [`Refused::Stale`]: a later holder has been here. [`Refused::Failed`]: the database. Nothing was done.
    pub async fn transaction<T: Send + 'static>(
        self,
        database: &Database,
        resource: String,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Refused> {
        let fenced = move |transaction: &Transaction<'_>| {
            let moves = "REPLACE INTO fence (resource, token) VALUES (?1, ?2)";
            transaction.execute(moves, params![resource, i64::from(self.0)])?;
            work(transaction)
        };
        database.transaction(fenced).await
    }
}

/// Why a request was not done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// 428: it has no token, and no path goes round the fence.
    NoToken,
    /// 400: it has several, or one that is none.
    NotAToken,
    /// 412: a later holder has been here.
    Stale,
    /// 500: the database failed, for this reason.
    Failed(String),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        if text.starts_with("stale fencing token") { Self::Stale } else { Self::Failed(text) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::NoToken => {
                (StatusCode::PRECONDITION_REQUIRED, format!("send a token in {HEADER}"))
            }
            Self::NotAToken => {
                (StatusCode::BAD_REQUEST, format!("{HEADER} is not one fencing token"))
            }
            Self::Stale => (
                StatusCode::PRECONDITION_FAILED,
                "a later holder has been here; stop the work, and acquire anew".to_owned(),
            ),
            Self::Failed(text) => (StatusCode::INTERNAL_SERVER_ERROR, text),
        };
        (status, text + "\n").into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Fenced {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let token = <Self as OptionalFromRequestParts<S>>::from_request_parts(parts, state).await?;
        token.ok_or(Refused::NoToken)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Fenced {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Refused> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let token = value.to_str().ok().and_then(|text| text.parse::<FencingToken>().ok());
        match token {
            Some(token) if token.get() > 0 && values.next().is_none() => Ok(Some(Self(token))),
            _ => Err(Refused::NotAToken),
        }
    }
}

/// A service that keeps notes, to show both: `PUT /note/42` needs a token, `GET` may have one.
pub fn service(database: Database) -> Router {
    Router::new().route("/note/{id}", get(read).put(write)).with_state(database)
}

async fn write(
    State(database): State<Database>,
    Path(id): Path<i64>,
    fenced: Fenced,
    text: String,
) -> Result<StatusCode, Refused> {
    let write = move |transaction: &Transaction<'_>| {
        transaction.execute("REPLACE INTO note (id, text) VALUES (?1, ?2)", params![id, text])
    };
    fenced.transaction(&database, format!("note:{id}"), write).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn read(
    State(database): State<Database>,
    Path(id): Path<i64>,
    fenced: Option<Fenced>,
) -> Result<Response, Refused> {
    let read = move |transaction: &Transaction<'_>| {
        let query = "SELECT text FROM note WHERE id = ?1";
        transaction.query_row(query, [id], |row| row.get::<_, String>(0)).optional()
    };
    let text = match fenced {
        Some(fenced) => fenced.transaction(&database, format!("note:{id}"), read).await?,
        None => database.transaction(read).await?,
    };
    Ok(text.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response))
}
