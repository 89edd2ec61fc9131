//! The rounds of asking requests: what each starts with, and what follows when it is won or lost.
//!
//! It decides which waiters behind a leader go on after the leader's round, and which request asks next when the
//! leader's rounds take too long for its own ttl. `round` decides what a round is; `attempts` holds the rounds under
//! way.

use alloc::{sync::Arc, vec::Vec};
use core::{mem, time::Duration};

use super::{
    AskId, Asks, Client, Event, Fails, GrantId, Met, Moment, Pause, QueueId, RoundAsked, Told,
    Waiter, all_gone, asking::Phase, on_nodes::Found,
};
use crate::{
    acquisition::{GiveUp, LostRound, Next, TurnedAway},
    concurrency::Turn,
    fencing::FencingToken,
    handover::MOST_IN_A_ROW,
    line::Stand,
    owner::Owner,
    queue::Place,
    round::RoundLoss,
    time::Timestamp,
};

/// How long a resource that was waited for here counts as likely to be waited for again.
const LATELY: Duration = Duration::from_secs(1);

/// The place that a round starts from.
pub(super) struct Placed {
    /// The client's place in the nodes' lines, as the round states it.
    pub(super) stand: Option<Stand>,
    /// The round's number, which tells its late answers apart from those to another round.
    pub(super) number: u64,
    /// The queue and place under which its grant may be handed on.
    pub(super) station: Option<(QueueId, Place)>,
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// How many tokens a round asks for: several where leases are likely to follow. Otherwise it asks for one, so that
    /// a resource uses up no more tokens than leases.
    pub fn tokens_wanted(&self, id: AskId, asked: &RoundAsked, now: Timestamp) -> u64 {
        let mut several = !asked.linger.is_zero();
        if let Some(asking) = self.asking.get(id.0).filter(|asking| asking.leads)
            && let Some(waiting) = self.queues.get(asking.queue.0)
        {
            let lately = |at: Timestamp| now.saturating_since(at) < LATELY;
            several |=
                !waiting.queue.is_empty() || waiting.contended.waited_for.is_some_and(lately);
        }
        several &= self.settings.counts_ranges && !asked.alone && asked.from.is_none();
        several &= !asked.target.is_any();
        if several { MOST_IN_A_ROW } else { 1 }
    }

    /// Takes the turn of a request whose round begins, with its queue. `None` if the request is gone; no turn if it was
    /// answered instead.
    pub(super) fn take_turn(
        &mut self,
        id: AskId,
        at: &Moment<'_>,
    ) -> Option<(QueueId, Option<Turn>)> {
        let Some(asking) = self.asking.get_mut(id.0) else {
            // Its turn was given back when the request went.
            self.let_in(at);
            return None;
        };
        let (queue, takes_place) = (asking.queue, asking.takes_place);
        let is_given_up = asking.request.as_ref().is_none_or(Asks::is_given_up);
        if self.closed || is_given_up {
            let told = self.closed.then_some(GiveUp::Closed);
            self.give_up(id, None, told);
            self.let_in(at);
            return None;
        }
        if asking.is_late(at.now) {
            // The process may have stood still since the turn was given.
            self.turn_away(id, TurnedAway::Late, at.now);
            self.let_in(at);
            return None;
        }
        let turn = asking.turn.take();
        // Open acquires of lost rounds must not block the next round. But a round that takes the place comes at once,
        // and is denied like the one before.
        if !takes_place {
            let heard_out = mem::take(&mut asking.heard_out);
            self.hear_no_longer(heard_out);
        }
        Some((queue, turn))
    }

    /// Where in the nodes' lines a round starts from.
    pub(super) fn place_of_round(
        &mut self,
        id: AskId,
        asked: &RoundAsked,
        several: bool,
        now: Timestamp,
    ) -> Placed {
        let nowhere = Placed { stand: None, number: 0, station: None };
        let Some(asking) = self.asking.get(id.0) else { return nowhere };
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        let Some(waiting) = self.queues.get_mut(queue.0) else { return nowhere };
        waiting.in_round |= leads;
        let is_any = waiting.target.is_any();
        let station = (leads && !is_any).then_some((queue, place));
        if !leads {
            // It asks beside others, and has no place in the nodes' lines.
            return Placed { station, ..nowhere };
        }
        let named = several.then_some(self.settings.client);
        let (stand, number) = waiting.on_nodes.begin_round(named, asked.ttl, now);
        if stand.is_some_and(|stand| stand.ticket.is_some()) {
            self.handle_placed(queue);
        }
        Placed { stand, number, station }
    }

    /// A request's round was won as this grant, and the request is answered. The requests that share the round's result
    /// learn that the resource is held here. A semaphore may have more permits, so that its next request asks at once.
    pub(super) fn handle_won(
        &mut self,
        id: AskId,
        grant: GrantId,
        (took, counter): (Duration, Option<FencingToken>),
        now: Timestamp,
    ) {
        let Some(asking) = self.asking.get_mut(id.0) else { return };
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        let (request, heard_out) = (asking.request.take(), mem::take(&mut asking.heard_out));
        self.hear_no_longer(heard_out);
        self.events.extend(request.map(|request| Event::Won {
            request,
            grant,
            at: now,
            took,
            counter,
        }));
        if !leads {
            self.end_asking(id);
            return;
        }
        self.handle_place_served(queue, now);
        let Some(waiting) = self.queues.get_mut(queue.0) else { return };
        waiting.forget_met();
        waiting.begin_with(Pause::None);
        if waiting.target.is_any() {
            self.end_asking(id);
            return;
        }
        waiting.in_round = false;
        waiting.queue.handle_won(place);
        waiting.stay.handle_won(now);
        waiting.held = Some(grant);
        let sharing = waiting.queue.take_sharing();
        self.forget_asking(id);
        self.handle_set_served(queue);
        let sharing = all_gone(&mut self.timers, queue, sharing);
        self.events.extend(sharing.into_iter().map(|request| Event::HeldHere(request, grant)));
    }

    /// A request's round was lost: the request takes its place in the nodes' lines. If it asked for a permit beside an
    /// empty queue, it leads that from now on. Returns when the lines call for the next round, and whether the lost one
    /// is heard out before it is undone.
    pub(super) fn handle_found(
        &mut self,
        id: AskId,
        lost: LostRound,
        found: &Found<'_>,
    ) -> Option<(LostRound, bool)> {
        let asking = self.asking.get_mut(id.0)?;
        asking.takes_place = !found.stood;
        let (queue, request) = (asking.queue, asking.request.as_ref()?);
        let (asks_once, stays_out) =
            (request.asks_once(), request.is_given_up() || request.adopts());
        if lost.loss == RoundLoss::Contended && !asks_once && !stays_out {
            self.lead(id);
        }
        // A request for one round, or beside the queue, has no place in the lines.
        let leads = self.asking.get(id.0).is_some_and(|asking| asking.leads);
        if asks_once || !leads {
            return Some((lost, false));
        }
        let lost = match lost.loss {
            RoundLoss::Contended => lost.in_line(self.stand_on_nodes(queue, found)),
            RoundLoss::NoQuorum if lost.outdated => {
                let waiting = self.queues.get_mut(queue.0);
                let waiter = waiting.and_then(|waiting| waiting.on_nodes.waiter.as_mut());
                let next =
                    waiter.and_then(|it| it.handle_outdated_round(found.random, found.at.now));
                lost.in_line(next)
            }
            RoundLoss::NoQuorum | RoundLoss::TooLate | RoundLoss::Abandoned => lost,
        };
        let waiting = self.queues.get(queue.0).filter(|_| lost.in_line.is_some());
        let waiter = waiting.and_then(|waiting| waiting.on_nodes.waiter.as_ref());
        Some((lost, waiter.is_some_and(|waiter| waiter.hears_out())))
    }

    /// A request beside its queue leads that from now on, if nobody stands there.
    fn lead(&mut self, id: AskId) {
        let Some(asking) = self.asking.get_mut(id.0).filter(|asking| !asking.leads) else { return };
        let queue = asking.queue;
        if let Some(waiting) = self.queues.get_mut(queue.0).filter(|_| !self.closed) {
            asking.leads = waiting.queue.ask_at(asking.place);
            if asking.leads {
                self.handle_set_served(queue);
            }
        }
    }

    /// A round was lost and undone: its request goes on or is answered, and so do waiters behind it that wait in vain.
    pub(super) fn handle_lost(
        &mut self,
        id: AskId,
        met: Arc<Met<E>>,
        owner: Owner,
        random: u8,
        at: &Moment<'_>,
        log: &mut dyn FnMut(&mut W, Told<'_>),
    ) {
        let (lost, now, traffic) = (met.lost, at.now, self.acquires.traffic());
        let Some(asking) = self.asking.get_mut(id.0) else { return };
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        asking.attempt = None;
        let Some(mut request) = asking.request.take() else { return };
        log(&mut request, Told::Lost(&lost, owner, met.granted.len()));
        request.handle_met(&met);
        if lost.loss == RoundLoss::TooLate {
            // Before another request may ask.
            let heard_out = mem::take(&mut asking.heard_out);
            self.hear_no_longer(heard_out);
        }
        let acquisition = request.acquisition();
        let next = acquisition.handle_lost_round(lost, traffic, at.round_trip, random, now);
        if leads {
            self.share_loss(queue, met, request.acquisition().next_round(), now);
        }
        let (look_until, pause_until) = match next {
            Next::Again { look_until, at } => (look_until, at),
            Next::GiveUp(told) => return self.give_up(id, Some(request), Some(told)),
        };
        if leads && lost.loss == RoundLoss::Contended {
            self.handle_set_waits(queue, request.acquisition().started());
        }
        log(&mut request, Told::Waits(self.rank(queue)));
        if request.is_given_up() {
            return self.give_up(id, Some(request), None);
        }
        let rest = if lost.loss == RoundLoss::TooLate && leads {
            // Nobody holds it, and a request behind may have asked for a longer ttl.
            self.stand_back((id, queue, place), request)
        } else {
            self.stand_behind(id, request)
        };
        let Some(request) = rest else { return };
        if self.closed {
            return self.give_up(id, Some(request), Some(GiveUp::Closed));
        }
        if let Some(asking) = self.asking.get_mut(id.0) {
            (asking.request, asking.has_paused) = (Some(request), true);
            asking.phase = Phase::Pauses { at: pause_until, begins: false };
            if let Some(until) = look_until {
                asking.phase = Phase::Looks(until, pause_until);
                self.events.push_back(Event::Look(id, until));
            }
        }
        self.go_on(id, now);
    }

    /// A leader's round was lost, and it goes on at `next`. Answers the waiters that, by what it found, wait in vain.
    fn share_loss(&mut self, id: QueueId, met: Arc<Met<E>>, next: Timestamp, now: Timestamp) {
        let (lost, traffic) = (met.lost, self.acquires.traffic());
        let Some(waiting) = self.queues.get_mut(id.0) else { return };
        if lost.found_held() {
            waiting.stay.handle_left();
        }
        waiting.in_round = false;
        waiting.begin_with(Pause::UntilFree(next));
        let out = waiting.queue.take_out(|waiter| {
            let request = &mut waiter.request;
            // A round as long might have been in time for it.
            waiter.in_vain = if request.is_in_time(&met) {
                None
            } else {
                request.handle_met(&met);
                request.acquisition().handle_shared_round(lost, traffic, next, now)
            };
            waiter.in_vain.is_some()
        });
        // Too late depends on what the leader asked for and tells a later request nothing; nor does an earlier round.
        if lost.loss == RoundLoss::TooLate {
            waiting.forget_met();
        } else {
            waiting.contended.met = Some((met, lost.found_held()));
        }
        let told: Vec<_> = out.iter().filter_map(|waiter| waiter.in_vain).collect();
        let all = all_gone(&mut self.timers, id, out).into_iter().zip(told);
        let crowd = self.acquires.waiting();
        self.events.extend(all.map(|(request, told)| Event::GiveUp(request, told, crowd)));
    }

    /// A leader whose rounds take too long for its request stands in line again, behind all others: nobody holds the
    /// resource, and a round may do for them. Returns the request if nobody else waits.
    fn stand_back(&mut self, (id, queue, place): (AskId, QueueId, Place), request: W) -> Option<W> {
        let Some(waiting) = self.queues.get_mut(queue.0) else { return Some(request) };
        match waiting.queue.stand_back(place, Waiter::new(request)) {
            Ok(place) => {
                let wakeup = self.look_at(queue, place);
                self.wake(wakeup);
                self.end_asking(id);
                None
            }
            Err(waiter) => Some(waiter.request),
        }
    }

    /// A request that asked beside the queue and goes on stands there under its place. Returns it if it leads the queue
    /// now, asks for one round, or adopts.
    fn stand_behind(&mut self, id: AskId, request: W) -> Option<W> {
        let stays_out = request.asks_once() || request.adopts();
        if stays_out || self.asking.get(id.0).is_none_or(|asking| asking.leads) {
            return Some(request);
        }
        self.lead(id);
        let Some(asking) = self.asking.get(id.0) else { return Some(request) };
        let (queue, place) = (asking.queue, asking.place);
        let Some(waiting) = self.queues.get_mut(queue.0).filter(|_| !asking.leads && !self.closed)
        else {
            return Some(request);
        };
        waiting.queue.stand_at(place, Waiter::new(request));
        let wakeup = self.look_at(queue, place);
        self.wake(wakeup);
        self.end_asking(id);
        // The leader may have gone in between and found nobody.
        self.next_leader(queue);
        None
    }

    /// The request that asks.
    pub fn request(&self, id: AskId) -> Option<&W> {
        self.asking.get(id.0)?.request.as_ref()
    }

    /// The next leader leaves the resource to others until then.
    pub(super) fn rest_until(&mut self, id: QueueId, until: Timestamp) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.begin_with(Pause::Rest(until));
        }
    }
}
