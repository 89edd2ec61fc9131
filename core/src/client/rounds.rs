//! The rounds of those who ask: what each is begun with, and what follows when it is won or lost.
//!
//! It decides that each who waits behind a leader is asked whether it goes on by what the leader's round has found, and who asks
//! next behind one whose rounds take too long for what it has asked for. What a round is, `round` decides; its driver runs it.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    AskId, Asks, Client, Event, Found, GrantId, Pause, QueueId, Waiter, all_gone, asking::Phase,
};
use crate::{
    acquisition::{GiveUp, LostRound, Next},
    line::Stand,
    queue::Place,
    round::RoundLoss,
    time::Timestamp,
};

/// For how long a resource that was waited for here is taken for one that will be waited for again.
const LATELY: Duration = Duration::from_secs(1);

/// What a request asks for, as far as it makes a difference to how its round is begun.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RoundAsked {
    /// It may have several tokens, one for each lease that follows.
    pub may_have_several: bool,
    /// It is kept behind its lease, so that some are likely to follow.
    pub lingers: bool,
    /// For how long its keys live.
    pub ttl: Duration,
}

/// How a round is begun.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RoundBegun {
    /// Whether it asks for several tokens.
    pub several: bool,
    /// What it says of its place in the lines on the nodes.
    pub stand: Option<Stand>,
    /// Tells answers that come late apart from those to another round.
    pub number: u64,
    /// Under which place of which queue what it wins may be handed on.
    pub station: Option<(QueueId, Place)>,
}

impl<G, W: Asks<M>, M: Clone, R> Client<G, W, M, R> {
    /// A round begins. It is to ask for several tokens where leases are likely to follow. A resource that nobody waits for is
    /// asked for as ever: it costs no more tokens than leases.
    pub fn begin_round(
        &mut self,
        id: AskId,
        asked: RoundAsked,
        now: Timestamp,
    ) -> Option<RoundBegun> {
        let asking = self.asking.get_mut(id.0)?;
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        let waiting = self.queues.get_mut(queue.0)?;
        let is_any = waiting.target.is_any();
        let mut several = asked.lingers;
        if leads {
            waiting.in_round = true;
            let lately = |at: Timestamp| now.saturating_since(at) < LATELY;
            several |=
                !waiting.queue.is_empty() || waiting.contended.waited_for.is_some_and(lately);
        }
        several &= asked.may_have_several;
        let station = (leads && !is_any).then_some((queue, place));
        if is_any && !leads {
            // Nobody waits here: it asks once, beside others who do.
            return Some(RoundBegun { several, stand: None, number: 0, station });
        }
        let named = several.then_some(self.settings.client);
        let (stand, number) = waiting.on_nodes.begin_round(named, asked.ttl, now);
        if stand.is_some_and(|stand| stand.ticket.is_some()) {
            self.handle_placed(queue);
        }
        Some(RoundBegun { several, stand, number, station })
    }

    /// Its round was won, as this grant. Those who wanted to know what it finds are returned: the resource is held here.
    /// Of several permits there may be more, and whoever is next asks at once.
    pub fn handle_won(
        &mut self,
        id: AskId,
        grant: GrantId,
        turn: Duration,
        now: Timestamp,
    ) -> Vec<W> {
        self.turn = turn;
        let Some(asking) = self.asking.get(id.0) else { return Vec::new() };
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        if !leads {
            self.end_asking(id);
            return Vec::new();
        }
        self.handle_place_served(queue, now);
        let Some(waiting) = self.queues.get_mut(queue.0) else { return Vec::new() };
        waiting.forget_met();
        waiting.begin_with(Pause::None);
        if waiting.target.is_any() {
            self.end_asking(id);
            return Vec::new();
        }
        waiting.in_round = false;
        waiting.queue.handle_won(place);
        waiting.stay.handle_won(now);
        waiting.held = Some(grant);
        let sharing = waiting.queue.take_sharing();
        self.forget_asking(id);
        self.handle_set_served(queue);
        all_gone(&mut self.timers, queue, sharing)
    }

    /// Its round was lost: it takes its place in the lines on the nodes, and where it has asked for a permit beside the queue, in
    /// which nobody stands, it asks for all from now on. Says when the next one begins by the lines, and whether the round is
    /// to be heard out before it is undone.
    pub fn handle_found(
        &mut self,
        id: AskId,
        request: &W,
        lost: LostRound,
        found: &Found<'_>,
    ) -> (LostRound, bool) {
        let Some(asking) = self.asking.get(id.0) else { return (lost, false) };
        let (queue, asks_once) = (asking.queue, request.asks_once());
        if lost.loss == RoundLoss::Contended && !asks_once && !request.is_given_up() {
            self.lead(id);
        }
        // Who asks once does not stand there, nor does one who asks for a permit beside the queue.
        let leads = self.asking.get(id.0).is_some_and(|asking| asking.leads);
        if asks_once || !leads {
            return (lost, false);
        }
        let lost = match lost.loss {
            RoundLoss::Contended => lost.in_line(self.stand_on_nodes(queue, found)),
            RoundLoss::NoQuorum if lost.outdated => {
                let waiting = self.queues.get_mut(queue.0);
                let waiter = waiting.and_then(|waiting| waiting.on_nodes.waiter.as_mut());
                let next = waiter.and_then(|it| it.handle_outdated_round(found.random, found.now));
                lost.in_line(next)
            }
            RoundLoss::NoQuorum | RoundLoss::TooLate | RoundLoss::Abandoned => lost,
        };
        let waiting = self.queues.get(queue.0).filter(|_| lost.in_line.is_some());
        let waiter = waiting.and_then(|waiting| waiting.on_nodes.waiter.as_ref());
        (lost, waiter.is_some_and(|waiter| waiter.hears_out()))
    }

    /// One who asks beside its queue asks for all from now on, where nobody stands there.
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

    /// Its round was lost, which is known, and has been undone, at `now`: it goes on, or is answered; and so are those behind it
    /// who wait in vain. What it says meanwhile, where it goes on, is returned; it is told how many clients stand before this
    /// one on the nodes.
    pub fn handle_lost<S>(
        &mut self,
        id: AskId,
        mut request: W,
        (lost, met): (LostRound, M),
        (turn, round_trip, random): (Duration, Option<Duration>, u8),
        now: Timestamp,
        says: impl FnOnce(&mut W, Option<u32>) -> Option<S>,
    ) -> Option<S> {
        self.turn = turn;
        let Some(asking) = self.asking.get(id.0) else {
            self.events.push_back(Event::Gone(request));
            return None;
        };
        let (queue, place, leads) = (asking.queue, asking.place, asking.leads);
        let traffic = self.acquires.traffic();
        let next = request.acquisition().handle_lost_round(lost, traffic, round_trip, random, now);
        // One that its caller gave up has found nothing.
        if leads && lost.loss != RoundLoss::Abandoned {
            self.share_loss(queue, (lost, met), request.acquisition().next_round(), now);
        }
        let (look_until, at) = match next {
            Next::Again { look_until, at } => (look_until, at),
            Next::GiveUp(told) => {
                self.give_up(id, Some(request), Some(told));
                return None;
            }
        };
        if leads && lost.loss == RoundLoss::Contended {
            self.handle_set_waits(queue, request.acquisition().started());
        }
        let said = says(&mut request, self.rank(queue));
        if request.is_given_up() {
            self.give_up(id, Some(request), None);
            return said;
        }
        let rest = if lost.loss == RoundLoss::TooLate && leads {
            // Nobody holds it, and those behind may have asked for a longer ttl.
            self.stand_back((id, queue, place), request)
        } else {
            self.stand_behind(id, request)
        };
        let Some(request) = rest else { return said };
        if self.closed {
            self.give_up(id, Some(request), Some(GiveUp::Closed));
            return said;
        }
        if let Some(asking) = self.asking.get_mut(id.0) {
            (asking.request, asking.has_paused) = (Some(request), true);
            asking.phase = Phase::Pauses { at, begins: false };
            if let Some(until) = look_until {
                asking.phase = Phase::Looks(until, at);
                self.events.push_back(Event::Look(id, until));
            }
        }
        self.go_on(id, now);
        said
    }

    /// A leader's round is lost, and it goes on at `next`. Those behind who wait in vain, by what it has met, are answered.
    fn share_loss(
        &mut self,
        id: QueueId,
        (lost, met): (LostRound, M),
        next: Timestamp,
        now: Timestamp,
    ) {
        let traffic = self.acquires.traffic();
        let Some(waiting) = self.queues.get_mut(id.0) else { return };
        if lost.found_held() {
            waiting.stay.handle_left();
        }
        waiting.in_round = false;
        waiting.begin_with(Pause::UntilFree(next));
        let out = waiting.queue.take_out(|waiter| {
            let request = &mut waiter.request;
            // A round that took as long might have been in time for it.
            waiter.in_vain = if request.is_in_time(&met) {
                None
            } else {
                request.handle_met(&met);
                request.acquisition().handle_shared_round(lost, traffic, next, now)
            };
            waiter.in_vain.is_some()
        });
        // Whether it is too late depends on what was asked for, and says nothing to those who come.
        if lost.loss != RoundLoss::TooLate {
            waiting.contended.met = Some((met, lost.found_held()));
        }
        let told: Vec<_> = out.iter().filter_map(|waiter| waiter.in_vain).collect();
        let all = all_gone(&mut self.timers, id, out).into_iter().zip(told);
        let crowd = self.acquires.waiting();
        self.events.extend(all.map(|(request, told)| Event::GiveUp(request, told, crowd)));
    }

    /// A leader whose rounds take too long for what it has asked for stands in line again, behind all others: nobody holds the
    /// resource, and a round may do for them. It is returned where nobody else stands there.
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

    /// One who has asked beside the queue, and goes on, stands in it where it came, or asks for all who stand there: then it is
    /// returned. So is one who asks once.
    fn stand_behind(&mut self, id: AskId, request: W) -> Option<W> {
        if request.asks_once() || self.asking.get(id.0).is_none_or(|asking| asking.leads) {
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
        // The leader may have gone in between, and have found nobody.
        self.next_leader(queue);
        None
    }

    /// Its driver has let go of it, in whatever way.
    pub fn handle_gone_away(&mut self, id: AskId) {
        self.give_up(id, None, None);
    }

    /// The next leader leaves the resource to others until then.
    pub fn rest_until(&mut self, id: QueueId, until: Timestamp) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.begin_with(Pause::Rest(until));
        }
    }
}
