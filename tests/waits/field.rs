//! The waiting processes, from outside: what they are told, what they say, and which of them live.
//!
//! It judges nothing, but that none of them fails unexpectedly.

use std::{
    io::{BufRead as _, BufReader},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use quorlock_harness::Companion;

use super::{
    SOON,
    process::{self, Event, Part},
};

/// What one of them said.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) process: usize,
    pub(crate) event: Event,
}

/// All of them, by number. One that was killed leaves its number behind.
pub(crate) struct Field {
    part: Part,
    processes: Vec<Option<Companion>>,
    tell: Sender<Heard>,
    heard: Receiver<Heard>,
}

impl Field {
    /// Starts so many alike, and waits until they are connected.
    pub(crate) fn start(processes: usize, nodes: Vec<String>, ttl: Duration) -> Self {
        let (tell, heard) = channel();
        let part = Part { nodes, ttl };
        let mut field = Self { part, processes: Vec::new(), tell, heard };
        for _ in 0..processes {
            field.launch();
        }
        for _ in 0..processes {
            let heard = field.next();
            assert_eq!(heard.event, Event::Ready, "{heard:?}");
        }
        field
    }

    /// Begins one more, and does not wait for it.
    fn launch(&mut self) -> usize {
        let number = self.processes.len();
        let mut process = Companion::start(process::TEST, process::PART, self.part.to_text());
        let (tell, output) = (self.tell.clone(), BufReader::new(process.output()));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Ok(event) = line.parse() {
                    let _ = tell.send(Heard { process: number, event });
                }
            }
        });
        self.processes.push(Some(process));
        number
    }

    /// One more, connected. What others say meanwhile must be nothing.
    pub(crate) fn add(&mut self) -> usize {
        let number = self.launch();
        let heard = self.next();
        assert!(heard.process == number && heard.event == Event::Ready, "{heard:?}");
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }

    /// The next thing that any of them says.
    #[track_caller]
    pub(crate) fn next(&self) -> Heard {
        self.next_within(3 * SOON).expect("nobody says anything")
    }

    pub(crate) fn next_within(&self, time: Duration) -> Option<Heard> {
        self.heard.recv_timeout(time).ok()
    }

    pub(crate) fn process(&mut self, number: usize) -> &mut Companion {
        self.processes[number].as_mut().expect("one that lives")
    }

    /// SIGKILL, and it is gone when this returns.
    pub(crate) fn kill(&mut self, number: usize) {
        self.processes[number].take().expect("one that lives").kill();
    }

    /// Ends all that live, well.
    #[track_caller]
    pub(crate) fn end(mut self) {
        let living: Vec<usize> =
            (0..self.len()).filter(|number| self.processes[*number].is_some()).collect();
        living.iter().for_each(|number| self.process(*number).end_input());
        for number in living {
            let status = self.process(number).end(SOON);
            assert!(status.ends_with(": 0"), "process {number} ended with {status}");
        }
    }
}
