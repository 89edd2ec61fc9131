//! Asks the Sentinels of a group where its master is, all of them again and again, and at once when one tells of a switch.
//!
//! `agreed` decides what their answers say. It must never rest on one Sentinel, nor on the text of a message.

mod agreed;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{Either, join_all, select};
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, PushInfo, PushKind, aio::MultiplexedConnection,
};
use tokio::sync::{Notify, watch};

use self::agreed::{Agreed, Answer, TOLD_FOR, agree, needed};
use super::{
    address::{Group, Place},
    errors,
    resolve::Resolver,
};
use crate::{
    lock::Lock,
    node::{NodeContext, NodeError, Refusal},
    protocol::Timestamp,
    runtime::Runtime,
    shield::persist,
};

/// The time from one question to the next.
const EVERY: Duration = Duration::from_secs(1);

/// How long a Sentinel may take for an answer before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before a Sentinel that failed is connected to again.
const PAUSE: Duration = Duration::from_millis(500);

/// For how long a client may use a master after another client was told of the next, with a tenth for their clocks.
pub(super) const MOVES_WITHIN: Duration = Duration::from_millis(3_300);

const _: () = assert!(MOVES_WITHIN.as_millis() * 10 >= TOLD_FOR.as_millis() * 11);

/// What the Sentinels of one node have said.
pub(super) struct Sentinels {
    heard: Lock<Heard>,
    agreed: watch::Sender<Option<Agreed>>,
}

#[derive(Default)]
struct Heard {
    answers: Box<[Option<Answer>]>,
    /// Why each that fails does so.
    troubles: Box<[Option<Arc<str>>]>,
}

/// A master that they have named.
#[derive(Clone)]
pub(super) struct Master {
    sentinels: Arc<Sentinels>,
    place: Place,
}

impl Sentinels {
    pub(super) fn new(group: &Group) -> Self {
        let count = group.sentinels.len();
        let heard = Heard { answers: vec![None; count].into(), troubles: vec![None; count].into() };
        Self { heard: Lock::new(heard), agreed: watch::Sender::new(None) }
    }

    /// Asks them for ever.
    pub(super) async fn attend(&self, group: &Group, context: &NodeContext) {
        let each = (0..group.sentinels.len()).map(|index| {
            persist(move || self.attend_one(index, group, context), || sleep(context, PAUSE))
        });
        join_all(each).await;
    }

    async fn attend_one(&self, index: usize, group: &Group, context: &NodeContext) {
        let resolver = Resolver::default();
        loop {
            if let Err(reason) = self.ask(index, group, &resolver, context).await {
                self.fail(index, reason);
            }
            sleep(context, PAUSE).await;
        }
    }

    /// Asks one on one connection, until that fails.
    async fn ask(
        &self,
        index: usize,
        group: &Group,
        resolver: &Resolver,
        context: &NodeContext,
    ) -> Result<(), Arc<str>> {
        let Some((_, client)) = group.sentinels.get(index) else { return Ok(()) };
        let news = Arc::new(Notify::new());
        let told = Arc::clone(&news);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_dns_resolver(resolver.clone())
            .set_push_sender(move |push: PushInfo| {
                // Of a switch, or of the end of the connection.
                if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                    told.notify_one();
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        let connection = within(context, context.connect_timeout(), connect).await;
        let mut connection = connection.map_err(|error| match resolver.refusal() {
            Some(refusal) => Arc::from(refusal.to_string()),
            None => error,
        })?;
        // A user who may not do that is told of a switch by the next answer.
        let subscribe = async { Ok(connection.subscribe("+switch-master").await.err()) };
        if let Some(error) = within(context, PATIENCE, subscribe).await?
            && !matches!(errors::of_command(&error), NodeError::Rejected { .. })
        {
            return Err(Arc::from(error.to_string()));
        }
        let id: String = query(context, &mut connection, &["MYID"]).await?;
        let id: Arc<str> = Arc::from(id);
        loop {
            let asked = context.runtime().now();
            let told: HashMap<String, String> =
                query(context, &mut connection, &["MASTER", &group.master]).await?;
            self.tell(index, read(asked, &id, &told)?, context.runtime().now());
            let next = context.runtime().sleep_until(asked.saturating_add(EVERY));
            select(next, std::pin::pin!(news.notified())).await;
        }
    }

    fn tell(&self, index: usize, answer: Answer, now: Timestamp) {
        let mut heard = self.heard.lock();
        if let Some(trouble) = heard.troubles.get_mut(index) {
            *trouble = None;
        }
        if let Some(last) = heard.answers.get_mut(index) {
            *last = Some(answer);
        }
        // Under the lock, so that no older view replaces a later one.
        if let Some(agreed) = agree(&heard.answers, now) {
            self.agreed.send_replace(Some(agreed));
        }
    }

    fn fail(&self, index: usize, reason: Arc<str>) {
        if let Some(trouble) = self.heard.lock().troubles.get_mut(index) {
            *trouble = Some(reason);
        }
    }

    /// What they name, if a client may go by that now.
    fn current(&self, now: Timestamp) -> Option<Place> {
        let agreed = self.agreed.borrow();
        agreed.as_ref().filter(|agreed| now < agreed.until).map(|agreed| agreed.place.clone())
    }

    /// Whether they name one.
    pub(super) fn name_one(&self, now: Timestamp) -> bool {
        self.current(now).is_some()
    }

    /// Waits until they name a master.
    pub(super) async fn master(self: &Arc<Self>, runtime: &Arc<dyn Runtime>) -> Master {
        let mut agreed = self.agreed.subscribe();
        loop {
            if let Some(place) = self.current(runtime.now()) {
                return Master { sentinels: Arc::clone(self), place };
            }
            // The sender is here.
            let _ = agreed.changed().await;
        }
    }

    /// Why they name none.
    pub(super) fn trouble(&self, group: &Group) -> Arc<str> {
        let heard = self.heard.lock();
        let each = group.sentinels.iter().zip(&heard.answers).zip(&heard.troubles);
        let each = each.map(|(((sentinel, _), answer), trouble)| match (trouble, answer) {
            (Some(trouble), _) => format!("{sentinel}: {trouble}"),
            (None, Some(answer)) => {
                let (id, place) = (answer.id.get(..8).unwrap_or(&answer.id), &answer.place);
                format!(
                    "{sentinel}: it is {id} and names {place} since failover {}",
                    place.failover
                )
            }
            (None, None) => format!("{sentinel}: no answer yet"),
        });
        let each = each.collect::<Vec<_>>().join("; ");
        let needed = needed(&heard.answers);
        let (master, all) = (&group.master, group.sentinels.len());
        Arc::from(format!(
            "too few Sentinels name a master `{master}`, needed={needed} configured={all}: {each}"
        ))
    }
}

impl Master {
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a client may use it now.
    pub(super) fn is_confirmed(&self, now: Timestamp) -> bool {
        let agreed = self.sentinels.agreed.borrow();
        agreed.as_ref().is_some_and(|agreed| agreed.place == self.place && now < agreed.until)
    }

    /// Ends once a client must not use it any more, with the reason.
    pub(super) async fn left(&self, group: &Group, runtime: &Arc<dyn Runtime>) -> Arc<str> {
        let mut agreed = self.sentinels.agreed.subscribe();
        loop {
            let current = agreed.borrow_and_update().clone();
            let Some(current) = current else { return self.sentinels.trouble(group) };
            if current.place != self.place {
                let reason = format!("the Sentinels name {} as the master now", current.place);
                return Arc::from(reason);
            }
            if current.until <= runtime.now() {
                return self.sentinels.trouble(group);
            }
            select(runtime.sleep_until(current.until), std::pin::pin!(agreed.changed())).await;
        }
    }
}

async fn sleep(context: &NodeContext, time: Duration) {
    let at = context.runtime().now().saturating_add(time);
    context.runtime().sleep_until(at).await;
}

/// An answer in time, or what failed.
async fn within<T>(
    context: &NodeContext,
    time: Duration,
    answer: impl Future<Output = redis::RedisResult<T>>,
) -> Result<T, Arc<str>> {
    let at = context.runtime().now().saturating_add(time);
    match select(std::pin::pin!(answer), context.runtime().sleep_until(at)).await {
        Either::Left((Ok(answer), _)) => Ok(answer),
        Either::Left((Err(error), _)) => {
            let error = errors::of_connect(&error, 0);
            Err(match error {
                NodeError::NotConnected { reason } => reason,
                NodeError::Refused(
                    Refusal::PasswordMissing { message } | Refusal::WrongCredentials { message },
                ) => Arc::from(format!(
                    "it asks for another password (`sentinel_password` in the URL), error=`{message}`"
                )),
                other => Arc::from(other.to_string()),
            })
        }
        Either::Right(_) => Err(Arc::from(format!("no answer within {time:?}"))),
    }
}

async fn query<T: FromRedisValue>(
    context: &NodeContext,
    connection: &mut MultiplexedConnection,
    what: &[&str],
) -> Result<T, Arc<str>> {
    let mut command = Cmd::new();
    command.arg("SENTINEL").arg(what);
    within(context, PATIENCE, command.query_async(connection)).await
}

fn read(
    asked: Timestamp,
    id: &Arc<str>,
    told: &HashMap<String, String>,
) -> Result<Answer, Arc<str>> {
    let field = |name: &str| {
        told.get(name).ok_or_else(|| Arc::from(format!("its answer has no field `{name}`")))
    };
    let number = |name: &str| -> Result<u64, Arc<str>> {
        field(name)?.parse().map_err(|_| Arc::from(format!("its field `{name}` is no number")))
    };
    let port =
        u16::try_from(number("port")?).map_err(|_| Arc::from("its `port` is out of range"))?;
    let failover = number("config-epoch")?;
    let place = Place { host: Arc::from(field("ip")?.as_str()), port, failover };
    let others = usize::try_from(number("num-other-sentinels")?).unwrap_or(usize::MAX);
    Ok(Answer { asked, id: Arc::clone(id), place, others })
}
