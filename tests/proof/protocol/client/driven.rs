//! A client with a small driver: it makes the calls that there are, and tells what they come to when a test says so.

use std::{
    mem,
    ops::{Deref, DerefMut},
    time::Duration,
};

use quorlock_core::{
    Answer, AskId, CallId, ClientId, ClientSettings, Command, Denial, Drift, EpochMark, Event,
    Failure, FencingToken, GrantId, Granted, LostRound, Moment, NodeId, Owner, Place, QueueId,
    Quorum, RenewalPolicy, Reply, RoundAsked, RoundLoss, RoundStart, Sending, Stand, Target, Told,
    Transmit,
};

use super::{super::at, Client, Decided, ME, MS, TTL, runs};

/// What a node says in place of a reply, or as one.
pub(super) type Answered = Result<Reply, Failure>;

pub(super) const GRANTED: Answered = Ok(Reply::Granted(Granted::DONE));
/// With the last of 64 tokens.
pub(super) const COUNTED: Answered = Ok(Reply::Granted(Granted::at(FencingToken::new(64))));
pub(super) const LATE: Answered = Err(Failure::TIMED_OUT);

/// By the holder of the key, on a node without a line.
pub(super) fn denied() -> Answered {
    Ok(Reply::Denied(Denial::new(Some(b"other".as_slice().into()), Some(TTL))))
}

pub(super) fn moment(ms: u64) -> Moment<'static> {
    Moment { now: at(ms), steady: at(ms), turn: TTL, ..Moment::default() }
}

/// A client, what has been sent for it and not been looked at, and the calls that have not been answered.
#[derive(Clone, Debug)]
pub(super) struct Mine {
    client: Client,
    rounds: u16,
    sent: Vec<Transmit>,
    open: Vec<Transmit>,
}

impl Deref for Mine {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Mine {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// What is sent, by its name, the node, and whose key it is about.
pub(super) fn named(transmit: &Transmit) -> (&'static str, usize, Option<Owner>) {
    let command = match &transmit.sending {
        Sending::One(command) => Some(command),
        Sending::Several(all) => all.first(),
    };
    let (name, owner) = match command.unwrap() {
        Command::Acquire { owner, .. } => ("acquire", Some(*owner)),
        Command::Adopt { owner, .. } => ("adopt", Some(*owner)),
        Command::HandBack { owner, .. } => ("hand back", Some(*owner)),
        Command::Confirm { owner, .. } => ("confirm", Some(*owner)),
        Command::Extend { owner, .. } => ("extend", Some(*owner)),
        Command::Restore { owner, .. } => ("restore", Some(*owner)),
        Command::Release { owner, .. } => ("release", Some(*owner)),
        Command::Proclaim { owner, .. } => ("proclaim", Some(*owner)),
        Command::Leave { .. } => ("leave", None),
    };
    (name, transmit.node.index(), owner)
}

impl Mine {
    pub(super) fn new() -> Self {
        Self::of(ME)
    }

    /// Another process.
    pub(super) fn of(client: ClientId) -> Self {
        let client = Client::new(ClientSettings {
            quorum: Quorum::of(3),
            client,
            node_timeout: 500 * MS,
            drift: Drift::default(),
            max_ttl: 60_000 * MS,
            adapts: true,
            counts_ranges: true,
        });
        Self { client, rounds: 0, sent: Vec::new(), open: Vec::new() }
    }

    /// Makes the calls that there are. Says what has been sent since this was asked last.
    pub(super) fn takes(&mut self) -> Vec<Transmit> {
        self.sends();
        mem::take(&mut self.sent)
    }

    fn sends(&mut self) {
        while let Some(transmit) = self.client.poll_transmit() {
            self.sent.push(transmit.clone());
            self.open.push(transmit);
        }
    }

    /// The same, by names, nodes and owners.
    pub(super) fn takes_named(&mut self) -> Vec<(&'static str, usize, Option<Owner>)> {
        self.takes().iter().map(named).collect()
    }

    /// Where that has been sent since then, for this owner.
    pub(super) fn takes_nodes(&mut self, name: &str, of: Owner) -> Vec<usize> {
        let is_it =
            |(it, _, owner): &(&str, usize, Option<Owner>)| *it == name && *owner == Some(of);
        self.takes_named().into_iter().filter(is_it).map(|(_, node, _)| node).collect()
    }

    /// Tells what these nodes say to what is open there under this name, all of it together. What the log is told is returned.
    pub(super) fn answer(
        &mut self,
        (name, of): (&str, Owner),
        replies: &[(usize, Answered)],
        at: &Moment<'_>,
    ) -> Vec<LostRound> {
        self.sends();
        let of_node = |(node, reply): &(usize, Answered)| {
            let is_it = |open: &&Transmit| named(open) == (name, *node, Some(of));
            // The first that was sent is answered first.
            let open = self.open.iter().find(is_it).unwrap();
            let answer = match open.sending {
                Sending::One(_) => Answer::One(reply.clone()),
                Sending::Several(_) => Answer::Several(vec![reply.clone()]),
            };
            (open.call, answer)
        };
        let answers: Vec<_> = replies.iter().map(of_node).collect();
        self.tell(answers, at)
    }

    /// Tells what a node says of each lease of the one message that is open there.
    pub(super) fn answer_extends(&mut self, node: usize, says: &[Answered], at: &Moment<'_>) {
        self.sends();
        let is_it = |open: &&Transmit| {
            open.node.index() == node && matches!(open.sending, Sending::Several(_))
        };
        let call = self.open.iter().find(is_it).unwrap().call;
        self.tell(vec![(call, Answer::Several(says.to_vec()))], at);
    }

    fn tell(&mut self, answers: Vec<(CallId, Answer<Failure>)>, at: &Moment<'_>) -> Vec<LostRound> {
        for (call, _) in &answers {
            let index = self.open.iter().position(|open| open.call == *call).unwrap();
            self.open.remove(index);
        }
        let mut lost = Vec::new();
        self.client.handle_answers(answers, at, &mut |ask, told| {
            if let Told::Lost(round, ..) = told {
                lost.push(*round);
                ask.gone |= ask.goes_in_round;
            }
        });
        lost
    }

    /// All that is open is answered, and what follows from that: acquires are denied, and all else is done.
    pub(super) fn settles(&mut self, ms: u64) {
        loop {
            self.sends();
            let open: Vec<_> = self.open.iter().map(|open| (open.call, answered(open))).collect();
            if open.is_empty() {
                return;
            }
            self.tell(open, &moment(ms));
        }
    }

    /// Begins a round for a request that has its turn.
    pub(super) fn begins(&mut self, id: AskId, asked: &RoundAsked, count: u64, ms: u64) -> Round {
        let owner = self.begins_unsent(id, asked, count, ms);
        self.sends();
        let stand = self.sent.iter().find_map(|sent| match &sent.sending {
            Sending::One(Command::Acquire { owner: of, stand, .. }) if *of == owner => *stand,
            _ => None,
        });
        Round { owner, stand }
    }

    /// The same, before anything of it is sent. Returns the owner of its keys.
    pub(super) fn begins_unsent(
        &mut self,
        id: AskId,
        asked: &RoundAsked,
        count: u64,
        ms: u64,
    ) -> Owner {
        let owner = self.next_owner();
        self.begins_as(id, asked, ms, RoundStart { count, ..start(owner) });
        owner
    }

    /// The same, as its driver has drawn and knows it.
    pub(super) fn begins_as(
        &mut self,
        id: AskId,
        asked: &RoundAsked,
        ms: u64,
        start: RoundStart<Failure>,
    ) {
        self.client.begin_round(id, asked, start, &moment(ms), &mut |_, _| {});
    }

    /// Its last byte is zero: nobody draws lots.
    fn next_owner(&mut self) -> Owner {
        self.rounds += 1;
        let [high, low] = self.rounds.to_be_bytes();
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (high, low);
        Owner::from_random(bytes)
    }
}

/// With one token, by a hint of zero, and the first slot.
pub(super) fn start(owner: Owner) -> RoundStart<Failure> {
    let (hint, marks) = (Some(0), vec![EpochMark::default(); 3].into());
    RoundStart { owner, count: 1, hint, marks, note: None, random: 0, blocked: Vec::new() }
}

fn answered(open: &Transmit) -> Answer<Failure> {
    match &open.sending {
        Sending::One(Command::Acquire { .. }) => Answer::One(denied()),
        Sending::One(_) => Answer::One(GRANTED),
        Sending::Several(all) => Answer::Several(vec![GRANTED; all.len()]),
    }
}

/// A request that has its turn.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) id: AskId,
    pub(super) place: Place,
    pub(super) asked: RoundAsked,
}

/// A round under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) owner: Owner,
    /// What it says of its place on the nodes.
    pub(super) stand: Option<Stand>,
}

/// What is asked for, of the target of this queue.
pub(super) fn asked(client: &Mine, queue: QueueId) -> RoundAsked {
    of(client.target(queue).unwrap().clone())
}

pub(super) fn of(target: Target) -> RoundAsked {
    RoundAsked {
        from: None,
        target,
        ttl: TTL,
        min_validity: Duration::ZERO,
        lock_delay: Duration::ZERO,
        renewal: RenewalPolicy::default(),
        hold_at_least: None,
        linger: Duration::ZERO,
        alone: false,
    }
}

impl Asker {
    /// It asks for as many tokens as it is to ask for.
    pub(super) fn begins(&self, client: &mut Mine, ms: u64) -> Round {
        let count = client.tokens_wanted(self.id, &self.asked, at(ms));
        client.begins(self.id, &self.asked, count, ms)
    }

    /// More than any round leaves.
    pub(super) fn in_a_hurry(mut self) -> Self {
        self.asked.min_validity = 9_898 * MS;
        self
    }

    /// Its round is lost, and has shown nothing of lines.
    pub(super) fn loses(&self, client: &mut Mine, loss: RoundLoss, ms: u64) -> LostRound {
        let asker =
            if loss == RoundLoss::TooLate { self.clone().in_a_hurry() } else { self.clone() };
        // Where it is to be too late, a moment goes by.
        let begun = if loss == RoundLoss::TooLate { ms - 1 } else { ms };
        let round = asker.begins(client, begun);
        let says = match loss {
            RoundLoss::Contended => denied(),
            RoundLoss::NoQuorum => Err(Failure::NOT_SENT),
            RoundLoss::TooLate => COUNTED,
            RoundLoss::Abandoned => panic!("no node says so"),
        };
        let lost = round.hears(client, says, &moment(ms));
        assert_eq!(lost.loss, loss);
        lost
    }

    /// Its round is won.
    pub(super) fn wins(&self, client: &mut Mine, ms: u64) -> (GrantId, Vec<Decided>) {
        self.begins(client, ms).wins(client, COUNTED, ms)
    }
}

impl Round {
    /// All nodes say the same at once, and it is lost.
    pub(super) fn hears(self, client: &mut Mine, says: Answered, at: &Moment<'_>) -> LostRound {
        let all = [0, 1, 2].map(|node| (node, says.clone()));
        let lost = client.answer(("acquire", self.owner), &all, at);
        assert_eq!(lost.len(), 1);
        lost[0]
    }

    /// These nodes say this.
    pub(super) fn is_told(
        self,
        client: &mut Mine,
        replies: &[(usize, Answered)],
        ms: u64,
    ) -> Option<LostRound> {
        client.answer(("acquire", self.owner), replies, &moment(ms)).pop()
    }

    /// All nodes grant it. What else is decided with that is returned.
    pub(super) fn wins(
        self,
        client: &mut Mine,
        says: Answered,
        ms: u64,
    ) -> (GrantId, Vec<Decided>) {
        let all = [0, 1, 2].map(|node| (node, says.clone()));
        assert!(self.is_told(client, &all, ms).is_none());
        won(runs(client, ms))
    }
}

/// What was won, and what else was decided.
pub(super) fn won(mut events: Vec<Decided>) -> (GrantId, Vec<Decided>) {
    let is_won = |event: &Decided| matches!(event, Event::Won { .. });
    let index = events.iter().position(is_won).unwrap();
    let Event::Won { grant, .. } = events.remove(index) else { unreachable!() };
    (grant, events)
}

pub(super) const fn node(index: usize) -> NodeId {
    NodeId::new(index)
}
