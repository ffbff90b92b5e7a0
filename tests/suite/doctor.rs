//! `maitred doctor` over nodes made of files.

mod faults;
mod mangled;
mod node;
mod whole;
