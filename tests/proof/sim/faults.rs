//! What can go wrong, and how often which of it is tried.

/// A fault that the nemesis knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Whatever was wrong with the network of a server is mended.
    Mend,
    /// A server is killed and comes back empty.
    Kill,
    /// It restarts with what it had.
    RestartKept,
    /// It is taken over by a process with an older copy of its data.
    RollBack,
    /// Its data is deleted, and the process goes on.
    Flush,
    /// It restarts empty behind a proxy that keeps the connections.
    RestartHidden,
    /// It is stopped for a while, and then does what has arrived.
    Pause,
    /// Its network loses messages.
    Lose,
    /// Its network is slow.
    Slow,
    /// Its clock is set back.
    StepBack,
    /// Its clock stands for a while.
    StandClock,
    /// Its clock jumps forward.
    StepAhead,
    /// What one client sends to it is lost.
    CutRequests,
    /// What it answers to one client is lost.
    CutReplies,
    /// What one client sends to it arrives late, on connections that have been given up.
    Late,
    /// What one client sends to all servers for a moment arrives seconds late: it gives its connections up, and has others
    /// then.
    Reconnect,
    /// What one client sends to it is delivered twice.
    Twice,
    /// Clients are told things of it that are not so.
    Rumour,
    /// A client's process is stopped for a while.
    PauseClient,
    /// Its machine sleeps.
    SuspendClient,
    /// Its virtual machine stands still.
    HaltClient,
    /// The same, and nobody puts its clock right.
    HaltUnnoticed,
    /// Its wall clock is stepped, there or back.
    StepWall,
    /// Its wall clock stands for a while.
    StandWall,
    /// It is killed, and started again.
    KillClient,
}

impl Fault {
    const ALL: [Self; 25] = [
        Self::Mend,
        Self::Kill,
        Self::RestartKept,
        Self::RollBack,
        Self::Flush,
        Self::RestartHidden,
        Self::Pause,
        Self::Lose,
        Self::Slow,
        Self::StepBack,
        Self::StandClock,
        Self::StepAhead,
        Self::CutRequests,
        Self::CutReplies,
        Self::Late,
        Self::Reconnect,
        Self::Twice,
        Self::Rumour,
        Self::PauseClient,
        Self::SuspendClient,
        Self::HaltClient,
        Self::HaltUnnoticed,
        Self::StepWall,
        Self::StandWall,
        Self::KillClient,
    ];

    /// The server cannot vote for a while.
    pub(crate) const fn costs_a_vote(self) -> bool {
        matches!(
            self,
            Self::Kill
                | Self::RestartKept
                | Self::RollBack
                | Self::Flush
                | Self::RestartHidden
                | Self::StepBack
                | Self::StandClock
                | Self::StepAhead
        )
    }
}

/// A weight for each fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults([u16; Fault::ALL.len()]);

impl Faults {
    /// Nothing but mending.
    pub(crate) const NONE: Self = Self([0; Fault::ALL.len()]).with(Fault::Mend, 1);

    /// Servers that are killed and stopped, and networks that are slow and lose messages.
    pub(crate) const NETWORK: Self = Self::NONE
        .with(Fault::Mend, 7)
        .with(Fault::Kill, 1)
        .with(Fault::Pause, 2)
        .with(Fault::Lose, 1)
        .with(Fault::Slow, 1);

    pub(crate) const fn with(self, fault: Fault, weight: u16) -> Self {
        let Self(mut weights) = self;
        weights[fault as usize] = weight;
        Self(weights)
    }

    /// The fault that a number stands for, of those below [`total`](Faults::total).
    pub(crate) fn pick(&self, mut number: u64) -> Fault {
        for (fault, weight) in Fault::ALL.into_iter().zip(self.0) {
            match number.checked_sub(u64::from(weight)) {
                Some(left) => number = left,
                None => return fault,
            }
        }
        Fault::Mend
    }

    const fn has(&self, fault: Fault) -> bool {
        self.0[fault as usize] > 0
    }

    /// Whether clients stand still, so that they do not see to the nodes meanwhile.
    pub(crate) const fn stop_clients(&self) -> bool {
        self.has(Fault::PauseClient)
            || self.has(Fault::SuspendClient)
            || self.has(Fault::HaltClient)
    }

    /// Whether clients are killed.
    pub(crate) const fn kill_clients(&self) -> bool {
        self.has(Fault::KillClient)
    }

    /// Whether wall clocks are wrong.
    pub(crate) const fn step_walls(&self) -> bool {
        self.has(Fault::StepWall)
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }
}

#[test]
fn each_fault_comes_as_often_as_it_should() {
    let faults = Faults::NETWORK.with(Fault::KillClient, 3);
    let count = |fault| (0..faults.total()).filter(|number| faults.pick(*number) == fault).count();
    assert_eq!(faults.total(), 15);
    assert_eq!((count(Fault::Mend), count(Fault::Pause), count(Fault::KillClient)), (7, 2, 3));
    assert_eq!(count(Fault::Late), 0);
    assert!(Fault::ALL.iter().enumerate().all(|(place, fault)| *fault as usize == place));
}
