//! The two directions of one proxied connection, and what each fault does to them.
//!
//! Reading goes on under every fault, so that a sender never notices one by its full buffers; what
//! was read waits in a queue with the time at which it is due. The end of a stream is queued like
//! its bytes and must never overtake them.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Faults, Late, Shared, exchange::Exchange};

type Watch = watch::Receiver<Faults>;

/// A piece of one direction, due for delivery at this time.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
    lost: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// One direction of the connection with this number.
#[derive(Clone, Copy)]
struct Lane<'a> {
    direction: Direction,
    number: u64,
    shared: &'a Shared,
}

impl Lane<'_> {
    fn faults(&self) -> Watch {
        self.shared.faults.subscribe()
    }

    fn is_held(&self, faults: &Faults) -> bool {
        let Late { below, held_back, .. } = faults.late;
        self.direction == Direction::Request && held_back && self.number < below
    }

    fn is_severed(&self, faults: &Faults) -> bool {
        let Late { below, severed, .. } = faults.late;
        self.direction == Direction::Reply && severed && self.number < below
    }

    fn drops(&self, faults: &Faults) -> bool {
        self.direction == Direction::Reply && faults.drop_replies
    }

    /// Ends when this lane has no client any more.
    async fn severed(&self) {
        // An error says that the proxy is gone.
        let _ = self.faults().wait_for(|faults| self.is_severed(faults)).await;
    }

    /// Waits until nothing is in the way.
    async fn passable(&self) -> io::Result<()> {
        let mut faults = self.faults();
        let lifted = faults.wait_for(|faults| !faults.blackhole && !self.is_held(faults)).await;
        lifted.map(drop).map_err(|_| gone())
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "proxy is gone")
}

/// Carries bytes both ways until the server ends the connection or is out of reach.
pub(super) async fn relay(client: TcpStream, number: u64, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let lane = |direction| Lane { direction, number, shared };
    // Under a blackhole even a dead server must look like a silent one.
    lane(Direction::Reply).passable().await?;
    let (host, port) = &*shared.target;
    let server = TcpStream::connect((&**host, port.load(Ordering::SeqCst))).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();

    let requests = carry(from_client, to_server, lane(Direction::Request));
    let replies = carry(from_server, to_client, lane(Direction::Reply));
    tokio::pin!(requests, replies);
    tokio::select! {
        ended = &mut replies => ended,
        // A client may close its half and still read the replies to what it has sent.
        ended = &mut requests => match ended {
            Ok(()) => replies.await,
            Err(error) => Err(error),
        },
    }
}

async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, lane: Lane<'_>) -> io::Result<()> {
    let (queue, queued) = mpsc::unbounded_channel();
    let reading = read(from, queue, lane);
    let writing = write(to, queued, lane);
    tokio::pin!(reading, writing);
    tokio::select! {
        ended = &mut writing => ended,
        () = &mut reading => writing.await,
    }
}

/// Queues what arrives. A broken stream ends like a closed one.
async fn read(mut from: OwnedReadHalf, queue: mpsc::UnboundedSender<Chunk>, lane: Lane<'_>) {
    let (faults, is_reply) = (lane.faults(), lane.direction == Direction::Reply);
    let mut exchange = Exchange::new(match lane.direction {
        Direction::Request => lane.shared.exchanged().clone(),
        Direction::Reply => Vec::new(),
    });
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let now = *faults.borrow();
        let bytes = exchange.pass(buffer[..length].to_vec());
        if lane.is_held(&now) {
            lane.shared.held.fetch_add(bytes.len(), Ordering::SeqCst);
        }
        let chunk = Chunk {
            due: Instant::now() + now.delay,
            bytes: match now.alter.filter(|_| is_reply) {
                Some(alter) => alter(bytes),
                None => bytes,
            },
            lost: lane.drops(&now),
        };
        if queue.send(chunk).is_err() {
            return;
        }
    }
}

/// Delivers what is queued, then the end of the stream. Replies to a client that is gone go nowhere: the server is to be read
/// to its end, or the kernel would throw away what it has not read yet.
async fn write(
    mut to: OwnedWriteHalf,
    mut queued: mpsc::UnboundedReceiver<Chunk>,
    lane: Lane<'_>,
) -> io::Result<()> {
    let mut faults = lane.faults();
    let mut is_gone = false;
    loop {
        let chunk = tokio::select! {
            biased;
            () = lane.severed(), if !is_gone => None,
            chunk = queued.recv() => Some(chunk),
        };
        let Some(chunk) = chunk else {
            is_gone = true;
            let _ = to.shutdown().await;
            continue;
        };
        let Some(chunk) = chunk else { break };
        if is_gone {
            continue;
        }
        sleep_until(chunk.due).await;
        lane.passable().await?;
        if chunk.lost || lane.drops(&faults.borrow()) {
            let _ = faults.wait_for(|faults| !faults.drop_replies).await;
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "a reply was lost"));
        }
        match to.write_all(&chunk.bytes).await {
            Err(_) if lane.direction == Direction::Reply => is_gone = true,
            written => written?,
        }
    }
    lane.passable().await?;
    to.shutdown().await
}
