//! The queue between nodes, over Kafka: fronts send commands to their partition's owner
//! ([`Front`]), processors execute them and reply ([`processor`]), and what happened is published
//! ([`events`]). What cannot be dealt with is kept ([`dead_letter`]).

mod client;
mod confirmed;
pub mod dead_letter;
mod envelope;
pub mod events;
pub mod floor;
mod front;
mod outlet;
mod pending;
pub mod processor;
mod refused;
mod sender;
mod settings;
pub mod signature;
pub mod topics;

pub use envelope::{
    Command, CommandBody, EnvelopeError, ReplyBody, ReplyEnvelope, ReplyTo, VERSION,
};
pub use front::{Front, FrontOptions};
pub use settings::{
    GroupProtocol, MESSAGE_BYTES_MAX, SIGNED_WITHIN, Secret, Security, SecurityProtocol, Settings,
    SettingsError,
};
pub use signature::{ClusterKeys, Role, SignatureError};
