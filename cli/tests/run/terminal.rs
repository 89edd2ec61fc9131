//! A terminal, and none: what is typed reaches the command, Ctrl-C and Ctrl-Z do what they do, and `fg` and `bg` go on.
//!
//! A shell with job control runs on a pseudo terminal, and the test types.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    pty::openpty,
    sys::signal::Signal,
};
use quorlock_harness::eventually;

use super::host::{Host, Process, SOON};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorlock");

struct Screen {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
}

impl Screen {
    fn new(host: &Host, program: &[&str]) -> Self {
        let pty = openpty(None, None).unwrap();
        for end in [&pty.master, &pty.slave] {
            // Other processes of this test, and of tests beside it, must not inherit it.
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let (screen, keys) = (File::from(pty.master), File::from(pty.slave));
        let of = || Stdio::from(keys.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(program).stdin(of()).stdout(of()).stderr(of());
        command.env("QUORLOCK_NODES", host.fleet.urls().join(",")).current_dir(host.file(""));
        command.env("PS1", "> ").env("TERM", "dumb").env("Q", PROGRAM);
        let child = command.spawn().unwrap();
        drop((keys, command));
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reads, show) = (screen.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reads.read(&mut bytes) {
                show.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys: screen, shown }
    }

    fn shell(host: &Host) -> Self {
        Self::new(host, &["bash", "--norc", "--noprofile", "-i"])
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        eventually(&format!("{text:?} is shown"), SOON, || {
            self.shown.lock().unwrap().contains(text)
        });
    }

    /// What ends on this terminal, with its status in a file.
    #[track_caller]
    fn status(&mut self, host: &Host) -> String {
        self.types("echo $? > status\n");
        let status = host.written("status");
        std::fs::remove_file(host.file("status")).unwrap();
        status
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill() {
            println!("{error}");
        }
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the screen: {}", self.shown.lock().unwrap());
        }
    }
}

#[test]
fn what_is_typed_reaches_the_command_and_ctrl_c_ends_it() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    screen
        .types("$Q run job -- sh -c 'echo > ready; read line; echo $line > line; exec sleep 60'\n");
    host.written("ready");
    screen.types("some words\n");
    assert_eq!(host.written("line"), "some words\n");
    screen.types("\x03");
    assert_eq!(screen.status(&host), "130\n");
    host.is_free("job");
    // The terminal is that of the shell again, and the next one gets it too.
    screen.types("$Q run job -- sh -c 'read next; echo $next > next'\nmore\n");
    assert_eq!(host.written("next"), "more\n");
    assert_eq!(screen.status(&host), "0\n");
}

#[test]
fn ctrl_c_is_for_the_command_alone() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    let script =
        "trap 'echo >> asked' INT; echo > ready; while ! [ -e go ]; do sleep 0.02; done; exit 9";
    screen.types(&format!("$Q run job -- sh -c {script:?}\n"));
    host.written("ready");
    screen.types("\x03");
    eventually("it is asked", SOON, || host.read("asked") == "\n");
    assert_eq!(host.run("job --try", "true").code, 75, "it goes on");
    std::fs::write(host.file("go"), "").unwrap();
    assert_eq!(screen.status(&host), "9\n");
    assert_eq!(host.read("asked"), "\n", "asked once");
}

#[test]
fn ctrl_z_stops_it_and_fg_goes_on() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    screen.types("$Q run job --ttl 2s -- sh -c 'echo $$ > ready; read line; echo $line > line'\n");
    let command = Process::of(&host.written("ready"));
    for _ in 0..2 {
        screen.types("\x1a");
        eventually("it is stopped", SOON, || command.is_stopped());
        // The shell is there.
        assert_eq!(screen.status(&host), "148\n");
        // Longer than the ttl: its lease is renewed.
        std::thread::sleep(3 * super::host::SECOND);
        assert_eq!(host.run("job --try", "true").code, 75);
        screen.types("fg\n");
        eventually("it goes on", SOON, || !command.is_stopped());
    }
    screen.types("behind a stop\n");
    assert_eq!(host.written("line"), "behind a stop\n");
    assert_eq!(screen.status(&host), "0\n");
    host.is_free("job");
}

#[test]
fn in_the_background_it_runs_until_it_reads_and_fg_gives_it_the_terminal() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    screen.types("$Q run job -- sh -c 'echo $$ > ready; read line; echo $line > line' &\n");
    let command = Process::of(&host.written("ready"));
    eventually("it is stopped when it reads", SOON, || command.is_stopped());
    assert_eq!(screen.status(&host), "0\n", "the shell is there");
    screen.types("fg\n");
    eventually("it goes on", SOON, || !command.is_stopped());
    screen.types("from the front\n");
    assert_eq!(host.written("line"), "from the front\n");
    // And after a stop it goes on in the background. The script starts no program: a shell that is stopped as it starts
    // one waits in the kernel, and is not seen as stopped.
    screen.types(
        "$Q run job -- sh -c 'echo $$ > again; while ! [ -e go ]; do :; done; echo > gone'\n",
    );
    let command = Process::of(&host.written("again"));
    screen.types("\x1a");
    eventually("it is stopped", SOON, || command.is_stopped());
    screen.types("bg\n");
    eventually("it goes on", SOON, || !command.is_stopped());
    assert_eq!(screen.status(&host), "0\n", "the shell is there");
    std::fs::write(host.file("go"), "").unwrap();
    host.written("gone");
}

#[test]
fn in_a_pipe_what_stands_behind_it_has_the_terminal() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    // A program behind the pipe reads the terminal, as a pager does.
    screen.types("$Q run job -- sh -c 'sleep 0.3; echo text' | sh -c 'read key < /dev/tty; cat; echo $key' > all\n");
    eventually("the command has ended", SOON, || host.run("job --try", "true").code == 0);
    screen.types("key\n");
    assert_eq!(screen.status(&host), "0\n");
    assert_eq!(host.read("all"), "text\nkey\n");
    // And the command has it if it reads.
    screen.types("$Q run job -- sh -c 'echo > ready; read line; echo $line' | cat > second\n");
    host.written("ready");
    screen.types("typed\n");
    assert_eq!(screen.status(&host), "0\n");
    assert_eq!(host.read("second"), "typed\n");
}

#[test]
fn where_no_shell_is_there_to_go_on_ctrl_z_stops_nothing() {
    let host = Host::new();
    // As with `ssh -t` and `docker run -it`.
    let script = "echo $$ > ready; read line; echo $line > line";
    let mut screen = Screen::new(&host, &[PROGRAM, "run", "job", "--", "sh", "-c", script]);
    let command = Process::of(&host.written("ready"));
    screen.types("\x1a");
    screen.shows("^Z");
    screen.types("words\n");
    assert_eq!(host.written("line"), "words\n");
    command.ends();
    host.is_free("job");
}

#[test]
fn the_end_of_a_session_ends_the_command() {
    let host = Host::new();
    let mut screen = Screen::shell(&host);
    screen.types("$Q run job -- sh -c 'trap \"echo > told; exit\" HUP; echo $$ > ready; while :; do sleep 0.02; done'\n");
    let command = Process::of(&host.written("ready"));
    // As a window that is closed: the kernel sends SIGHUP to what stands in front.
    screen.child.kill().unwrap();
    command.ends();
    host.written("told");
    eventually("it is given back", SOON, || host.run("job --try", "true").code == 0);
}

#[test]
fn without_a_terminal_it_is_the_same() {
    let host = Host::new();
    let mut command = Command::new("setsid");
    command.args([
        "--wait",
        PROGRAM,
        "run",
        "job",
        "--",
        "sh",
        "-c",
        "echo > ready; exec sleep 60",
    ]);
    command.env("QUORLOCK_NODES", host.fleet.urls().join(",")).current_dir(host.file(""));
    command.stdin(Stdio::null());
    let running = host.start(command);
    host.written("ready");
    running.supervisor().signal(Signal::SIGTERM);
    assert_eq!(running.ended().code, 143);
    host.is_free("job");
}
