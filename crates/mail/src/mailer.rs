//! Sends mails one by one, by the configured transport. The caller queues mails and retries failed ones.

use lettre::message::Mailbox;
use uuid::Uuid;

use crate::directory::Directory;
use crate::error::{MailError, SetupError};
use crate::message::{self, MessageId, OutgoingMail};
use crate::options::{Options, Transport};
use crate::smtp;

/// Sends mail by the configured transport.
pub struct Mailer {
    from: Mailbox,
    backend: Backend,
}

enum Backend {
    None,
    Directory(Directory),
    Smtp(Box<smtp::Smtp>),
}

impl Mailer {
    /// Validates the options and reads the files that they name. Does not connect.
    ///
    /// # Errors
    /// [`SetupError`], naming the setting.
    pub fn new(options: &Options) -> Result<Self, SetupError> {
        options.check()?;
        let from = message::sender(&options.from)
            .map_err(|reason| SetupError { setting: "mail.from", reason: reason.to_owned() })?;
        let backend = match &options.transport {
            Transport::None => Backend::None,
            Transport::File(path) => Backend::Directory(Directory::new(path.clone())),
            Transport::Smtp(smtp) => {
                Backend::Smtp(Box::new(smtp::Smtp::new(smtp, from.email.domain())?))
            }
        };
        Ok(Self { from, backend })
    }

    /// The maximum number of mails that are sent concurrently, if there is one. Further mails would wait
    /// for a connection.
    #[must_use]
    pub const fn concurrent_mails_max(&self) -> Option<usize> {
        match &self.backend {
            Backend::None => None,
            Backend::Directory(_) | Backend::Smtp(_) => Some(smtp::CONNECTIONS_MAX),
        }
    }

    /// The `Message-ID` of a mail, which is the same for each attempt.
    #[must_use]
    pub fn message_id(&self, mail: Uuid) -> MessageId {
        MessageId::new(mail, &self.from.email)
    }

    /// Sends a mail. If the future is dropped, it is unknown whether the mail was sent, and its connection
    /// is not reused.
    ///
    /// # Errors
    /// [`MailError`], which says whether a retry can succeed.
    pub async fn send(&self, mail: &OutgoingMail) -> Result<(), MailError> {
        let encoded = message::EncodedMail::new(&self.from, mail)?;
        match &self.backend {
            Backend::None => Ok(()),
            Backend::Directory(directory) => {
                directory.write(mail.message_id.mail(), encoded.bytes).await
            }
            Backend::Smtp(smtp) => smtp.send(&encoded).await,
        }
    }
}
