//! The readers and writers of madelson's DistributedLock on several servers, for .NET, which cannot be installed here: its
//! scripts to the letter, and its rounds around them.
//!
//! Source: github.com/madelson/DistributedLock at 3da3eaf (DistributedLock.Redis 1.1.1, 14 February 2026), MIT, copyright 2015
//! Michael Adelson. The scripts stand in `Primitives/RedisReaderWriterLockPrimitives.cs` and `RedisMutexPrimitive.cs`, what a
//! round does in `RedLock/RedLockAcquire.cs`, how a writer waits in `RedisDistributedReaderWriterLock.cs`. What is in braces is
//! `KEYS` and `ARGV` there too. Only its timer of renewals is left out: a test renews.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, redis};

const TRY_ACQUIRE_READ: &str = "
            if redis.call('exists', {writerKey}) == 1 then
                return 0
            end
            redis.call('sadd', {readerKey}, {lockId})
            local readerTtl = redis.call('pttl', {readerKey})
            if readerTtl < tonumber({expiryMillis}) then
                redis.call('pexpire', {readerKey}, {expiryMillis})
            end
            return 1";

const TRY_EXTEND_READ: &str = "
            if redis.call('sismember', {readerKey}, {lockId}) == 0 then
                return 0
            end
            if redis.call('pttl', {readerKey}) < tonumber({expiryMillis}) then
                redis.call('pexpire', {readerKey}, {expiryMillis})
            end
            return 1";

const RELEASE_READ: &str = "redis.call('srem', {readerKey}, {lockId})";

const TRY_ACQUIRE_WRITE: &str = "
            local writerValue = redis.call('get', {writerKey})
            if writerValue == false or writerValue == {lockId} .. '_WRITERWAITING' then
                if redis.call('scard', {readerKey}) == 0 then
                    redis.call('set', {writerKey}, {lockId}, 'px', {expiryMillis})
                    return 1
                end
                if writerValue ~= false then
                    redis.call('pexpire', {writerKey}, {expiryMillis})
                end
            end
            return 0";

/// `StringSet(key, lockId, expiry, When.NotExists)`, which is how a mark is set.
const TRY_ACQUIRE_MARK: &str =
    "return redis.call('set', {writerKey}, {lockId}, 'px', {expiryMillis}, 'nx') and 1 or 0";

const RELEASE_WRITE: &str = "
            if redis.call('get', {writerKey}) == {lockId} then
                return redis.call('del', {writerKey})
            end
            return 0";

/// The default is 30 s.
pub(super) const EXPIRY: Duration = Duration::from_secs(3);
/// For how long a round waits for its servers: a tenth of the expiry, by default.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(300);

/// What is locked by whom.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    EpochMark,
}

impl Kind {
    const fn acquire(self) -> &'static str {
        match self {
            Self::Read => TRY_ACQUIRE_READ,
            Self::Write => TRY_ACQUIRE_WRITE,
            Self::EpochMark => TRY_ACQUIRE_MARK,
        }
    }

    const fn release(self) -> &'static str {
        match self {
            Self::Read => RELEASE_READ,
            Self::Write | Self::EpochMark => RELEASE_WRITE,
        }
    }
}

/// The lock that such a client was given, and its owner.
pub(super) struct Handle {
    kind: Kind,
    id: String,
}

/// One of its clients, with a lock of this name.
pub(super) struct Madelson {
    urls: Vec<String>,
    name: &'static str,
}

/// A writer that waits: the id of its mark, once it was set.
#[derive(Default)]
pub(super) struct Waiting {
    is_not_first: bool,
    mark: Option<String>,
}

impl Waiting {
    pub(super) const fn has_mark(&self) -> bool {
        self.mark.is_some()
    }
}

fn run(url: &str, script: &str, name: &str, id: &str) -> redis::RedisResult<bool> {
    let places = [
        ("{writerKey}", "KEYS[1]"),
        ("{readerKey}", "KEYS[2]"),
        ("{lockId}", "ARGV[1]"),
        ("{expiryMillis}", "ARGV[2]"),
    ];
    let script = places.iter().fold(script.to_owned(), |text, (hole, at)| text.replace(hole, at));
    let mut connection = redis::Client::open(url)?.get_connection()?;
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(2).arg(format!("{name}.writer")).arg(format!("{name}.readers"));
    let said = eval.arg(id).arg(EXPIRY.as_millis()).query::<Option<u8>>(&mut connection)?;
    Ok(said == Some(1))
}

impl Madelson {
    pub(super) fn new(cluster: &Cluster, name: &'static str) -> Self {
        Self { urls: cluster.urls(), name }
    }

    fn is_majority(&self, count: usize) -> bool {
        count > self.urls.len() / 2
    }

    /// One round. Locks of a lost round are released, also where the answer comes too late.
    fn acquire(&self, kind: Kind, id: String) -> Option<Handle> {
        let (say, answers) = mpsc::channel();
        let ends: Vec<mpsc::Sender<bool>> = self
            .urls
            .iter()
            .map(|url| {
                let (url, name, id, say) = (url.clone(), self.name, id.clone(), say.clone());
                let (end, ended) = mpsc::channel();
                std::thread::spawn(move || {
                    let granted = run(&url, kind.acquire(), name, &id);
                    let _ = say.send(matches!(granted, Ok(true)));
                    // One that has failed may have been executed.
                    if ended.recv() == Ok(false) && !matches!(granted, Ok(false)) {
                        let _ = run(&url, kind.release(), name, &id);
                    }
                });
                end
            })
            .collect();
        let until = Instant::now() + ACQUIRE_TIMEOUT;
        let (mut granted, mut answered) = (0, 0);
        while answered < ends.len() && !self.is_majority(granted) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) = answers.recv_timeout(left) else { break };
            answered += 1;
            granted += usize::from(answer);
        }
        let is_won = self.is_majority(granted);
        for end in ends {
            let _ = end.send(is_won);
        }
        is_won.then_some(Handle { kind, id })
    }

    fn id() -> String {
        format!("host_1_{:032x}", rand::random::<u128>())
    }

    pub(super) fn try_read(&self) -> Option<Handle> {
        self.acquire(Kind::Read, Self::id())
    }

    /// The same over and over: on a busy machine a round may take longer than it waits.
    pub(super) fn read(&self) -> Handle {
        (0..50).find_map(|_| self.try_read()).expect("nobody keeps readers out")
    }

    pub(super) fn try_write(&self) -> Option<Handle> {
        self.acquire(Kind::Write, Self::id())
    }

    /// One try of a writer that waits, as `TryAcquireWriteLockAsync` does it.
    pub(super) fn wait_to_write(&self, waiting: &mut Waiting) -> Option<Handle> {
        if !std::mem::replace(&mut waiting.is_not_first, true)
            && let Some(handle) = self.try_write()
        {
            return Some(handle);
        }
        if waiting.mark.is_none() {
            let id = Self::id();
            self.acquire(Kind::EpochMark, format!("{id}_WRITERWAITING"))?;
            waiting.mark = Some(id);
        }
        self.acquire(Kind::Write, waiting.mark.clone()?)
    }

    /// The renewal that its monitor does three times in nine tenths of the expiry.
    pub(super) fn extend(&self, handle: &Handle) -> bool {
        let extended = |url: &&String| run(url, TRY_EXTEND_READ, self.name, &handle.id) == Ok(true);
        self.is_majority(self.urls.iter().filter(extended).count())
    }

    pub(super) fn release(&self, handle: Handle) {
        for url in &self.urls {
            let _ = run(url, handle.kind.release(), self.name, &handle.id);
        }
    }
}
