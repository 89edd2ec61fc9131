//! A TCP proxy in front of one server that can be made faulty while clients are connected.
//!
//! It runs in this process on one thread of its own. A fault applies to everything that arrives
//! after the call that sets it has returned. Bytes are delivered in their order or not at all: a
//! connection that has lost a reply must never carry a later one, because a client would take it
//! for the lost one. It is closed when the fault is lifted, as a broken TCP connection would be.
//! What a client has sent may reach the server after the client has closed the connection, as it does where the kernel
//! sends it once more.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::eventually;

mod exchange;
mod pump;

use exchange::Exchanged;

/// What is wrong with the network at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    closing: bool,
    cut: bool,
    blackhole: bool,
    drop_replies: bool,
    delay: Duration,
    alter: Option<fn(Vec<u8>) -> Vec<u8>>,
    late: Late,
}

/// What is wrong with the connections that were open at some moment, and with no other.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    /// The connections with smaller numbers.
    below: u64,
    held_back: bool,
    severed: bool,
}

/// What all connections share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    faults: watch::Sender<Faults>,
    target: Arc<(String, AtomicU16)>,
    /// The numbers of the open connections, and that of the next one.
    open: Arc<Mutex<(BTreeSet<u64>, u64)>>,
    /// The bytes that are held back.
    held: Arc<AtomicUsize>,
    exchanged: Arc<Mutex<Vec<Exchanged>>>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, (BTreeSet<u64>, u64)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchanged(&self) -> MutexGuard<'_, Vec<Exchanged>> {
        self.exchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy on a port of its own. Dropping it closes its connections and its port.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    /// The name of the server that it began with.
    named: String,
    shared: Shared,
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
        let shared = Shared {
            faults: watch::Sender::new(Faults::default()),
            target: Arc::new((host.to_owned(), AtomicU16::new(target_port))),
            open: Arc::default(),
            held: Arc::default(),
            exchanged: Arc::default(),
        };
        let served = shared.clone();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("proxy-{port}"))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime for the proxy").block_on(async {
                    let listener = TcpListener::from_std(listener).expect("a listener");
                    let _ = ready.send(());
                    serve(listener, served).await;
                });
            })
            .expect("a thread for the proxy");
        is_ready.recv().expect("the proxy has started");
        Self { port, named: format!("{host}:{target_port}"), shared, thread: Some(thread) }
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT#NAME`, with the name of the server that it began with: to the fleet it is that node.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}#{}", self.port, self.named)
    }

    /// Sends new connections to another port. Open connections stay where they are.
    pub fn retarget(&self, target_port: u16) {
        self.shared.target.1.store(target_port, Ordering::SeqCst);
    }

    /// Closes all connections, and every new one at once, until [`Proxy::heal`]. Returns when the
    /// last connection is closed.
    pub fn cut(&self) {
        self.shared.faults.send_modify(|faults| faults.cut = true);
        eventually("a cut proxy has closed its connections", Duration::from_secs(10), || {
            self.connections() == 0
        });
    }

    /// Keeps and accepts connections but lets nothing through in either direction, not even the
    /// end of a connection. What was sent meanwhile is delivered in order when this is lifted.
    pub fn blackhole(&self, on: bool) {
        self.shared.faults.send_modify(|faults| faults.blackhole = on);
    }

    /// Holds every chunk back for this long, in each direction. Chunks keep their order, and do
    /// not add to each other's delay.
    pub fn delay(&self, delay: Duration) {
        self.shared.faults.send_modify(|faults| faults.delay = delay);
    }

    /// Forwards requests and throws replies away. A connection that has lost a reply is closed
    /// when this is lifted.
    pub fn drop_replies(&self, on: bool) {
        self.shared.faults.send_modify(|faults| faults.drop_replies = on);
    }

    /// Passes replies through this function before they are delivered. It is given what one read has returned: a whole
    /// reply where the client awaits one at a time.
    pub fn alter_replies(&self, alter: fn(Vec<u8>) -> Vec<u8>) {
        self.shared.faults.send_modify(|faults| faults.alter = Some(alter));
    }

    /// Holds back what clients send on the connections that are open now, from now on, until [`Proxy::deliver`]. Replies
    /// pass, and so does all that is sent on connections that are made later.
    pub fn hold_back(&self) {
        self.shared.held.store(0, Ordering::SeqCst);
        let below = self.shared.open().1;
        let late = Late { below, held_back: true, severed: false };
        self.shared.faults.send_modify(|faults| faults.late = late);
    }

    /// How many bytes clients have sent on these connections since then.
    pub fn held_back(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Ends these connections for their clients, as a middlebox may. The server does not learn of it.
    pub fn sever(&self) {
        self.shared.faults.send_modify(|faults| faults.late.severed = true);
    }

    /// The number of clients that have connected since `hold_back` and still are.
    pub fn made_anew(&self) -> usize {
        let below = self.shared.faults.borrow().late.below;
        self.shared.open().0.range(below..).count()
    }

    /// Carries to the server what was held back, and then the end of these connections, whose clients are gone. The server
    /// has executed all of it when [`Proxy::late_connections`] says that there are none.
    pub fn deliver(&self) {
        self.shared.faults.send_modify(|faults| {
            faults.late.held_back = false;
            faults.late.severed = true;
        });
    }

    /// How many of the connections that were held back are open at the server.
    pub fn late_connections(&self) -> usize {
        let below = self.shared.faults.borrow().late.below;
        self.shared.open().0.range(..below).count()
    }

    /// On connections made from now on, a request for this script, by its digest or in full, runs the other script: for
    /// tests of what a line of it is there for.
    pub fn exchange_script(&self, script: &str, other: &str) {
        self.shared.exchanged().push(Exchanged::new(script, other));
    }

    /// Lifts every fault, but for scripts that are exchanged. What was held back is delivered.
    pub fn heal(&self) {
        self.shared.faults.send_modify(|faults| *faults = Faults::default());
    }

    /// The number of clients that are connected.
    pub fn connections(&self) -> usize {
        self.shared.open().0.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.faults.send_modify(|faults| faults.closing = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts until the proxy is dropped; the runtime then drops every connection.
async fn serve(listener: TcpListener, shared: Shared) {
    let faults = shared.faults.subscribe();
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
        tokio::spawn(connection(client, Counted::new(&shared), shared.clone()));
    }
}

async fn connection(client: TcpStream, counted: Counted, shared: Shared) {
    let mut cut = shared.faults.subscribe();
    tokio::select! {
        _ = cut.wait_for(|faults| faults.cut) => {}
        // An error ends this connection only, and the client sees it as the end of the stream.
        _ = pump::relay(client, counted.number, &shared) => {}
    }
    // The sockets are closed by here; only now the connection counts as gone.
    drop(counted);
}

/// Counts one open connection for as long as it lives.
struct Counted {
    shared: Shared,
    number: u64,
}

impl Counted {
    fn new(shared: &Shared) -> Self {
        let mut open = shared.open();
        let number = open.1;
        open.1 += 1;
        open.0.insert(number);
        drop(open);
        Self { shared: shared.clone(), number }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.open().0.remove(&self.number);
    }
}
