//! The errors of mail.

/// A setting is invalid, or a file that it names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{setting}`: {reason}")]
pub struct SetupError {
    /// The setting, such as `mail.smtp.host`.
    pub setting: &'static str,
    /// Why it is invalid.
    pub reason: String,
}

/// Why a mail was not sent. The reason may contain the recipient's address, so it is stored with the
/// mail and never logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// A later attempt may succeed. If the connection failed during this attempt, it may have succeeded
    /// too. The mail then arrives twice with the same `Message-ID`.
    #[error("not now: {0}")]
    Temporary(String),
    /// No attempt will succeed.
    #[error("refused: {0}")]
    Permanent(String),
}
