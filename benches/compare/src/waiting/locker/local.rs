//! A `tokio::sync::Mutex` for each resource: first come, first served, and no server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;

use super::{Held, Locker, held};

#[derive(Default)]
pub(super) struct Local {
    resources: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Locker for Local {
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        if !resources.contains_key(resource) {
            resources.insert(resource.to_owned(), Arc::default());
        }
        let mutex = Arc::clone(&resources[resource]);
        Box::pin(async move {
            let guard = mutex.lock_owned().await;
            Ok(held(move || async move {
                drop(guard);
                Ok(())
            }))
        })
    }
}
