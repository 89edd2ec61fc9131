//! Two holders, one after the other, of which the first is paused beyond its lease.
//!
//! Each function says what went wrong, so that a test can ask it of a store with a fault.

use super::{Store, next_lease, short_lease, token, two_clients};

fn so(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("not so: {what}")) }
}

/// The late write is refused and changes nothing, and a holder may write again.
pub(crate) async fn write<S: Store>(of_a: &mut S, of_b: &mut S) -> Result<(), String> {
    let (a, b) = two_clients().await;
    let stale = short_lease(&a).await;
    so(of_a.write(token(&stale), "of the first").await, "the first holder writes")?;
    so(of_a.write(token(&stale), "of the first, again").await, "an equal token is let in")?;
    so(of_b.look().await == "of the first, again", "the second write counts")?;
    let current = next_lease(&b, &stale).await;
    so(of_b.write(token(&current), "of the second").await, "the second holder writes")?;
    so(!of_a.write(token(&stale), "late").await, "the first one is refused")?;
    so(of_a.read(token(&stale)).await.is_none(), "nor does it read any more")?;
    so(of_a.look().await == "of the second", "nothing was changed")?;
    let read = of_b.read(token(&current)).await;
    so(read.as_deref() == Some("of the second"), "the second one reads its own")?;
    so(of_b.write(token(&current), "of the second, again").await, "the second one goes on")?;
    so(of_b.look().await == "of the second, again", "and that counts")?;
    current.release().await.unwrap();
    Ok(())
}

/// The first holder has read, and is late with its write; the second has read too, and not written yet. Whether the store
/// took the write of the first, and what is there at the end, where the reads move the fence and where they do not.
pub(crate) async fn after_reads<S: Store>(
    of_a: &mut S,
    of_b: &mut S,
    moves: bool,
) -> (bool, String) {
    let (a, b) = two_clients().await;
    let stale = short_lease(&a).await;
    assert!(of_a.write(token(&stale), "begun").await);
    let read = async |store: &mut S, token| {
        if moves { store.read(token).await.expect("nobody later") } else { store.look().await }
    };
    let seen_by_a = read(of_a, token(&stale)).await;
    let current = next_lease(&b, &stale).await;
    let seen_by_b = read(of_b, token(&current)).await;
    let accepted = of_a.write(token(&stale), &format!("{seen_by_a}, a")).await;
    assert!(of_b.write(token(&current), &format!("{seen_by_b}, b")).await);
    current.release().await.unwrap();
    (accepted, of_b.look().await)
}

/// Where reads do not move the fence an accepted write is lost; where they do it is refused. Two pairs of writers, of which
/// each has a value of its own.
pub(crate) async fn reads_move_the_fence<S: Store>(looking: [S; 2], moving: [S; 2]) {
    for (moves, [mut of_a, mut of_b]) in [(false, looking), (true, moving)] {
        let seen = after_reads(&mut of_a, &mut of_b, moves).await;
        assert_eq!(seen, (!moves, "begun, b".to_owned()), "accepted and lost, or refused");
    }
}
