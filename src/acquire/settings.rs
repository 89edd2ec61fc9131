//! The settings of an acquire for requests that are made of one.
//!
//! It decides nothing: each hands over to `Acquire`, by the same name.

/// The named settings of [`Acquire`](crate::Acquire), for a request that has one as its field `request`.
macro_rules! settings_of_acquire {
    ($($name:ident($($argument:ident: $type:ty)?))*) => {$(
        #[doc = concat!("As [`Acquire::", stringify!($name), "`].")]
        pub fn $name(mut self, $($argument: $type)?) -> Self {
            self.request = self.request.$name($($argument)?);
            self
        }
    )*};
}

pub(crate) use settings_of_acquire;
