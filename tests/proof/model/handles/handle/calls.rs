//! What a process sends, and what it is answered: calls that are open, rounds that are begun, and what they have won.
//!
//! Goal: each call is made in the order in which the client wants it, and answered once. It decides nothing of what follows.
//!
//! Not modelled: `handle.rs` says it. Several extensions that share a message are executed one by one, and answered together.

use core::time::Duration;

use super::{
    super::{
        Setup,
        account::{Fate, GONE, ONCE},
        kind::{Covers, Kind},
        letter::Letter,
    },
    At, Handle,
};
use crate::{
    model::{
        node::{owner, resource},
        terms::holder::small,
    },
    protocol::{
        Answer, AskId, Begun, CallId, Command, End, Failure, GrantId, LeaseAction, Leases,
        LineHint, NodeId, Owner, Reply, RoundAsked, RoundStart, Sending, Timestamp, Told, Transmit,
    },
};

/// Of which owner.
pub(crate) type Message = (u8, Letter);
/// To which node.
pub(crate) type Outbox = Vec<(usize, Message)>;

/// A round, with what it has won.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Attempt {
    /// For which request.
    pub(super) request: usize,
    /// What it asks for, or has won.
    pub(super) covers: Covers,
    pub(super) grant: Option<GrantId>,
    extensions: u8,
}

/// A call that has not been answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Open {
    id: CallId,
    node: usize,
    messages: Vec<(Message, Option<Result<Reply, Failure>>)>,
    is_several: bool,
}

impl Handle {
    /// The owner of one of its rounds.
    fn owner(&self, setup: &Setup, attempt: usize) -> u8 {
        self.number * setup.rounds as u8 + attempt as u8
    }

    /// Which of its rounds has this owner.
    pub(super) fn number_of(&self, setup: &Setup, of: Owner) -> u8 {
        let all = (0..setup.rounds).map(|attempt| self.owner(setup, attempt));
        all.into_iter().find(|number| owner(*number) == of).expect("one of its own")
    }

    /// A request begins a round, if there is one left.
    pub(super) fn begin_round(&mut self, id: AskId, index: usize, at: At<'_>) {
        let (setup, attempt) = (at.setup, self.attempts.len());
        let ask = self.account.entries[index].ask;
        let kind = ask.kind;
        if !self.has_rounds(setup) {
            return;
        }
        if let Some(asker) = self.askers.iter_mut().find(|asker| asker.index == index) {
            asker.attempt = Some(attempt);
        }
        let covers = kind.covers();
        self.attempts.push(Attempt { request: index, covers, grant: None, extensions: 0 });
        let asked = RoundAsked {
            from: None,
            target: covers.target(),
            ttl: setup.ttl(),
            min_validity: setup.validity(ask),
            lock_delay: Duration::ZERO,
            renewal: setup.policy(),
            hold_at_least: None,
            linger: setup.linger(kind),
            alone: false,
        };
        let several = self.client.tokens_wanted(id, &asked, at.now) > 1;
        // Of two slots, the upper half of all bytes says that the second comes first.
        let random = if let Kind::Permit(first) = kind { first * 128 } else { 0 };
        let start = RoundStart {
            owner: owner(self.owner(setup, attempt)),
            count: if several { 3 } else { 1 },
            hint: Some(1),
            marks: at.marks.into(),
            note: None,
            random,
            blocked: Vec::new(),
        };
        self.client.begin_round(id, &asked, start, &at.moment(), &mut |_, _| {});
    }

    /// What is to be sent next. Says whether there was anything.
    pub(super) fn send(&mut self, at: At<'_>) -> bool {
        let Some(Transmit { call, node, sending, .. }) = self.client.poll_transmit() else {
            return false;
        };
        let (commands, is_several) = match sending {
            Sending::One(command) => (vec![command], false),
            Sending::Several(commands) => (commands, true),
        };
        let messages: Option<Vec<Message>> =
            commands.iter().map(|command| self.message(command, node, at.setup)).collect();
        let node = node.index();
        match messages {
            Some(messages) => {
                self.sent.extend(messages.iter().map(|message| (node, *message)));
                let messages = messages.into_iter().map(|message| (message, None)).collect();
                self.open.push(Open { id: call, node, messages, is_several });
            }
            None => self.answer(call, Answer::Failed(Failure::NOT_SENT), at),
        }
        true
    }

    /// As it goes on the wire; `None` for what is not modelled.
    fn message(&mut self, command: &Command, node: NodeId, setup: &Setup) -> Option<Message> {
        let of = match command {
            Command::Acquire { owner, .. }
            | Command::Confirm { owner, .. }
            | Command::Extend { owner, .. }
            | Command::Release { owner, .. } => *owner,
            _ => return None,
        };
        let number = self.number_of(setup, of);
        let attempt = usize::from(number) - usize::from(self.number) * setup.rounds;
        let of_it = &mut self.attempts[attempt];
        of_it.extensions +=
            u8::from(matches!(command, Command::Extend { .. }) && node.index() == 0);
        let letter = Letter::of(command, of_it.extensions)?;
        Some((number, letter))
    }

    fn answer(&mut self, call: CallId, answer: Answer<Failure>, at: At<'_>) {
        let mut lost = Vec::new();
        self.client.handle_answers([(call, answer)], &at.moment(), &mut |request, told| {
            if let Told::Lost(..) = told {
                lost.push(request.index);
            }
        });
        for index in lost {
            if self.take_asker(index).is_none() {
                self.account.say(GONE);
            }
            // A request that has asked beside its queue, or stands back, stands there now, unless it is answered.
            let is_any = matches!(self.account.entries[index].ask.kind, Kind::Permit(_));
            if !self.leads(index) {
                self.account.stands(index, !is_any);
            }
        }
    }

    /// A node has answered.
    pub(crate) fn hear(
        &mut self,
        node: usize,
        heard: Message,
        reply: Result<Reply, Failure>,
        at: At<'_>,
    ) {
        let Some(place) = self.open_call(node, heard) else { return };
        let open = &mut self.open[place];
        let waits =
            open.messages.iter_mut().find(|(message, it)| *message == heard && it.is_none());
        if let Some((_, waits)) = waits {
            *waits = Some(reply);
        }
        if open.messages.iter().any(|(_, reply)| reply.is_none()) {
            return;
        }
        let Open { id, messages, is_several, .. } = self.open.remove(place);
        let mut replies: Vec<_> = messages.into_iter().filter_map(|(_, reply)| reply).collect();
        let answer = match replies.pop() {
            Some(reply) if !is_several => Answer::One(reply),
            last => {
                replies.extend(last);
                Answer::Several(replies)
            }
        };
        self.answer(id, answer, at);
        self.carry_out(at);
    }

    fn open_call(&self, node: usize, heard: Message) -> Option<usize> {
        let waits = |open: &Open| {
            let is_it = |(message, reply): &(Message, _)| {
                *message == heard && Option::<Result<Reply, Failure>>::is_none(reply)
            };
            open.node == node && open.messages.iter().any(is_it)
        };
        self.open.iter().position(waits)
    }

    /// Whether anybody waits for what a node says.
    pub(crate) fn hears(&self, node: usize, message: Message) -> bool {
        self.open_call(node, message).is_some()
    }

    /// A round was won.
    pub(super) fn win(&mut self, index: usize, id: GrantId, at: At<'_>) {
        let attempt = self.take_asker(index).and_then(|asker| asker.attempt);
        let Some(attempt) = attempt else { return self.account.say(GONE) };
        if let Some(data) = self.client.data_mut(id) {
            *data = attempt;
        }
        let covers = self.client.keys(id).map(|(target, _)| Covers::of(target));
        let of_it = &mut self.attempts[attempt];
        of_it.grant = Some(id);
        of_it.covers = covers.unwrap_or(of_it.covers);
        let token = self.client.leases(id).and_then(Leases::token);
        if self.account.entries[index].ask.kind == Kind::Alone {
            // The nodes have said that nobody else waits.
            for node in (0..at.setup.nodes).map(NodeId::new) {
                self.client.handle_hint(node, &resource(0), LineHint::Alone, at.now);
            }
        }
        self.begin(index, id, Begun { number: 0, token, moved: false });
    }

    /// A lease begins.
    pub(super) fn begin(&mut self, index: usize, id: GrantId, begun: Begun) {
        let Some(&attempt) = self.client.data(id) else { return };
        self.client.change(id, |leases| leases.handle_taken(begun.number));
        self.account.holds(index, attempt, begun.number);
        let covers = self.attempts[attempt].covers;
        self.account.begun.extend(begun.token.map(|token| (covers, small(token.get()))));
    }

    /// A grant goes back to the nodes.
    pub(super) fn end(&mut self, attempt: usize, id: GrantId, end: End, at: At<'_>) {
        let ended = self.client.give_back(id, end, |_, _| (), &at.moment());
        if ended.is_none() {
            self.account.say(ONCE);
        }
        self.attempts[attempt].grant = None;
        self.client.forget(id);
        self.carry_out(at);
    }

    /// What is to be told of a grant.
    pub(super) fn told(&mut self, id: GrantId, action: LeaseAction, at: At<'_>) {
        let LeaseAction::Lose(_) = action else { return };
        if self.client.leases(id).is_some_and(Leases::is_kept) {
            // Nobody has lost anything. It is given back when its timer comes.
            return;
        }
        let Some(&attempt) = self.client.data(id) else { return };
        self.account.lose(attempt);
        self.client.handle_grant_over(id);
        self.carry_out(at);
    }

    /// Rounds of which nothing is under way and nothing is held: all that is left of them are their numbers.
    pub(super) fn forget_rounds(&mut self, is_idle: bool) {
        if is_idle {
            self.released.clear();
        }
        let is_open = |index| self.askers.iter().any(|asker| asker.attempt == Some(index));
        for (index, of_it) in self.attempts.iter_mut().enumerate() {
            if is_idle && of_it.grant.is_none() && !is_open(index) {
                *of_it = Attempt { request: 0, covers: Covers::Any, grant: None, extensions: 0 };
            }
        }
    }

    /// Whether the lease of this attempt with this number holds.
    pub(super) fn holds(&self, attempt: usize, number: u64, now: Timestamp) -> bool {
        let leases = self.attempts[attempt].grant.and_then(|id| self.client.leases(id));
        leases.is_some_and(|leases| leases.left(Some(number), now).is_ok())
    }

    /// Whether something may be set for a grant that is over.
    pub(super) fn is_set_too_late(&self) -> bool {
        self.attempts.iter().filter_map(|of_it| of_it.grant).any(|id| {
            let is_over = self.client.leases(id).is_some_and(|leases| !leases.lasts());
            let footprint = self.client.footprint(id).filter(|_| is_over).cloned();
            footprint.is_some_and(|mut it| it.handle_restore_sent(NodeId::new(0)))
        })
    }

    /// What its requests hold, as far as they have been told.
    pub(crate) fn held(&self) -> impl Iterator<Item = Covers> + '_ {
        self.account.entries.iter().filter_map(|entry| match entry.fate {
            Fate::Holds { attempt, .. } => Some(self.attempts[attempt].covers),
            _ => None,
        })
    }
}
