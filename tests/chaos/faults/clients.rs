//! Faults of a server's clients: thrown out, kept waiting, locked out by a password.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{
    Server,
    redis::{self, Client},
};

use super::{MS, errors, random, undo};

pub(super) fn kill(server: &Server, time: Duration) -> bool {
    let began = Instant::now();
    let mut closed = 0;
    while began.elapsed() < time {
        closed += server.kill_clients();
        thread::sleep(MS * u32::try_from(1 + random(60)).unwrap());
    }
    closed > 0
}

/// It ends by itself: while all are paused, nobody can end it.
pub(super) fn pause(server: &Server, which: &str, time: Duration) -> bool {
    server.run(&["CLIENT", "PAUSE", &time.as_millis().to_string(), which]);
    thread::sleep(time);
    // The time is over at the server too.
    undo(|| server.try_run(&["CLIENT", "UNPAUSE"]).is_ok());
    true
}

pub(super) fn password(server: &Server, time: Duration) -> bool {
    let before = errors(server, "NOAUTH");
    server.run(&["CONFIG", "SET", "requirepass", "changed"]);
    server.kill_clients();
    thread::sleep(time);
    // The connection of the harness may have been lost meanwhile, and cannot be made anew before that.
    let with_password = format!("redis://:changed@127.0.0.1:{}", server.port());
    undo(|| {
        let client = Client::open(with_password.as_str()).unwrap();
        let connection = client.get_connection_with_timeout(Duration::from_secs(2));
        connection.is_ok_and(|mut connection| {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("requirepass").arg("").exec(&mut connection).is_ok()
        })
    });
    errors(server, "NOAUTH") > before
}
