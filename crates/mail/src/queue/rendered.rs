//! The content and the recipient of a mail, from its customer's row.

use domain::Timestamp;
use domain::customer::mail::{Mail, MailKind};
use domain::customer::{Customer, CustomerStatus, Issued, TokenPurpose};
use engine::{Engine, Unavailable};
use sign_up::service::token_purpose;

use super::{MailDispatcher, template};
use crate::message::OutgoingMail;
use crate::template::{RenderError, Variables};

/// The result of rendering a mail.
pub(super) enum Rendered {
    /// The mail can be sent.
    Ready(Box<OutgoingMail>),
    /// The mail has no recipient, or its token is no longer valid.
    Pointless(&'static str),
    /// The mail cannot be rendered.
    Unwritable(RenderError),
}

/// Renders a mail to its customer, as they were read.
pub(super) async fn render(
    engine: &Engine,
    dispatcher: &MailDispatcher,
    mail: &Mail,
    customer: Option<Customer>,
) -> Result<Rendered, Unavailable> {
    let Some(customer) = customer.filter(|it| it.status != CustomerStatus::Erased) else {
        return Ok(Rendered::Pointless("its customer is forgotten"));
    };
    let now = engine.clock().now();
    let templates = dispatcher.overrides.of(engine, mail.tenant).await?;
    let action = match purpose(mail.kind)
        .map(|purpose| link(dispatcher, mail, &customer, (purpose, now)))
    {
        None => None,
        Some(Some(action)) => Some(action),
        Some(None) => return Ok(Rendered::Pointless("its token was used, replaced or has ended")),
    };
    let (action_url, expires_in) = action.unzip();
    let variables = Variables {
        first_name: customer.profile.first_name.clone(),
        platform_name: dispatcher.platform_name.clone(),
        email: customer.profile.email.clone(),
        action_url,
        expires_in,
    };
    Ok(match templates.render(template(mail.kind), &variables) {
        Err(error) => Rendered::Unwritable(error),
        Ok(rendered) => Rendered::Ready(Box::new(OutgoingMail {
            message_id: dispatcher.mailer.message_id(mail.id.uuid()),
            to_name: format!("{} {}", customer.profile.first_name, customer.profile.last_name),
            to: customer.profile.email,
            rendered,
        })),
    })
}

/// The purpose of a mail's token; `None` where it has none.
const fn purpose(kind: MailKind) -> Option<TokenPurpose> {
    match kind {
        MailKind::Verification => Some(TokenPurpose::Verification),
        MailKind::PasswordReset => Some(TokenPurpose::PasswordReset),
        MailKind::Welcome | MailKind::PasswordChanged | MailKind::AlreadyRegistered => None,
    }
}

/// The link with the mail's token, and how long it works; `None` where the token is not the one that
/// holds.
fn link(
    dispatcher: &MailDispatcher,
    mail: &Mail,
    customer: &Customer,
    (purpose, now): (TokenPurpose, Timestamp),
) -> Option<(String, String)> {
    let holds = |it: &Issued| Some(it.id) == mail.token && it.expires_at > now;
    let issued = customer.issued(purpose).filter(holds)?;
    let (id, token) = (customer.id.uuid(), issued.id.uuid());
    let token = dispatcher.tokens.issue(token_purpose(purpose), mail.tenant, id, token);
    let url = match purpose {
        TokenPurpose::Verification => dispatcher.links.verify_email(&token),
        TokenPurpose::PasswordReset => dispatcher.links.reset_password(&token),
    };
    Some((url, in_words(issued.expires_at.0.saturating_sub(now.0))))
}

/// A period in words: whole minutes, hours or days, and no more than there are but for a started
/// minute, which counts.
fn in_words(period_us: i64) -> String {
    const HOUR: i64 = 60;
    const DAY: i64 = 24 * HOUR;
    let minute_us = 60 * Timestamp::SECOND_US;
    let minutes = period_us.max(0).saturating_add(minute_us - 1) / minute_us;
    let (count, unit) = match minutes {
        ..HOUR => (minutes, "minute"),
        HOUR.. if minutes < 3 * DAY => (minutes / HOUR, "hour"),
        _ => (minutes / DAY, "day"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_written_in_words() {
        let second = Timestamp::SECOND_US;
        for (period_us, words) in [
            (-5, "0 minutes"),
            (1, "1 minute"),
            (60 * second, "1 minute"),
            (61 * second, "2 minutes"),
            (3_600 * second, "1 hour"),
            (3_600 * second - 1, "1 hour"),
            (7_000 * second, "1 hour"),
            (86_400 * second - 1, "24 hours"),
            (86_400 * second, "24 hours"),
            (7 * 86_400 * second - 5 * second, "7 days"),
            (i64::MAX, "106751991 days"),
        ] {
            assert_eq!(in_words(period_us), words, "{period_us}");
        }
    }
}
