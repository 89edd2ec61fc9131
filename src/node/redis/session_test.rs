//! Goal: no answer counts if the server exchanged its data or stepped its clock meanwhile; and no command that is
//! useless after the end of a lease may be executed later than that.
//!
//! Method: a connection whose other end the test holds, to decide what arrives in which order.

use futures::{FutureExt as _, future::join};
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::{
    node::{
        Fleet, NodeContext, NodeSettings,
        redis::{
            liveness::{Down, MOST_UNANSWERED},
            push::Listener,
            script::{LEAVE, List},
            votes,
        },
    },
    protocol::{ClientId, Command, Members, NodeId, Owner, Reply, Resource},
    runtime::ByHand,
};

const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const CLIENT: ClientId = ClientId::new([7; 8]);

/// The server's clock, in microseconds.
const CLOCK: u64 = 1_700_000_000_000_000;

/// The message that all its data was dropped or exchanged.
const EXCHANGED: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// A session, and the server's end of its connection.
struct Scripted {
    session: Session,
    clock: Arc<ByHand>,
    server: DuplexStream,
    _fleet: Arc<Fleet>,
}

fn vote(clock: u64) -> String {
    format!("*2\r\n:1\r\n:{clock}\r\n")
}

/// What a look has shown of a node that is ready, with this high-water mark.
fn marker(high_water: u64) -> Arc<CachedMarker> {
    let text = |text: &str| Value::BulkString(text.into());
    let fields = [
        text("this/0/0"),
        text(&head(high_water)),
        text("77"),
        text("1"),
        text("0"),
        Value::Int(i64::try_from(high_water).unwrap()),
        text("5000"),
        text(""),
        text("0"),
    ];
    Arc::new(CachedMarker::read(true, &fields).unwrap())
}

fn head(high_water: u64) -> String {
    format!("77.1/this/0/0 {high_water:016} {:016}", 50)
}

impl Scripted {
    #[allow(clippy::disallowed_methods, reason = "what drives the connection of the test")]
    async fn new() -> Self {
        let (clock, fleet) = (Arc::new(ByHand::default()), Arc::new(Fleet::default()));
        let settings = NodeSettings {
            connect_timeout: NODE_TIMEOUT,
            node_timeout: NODE_TIMEOUT,
            allow_eviction: false,
            skips_quarantine: false,
            classic: false,
            counter_retention: NODE_TIMEOUT,
            members: Members::new("scripted", ["a"]),
            key_prefix: Vec::new(),
            client: CLIENT,
        };
        let (members, node) = (settings.members.clone(), NodeId::new(0));
        let runtime = Arc::clone(&clock) as Arc<dyn Runtime>;
        let context =
            NodeContext::new(node, Arc::clone(&runtime), Arc::clone(&fleet), Arc::new(settings));
        let (down, exchanges) = (Arc::new(Down::default()), Arc::new(Exchanges::default()));
        let listener = Listener {
            down: Arc::clone(&down),
            exchanges: Arc::clone(&exchanges),
            tracked: Arc::default(),
            watcher: context.watcher(),
        };
        // As in production: the library has no limit, and makes no caller wait.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MOST_UNANSWERED)
            .set_push_sender(move |push: PushInfo| {
                listener.handle(&push);
                Ok::<(), redis::aio::SendError>(())
            });
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        let (near, mut server) = tokio::io::duplex(1 << 16);
        let greeting = async {
            // HELLO, and what the library says of itself.
            assert!(server.read(&mut [0; 1 << 12]).await.unwrap() > 0);
            server.write_all(b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n").await.unwrap();
        };
        let connected = redis::aio::MultiplexedConnection::new_with_config(&info, near, config);
        let (connected, ()) = join(connected, greeting).await;
        let (connection, driver) = connected.unwrap();
        tokio::spawn(driver);
        let process = Process {
            generation: Arc::default(),
            run_id: "this".to_owned(),
            database: "0".to_owned(),
            members,
            counter_retention: NODE_TIMEOUT,
        };
        let session = Session::new(
            (Link::new(connection, down, &context), None),
            process,
            runtime,
            Arc::default(),
            exchanges,
            NODE_TIMEOUT,
            Lines::new(false, Arc::default(), context.watcher()),
        );
        Self { session, clock, server, _fleet: fleet }
    }

    /// Asks for a vote, which the server answers with all of this at once.
    async fn answered(&mut self, said: &[&str]) -> Result<Answer, NodeError> {
        let script = || Script {
            source: &LEAVE,
            keys: List::Many(Vec::new()),
            lines: &[],
            args: List::Many(Vec::new()),
        };
        let sent = self.session.now();
        let server = &mut self.server;
        let answer = async {
            assert!(server.read(&mut [0; 1 << 12]).await.unwrap() > 0);
            server.write_all(said.concat().as_bytes()).await.unwrap();
        };
        join(self.session.vote(script, sent), answer).await.0
    }
}

#[tokio::test]
async fn a_vote_beside_which_the_data_was_exchanged_does_not_count_whichever_arrives_first() {
    let mut scripted = Scripted::new().await;
    assert!(scripted.answered(&[&vote(CLOCK)]).await.is_ok());
    for said in [[EXCHANGED, &vote(CLOCK)], [&vote(CLOCK), EXCHANGED]] {
        let before = scripted.session.exchanges();
        let answer = scripted.answered(&said).await;
        assert_eq!(scripted.session.exchanges(), before + 1);
        assert_eq!(answer.unwrap_err(), NodeError::VoteLapsed);
    }
    // An answer to a later command is of the new data.
    assert!(scripted.answered(&[&vote(CLOCK)]).await.is_ok());
}

#[tokio::test]
async fn a_vote_by_a_clock_that_has_jumped_does_not_count() {
    let mut scripted = Scripted::new().await;
    assert!(scripted.answered(&[&vote(CLOCK)]).await.is_ok());
    let jumped = scripted.answered(&[&vote(CLOCK + 60_000_000)]).await;
    assert_eq!(jumped.unwrap_err(), NodeError::ClockJumped);
    assert!(scripted.answered(&[&vote(CLOCK + 60_000_000)]).await.is_ok());
}

/// The marker is read again by itself; until then nothing is sent that relies on the old one.
#[tokio::test]
async fn nothing_is_known_of_a_node_behind_an_exchange_until_a_look_that_was_sent_behind_it() {
    let mut scripted = Scripted::new().await;
    let refused = |scripted: &Scripted| scripted.session.ready().err();
    assert_eq!(refused(&scripted), Some(NodeError::NotAdmitted), "it has never been looked at");
    let before = scripted.session.exchanges();
    scripted.session.learn(before, marker(200));
    assert_eq!((refused(&scripted), scripted.session.epoch()), (None, Some(77)));
    let _ = scripted.answered(&[EXCHANGED, &vote(CLOCK)]).await;
    assert_eq!((refused(&scripted), scripted.session.epoch()), (Some(NodeError::Outdated), None));
    scripted.session.learn(before, marker(200));
    assert_eq!(refused(&scripted), Some(NodeError::Outdated), "that was under way meanwhile");
    assert!(scripted.session.known_once().is_some(), "what it was once is compared with");
    scripted.session.learn(before + 1, marker(200));
    assert_eq!(refused(&scripted), None);
}

/// A head that has fallen reveals a backup; with an old head, each acquire would cost the node more.
#[tokio::test]
async fn the_head_that_an_acquire_was_answered_with_is_the_one_that_the_next_is_sent_with() {
    let scripted = Scripted::new().await;
    scripted.session.learn(0, marker(200));
    for (told, expected) in [(300, 300), (250, 300), (400, 400)] {
        scripted.session.raise(head(told).as_bytes());
        assert_eq!(scripted.session.known().unwrap().high_water(), expected, "{told}");
    }
}

/// A restore that arrives after the end of its lease would set a key without a holder.
#[tokio::test]
async fn a_command_is_useless_at_the_end_of_its_lease_where_that_comes_before_its_own_time() {
    let mut scripted = Scripted::new().await;
    let now = scripted.session.now();
    let ends =
        |scripted: &Scripted, left| scripted.session.latest_until(now, now.saturating_add(left));
    assert_eq!(ends(&scripted, NODE_TIMEOUT), None, "its clock has never been read");
    scripted.answered(&[&vote(CLOCK)]).await.unwrap();
    let strayed = |left: Duration| left / 10;
    let own = NODE_TIMEOUT + LATE;
    for (left, limit) in [(own / 4, own / 4), (own * 4, own), (Duration::ZERO, Duration::ZERO)] {
        let latest = ends(&scripted, left).unwrap();
        let most = u64::try_from((limit + strayed(limit)).as_micros()).unwrap();
        let least = u64::try_from(limit.as_micros()).unwrap();
        assert!((CLOCK + least..=CLOCK + most).contains(&latest), "{left:?}: {latest}");
    }
    // From what is left now, not from what was left when `now` was read.
    scripted.clock.pass(own / 8);
    let latest = ends(&scripted, own / 4).unwrap();
    assert!(latest < CLOCK + u64::try_from((own / 4).as_micros()).unwrap(), "{latest}");
}

/// The results of extensions when a server gives its scripts these answers in turn, and how many scripts it was sent.
async fn extended(names: &[&str], said: &[&str]) -> (Result<Vec<bool>, NodeError>, usize) {
    let Scripted { session, mut server, _fleet, .. } = Scripted::new().await;
    let command = |name: &&str| Command::Extend {
        target: Resource::new(name.as_bytes()).unwrap().into(),
        owner: Owner::from_random([1; 16]),
        ttl: NODE_TIMEOUT,
        fenced: false,
    };
    let mut asks = votes::execute_many(Arc::new(session), names.iter().map(command).collect());
    let mut asked = 0;
    let answers = async {
        loop {
            let mut read = [0; 1 << 12];
            let count = server.read(&mut read).await.unwrap();
            for _ in String::from_utf8_lossy(&read[..count]).matches("EVALSHA") {
                server.write_all(said[asked].as_bytes()).await.unwrap();
                asked += 1;
            }
        }
    };
    let done = tokio::select! {
        done = &mut asks => done,
        () = answers => unreachable!("it answers for ever"),
    };
    let is_extended = |reply| matches!(reply, Ok(Reply::Granted(_)));
    (done.map(|all| all.into_iter().map(is_extended).collect()), asked)
}

/// As for one key that the user has no right to: the others are extended all the same.
#[tokio::test]
async fn extensions_that_are_refused_together_are_asked_for_one_by_one_and_one_alone_is_not() {
    const NO: &str = "-NOPERM no permissions to access a key\r\n";
    const YES: &str = "*3\r\n:1\r\n:1700000000000000\r\n:1\r\n";
    let (two, asked) = extended(&["a", "b"], &[NO, NO, YES]).await;
    assert_eq!((two, asked), (Ok(vec![false, true]), 3));
    let (one, asked) = extended(&["a"], &[NO, NO]).await;
    assert!(matches!(one, Err(NodeError::Rejected { .. })), "{one:?}");
    assert_eq!(asked, 1);
}

/// Otherwise a server that hangs would be sent more and more.
#[tokio::test]
async fn a_command_that_nobody_waits_for_any_more_counts_until_it_is_answered() {
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    let Scripted { session, mut server, _fleet, .. } = Scripted::new().await;
    let link = &session.link;
    let begin = || link.begin(Room::Acquires, |command| _ = command.arg("PING"));
    let mut sent = 0;
    while let Ok(command) = begin() {
        drop(command);
        sent += 1;
    }
    let mut ended = std::pin::pin!(link.ended());
    // The first poll begins to await them.
    assert!(ended.as_mut().now_or_never().is_none());
    assert_eq!(begin().err(), Some(NodeError::Overloaded));
    let answers = async {
        let mut left = sent * PING.len();
        while left > 0 {
            left -= server.read(&mut [0; 1 << 12]).await.unwrap();
        }
        server.write_all("+PONG\r\n".repeat(sent).as_bytes()).await.unwrap();
    };
    tokio::select! {
        _ = ended.as_mut() => panic!("it has not ended"),
        () = answers => {}
    }
    while begin().is_err() {
        assert!(ended.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
}
