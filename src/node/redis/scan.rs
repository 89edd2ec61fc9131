//! A page of the keys of a server that look like locks.
//!
//! It decides what looks like one: a string that is a lease's owner, or says that readers share it. It changes nothing.

use std::sync::Arc;

use futures::future::join_all;
use redis::{Cmd, Value};

use super::{liveness::Room, session::Session};
use crate::{
    node::{NodeError, Scan, ScanPage},
    protocol::{KeyHolder, Owner, Resource},
};

pub(super) async fn scan(session: Arc<Session>, scan: Scan) -> Result<ScanPage, NodeError> {
    let ask = |command: &mut Cmd| {
        command.arg("SCAN").arg(scan.cursor).arg("MATCH").arg(&*scan.pattern);
        command.arg("COUNT").arg(scan.count).arg("TYPE").arg("string");
    };
    let ScanPage { cursor, keys } = page(session.link().send(Room::Others, ask).await?)?;
    // One byte more than an owner has is enough to tell.
    let values = join_all(keys.iter().map(|key| {
        session.link().send(Room::Others, move |command| {
            command.arg("GETRANGE").arg(&**key).arg(0).arg(32);
        })
    }));
    let mut found = Vec::new();
    for (key, value) in keys.iter().zip(values.await) {
        match value {
            Ok(Value::BulkString(value)) if is_lock(&value) => found.push(key.clone()),
            // Another program's, or one of another type meanwhile, or one that this user may not read.
            Ok(_) | Err(NodeError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ScanPage::new(cursor, found))
}

/// The cursor and the keys, without the nodes' own.
fn page(answer: Value) -> Result<ScanPage, NodeError> {
    let unexpected = || NodeError::Unexpected { message: Arc::from("no page of keys") };
    let Value::Array(parts) = answer else { return Err(unexpected()) };
    let [Value::BulkString(cursor), Value::Array(keys)] = parts.as_slice() else {
        return Err(unexpected());
    };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok());
    let keys = keys.iter().filter_map(|key| match key {
        Value::BulkString(key) => Some(key.as_slice()),
        _ => None,
    });
    let keys = keys.filter(|key| !key.starts_with(Resource::RESERVED.as_bytes()));
    Ok(ScanPage::new(cursor.ok_or_else(unexpected)?, keys.map(Box::from).collect()))
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
        let read = page(Value::Array(vec![text("17"), keys])).unwrap();
        assert_eq!(read, ScanPage::new(17, vec![Box::from(*b"a"), Box::from(*b"b")]));
        assert!(page(Value::Array(vec![text("x"), Value::Array(Vec::new())])).is_err());
        assert!(page(Value::Nil).is_err());
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
