//! The bare fan-out, which does not wait: a task that finds the resource held gets an error.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Held, Locker, held};
use crate::contenders::Fleet;

pub(super) struct Floor {
    fleet: Arc<Fleet>,
}

impl Floor {
    pub(super) async fn connect(urls: &[String]) -> Self {
        Self { fleet: Fleet::connect(urls.to_vec()).await }
    }
}

impl Locker for Floor {
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>> {
        let (fleet, resource) = (Arc::clone(&self.fleet), resource.to_owned());
        Box::pin(async move {
            let owner = fleet.acquire(&resource).await?;
            Ok(held(|| async move { fleet.release(&resource, &owner).await }))
        })
    }
}
