//! Pages of what a server has: the keys that look like locks, and the lines.
//!
//! It decides what looks like a lock: a string that is a lease's owner, or says that readers share it. It changes nothing.

use std::sync::Arc;

use futures::future::join_all;
use redis::{Cmd, Value, from_redis_value};

use super::{liveness::Room, script::LINE, session::Session};
use crate::{
    node::{NodeError, NodeLine, Page, Scan, pattern::matches},
    protocol::{KeyHolder, LinePlace, Owner, Resource, Slots, Ticket},
};

pub(super) async fn keys(session: Arc<Session>, scan: Scan) -> Result<Page<Box<[u8]>>, NodeError> {
    let Page { cursor, found: mut keys } = names(&session, &scan, &scan.pattern, "string").await?;
    keys.retain(|key| !is_the_nodes(key));
    // One byte more than an owner has is enough to tell.
    let values =
        join_all(keys.iter().map(|key| {
            ask(&session, move |command| command.arg("GETRANGE").arg(key).arg(0).arg(32))
        }));
    let mut found = Vec::new();
    for (key, value) in keys.iter().zip(values.await) {
        match value {
            Ok(Value::BulkString(value)) if is_lock(&value) => found.push(Box::from(&**key)),
            // Another program's, or one of another type meanwhile, or one that this user may not read.
            Ok(_) | Err(NodeError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Page::new(cursor, found))
}

pub(super) async fn lines(session: Arc<Session>, scan: Scan) -> Result<Page<NodeLine>, NodeError> {
    // The line of a semaphore has a longer name, so that the server is asked for all.
    let Page { cursor, found: keys } =
        names(&session, &scan, &[LINE, b"*"].concat(), "zset").await?;
    let wanted = keys.iter().filter_map(|key| {
        let line = key.strip_prefix(LINE)?;
        let key = Slots::semaphore_of_line(line).unwrap_or(line);
        matches(&scan.pattern, key).then_some(line)
    });
    let told = join_all(wanted.map(|line| {
        let key = [LINE, line].concat();
        let session = &session;
        async move {
            let (first, count) = futures::join!(
                // The holder of several tokens may stand before them.
                ask(session, |command| {
                    command.arg("ZRANGE").arg(&key).arg(0).arg(NodeLine::TOLD).arg("WITHSCORES")
                }),
                ask(session, |command| command.arg("ZCARD").arg(&key)),
            );
            // One of another type by now is none. Who may not read it has not told.
            match first.and_then(|first| Ok((first, count?))) {
                Ok((first, count)) => Ok(self::line(line, first, count)),
                Err(NodeError::Rejected { code, .. }) if &*code == "WRONGTYPE" => Ok(None),
                Err(error) => Err(error),
            }
        }
    }));
    let told: Result<Vec<Option<NodeLine>>, NodeError> = told.await.into_iter().collect();
    Ok(Page::new(cursor, told?.into_iter().flatten().collect()))
}

/// A page of names of this type.
async fn names(
    session: &Session,
    scan: &Scan,
    pattern: &[u8],
    of_type: &str,
) -> Result<Page<Vec<u8>>, NodeError> {
    let asked = ask(session, |command| {
        command.arg("SCAN").arg(scan.cursor).arg("MATCH").arg(pattern);
        command.arg("COUNT").arg(scan.count).arg("TYPE").arg(of_type)
    });
    page(asked.await?)
}

async fn ask(
    session: &Session,
    write: impl for<'a> Fn(&'a mut Cmd) -> &'a mut Cmd,
) -> Result<Value, NodeError> {
    let write = |command: &mut Cmd| {
        write(command);
    };
    session.link().send(Room::Others, write).await
}

/// The cursor and the names.
fn page(answer: Value) -> Result<Page<Vec<u8>>, NodeError> {
    let unexpected = || NodeError::Unexpected { message: Arc::from("no page of keys") };
    let (cursor, keys): (Vec<u8>, Vec<Vec<u8>>) =
        from_redis_value(answer).map_err(|_| unexpected())?;
    let cursor = std::str::from_utf8(&cursor).ok().and_then(|cursor| cursor.parse().ok());
    Ok(Page::new(cursor.ok_or_else(unexpected)?, keys))
}

/// A line in which somebody waits; `None` where nobody does, and where others have put something else.
fn line(name: &[u8], first: Value, count: Value) -> Option<NodeLine> {
    let named: Vec<(Vec<u8>, f64)> = from_redis_value(first).ok()?;
    let count: usize = from_redis_value(count).ok()?;
    // A cast of a float ends at the ends of the number, and a ticket is smaller than either.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let ticket = |score: f64| Ticket::new(score as u64);
    let places = named.iter().map(|(name, score)| LinePlace::read(name, ticket(*score)));
    let (mut first, mut others): (Vec<LinePlace>, usize) = (Vec::new(), 0);
    places.for_each(|place| match place {
        Some(place) => first.push(place),
        None => others += 1,
    });
    first.truncate(NodeLine::TOLD);
    let waiting = count.saturating_sub(others).max(first.len());
    (!first.is_empty()).then(|| NodeLine::new(name, first, waiting))
}

fn is_the_nodes(key: &[u8]) -> bool {
    key.starts_with(Resource::RESERVED.as_bytes())
}

fn is_lock(value: &[u8]) -> bool {
    Owner::from_hex(value).is_some() || value == KeyHolder::SHARED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_page_has_a_cursor_and_no_keys_of_the_nodes() {
        let keys = Value::Array(vec![text("a"), text("quorlock:line:a"), text("b")]);
        let Page { cursor, found } = page(Value::Array(vec![text("17"), keys])).unwrap();
        let found: Vec<Vec<u8>> = found.into_iter().filter(|key| !is_the_nodes(key)).collect();
        assert_eq!((cursor, found), (17, vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(page(Value::Array(vec![text("x"), Value::Array(Vec::new())])).is_err());
        assert!(page(Value::Nil).is_err());
    }

    /// Both forms of a protocol, and what others have put there.
    #[test]
    fn a_line_has_places_with_tickets_and_the_holder_is_none() {
        let [bang, one, reader] =
            ["!00000000000000aa", "00000000000000bb", "~00000000000000cc"].map(text);
        let flat = [bang.clone(), text("-1"), one.clone(), text("7"), reader.clone(), text("8.2")];
        let pairs = [(bang, -1.0), (one, 7.0), (reader, 8.2)]
            .map(|(name, at)| Value::Array(vec![name, Value::Double(at)]));
        for told in [Value::Array(flat.to_vec()), Value::Array(pairs.to_vec())] {
            let line = line(b"r", told, Value::Int(205)).unwrap();
            let seen: Vec<(u64, bool)> =
                line.first.iter().map(|place| (place.ticket.get(), place.reads)).collect();
            assert_eq!(seen, [(7, false), (8, true)]);
            assert_eq!((line.waiting, line.is_semaphore), (204, false));
        }
        assert_eq!(line(b"r", Value::Array(vec![text("hello"), text("1")]), Value::Int(1)), None);
        assert_eq!(line(b"r", Value::Okay, Value::Int(1)), None);
    }

    #[test]
    fn an_owner_and_the_word_of_readers_look_like_locks() {
        assert!(is_lock(b"07070707070747078707070707070707"));
        assert!(is_lock(b"shared by readers, see quorlock."));
        for other in
            [&b""[..], b"07070707070747078707070707070707x", b"hello", b"shared by readers"]
        {
            assert!(!is_lock(other), "{other:?}");
        }
    }
}
