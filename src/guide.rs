//! The pages of `docs/`, as they stand in the repository.
//!
//! | you want to | read |
//! | --- | --- |
//! | use it | [fencing], [patterns], [errors] |
//! | run it | [operating], [defaults] |
//! | trust it | [safety], [algorithm], [testing] |
//! | change it | [architecture] |

// `guide/links.md` says where the pages lead, seen from here. Each page ends with the same names, for the files beside
// it. The first definition of a name counts, and these stand before the page. `.ci/links` finds what is missing.

macro_rules! pages {
    ($($name:ident)*) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!(concat!("../docs/", stringify!($name), ".md"))]
        pub mod $name {}
    )*};
}

pages! { algorithm architecture defaults errors fencing operating patterns safety testing }
