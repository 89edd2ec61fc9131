//! The two directions of one proxied connection, and what each fault does to them.
//!
//! Reading goes on under every fault, so that a sender never notices one by its full buffers; what
//! was read waits in a queue with the time at which it is due. The end of a stream is queued like
//! its bytes and must never overtake them.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::Faults;

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

/// Carries bytes both ways until the server ends the connection or either side breaks.
pub(super) async fn relay(client: TcpStream, target: (&str, u16), faults: Watch) -> io::Result<()> {
    client.set_nodelay(true)?;
    // Under a blackhole even a dead server must look like a silent one.
    passable(&faults).await?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();

    let requests = direction(from_client, to_server, Direction::Request, faults.clone());
    let replies = direction(from_server, to_client, Direction::Reply, faults);
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

async fn direction(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    direction: Direction,
    faults: Watch,
) -> io::Result<()> {
    let (queue, queued) = mpsc::unbounded_channel();
    let reading = read(from, queue, direction, faults.clone());
    let writing = write(to, queued, direction, faults);
    tokio::pin!(reading, writing);
    tokio::select! {
        ended = &mut writing => ended,
        () = &mut reading => writing.await,
    }
}

/// Queues what arrives. A broken stream ends like a closed one.
async fn read(
    mut from: OwnedReadHalf,
    queue: mpsc::UnboundedSender<Chunk>,
    direction: Direction,
    faults: Watch,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let now = *faults.borrow();
        let bytes = buffer[..length].to_vec();
        let chunk = Chunk {
            due: Instant::now() + now.delay,
            bytes: match now.alter.filter(|_| direction == Direction::Reply) {
                Some(alter) => alter(bytes),
                None => bytes,
            },
            lost: now.drop_replies && direction == Direction::Reply,
        };
        if queue.send(chunk).is_err() {
            return;
        }
    }
}

/// Delivers what is queued, then the end of the stream.
async fn write(
    mut to: OwnedWriteHalf,
    mut queued: mpsc::UnboundedReceiver<Chunk>,
    direction: Direction,
    mut faults: Watch,
) -> io::Result<()> {
    while let Some(chunk) = queued.recv().await {
        sleep_until(chunk.due).await;
        passable(&faults).await?;
        if chunk.lost || (direction == Direction::Reply && faults.borrow().drop_replies) {
            let _ = faults.wait_for(|faults| !faults.drop_replies).await;
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "a reply was lost"));
        }
        to.write_all(&chunk.bytes).await?;
    }
    passable(&faults).await?;
    to.shutdown().await
}

/// Waits until no blackhole is in the way.
async fn passable(faults: &Watch) -> io::Result<()> {
    let mut faults = faults.clone();
    let lifted = faults.wait_for(|faults| !faults.blackhole).await;
    lifted.map(drop).map_err(|_| io::Error::new(io::ErrorKind::ConnectionAborted, "proxy is gone"))
}
