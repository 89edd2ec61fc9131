//! One client that waits in the lines on the nodes: the production's round and waiter, from its first round to the last release.
//!
//! Goal: when it asks, and what it says, the production decides. Method: as `src/engine` does it: what was lost is undone
//! or heard out, whoever has won leaves the lines where it was denied, whoever gives up leaves all of them.

use core::time::Duration;

use crate::protocol::{
    ClientId, Command, Denial, Footprint, LineAnswer, LineHint, Mark, NodeId, Owner, Quorum, Reply,
    Resource, Round, RoundSpec, Stand, Ticket, Timestamp, Verdict, Waiter,
};

pub(crate) const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(10);
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Doing {
    Asking,
    Waiting,
    /// It waits, and will never ask again.
    Hangs,
    Holding,
    Done,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Said {
    Granted,
    Denied(Denial),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Client {
    number: u8,
    pub(crate) doing: Doing,
    waiter: Option<Waiter>,
    ticket: Option<Ticket>,
    round: Option<Round>,
    footprint: Option<Footprint>,
    rounds: u16,
    answers: [Option<Said>; NODES],
    pub(crate) token: Option<u64>,
    /// Who had won when it began, and who stood in all lines then, by the bits of their numbers.
    pub(crate) after: u8,
    pub(crate) behind: u8,
    pub(crate) wrong: Option<&'static str>,
}

pub(crate) type Outbox = Vec<(usize, Command)>;

pub(crate) const SELF: &str = "nobody names itself as one who did not come";
pub(crate) const TICKET: &str = "a place in the line is kept up to the grant";

pub(crate) fn id(number: u8) -> ClientId {
    // The order of names is not that of arrival.
    ClientId::new([9 - number; 8])
}

pub(super) fn resource() -> Resource {
    Resource::new("r").expect("a name")
}

impl Client {
    pub(crate) fn new(number: u8, after: u8, behind: u8) -> Self {
        Self {
            number,
            doing: Doing::Waiting,
            waiter: Some(Waiter::new(id(number), Quorum::of(NODES))),
            ticket: None,
            round: None,
            footprint: None,
            rounds: 0,
            answers: [const { None }; NODES],
            token: None,
            after,
            behind,
            wrong: None,
        }
    }

    fn owner(&self) -> Owner {
        let mut bytes = [self.number + 1; 16];
        bytes[..2].copy_from_slice(&self.rounds.to_be_bytes());
        Owner::from_random(bytes)
    }

    /// When it asks next, where it waits.
    pub(crate) fn next_round(&self, now: Timestamp) -> Option<Timestamp> {
        let waiter = self.waiter.as_ref().filter(|_| self.doing == Doing::Waiting)?;
        Some(if self.rounds == 0 { now } else { waiter.next_round(now) })
    }

    pub(crate) fn ask(&mut self, now: Timestamp) -> Outbox {
        let mut sent = Outbox::new();
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_heard_no_longer();
        }
        self.undo(&mut sent);
        let Some(waiter) = &mut self.waiter else { return sent };
        let stand: Stand = waiter.begin_round(now);
        if stand.skip == Some(id(self.number)) {
            self.wrong = Some(SELF);
        }
        self.rounds += 1;
        let mut spec = RoundSpec::new(resource(), self.owner(), TTL);
        (spec.hint, spec.marks) = (Some(1), [Mark::new(1, 0); NODES].into());
        spec.stand = Some(stand).filter(|stand| stand.ticket.is_some());
        self.round = Some(Round::acquire(Quorum::of(NODES), spec, now));
        (self.footprint, self.answers) = (None, [const { None }; NODES]);
        self.doing = Doing::Asking;
        self.pump(&mut sent, now);
        sent
    }

    fn pump(&mut self, sent: &mut Outbox, now: Timestamp) {
        if self.footprint.is_none()
            && let Some(round) = &mut self.round
        {
            self.footprint = round.take_footprint();
            match round.verdict() {
                Verdict::Pending => {}
                Verdict::Won => self.win(sent),
                Verdict::Lost => self.lose(now),
            }
        }
        while let Some((node, command)) = self.round.as_mut().and_then(Round::poll_command) {
            sent.push((node.index(), command));
        }
        self.undo(sent);
    }

    fn undo(&mut self, sent: &mut Outbox) {
        let owner = self.owner();
        while let Some(order) = self.footprint.as_mut().and_then(Footprint::poll_release) {
            let release = Command::Release { target: resource().into(), owner, keep: None };
            sent.push((order.node.index(), release));
        }
    }

    fn leave(&self, at: usize, sent: &mut Outbox) {
        if let Some(ticket) = self.ticket {
            let (resource, client) = (resource(), id(self.number));
            sent.push((at, Command::Leave { resource, client, ticket }));
        }
    }

    fn win(&mut self, sent: &mut Outbox) {
        self.doing = Doing::Holding;
        self.token = self.round.as_ref().and_then(Round::token).map(|token| token.get());
        self.waiter = None;
        for at in 0..NODES {
            if self.stands_at(at) {
                self.leave(at, sent);
            }
        }
    }

    fn stands_at(&self, at: usize) -> bool {
        matches!(&self.answers[at], Some(Said::Denied(denial)) if denial.rank.is_some())
    }

    fn lose(&mut self, now: Timestamp) {
        self.doing = Doing::Waiting;
        let Some(waiter) = &mut self.waiter else { return };
        let answers = self.answers.iter().enumerate().filter_map(|(at, said)| {
            let answer = match said.as_ref()? {
                Said::Granted => LineAnswer::Granted,
                Said::Denied(denial) => LineAnswer::Denied(denial),
            };
            Some((NodeId::new(at), answer))
        });
        // All nodes have lines, so that these say when it asks again.
        let _next = waiter.handle_lost_round(answers, &[None; NODES], None, 0, now);
        if self.ticket.is_some() && self.ticket != waiter.ticket() {
            self.wrong = Some(TICKET);
        }
        self.ticket = waiter.ticket();
        if waiter.hears_out()
            && let Some(footprint) = &mut self.footprint
        {
            footprint.handle_heard_out();
        }
    }

    /// An answer has come.
    pub(crate) fn hear(
        &mut self,
        at: usize,
        command: &Command,
        reply: Reply,
        now: Timestamp,
    ) -> Outbox {
        let mut sent = Outbox::new();
        let (Command::Acquire { owner, .. } | Command::Confirm { owner, .. }) = command else {
            return sent;
        };
        if *owner != self.owner() {
            return sent;
        }
        let is_acquire = matches!(command, Command::Acquire { .. });
        let (node, answer) = (NodeId::new(at), Ok(reply.clone()));
        if is_acquire {
            self.answers[at] = Some(match reply {
                Reply::Granted(_) => Said::Granted,
                Reply::Denied(denial) => Said::Denied(denial),
            });
            if let Some(footprint) = &mut self.footprint {
                footprint.handle_acquire(node, &answer);
                self.hear_late(at, &mut sent, now);
            }
        }
        if let Some(round) = &mut self.round {
            round.handle_reply(node, answer, now);
        }
        self.pump(&mut sent, now);
        sent
    }

    /// An answer to a round that is decided.
    fn hear_late(&mut self, at: usize, sent: &mut Outbox, now: Timestamp) {
        let answer = match &self.answers[at] {
            Some(Said::Granted) => LineAnswer::Granted,
            Some(Said::Denied(denial)) => LineAnswer::Denied(denial),
            None => return,
        };
        if let Some(waiter) = self.waiter.as_mut().filter(|_| self.doing == Doing::Waiting) {
            waiter.handle_late_answer(NodeId::new(at), answer, now);
        } else if self.stands_at(at) {
            self.leave(at, sent);
        }
    }

    pub(crate) fn handle_hint(&mut self, at: usize, hint: LineHint, now: Timestamp) {
        if let Some(waiter) = self.waiter.as_mut().filter(|_| self.doing != Doing::Hangs) {
            waiter.handle_hint(NodeId::new(at), hint, now);
        }
    }

    /// What it held is given back.
    pub(crate) fn give_back(&mut self) -> Outbox {
        self.doing = Doing::Done;
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_given_back();
        }
        let mut sent = Outbox::new();
        self.undo(&mut sent);
        sent
    }

    /// It waits no more.
    pub(crate) fn give_up(&mut self) -> Outbox {
        (self.doing, self.waiter) = (Doing::Done, None);
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_heard_no_longer();
        }
        let mut sent = Outbox::new();
        self.undo(&mut sent);
        (0..NODES).for_each(|at| self.leave(at, &mut sent));
        sent
    }

    /// Nothing of it is under way any more.
    pub(crate) fn forget(&mut self) {
        (self.round, self.footprint) = (None, None);
        (self.answers, self.rounds) = ([const { None }; NODES], 0);
    }
}
