//! `{:?}` of an error prints its text, as `unwrap` and a `main` that returns an error print only that.
//!
//! It decides nothing else. It must never leave out a field in `{:#?}`.

/// `Debug` of an error: its text, and in `{:#?}` its fields, as a derived `Debug` prints them. The call must name every
/// field, or it does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_is_text {
    (enum $error:ident {
        $($(#[$when:meta])* $variant:ident $(($inner:ident))? $({ $($field:ident),+ })?),+ $(,)?
    }) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                if !f.alternate() {
                    return ::core::fmt::Display::fmt(self, f);
                }
                match self {
                    $(
                        $(#[$when])*
                        Self::$variant $(($inner))? $({ $($field),+ })? => {
                            $crate::debug_is_text!(@fields f, $variant $(($inner))? $({ $($field),+ })?)
                        }
                    )+
                }
            }
        }
    };
    (struct $error:ident $({ $($field:ident),+ $(,)? })?) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                if !f.alternate() {
                    return ::core::fmt::Display::fmt(self, f);
                }
                let Self { $($($field),+)? } = self;
                $crate::debug_is_text!(@fields f, $error $({ $($field),+ })?)
            }
        }
    };
    (@fields $f:ident, $name:ident) => { $f.write_str(stringify!($name)) };
    (@fields $f:ident, $name:ident ($inner:ident)) => {
        $f.debug_tuple(stringify!($name)).field($inner).finish()
    };
    (@fields $f:ident, $name:ident { $($field:ident),+ }) => {
        $f.debug_struct(stringify!($name))$(.field(stringify!($field), $field))+.finish()
    };
}
