//! A PostgreSQL server of a test's own, in a directory that is gone with it.
//!
//! It listens on a socket in that directory, and on no port. It must never run as root, which the server refuses: there it
//! runs as the user `nobody`. It is stopped when dropped, and killed where that fails or the test process dies.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use quorlock_harness::{Companion, eventually};
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls};

/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Server {
    _process: Companion,
    programs: Programs,
    directory: TempDir,
}

impl Server {
    /// A server, or why there is none on this machine.
    pub(crate) fn start() -> Result<Self, String> {
        let programs = Programs::find()?;
        let directory = tempfile::Builder::new().prefix("qlf-").tempdir().unwrap();
        if let Some((user, group)) = programs.user {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let data = directory.path().join("data");
        let made =
            ["--no-sync", "--auth=trust", "--username=app", "--encoding=UTF8", "--locale=C", "-D"];
        checked(programs.command("initdb").args(made).arg(&data).output().unwrap());
        let mut command = programs.command("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(directory.path());
        for setting in
            ["listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40"]
        {
            command.args(["-c", setting]);
        }
        command.stderr(fs::File::create(directory.path().join("log")).unwrap());
        Ok(Self { _process: Companion::run(command), programs, directory })
    }

    /// A connection, which waits until the server takes any.
    pub(crate) async fn connect(&self) -> Client {
        let mut config = Config::new();
        config.host_path(self.directory.path()).user("app").dbname("postgres");
        let deadline = tokio::time::Instant::now() + SOON;
        let (client, connection) = loop {
            match config.connect(NoTls).await {
                Ok(connected) => break connected,
                // The server is starting up.
                Err(_) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}\n{}", self.log()),
            }
        };
        tokio::spawn(connection);
        client
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What is killed leaves its shared memory behind.
        let mut stop = self.programs.command("pg_ctl");
        stop.args(["stop", "--silent", "--mode=immediate", "--timeout=20", "-D"]);
        let _ = stop.arg(self.directory.path().join("data")).output();
    }
}

/// Where the programs are, and whom they run as, where this is root.
#[derive(Debug)]
struct Programs {
    folder: PathBuf,
    user: Option<(u32, u32)>,
}

impl Programs {
    fn find() -> Result<Self, String> {
        let path = env::var_os("PATH").unwrap_or_default();
        Self::find_in(&path, Path::new("/usr/lib/postgresql"))
    }

    /// On this PATH, or in the folders of versions below that, as Debian has them.
    fn find_in(path: &OsStr, versions: &Path) -> Result<Self, String> {
        let has_all = |folder: &PathBuf| {
            ["initdb", "postgres", "pg_ctl"].iter().all(|program| folder.join(program).is_file())
        };
        let versions = fs::read_dir(versions).into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        versions.sort();
        let folder = env::split_paths(path).chain(versions.into_iter().rev()).find(has_all);
        let folder = folder.ok_or(
            "there is no PostgreSQL: no initdb, postgres and pg_ctl on PATH or in /usr/lib/postgresql",
        )?;
        let user = if is_root() { Some(nobody()?) } else { None };
        Ok(Self { folder, user })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.current_dir("/");
        command
    }
}

fn is_root() -> bool {
    // The owner of this process.
    use std::os::unix::fs::MetadataExt as _;
    let own = tempfile::tempdir().unwrap();
    fs::metadata(own.path()).unwrap().uid() == 0
}

/// The numbers of the user that owns nothing, and of its group.
fn nobody() -> Result<(u32, u32), String> {
    let users = fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
    let numbers = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("nobody:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    numbers.ok_or_else(|| "PostgreSQL does not run as root, and there is no user nobody".to_owned())
}

fn checked(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn where_no_postgres_is_the_reason_is_said() {
    let empty = tempfile::tempdir().unwrap();
    let found = Programs::find_in(empty.path().as_os_str(), empty.path());
    assert!(found.unwrap_err().starts_with("there is no PostgreSQL"));
    let bin = empty.path().join("15/bin");
    fs::create_dir_all(&bin).unwrap();
    for program in ["initdb", "postgres", "pg_ctl"] {
        fs::write(bin.join(program), "").unwrap();
    }
    assert_eq!(Programs::find_in(OsStr::new(""), empty.path()).unwrap().folder, bin);
}

#[test]
fn a_server_ends_with_its_test_also_where_that_panics() {
    let Some(server) = super::server() else { return };
    let directory = server.directory.path().to_owned();
    eventually("it is up", SOON, || directory.join(".s.PGSQL.5432").exists());
    let lock = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap();
    let pid = lock.lines().next().unwrap().to_owned();
    let lives = || Command::new("kill").args(["-0", &pid]).output().unwrap().status.success();
    assert!(lives());
    let test = std::panic::catch_unwind(move || {
        let _server = server;
        panic!("planted");
    });
    assert!(test.is_err() && !lives() && !directory.exists());
}
