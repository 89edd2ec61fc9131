//! The pages of `docs/` for users, as they stand in the repository, in the order of a user's life.
//!
//! | you want to | read |
//! | --- | --- |
//! | use it | [kinds], [fencing], [testing], [errors] |
//! | configure and deploy it | [settings], [deploying] |
//! | run it | [observing], [runbook] |
//! | trust it | [safety], [performance] |
//! | come from another library | [moving] |

// `guide/links.md` says where the pages' links lead on docs.rs. Each page ends with the same names, for the files
// beside it. The first definition of a name counts, and `guide/links.md` stands before the page. `.ci/links` finds
// missing ones.

macro_rules! pages {
    ($($name:ident $file:literal)*) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

pages! {
    kinds "kinds.md" fencing "fencing.md" settings "settings.md" deploying "deploying.md" observing "observing.md"
    runbook "runbook.md" errors "errors.md" safety "safety.md" performance "performance.md" moving "moving.md"
}

#[cfg(any(not(doctest), feature = "testing"))]
pages! { testing "testing.md" }
