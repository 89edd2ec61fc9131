//! Standard input, output and error: those of the command, and no pipe that is full keeps it from ending in time.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
};

use nix::sys::signal::Signal;
use quorlock_harness::eventually;

use super::host::{Host, Process, SECOND, SOON};

#[test]
fn what_goes_in_comes_out() {
    let host = Host::new();
    let mut command = host.command(["job", "--", "sh", "-c", "cat; echo done >&2"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut input = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writes = std::thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writes.join().unwrap().unwrap();
    assert!(output.status.success() && output.stdout == bytes);
    assert_eq!(output.stderr, b"done\n");
}

#[test]
fn a_command_whose_output_nobody_reads_keeps_its_lease() {
    let host = Host::new();
    let script = "echo > ready; head -c 1000000 /dev/zero";
    let mut command = host.command(["job", "--ttl", "2s", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    host.written("ready");
    std::thread::sleep(4 * SECOND);
    assert_eq!(host.run("job --try", "true").code, 75);
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 1_000_000);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_command_whose_reader_has_gone_ends_as_in_a_shell() {
    let host = Host::new();
    let mut command = host.command(["job", "--", "yes"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + Signal::SIGPIPE as i32));
    host.is_free("job");
}

#[test]
fn a_full_standard_error_does_not_keep_the_command_alive() {
    let host = Host::new();
    // It fills the pipe, which it shares, and runs on beside that.
    let script = "yes >&2 & echo $$ > ready; while :; do sleep 0.02; done";
    let mut command = host.command(["job", "--ttl", "2s", "--", "sh", "-c", script]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let error = child.stderr.take().unwrap();
    let process = Process::of(&host.written("ready"));
    // All but the last page, which the writer may have begun already.
    let room = rustix::pipe::fcntl_getpipe_size(&error).unwrap() as u64;
    eventually("the pipe is full", SOON, || {
        rustix::io::ioctl_fionread(&error).unwrap() > room - 4096
    });
    let holder = Process(i32::try_from(child.id()).unwrap())
        .children()
        .into_iter()
        .find(|process| process.line().contains("hold-for-run"));
    holder.unwrap().signal(Signal::SIGKILL);
    process.ends();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(76), None));
    drop(error);
}

#[test]
fn closed_files_are_no_obstacle() {
    let host = Host::new();
    let script = format!(
        "exec 0<&- 1>&- 2>&-; {} run job -- sh -c 'echo > ran'; echo $? > status",
        env!("CARGO_BIN_EXE_quorlock")
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(host.file(""));
    command.env("QUORLOCK_NODES", host.fleet.urls().join(","));
    assert!(command.status().unwrap().success());
    assert_eq!((&*host.read("status"), &*host.read("ran")), ("0\n", "\n"));
}
