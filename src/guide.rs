//! The pages of `docs/`, as they stand in the repository.
//!
//! | you want to | read |
//! | --- | --- |
//! | use it | [kinds], [fencing], [patterns], [errors], [testing] |
//! | configure it | [settings], [defaults] |
//! | run it | [operating], [metrics], [one_redis], [managed], [interop] |
//! | trust it | [safety], [evidence], [mutants], [algorithm], [wire], [performance], [testing] |
//! | change it | [architecture] |

// `guide/links.md` says where the pages lead, seen from here. Each page ends with the same names, for the files beside
// it. The first definition of a name counts, and these stand before the page. `.ci/links` finds what is missing.

macro_rules! pages {
    ($($name:ident $file:literal)*) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

pages! {
    algorithm "algorithm.md" architecture "architecture.md" defaults "defaults.md" errors "errors.md" evidence "evidence.md"
    fencing "fencing.md" interop "interop.md" kinds "kinds.md" managed "managed.md" metrics "metrics.md" mutants "mutants.md"
    one_redis "one-redis.md" operating "operating.md" patterns "patterns.md" performance "performance.md" safety "safety.md"
    settings "settings.md" wire "wire.md"
}

#[cfg(any(not(doctest), feature = "testing"))]
pages! { testing "testing.md" }
