//! The store that the work writes to: a register for each resource on a server of its own, which no fault touches.
//!
//! It takes a write unless a larger token has been there, in one step with the check, and keeps the tokens of
//! all that it took in their order. It knows nothing of leases.

use std::{fmt, ops::RangeInclusive, time::Duration};

use redis::{Client, Connection};

use crate::Server;

/// Takes the write of token ARGV[1]. Where ARGV[2] is 1, it refuses where a larger token, or a reader with one no
/// smaller, was here.
const WRITE: &str = "
    local largest = tonumber(redis.call('GET', KEYS[1]) or '0')
    local token = tonumber(ARGV[1])
    local read = tonumber(redis.call('GET', KEYS[3]) or '0')
    if ARGV[2] == '1' and (token < largest or token <= read) then return 0 end
    redis.call('SET', KEYS[1], string.format('%.0f', math.max(largest, token)))
    redis.call('RPUSH', KEYS[2], ARGV[1])
    return 1";

/// Lets a reader with token ARGV[1] look, unless a writer had a larger one.
const READ: &str = "
    local largest, token = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
    if token < largest then return 0 end
    local read = tonumber(redis.call('GET', KEYS[2]) or '0')
    redis.call('SET', KEYS[2], string.format('%.0f', math.max(read, token)))
    return 1";

/// A connection to the register.
pub struct Register(Connection);

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Register").finish_non_exhaustive()
    }
}

impl Register {
    /// Connects to the server at this address.
    pub fn open(url: &str) -> Self {
        // Without a time limit: a read with one is interrupted when a process that was stopped goes on.
        Self(
            Client::open(url)
                .and_then(|client| client.get_connection())
                .expect("the register answers"),
        )
    }

    /// Whether it took the write. A write that is not fenced is always taken: that is a planted bug.
    pub fn write(&mut self, resource: usize, token: u64, fenced: bool) -> bool {
        let mut write = redis::cmd("EVAL");
        write
            .arg(WRITE)
            .arg(3)
            .arg(format!("register:{resource}"))
            .arg(taken(resource))
            .arg(format!("read:{resource}"))
            .arg(token)
            .arg(u8::from(fenced));
        write.query::<u8>(&mut self.0).expect("the register answers") == 1
    }

    /// Leaves a text for whoever takes it.
    pub fn put(&mut self, resource: usize, text: &str) {
        let mut put = redis::cmd("RPUSH");
        put.arg(left(resource)).arg(text);
        put.query::<u64>(&mut self.0).expect("the register answers");
    }

    /// Takes the text that was left first, and waits for one for so long.
    pub fn take(&mut self, resource: usize, wait: Duration) -> Option<String> {
        let mut take = redis::cmd("BLPOP");
        take.arg(left(resource)).arg(wait.as_secs_f64());
        let taken: Option<(String, String)> =
            take.query(&mut self.0).expect("the register answers");
        taken.map(|(_, text)| text)
    }

    /// Whether the reader may see what is there.
    pub fn read(&mut self, resource: usize, token: u64) -> bool {
        let mut read = redis::cmd("EVAL");
        let (largest, seen) = (format!("register:{resource}"), format!("read:{resource}"));
        read.arg(READ).arg(2).arg(largest).arg(seen).arg(token);
        read.query::<u8>(&mut self.0).expect("the register answers") == 1
    }
}

/// Neighbours in the order of the register of which the later has the smaller token, of all of these resources.
pub fn falls(store: &Server, resources: RangeInclusive<usize>) -> Vec<(u64, u64)> {
    let mut connection = store.control();
    connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    let mut falls = Vec::new();
    for resource in resources {
        let mut range = redis::cmd("LRANGE");
        range.arg(taken(resource)).arg(0).arg(-1);
        let taken: Vec<u64> = range.query(&mut connection).expect("the register answers");
        let pairs = taken.windows(2).map(|pair| (pair[0], pair[1]));
        falls.extend(pairs.filter(|(earlier, later)| earlier > later));
    }
    falls
}

/// The list of the texts that were left.
fn left(resource: usize) -> String {
    format!("left:{resource}")
}

/// The list of the tokens that were taken.
fn taken(resource: usize) -> String {
    format!("taken:{resource}")
}
