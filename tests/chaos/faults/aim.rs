//! The worst moment for a node to forget: the lock rests on it, and without it no other client would be kept out.
//!
//! It looks at the keys alone and waits for a bounded time. A node that does not answer at once counts as one that
//! has another's key.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{
    Cluster, Server,
    redis::{self, Client, Connection, RedisResult},
};

use super::{super::RESOURCE, MS, SECOND};

/// The least that must be left of a lease, in ms.
const LEFT: i64 = 150;

/// Waits until the node has the key of a lease, and so few of the others do that the node would complete a quorum for
/// another client if it forgot. Or until it has waited long enough.
pub(super) fn aim(cluster: &Cluster, node: usize) {
    let began = Instant::now();
    let mut connections: Vec<Option<Connection>> = cluster.iter().map(|_| None).collect();
    while began.elapsed() < SECOND {
        let mut look = |index: usize| {
            let key = connect(&cluster[index], &mut connections[index]).and_then(key);
            if key.is_err() {
                connections[index] = None;
            }
            key.ok()
        };
        if let Some((Some(owner), left)) = look(node)
            && left > LEFT
        {
            let others = (0..cluster.len()).filter(|index| *index != node);
            let free = others.filter_map(look).filter(|(key, _)| key.as_ref() != Some(&owner));
            if free.count() + 1 > cluster.len() / 2 {
                return;
            }
        }
        thread::sleep(2 * MS);
    }
}

fn connect<'a>(
    server: &Server,
    connection: &'a mut Option<Connection>,
) -> RedisResult<&'a mut Connection> {
    if let Some(connection) = connection {
        return Ok(connection);
    }
    let new = Client::open(server.url())?.get_connection_with_timeout(50 * MS)?;
    new.set_read_timeout(Some(Duration::from_millis(20)))?;
    Ok(connection.insert(new))
}

/// The owner in the key, and how long it has left in milliseconds.
fn key(connection: &mut Connection) -> RedisResult<(Option<Vec<u8>>, i64)> {
    redis::pipe().get(RESOURCE).pttl(RESOURCE).query(connection)
}
