//! The fields of `INFO`, as text: each is looked for here, whichever name a server gives it.
//!
//! It judges nothing: `check` decides who may vote, and `facts` what people are told. What is missing stays unknown.

use std::sync::Arc;

/// The value of a field.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim).filter(|value| !value.is_empty())
}

/// Name and version of the server.
pub(super) fn version(info: &str) -> Option<Arc<str>> {
    Some(match (field(info, "server_name"), field(info, "valkey_version")) {
        (Some("valkey"), Some(version)) => Arc::from(format!("valkey {version}")),
        _ => Arc::from(format!("redis {}", field(info, "redis_version")?)),
    })
}

/// The first two numbers of the version of Redis that it speaks as.
pub(super) fn speaks(info: &str) -> Option<(u32, u32)> {
    let version = field(info, "redis_version")?;
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// Whether it stands alone, in a cluster, or is a Sentinel. Valkey renamed the field; its Sentinel has only the new
/// name.
pub(super) fn mode(info: &str) -> Option<&str> {
    field(info, "redis_mode").or_else(|| field(info, "server_mode"))
}
