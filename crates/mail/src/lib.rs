//! Mail: the queue of mails that commits ask for, the templates that they are rendered with, and the transports
//! that send them.

pub mod alerts;
mod clean;
mod directory;
mod error;
mod line_stream;
mod links;
mod mailer;
mod message;
mod options;
mod pattern;
mod queue;
mod smtp;
mod template;

pub use error::{MailError, SetupError};
pub use links::{InvalidBaseUrl, Links};
pub use mailer::Mailer;
pub use message::{ADDRESS_BYTES_MAX, MessageId, OutgoingMail, is_address};
pub use options::{Options, Security, SmtpOptions, Transport};
pub use pattern::{PART_BYTES_MAX, PLACEHOLDERS_MAX};
pub use queue::{MailDispatcher, Settings, run};
pub use template::{
    RenderError, Rendered, SUBJECT_BYTES_MAX, TEMPLATES_BYTES_MAX, Template, TemplateError,
    Templates, URL_BYTES_MAX, Variables,
};
