//! The gateways and the push follower over real files and real sockets.

mod calls;
mod journal;
mod push;
mod receiver;
mod reconcile;
mod remote;
mod simulator;
