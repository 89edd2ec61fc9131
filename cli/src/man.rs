//! The man pages, made of the same words as the help: one for the command itself, and one for each subcommand.

use std::{io::stdout, path::PathBuf, process::ExitCode};

use clap::Args;

use crate::exit::{Failure, Status};

/// Prints a man page, or writes all of them
#[derive(Args, Clone, Debug)]
pub(crate) struct Man {
    /// The subcommand whose page is printed; without it that of `quorlock` itself
    #[arg(value_name = "COMMAND")]
    of: Option<String>,
    /// All pages are written to this directory, as in `--dir /usr/local/share/man/man1`
    #[arg(long, value_name = "DIR", conflicts_with = "of")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn print(self, line: clap::Command) -> Result<ExitCode, Failure> {
        // `quorlock help` has no page.
        let mut line = line.disable_help_subcommand(true);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(Status::Failed, format!("the man page cannot be written: {error}"))
        };
        if let Some(dir) = self.dir {
            let written = clap_mangen::generate_to(line, &dir);
            return written.map(|()| Status::Done.into()).map_err(|error| {
                let dir = dir.display();
                failed(&format!("{dir}: {error}"))
            });
        }
        line.build();
        let page = match self.of {
            None => line,
            Some(name) => {
                let asked = line.find_subcommand(&name).filter(|asked| !asked.is_hide_set());
                let unknown =
                    || Failure::new(Status::Usage, format!("there is no subcommand `{name}`"));
                asked.cloned().ok_or_else(unknown)?
            }
        };
        let printed = clap_mangen::Man::new(page).render(&mut stdout());
        printed.map(|()| Status::Done.into()).map_err(|error| failed(&error))
    }
}
