//! What all pictures of this command share: the text of their elements, and the colours of the page.
//!
//! It decides nothing about what is drawn, and a picture is one file that loads nothing.

mod style;
mod svg;

pub(crate) use self::{
    style::PAGE,
    svg::{Area, Svg, escaped, wide, wrapped},
};
