//! The queue between nodes, over Kafka: fronts send commands to whoever owns their partition
//! ([`Front`]), processors execute them and reply ([`processor`]), and what happened is published
//! ([`EventPublisher`]).

mod client;
mod envelope;
mod settings;
pub mod topics;

pub use envelope::{Answered, Command, CommandBody, EnvelopeError, Outcome, ReplyTo, VERSION};
pub use settings::{
    GroupProtocol, MESSAGE_BYTES_MAX, Secret, Security, SecurityProtocol, Settings, SettingsError,
};
