//! A TCP proxy in front of one server that can be made faulty while clients are connected.
//!
//! It runs in this process on one thread of its own. A fault applies to everything that arrives
//! after the call that sets it has returned. Bytes are delivered in their order or not at all: a
//! connection that has lost a reply must never carry a later one, because a client would take it
//! for the lost one. It is closed when the fault is lifted, as a broken TCP connection would be.

use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::eventually;

mod pump;

/// What is wrong with the network at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    closing: bool,
    cut: bool,
    blackhole: bool,
    drop_replies: bool,
    delay: Duration,
    alter: Option<fn(Vec<u8>) -> Vec<u8>>,
}

/// A proxy on a port of its own. Dropping it closes its connections and its port.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    target: Arc<AtomicU16>,
    faults: watch::Sender<Faults>,
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A faultless proxy to 127.0.0.1 at this port. Whether a server is there only matters when a
    /// client connects: where none is, the client's connection is closed.
    pub fn start(target_port: u16) -> Self {
        Self::to("127.0.0.1", target_port)
    }

    /// The same to any host, by its name or address.
    pub fn to(host: &str, target_port: u16) -> Self {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the proxy");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let port = listener.local_addr().expect("the address of the proxy").port();
        let faults = watch::Sender::new(Faults::default());
        let open = Arc::new(AtomicUsize::new(0));
        let target = Arc::new(AtomicU16::new(target_port));

        let seen = faults.subscribe();
        let count = Arc::clone(&open);
        let (to, host) = (Arc::clone(&target), Arc::<str>::from(host));
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("proxy-{port}"))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime for the proxy").block_on(async {
                    let listener = TcpListener::from_std(listener).expect("a listener");
                    let _ = ready.send(());
                    serve(listener, host, to, seen, count).await;
                });
            })
            .expect("a thread for the proxy");
        is_ready.recv().expect("the proxy has started");
        Self { port, target, faults, open, thread: Some(thread) }
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends whoever connects from now on to another port. Connections that are open stay where they are.
    pub fn retarget(&self, target_port: u16) {
        self.target.store(target_port, Ordering::SeqCst);
    }

    /// Closes all connections, and every new one at once, until [`Proxy::heal`]. Returns when the
    /// last connection is closed.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cut = true);
        eventually("a cut proxy has closed its connections", Duration::from_secs(10), || {
            self.connections() == 0
        });
    }

    /// Keeps and accepts connections but lets nothing through in either direction, not even the
    /// end of a connection. What was sent meanwhile is delivered in order when this is lifted.
    pub fn blackhole(&self, on: bool) {
        self.faults.send_modify(|faults| faults.blackhole = on);
    }

    /// Holds every chunk back for this long, in each direction. Chunks keep their order, and do
    /// not add to each other's delay.
    pub fn delay(&self, delay: Duration) {
        self.faults.send_modify(|faults| faults.delay = delay);
    }

    /// Forwards requests and throws replies away. A connection that has lost a reply is closed
    /// when this is lifted.
    pub fn drop_replies(&self, on: bool) {
        self.faults.send_modify(|faults| faults.drop_replies = on);
    }

    /// Passes replies through this before they are delivered. It is given what one read has returned, which is a whole
    /// reply where one is awaited at a time.
    pub fn alter_replies(&self, alter: fn(Vec<u8>) -> Vec<u8>) {
        self.faults.send_modify(|faults| faults.alter = Some(alter));
    }

    /// Lifts every fault.
    pub fn heal(&self) {
        self.faults.send_modify(|faults| *faults = Faults::default());
    }

    /// The number of clients that are connected.
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.send_modify(|faults| faults.closing = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts until the proxy is dropped; the runtime then drops every connection.
async fn serve(
    listener: TcpListener,
    host: Arc<str>,
    target: Arc<AtomicU16>,
    faults: watch::Receiver<Faults>,
    open: Arc<AtomicUsize>,
) {
    let mut closing = faults.clone();
    loop {
        let client = tokio::select! {
            _ = closing.wait_for(|faults| faults.closing) => return,
            accepted = listener.accept() => accepted,
        };
        // A client that is gone before it is accepted is no reason to stop serving.
        let Ok((client, _)) = client else { continue };
        if faults.borrow().cut {
            continue;
        }
        let guard = Counted::new(&open);
        let to = (Arc::clone(&host), target.load(Ordering::SeqCst));
        tokio::spawn(connection(client, to, faults.clone(), guard));
    }
}

async fn connection(
    client: TcpStream,
    (host, port): (Arc<str>, u16),
    faults: watch::Receiver<Faults>,
    guard: Counted,
) {
    let mut cut = faults.clone();
    tokio::select! {
        _ = cut.wait_for(|faults| faults.cut) => {}
        // An error ends this connection only, and the client sees it as the end of the stream.
        _ = pump::relay(client, (&host, port), faults) => {}
    }
    // The sockets are closed by here; only now the connection counts as gone.
    drop(guard);
}

/// Counts one open connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
