//! `maitred doctor` over nodes made of files.

mod faults;
mod hanging;
mod mangled;
mod node;
mod whole;
