//! Goal: what `docs/deploying.md` says of a proxy that keeps its clients' connections and goes on with another server: for
//! a while nothing shows that, and there can be two holders.
//!
//! Method: a proxy that does nothing else, between two servers of which one has replicated from the other.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::Server;

use super::{Pair, SECOND, TTL, soon, state};

/// Client and server of each connection.
type Connections = Arc<Mutex<Vec<(TcpStream, Arc<Mutex<TcpStream>>)>>>;

struct Keeping {
    port: u16,
    target: Arc<AtomicU16>,
    connections: Connections,
}

impl Keeping {
    fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, connections) = (Arc::new(AtomicU16::new(target)), Connections::default());
        let (to, kept) = (Arc::clone(&target), Arc::clone(&connections));
        // It ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let port = to.load(Ordering::SeqCst);
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                answers(server.try_clone().unwrap(), client.try_clone().unwrap());
                let server = Arc::new(Mutex::new(server));
                kept.lock().unwrap().push((client.try_clone().unwrap(), Arc::clone(&server)));
                std::thread::spawn(move || requests(client, &server));
            }
        });
        Self { port, target, connections }
    }

    /// Goes on with another server, which is told of RESP3 and knows nothing else of the connections.
    fn turn(&self, port: u16) {
        self.target.store(port, Ordering::SeqCst);
        for (client, server) in self.connections.lock().unwrap().iter() {
            let mut new = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            new.write_all(b"HELLO 3\r\n").unwrap();
            new.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            while matches!(new.read(&mut [0; 4096]), Ok(bytes) if bytes > 0) {}
            new.set_read_timeout(None).unwrap();
            answers(new.try_clone().unwrap(), client.try_clone().unwrap());
            *server.lock().unwrap() = new;
        }
    }
}

/// From a client to the server that it has now.
fn requests(mut client: TcpStream, server: &Mutex<TcpStream>) {
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        let _ = server.lock().unwrap().write_all(&buffer[..bytes]);
    }
    let _ = server.lock().unwrap().shutdown(Shutdown::Both);
}

/// From one server to a client, whose connection stays when that server ends.
fn answers(mut server: TcpStream, mut client: TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = server.read(&mut buffer) {
            if client.write_all(&buffer[..bytes]).is_err() {
                return;
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_keeps_connections_hides_a_failover_until_the_next_look() {
    let pair = Pair::start();
    let proxy = Keeping::start(pair.master.port());
    let client = async || {
        let builder = Redlock::builder().node(format!("redis://127.0.0.1:{}", proxy.port));
        let builder = builder.node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
        let redlock = builder.ttl(2 * TTL).max_ttl(2 * TTL).connect().await.unwrap();
        soon("it votes", || state(&redlock) == NodeState::Ready).await;
        redlock
    };
    let (a, b) = (client().await, client().await);
    // Its idea of the marker is that of the replica, too.
    b.acquire("another").await.unwrap().release().await.unwrap();
    let counters = |server: &Server| server.run(&["HMGET", "quorlock:counters", "", "another"]);
    soon("the replica has followed", || counters(&pair.replica) == counters(&pair.master)).await;
    pair.cut_replication();
    let first = a.acquire("hidden").without_renewal().await.unwrap();
    pair.master.kill();
    super::pair::promote(&pair.replica);
    proxy.turn(pair.replica.port());
    let second = b.try_acquire("hidden").await.expect("nothing shows it");
    first.check().expect("A has it");
    second.check().expect("and so has B");
    // The history of the replication gives it away, at the next look.
    soon("it is noticed", || matches!(state(&b), NodeState::Quarantined { .. })).await;
}
