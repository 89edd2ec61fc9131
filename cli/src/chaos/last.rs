//! What is done however a run ends: the user's nodes are mended, and what the servers died of is said in words.
//!
//! The servers are those of the tests, where a fault of the machine, such as a full disk, is a panic with a message. It must
//! never let that look like a fault of this command, nor hide it.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
};

use super::handles::mend_all;
use crate::{
    exit::{Failure, Status},
    output::say,
};

/// The first message of a panic.
static CAUSE: Mutex<Option<String>> = Mutex::new(None);

pub(crate) fn mended<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|about| {
        let text = about.payload();
        let text = text.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| about.payload().downcast_ref::<&str>().copied());
        let mut cause = CAUSE.lock().unwrap_or_else(PoisonError::into_inner);
        cause.get_or_insert_with(|| text.unwrap_or("it is not known why").trim().to_owned());
    }));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(usual);
    mend_all().iter().for_each(|failure| say(&failure.text));
    result.unwrap_or_else(|_| {
        let cause = CAUSE.lock().unwrap_or_else(PoisonError::into_inner).take();
        let text = format!(
            "it could not go on, and there is no verdict: {}. Its servers and workers are gone. Look whether there is room on disk, \
             in memory and for processes, and start it again",
            short(&cause.unwrap_or_default())
        );
        Err(Failure::new(Status::Failed, text))
    })
}

/// A server's log says at its end what it died of.
fn short(cause: &str) -> String {
    let lines: Vec<&str> = cause.lines().collect();
    match *lines {
        [first, .., last] => format!("{first} {last}"),
        _ => cause.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::handles::tests::ALONE;

    #[test]
    fn what_a_server_died_of_is_said() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(short("it exited:\nstarted\nno space left"), "it exited: no space left");
        assert_eq!(mended(|| Ok(7)).map_err(|failure| failure.text), Ok(7));
        let failed: Result<(), Failure> = mended(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| panic!("no space left"));
            });
            Ok(())
        });
        let failure = failed.unwrap_err();
        assert_eq!(failure.status, Status::Failed);
        assert!(failure.text.contains("no space left"), "{}", failure.text);
    }
}
