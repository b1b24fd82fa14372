//! The way of a transaction.

use crate::ask::Uid;

/// Where a transaction went, and where it may go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Its gateway; `None`: its method's.
    pub gateway: Option<&'static str>,
    /// The gateways after it.
    pub left: Vec<&'static str>,
    /// Real time until which all tries have to end, where it is routed.
    pub until: Option<i64>,
    /// Which try it is, from 1.
    pub number: u32,
    /// The first of the tries.
    pub first: Uid,
}
