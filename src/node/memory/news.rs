//! What a command has changed that clients are to hear of. It is told once the node's lock is free.

use crate::{
    node::Watcher,
    protocol::{ClientId, LineHint, LineNews, Resource, Ticket},
};

/// What is told of a resource.
pub(super) struct News {
    resource: Resource,
    /// Its key is gone.
    is_freed: bool,
    told: Vec<(ClientId, LineHint)>,
}

impl News {
    pub(super) fn tell(&self, watchers: &[Watcher]) {
        for (client, hint) in &self.told {
            for watcher in watchers.iter().filter(|watcher| watcher.client() == *client) {
                watcher.line(&self.resource, *hint);
            }
        }
        if self.is_freed {
            watchers.iter().for_each(|watcher| watcher.freed(&self.resource));
        }
    }
}

/// The news of one command, as they come. Nobody has heard any of it yet.
pub(super) struct Telling<'a> {
    hears: &'a dyn Fn(ClientId) -> bool,
    news: Vec<News>,
}

impl<'a> Telling<'a> {
    /// `hears` says whether a client is connected.
    pub(super) const fn new(hears: &'a dyn Fn(ClientId) -> bool) -> Self {
        Self { hears, news: Vec::new() }
    }

    /// Notes what the line of a resource has to tell, and says which of its places are stuck.
    pub(super) fn of<T>(
        &mut self,
        resource: &Resource,
        is_stuck: &dyn Fn(ClientId, Ticket) -> bool,
        look: impl FnOnce(&mut LineNews<'_>) -> T,
    ) -> T {
        let mut line = LineNews::new(self.hears).knowing(is_stuck);
        let seen = look(&mut line);
        let told = line.into_told();
        if !told.is_empty() {
            self.news.push(News { resource: resource.clone(), is_freed: false, told });
        }
        seen
    }

    /// A key is gone.
    pub(super) fn freed(&mut self, resource: Resource) {
        self.news.push(News { resource, is_freed: true, told: Vec::new() });
    }

    pub(super) fn into_news(self) -> Vec<News> {
        self.news
    }
}
