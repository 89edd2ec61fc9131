//! What a worker process is told and what it answers, a line each; the same for those of other languages.
//!
//! | order | what it does | answers |
//! | --- | --- | --- |
//! | `take SLOT RESOURCE` | asks, with the client of this number | `got SLOT ASKED GOT` |
//! | `give SLOT` | releases | `gave SLOT CALLED DONE` |
//! | `hot TASKS RESOURCES HOLD PREFIX FROM UNTIL` | each task acquires, holds for so many microseconds and releases, over and over, up to then | `grant TASK ASKED GOT CALLED` for each, numbers, `done` |
//! | `queue WAITERS RESOURCE LIMIT` | so many wait in line behind one, in a known order, and are served | numbers, `done` |
//! | `pairs RESOURCE FROM UNTIL` | acquires and releases, over and over, up to then | numbers, `done` |
//!
//! A number is `number NAME VALUE`, and anything that went wrong `failed TEXT`. Times are nanoseconds of
//! CLOCK_MONOTONIC, which is the same for all processes of a machine.

use std::{fmt, str::FromStr};

/// One line to a worker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    Take { slot: usize, resource: String },
    Give { slot: usize },
    Hot(Hot),
    Queue { waiters: usize, resource: String, limit: u64 },
    Pairs { resource: String, from: u64, until: u64 },
}

/// Tasks that fight for resources.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hot {
    pub(crate) tasks: usize,
    pub(crate) resources: usize,
    /// In microseconds.
    pub(crate) hold: u64,
    pub(crate) prefix: String,
    /// What was asked for earlier is not counted.
    pub(crate) from: u64,
    /// Nobody asks later.
    pub(crate) until: u64,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Take { slot, resource } => write!(f, "take {slot} {resource}"),
            Self::Give { slot } => write!(f, "give {slot}"),
            Self::Hot(Hot { tasks, resources, hold, prefix, from, until }) => {
                write!(f, "hot {tasks} {resources} {hold} {prefix} {from} {until}")
            }
            Self::Queue { waiters, resource, limit } => {
                write!(f, "queue {waiters} {resource} {limit}")
            }
            Self::Pairs { resource, from, until } => write!(f, "pairs {resource} {from} {until}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        fn number<T: FromStr>(word: &str) -> Result<T, String> {
            word.parse().map_err(|_| format!("{word} is no number"))
        }
        let words: Vec<_> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["take", slot, resource] => {
                Self::Take { slot: number(slot)?, resource: resource.to_owned() }
            }
            ["give", slot] => Self::Give { slot: number(slot)? },
            ["hot", tasks, resources, hold, prefix, from, until] => Self::Hot(Hot {
                tasks: number(tasks)?,
                resources: number(resources)?,
                hold: number(hold)?,
                prefix: prefix.to_owned(),
                from: number(from)?,
                until: number(until)?,
            }),
            ["queue", waiters, resource, limit] => Self::Queue {
                waiters: number(waiters)?,
                resource: resource.to_owned(),
                limit: number(limit)?,
            },
            ["pairs", resource, from, until] => Self::Pairs {
                resource: resource.to_owned(),
                from: number(from)?,
                until: number(until)?,
            },
            _ => return Err(format!("no order: {line}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_as_text() {
        let resource = || "compare:1".to_owned();
        let hot =
            Hot { tasks: 3, resources: 2, hold: 2000, prefix: resource(), from: 7, until: 1 << 60 };
        for order in [
            Order::Take { slot: 1, resource: resource() },
            Order::Give { slot: 0 },
            Order::Hot(hot),
            Order::Queue { waiters: 1000, resource: resource(), limit: 9 },
            Order::Pairs { resource: resource(), from: 1, until: 2 },
        ] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        assert!("give".parse::<Order>().is_err());
    }
}
