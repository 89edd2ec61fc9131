//! `axum.rs`: a service of two instances on one database, asked by real requests.

// Only what the test uses is used.
#[path = "../../../examples/fences/axum.rs"]
#[allow(dead_code, unreachable_pub, reason = "the file is for users")]
#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
mod fenced;

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use self::fenced::{Database, HEADER, service};
use super::{Store, changed, crowd, late, sqlite};

const FILE: &str = include_str!("../../../examples/fences/sqlite.sql");

/// Instances of the service on one file. They end with the thread that they run on, which ends with the test.
struct Service {
    _directory: TempDir,
    instances: [SocketAddr; 2],
}

impl Service {
    /// By this text of `sqlite.sql`.
    fn start(file: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = || sqlite::open(&directory.path().join("notes.sqlite"));
        open().execute_batch(file).unwrap();
        open().execute_batch("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)").unwrap();
        let instances = [open(), open()].map(|database| {
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    tell.send(listener.local_addr().unwrap()).unwrap();
                    axum::serve(listener, service(Database::new(database))).await.unwrap();
                });
            });
            told.recv().expect("it listens")
        });
        Self { _directory: directory, instances }
    }

    fn writer(&self, instance: usize) -> Writer {
        Writer(self.instances[instance])
    }
}

/// A client of one instance. Each request has a connection of its own.
struct Writer(SocketAddr);

impl Writer {
    async fn request(&self, method: &str, tokens: &[&str], text: &str) -> (StatusCode, String) {
        self.of_note(42, method, tokens, text).await
    }

    async fn of_note(
        &self,
        note: u32,
        method: &str,
        tokens: &[&str],
        text: &str,
    ) -> (StatusCode, String) {
        let uri = format!("/note/{note}");
        let mut request = Request::builder().method(method).uri(uri).header("Host", "store");
        for token in tokens {
            request = request.header(HEADER, *token);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(text.as_bytes()))).unwrap();
        let stream = TokioIo::new(TcpStream::connect(self.0).await.unwrap());
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer: Response<_> = sender.send_request(request).await.unwrap();
        let status = answer.status();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        drop(sender);
        connection.await.unwrap().unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }

    /// Whether it was let in. Another refusal than that of a stale token is none of the fence.
    async fn let_in(&self, method: &str, token: u64, text: &str) -> Option<String> {
        match self.request(method, &[&token.to_string()], text).await {
            (StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND, text) => Some(text),
            (status, text) => {
                assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{text}");
                None
            }
        }
    }
}

impl Store for Writer {
    async fn write(&mut self, token: u64, value: &str) -> bool {
        self.let_in("PUT", token, value).await.is_some()
    }

    async fn read(&mut self, token: u64) -> Option<String> {
        self.let_in("GET", token, "").await
    }

    async fn look(&mut self) -> String {
        self.request("GET", &[], "").await.1
    }
}

#[tokio::test]
async fn a_late_put_is_answered_with_412() {
    let service = Service::start(FILE);
    late::write(&mut service.writer(0), &mut service.writer(1)).await.unwrap();
    let [one, other] = [FILE; 2].map(Service::start);
    let [looking, moving] = [&one, &other].map(|service| [0, 1].map(|at| service.writer(at)));
    late::reads_move_the_fence(looking, moving).await;
}

#[test]
fn of_many_requests_none_writes_after_a_later_one() {
    let service = Service::start(FILE);
    crowd::judged(async || service.writer(rand::random_range(0..2))).unwrap();
}

#[tokio::test]
async fn without_its_comparison_the_service_is_found_out() {
    let comparison = "NEW.token < (SELECT token FROM fence WHERE resource = NEW.resource)";
    let faulty = changed(FILE, comparison, "FALSE");
    let service = Service::start(&faulty);
    let found = late::write(&mut service.writer(0), &mut service.writer(1)).await;
    assert_eq!(found.unwrap_err(), "not so: the first one is refused");
    let service = Service::start(&faulty);
    let found = crowd::judged(async || service.writer(0));
    assert!(found.unwrap_err().contains("was taken after"));
}

#[tokio::test]
async fn a_request_without_a_token_or_with_garbage_writes_nothing() {
    let service = Service::start(FILE);
    let writer = service.writer(0);
    assert_eq!(writer.request("GET", &[], "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(writer.request("PUT", &["9"], "of the ninth").await.0, StatusCode::NO_CONTENT);
    let garbage = StatusCode::BAD_REQUEST;
    for (tokens, status) in [
        (&[][..], StatusCode::PRECONDITION_REQUIRED),
        (&[""], garbage),
        (&["0"], garbage),
        (&["-1"], garbage),
        (&["9.5"], garbage),
        (&["nine"], garbage),
        (&["9007199254740992"], garbage),
        (&["10", "10"], garbage),
        (&["8"], StatusCode::PRECONDITION_FAILED),
    ] {
        let (answered, text) = writer.request("PUT", tokens, "by nobody").await;
        assert_eq!(answered, status, "{tokens:?}: {text}");
        assert!(text.ends_with('\n') && text.len() > 20, "it says why: {text}");
        if !tokens.is_empty() {
            assert_eq!(writer.request("GET", tokens, "").await.0, status, "a read, {tokens:?}");
        }
    }
    assert_eq!(writer.request("GET", &[], "").await.1, "of the ninth");
    assert_eq!(writer.request("GET", &["9007199254740991"], "").await.0, StatusCode::OK);
    assert_eq!(writer.request("PUT", &["10"], "late").await.0, StatusCode::PRECONDITION_FAILED);
    let other = writer.of_note(43, "PUT", &["1"], "each note is for itself").await;
    assert_eq!(other.0, StatusCode::NO_CONTENT);
}

/// The database fails behind the fence: nothing of the transaction is there, and not the fence either.
#[tokio::test]
async fn work_that_fails_or_panics_moves_no_fence() {
    let connection = sqlite::open(std::path::Path::new(":memory:"));
    connection.execute_batch(FILE).unwrap();
    let database = Database::new(connection);
    let fenced = |token: u64| {
        let request = Request::builder().header(HEADER, token.to_string()).body(()).unwrap();
        let mut parts = request.into_parts().0;
        async move {
            let fenced =
                <fenced::Fenced as FromRequestParts<()>>::from_request_parts(&mut parts, &());
            let fenced = fenced.await.unwrap();
            assert_eq!(fenced.token().get(), token);
            fenced
        }
    };
    let work = |text: &'static str| {
        move |transaction: &rusqlite::Transaction<'_>| transaction.execute(text, [])
    };
    let resource = || "note:42".to_owned();
    let failed = fenced(9).await.transaction(&database, resource(), work("no statement")).await;
    assert!(matches!(failed, Err(fenced::Refused::Failed(_))), "{failed:?}");
    let panics = |_: &rusqlite::Transaction<'_>| -> rusqlite::Result<()> { panic!("planted") };
    let failed = fenced(9).await.transaction(&database, resource(), panics).await;
    assert!(matches!(failed, Err(fenced::Refused::Failed(_))), "{failed:?}");
    let insert = "INSERT INTO invoice (id) VALUES (42)";
    assert_eq!(fenced(8).await.transaction(&database, resource(), work(insert)).await.unwrap(), 1);
}
