//! User and password that are asked for at each connect, because they may change.
//!
//! It must never show them. The user's code affects no other node: it is awaited inside one attempt to connect, which
//! has its time limit and catches panics.

use std::{error::Error, fmt, future::Future, sync::Arc};

use futures::future::{BoxFuture, Either, FutureExt, select};
use redis::{Client, RedisConnectionInfo};

use crate::{
    node::{NodeContext, NodeError},
    protocol::Timestamp,
};

/// A user and a password, as [`Builder::credentials`](crate::Builder::credentials) gives them. Its `Debug` shows
/// neither.
///
/// ```
/// use quorlock::Credentials;
///
/// let credentials = Credentials::new("app", "hunter2");
/// assert_eq!(format!("{credentials:?}"), "Credentials(..)");
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// The credentials of an ACL user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// A password alone, which is that of the user `default` (`requirepass`).
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

type Given = BoxFuture<'static, Result<Credentials, Arc<str>>>;

/// The user's function that gives credentials for a node's address.
#[derive(Clone)]
pub(crate) struct CredentialSource(Arc<dyn Fn(Arc<str>) -> Given + Send + Sync>);

impl CredentialSource {
    pub(crate) fn new<F, Fut, E>(give: F) -> Self
    where
        F: Fn(Arc<str>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move |address| {
            let given = give(address);
            async move { given.await.map_err(|error| whole(&*error.into())) }.boxed()
        }))
    }

    /// The client with the credentials that are given now.
    pub(super) async fn apply(
        &self,
        client: &Client,
        address: &Arc<str>,
        context: &NodeContext,
        deadline: Timestamp,
    ) -> Result<Client, NodeError> {
        let failed = |reason: String| NodeError::NotConnected { reason: Arc::from(reason) };
        // Called inside the future that the attempt guards, since making it may panic too.
        let given =
            match select((self.0)(Arc::clone(address)), context.runtime().sleep_until(deadline))
                .await
            {
                Either::Left((given, _)) => given,
                Either::Right(_) => {
                    return Err(failed(
                        "no credentials were given within the connect timeout".into(),
                    ));
                }
            };
        let given =
            given.map_err(|error| failed(format!("no credentials were given, error=`{error}`")))?;
        let info = client.get_connection_info().clone();
        let settings = given.settings(info.redis_settings());
        Client::open(info.set_redis_settings(settings))
            .map_err(|_| failed("the credentials that were given cannot be used".into()))
    }
}

impl Credentials {
    /// Settings with these credentials. None of the URL's must be left.
    fn settings(&self, of_url: &RedisConnectionInfo) -> RedisConnectionInfo {
        let settings = RedisConnectionInfo::default()
            .set_db(of_url.db())
            .set_protocol(of_url.protocol())
            .set_password(&self.password);
        let settings = match (of_url.lib_name(), of_url.lib_ver()) {
            (Some(name), Some(version)) => settings.set_lib_name(name, version),
            _ => settings,
        };
        match &self.user {
            Some(user) => settings.set_username(user),
            None => settings,
        }
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialSource(..)")
    }
}

/// An error with its causes, in one line.
fn whole(error: &(dyn Error + 'static)) -> Arc<str> {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.extend([": ", &error.to_string()]);
        cause = error.source();
    }
    Arc::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_url_is_left_but_the_database_and_what_the_library_is_called() {
        let of_url = RedisConnectionInfo::default()
            .set_db(3)
            .set_username("old")
            .set_password("of the url")
            .set_lib_name("a name", "1.2");
        let is_kept = |settings: &RedisConnectionInfo| {
            let library = (settings.lib_name(), settings.lib_ver());
            settings.db() == 3 && library == (Some("a name"), Some("1.2"))
        };
        let named = Credentials::new("app", "hunter2").settings(&of_url);
        assert!(is_kept(&named));
        assert_eq!((named.username(), named.password()), (Some("app"), Some("hunter2")));
        let unnamed = Credentials::password("hunter2").settings(&of_url);
        assert!(is_kept(&unnamed));
        assert_eq!((unnamed.username(), unnamed.password()), (None, Some("hunter2")));
    }
}
