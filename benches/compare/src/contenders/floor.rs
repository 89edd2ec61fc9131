//! The floors: the least that any implementation on this client library must do.
//!
//! One fan-out of `SET NX PX`, going on at the third OK, and one of the deleting script, going on at the
//! third reply of 1. There is no time limit, no count of what was left behind, and no lease. Both floors
//! share this code and differ only in where it runs: in the task of the caller, or on a thread of its own
//! with one message there and one back for each of the two operations.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, ProtocolVersion, RedisResult, Script,
    Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::sync::{mpsc, oneshot};

use super::pair::{Contender, Outcome, TTL, timed};

const QUORUM: usize = 3;

/// Room for the commands of all tasks. Where the default of 50 is used up, a straggling SET waits for room
/// in one task and its release in another, and the release may be sent first: the key then stays.
const PIPELINE: usize = 4096;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// One connection to each server, with the script loaded.
pub(crate) struct Fleet {
    connections: Vec<MultiplexedConnection>,
    script: String,
    owners: AtomicU64,
}

impl Fleet {
    pub(crate) async fn connect(urls: Vec<String>) -> Arc<Self> {
        let script = Script::new(RELEASE);
        let mut connections = Vec::new();
        for url in urls {
            let info = url.into_connection_info().expect("the URL of a server");
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let info = info
                .set_redis_settings(settings)
                .set_tcp_settings(TcpSettings::default().set_nodelay(true));
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_pipeline_buffer_size(PIPELINE);
            let client = Client::open(info).expect("a client");
            let mut connection = client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .expect("a running server");
            script.prepare_invoke().load_async(&mut connection).await.expect("a loaded script");
            connections.push(connection);
        }
        let script = script.get_hash().to_owned();
        Arc::new(Self { connections, script, owners: AtomicU64::new(1) })
    }

    /// Takes the lock in the calling task, and says as whom.
    pub(crate) async fn acquire(&self, resource: &str) -> Result<String, String> {
        let owner = self.owner();
        self.set(resource, &owner).here().await.map(|()| owner)
    }

    /// Gives it back in the calling task.
    pub(crate) async fn release(&self, resource: &str, owner: &str) -> Result<(), String> {
        self.delete(resource, owner).here().await
    }

    /// A value as long as a UUID in hex, and unique among those that use these servers at one time.
    fn owner(&self) -> String {
        format!("{:032x}", self.owners.fetch_add(1, Ordering::Relaxed))
    }

    fn set(&self, resource: &str, owner: &str) -> Calls<impl Answer> {
        let mut command = Cmd::new();
        command.arg("SET").arg(resource).arg(owner).arg("NX");
        command.arg("PX").arg(u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX));
        self.send(command)
    }

    fn delete(&self, resource: &str, owner: &str) -> Calls<impl Answer> {
        let mut command = Cmd::new();
        command.arg("EVALSHA").arg(&self.script).arg(1).arg(resource).arg(owner);
        self.send(command)
    }

    fn send(&self, command: Cmd) -> Calls<impl Answer> {
        let command = Arc::new(command);
        let call = |connection: &MultiplexedConnection| {
            let (mut connection, command) = (connection.clone(), Arc::clone(&command));
            async move { connection.send_packed_command(&command).await }
        };
        Calls(self.connections.iter().map(call).collect())
    }
}

/// A reply on its way.
trait Answer: Future<Output = RedisResult<Value>> + Send + 'static {}
impl<F: Future<Output = RedisResult<Value>> + Send + 'static> Answer for F {}

/// Commands under way.
struct Calls<F>(FuturesUnordered<F>);

impl<F: Answer> Calls<F> {
    /// Goes on at the third reply that says yes.
    async fn quorum(&mut self) -> Result<(), String> {
        let (mut yes, mut last) = (0, None);
        while let Some(reply) = self.0.next().await {
            match reply {
                Ok(Value::Okay | Value::Int(1)) => yes += 1,
                other => last = Some(other),
            }
            if yes == QUORUM {
                return Ok(());
            }
        }
        Err(format!("{yes} of {QUORUM} said yes, one of the others {last:?}"))
    }

    async fn drain(mut self) {
        while self.0.next().await.is_some() {}
    }

    /// In the calling task up to the verdict, and then in the background.
    async fn here(mut self) -> Result<(), String> {
        let result = self.quorum().await;
        if !self.0.is_empty() {
            tokio::spawn(self.drain());
        }
        result
    }

    /// All of it in one task, which reports at the verdict.
    async fn reporting_to(mut self, answer: oneshot::Sender<Result<(), String>>) {
        let _ = answer.send(self.quorum().await);
        self.drain().await;
    }
}

/// The floor in the runtime of the caller.
pub(super) struct CallerFloor {
    fleet: Arc<Fleet>,
}

impl CallerFloor {
    pub(super) async fn connect(urls: &[String]) -> Self {
        Self { fleet: Fleet::connect(urls.to_vec()).await }
    }
}

impl Contender for CallerFloor {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = self.fleet.acquire(resource);
        let release =
            move |owner: String| async move { self.fleet.release(resource, &owner).await };
        Box::pin(timed(acquire, release))
    }
}

/// The floor on a thread of its own, with a current-thread runtime.
///
/// Requests go through a channel rather than `Handle::spawn`: the thread takes all that have come before
/// any connection writes, so that commands of different tasks share a write. What is spawned from outside
/// is taken up one by one, with a write for every command in between.
pub(super) struct ThreadFloor {
    fleet: Arc<Fleet>,
    requests: Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>>,
    thread: Option<JoinHandle<()>>,
}

impl ThreadFloor {
    pub(super) async fn connect(urls: &[String]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a current-thread runtime");
        let (requests, mut arriving) = mpsc::unbounded_channel();
        let (connected, fleet) = oneshot::channel();
        let urls = urls.to_vec();
        let work = move || {
            runtime.block_on(async {
                let _ = connected.send(Fleet::connect(urls).await);
                while let Some(request) = arriving.recv().await {
                    tokio::spawn(request);
                }
            });
        };
        let thread = std::thread::Builder::new().name("floor".to_owned()).spawn(work);
        let thread = Some(thread.expect("a thread"));
        let fleet = fleet.await.expect("a connected fleet");
        Self { fleet, requests: Some(requests), thread }
    }

    async fn exchange<T: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(oneshot::Sender<Result<(), String>>) -> T,
    ) -> Result<(), String> {
        let (answer, receiver) = oneshot::channel();
        if let Some(requests) = &self.requests {
            let _ = requests.send(Box::pin(task(answer)));
        }
        receiver.await.unwrap_or_else(|_| Err("the I/O thread has ended".to_owned()))
    }
}

impl Contender for ThreadFloor {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = async move {
            let owner = self.fleet.owner();
            let (fleet, key, value) = (Arc::clone(&self.fleet), resource.to_owned(), owner.clone());
            let task = |answer| async move { fleet.set(&key, &value).reporting_to(answer).await };
            self.exchange(task).await.map(|()| owner)
        };
        let release = move |owner: String| async move {
            let (fleet, key) = (Arc::clone(&self.fleet), resource.to_owned());
            let task =
                |answer| async move { fleet.delete(&key, &owner).reporting_to(answer).await };
            self.exchange(task).await
        };
        Box::pin(timed(acquire, release))
    }
}

impl Drop for ThreadFloor {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
