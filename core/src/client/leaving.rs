//! How requests leave: by themselves, by a close, or because no driver carries out decisions any more.
//!
//! It decides that the round of a leaving request is undone before the next request asks.

use alloc::vec::Vec;

use super::{AskId, Asks, Client, Event, Fails, Place, QueueId, asking::Phase, gone};
use crate::acquisition::GiveUp;

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Takes a request out of its queue, wherever it is. Its round is undone.
    pub fn leave(&mut self, id: QueueId, place: Place) -> Option<W> {
        let waiting = self.queues.get_mut(id.0)?;
        let now_at = waiting.queue.now_at(place);
        if let Some(waiter) = waiting.queue.leave(place) {
            return Some(gone(&mut self.timers, id, waiter));
        }
        let ask = waiting.asks.find(now_at)?;
        self.abandon(ask)
    }

    /// Begins no more requests. All waiters are answered, and so are requests between two rounds. A request in a round
    /// learns it when that is lost.
    pub fn close(&mut self) {
        self.closed = true;
        let mut all = self.take_all_waiting();
        let between = self.asking.iter().filter(|(_, asking)| asking.phase != Phase::Round);
        let between: Vec<AskId> = between.map(|(key, _)| AskId(key)).collect();
        all.extend(between.into_iter().filter_map(|id| self.end_asking(id)));
        self.events.extend(all.into_iter().map(|it| Event::GiveUp(it, GiveUp::Closed, 0)));
        drop(self.acquires.close());
    }

    /// Takes out all requests that wait or ask. Their rounds are undone.
    pub fn take_all(&mut self) -> Vec<W> {
        self.begins.clear();
        let mut all = self.take_all_waiting();
        let asking: Vec<AskId> = self.asking.iter().map(|(key, _)| AskId(key)).collect();
        all.extend(asking.into_iter().filter_map(|id| self.abandon(id)));
        all
    }

    /// Its caller has gone.
    pub(super) fn abandon(&mut self, id: AskId) -> Option<W> {
        let attempt = self.asking.get_mut(id.0).and_then(|asking| asking.attempt.take());
        // Before the next request asks: the round may have something to undo.
        attempt.into_iter().for_each(|attempt| self.abandon_round(attempt));
        self.end_asking(id)
    }

    /// Nobody begins its round.
    pub fn handle_gone_away(&mut self, id: AskId) {
        let request = self.abandon(id);
        self.events.extend(request.map(Event::Gone));
    }
}
