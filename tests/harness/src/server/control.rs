//! What tests ask of a server directly, past the code under test.
//!
//! Each server has one control connection from its start on; the methods here go through it one at
//! a time.
//! Every request is bounded by a timeout, so a paused server gives an error and never hangs a test.
//! A command must never be sent twice unless the first connection was closed before the reply.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult, Value};

use super::Server;

const TIMEOUT: Duration = Duration::from_secs(2);

impl Server {
    /// A blocking connection of the caller's own, with timeouts of two seconds.
    pub fn control(&self) -> Connection {
        self.connect(TIMEOUT).unwrap_or_else(|error| self.refused("connect", &error))
    }

    /// The address for a user `app` who has these rights and no others: patterns of keys and channels, and commands.
    pub fn user<'a>(&self, rights: impl IntoIterator<Item = &'a str>) -> String {
        let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">sesame", "resetchannels"];
        command.push("-@all");
        command.extend(rights);
        self.run(&command);
        format!("redis://app:sesame@127.0.0.1:{}", self.port())
    }

    /// Runs one command and panics where it fails.
    pub fn run(&self, command: &[&str]) -> Value {
        self.try_run(command).unwrap_or_else(|error| self.refused(&command.join(" "), &error))
    }

    /// Runs one command; a server that is dead or paused is an error.
    pub fn try_run(&self, command: &[&str]) -> RedisResult<Value> {
        let mut cmd = Cmd::new();
        for part in command {
            cmd.arg(part);
        }
        self.query(&cmd)
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.ask(redis::cmd("GET").arg(key.as_ref()))
    }

    /// Sets a key, with an expiry in milliseconds where one is given.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl_ms: Option<u64>) {
        let mut cmd = redis::cmd("SET");
        cmd.arg(key.as_ref()).arg(value.as_ref());
        if let Some(ttl_ms) = ttl_ms {
            cmd.arg("PX").arg(ttl_ms);
        }
        self.ask::<()>(&cmd);
    }

    /// The rest of the life of a key in milliseconds: -1 without expiry, -2 without the key.
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> i64 {
        self.ask(redis::cmd("PTTL").arg(key.as_ref()))
    }

    /// Removes a key and says whether it was there.
    pub fn del(&self, key: impl AsRef<[u8]>) -> bool {
        self.ask(redis::cmd("DEL").arg(key.as_ref()))
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.ask(redis::cmd("KEYS").arg("*"))
    }

    /// The keys that are locks: without the node's own keys, its marker and the counters of fencing tokens, which
    /// outlive every lease.
    pub fn locks(&self) -> Vec<Vec<u8>> {
        let mut keys = self.keys();
        keys.retain(|key| !key.starts_with(b"quorlock:"));
        keys
    }

    /// Removes all keys.
    pub fn flush(&self) {
        self.ask::<()>(redis::cmd("FLUSHALL").arg("SYNC"));
    }

    /// Closes every connection of every client but the one that asks, and says how many. A client that has subscribed
    /// to a channel is of another type for the server, and is closed too.
    pub fn kill_clients(&self) -> u64 {
        let kill = |kind| {
            let mut command = redis::cmd("CLIENT");
            command.arg("KILL").arg("TYPE").arg(kind).arg("SKIPME").arg("yes");
            self.ask::<u64>(&command)
        };
        kill("normal") + kill("pubsub")
    }

    /// How often a command was called since the process started, such as `set` or `client|kill`.
    /// Calls from inside a script are counted too.
    pub fn command_calls(&self, name: &str) -> u64 {
        let stats: String = self.ask(redis::cmd("INFO").arg("commandstats"));
        let prefix = format!("cmdstat_{}:calls=", name.to_ascii_lowercase());
        let Some(rest) = stats.lines().find_map(|line| line.strip_prefix(&prefix)) else {
            return 0;
        };
        let digits = rest.split(',').next().unwrap_or_default();
        digits.parse().unwrap_or_else(|_| panic!("not a number of calls: {rest}"))
    }

    /// The process id that answers on the port, once it answers PING. The connection is kept, so
    /// that a server that was just started has one client, and not the rest of a closed one too.
    pub(super) fn answering_pid(&self) -> RedisResult<u32> {
        // A short timeout, since a stranger on the port may accept and stay silent.
        let mut connection = self.connect(Duration::from_millis(500))?;
        redis::cmd("PING").exec(&mut connection)?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        set_timeout(&connection, TIMEOUT)?;
        *self.cached() = Some(connection);
        Ok(pid.and_then(|pid| pid.trim().parse().ok()).unwrap_or(0))
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, Option<Connection>> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        let reply = self.query(cmd).and_then(|value| Ok(redis::from_redis_value(value)?));
        reply.unwrap_or_else(|error| {
            self.refused(&String::from_utf8_lossy(&cmd.get_packed_command()), &error)
        })
    }

    fn query(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut cached = self.cached();
        if let Some(connection) = cached.as_mut() {
            match cmd.query(connection) {
                // A test has closed the connection in between, such as by CLIENT KILL.
                Err(error) if error.is_connection_dropped() => *cached = None,
                Err(error) if error.is_io_error() => {
                    // A late reply must not be read as the answer to the next command.
                    *cached = None;
                    return Err(error);
                }
                answer => return answer,
            }
        }
        let mut connection = self.connect(TIMEOUT)?;
        let answer: RedisResult<Value> = cmd.query(&mut connection);
        if !answer.as_ref().is_err_and(redis::RedisError::is_io_error) {
            *cached = Some(connection);
        }
        answer
    }

    fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        let connection = Client::open(self.url())?.get_connection_with_timeout(timeout)?;
        set_timeout(&connection, timeout)?;
        Ok(connection)
    }

    fn refused(&self, what: &str, error: &redis::RedisError) -> ! {
        panic!("server on port {}: {what}: {error}", self.port())
    }
}

fn set_timeout(connection: &Connection, timeout: Duration) -> RedisResult<()> {
    connection.set_read_timeout(Some(timeout))?;
    connection.set_write_timeout(Some(timeout))
}
