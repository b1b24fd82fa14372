//! Customers, in the code's words and in the simulation's.

use domain::account::custom_field::{
    AddCustomFields, NewCustomField, NewValue, RemoveCustomFields, UpdateCustomFields,
};
use domain::account::tag::{AddTags, RemoveTags};
use domain::command::{AccountCommand, CustomerCommand};
use domain::customer::mail::MailKind;
use domain::customer::operation::{FailOperation, QueueRegistration};
use domain::customer::{
    CloseSessions, CustomerRef, CustomerReply, EraseCustomer, OpenSession, PasswordProof, Profile,
    RefreshSession, Register, RequestToken, SetPassword, Taken, TokenPurpose, UpdateCustomer,
    Verification, VerifyEmail,
};
use domain::object::Object;
use domain::{Command, Id, Person, RequestId, TagDefinitionId};
use uuid::Uuid;

use super::{currency_of, id};
use crate::ask::signup::{
    FieldChange, GRACE_US, Join, Letter, Proof, SESSION_US, TOKEN_US, Who, Wish, Word,
};
use crate::ask::{Said, Uid};

/// No run lasts so long.
const SESSION_MAX_US: i64 = 100 * 365 * 86_400 * 1_000_000;

/// The last name of every customer.
const LAST_NAME: &str = "Doe";

pub(super) fn command(wish: &Wish, request: Uid) -> Command {
    let password_hash = || "hash".to_owned();
    Command::Customer(match wish {
        Wish::Join(it) => CustomerCommand::Register(Box::new(register(it))),
        Wish::Verify { who, token } => {
            CustomerCommand::VerifyEmail(VerifyEmail { customer: named(who), token: id(*token) })
        }
        Wish::NewToken { who, reset } => CustomerCommand::RequestToken(RequestToken {
            customer: named(who),
            purpose: match reset {
                true => TokenPurpose::PasswordReset,
                false => TokenPurpose::Verification,
            },
            within_us: TOKEN_US,
        }),
        Wish::NewPassword { who, proof } => CustomerCommand::SetPassword(SetPassword {
            customer: named(who),
            password_hash: password_hash(),
            by: match proof {
                Proof::Token(token) => PasswordProof::Token(id(*token)),
                Proof::Version(version) => PasswordProof::Password { version: *version },
            },
        }),
        Wish::Login { who, version } => CustomerCommand::OpenSession(OpenSession {
            customer: named(who),
            password_version: *version,
            rehashed: None,
            code: None,
            lifetime_us: SESSION_US[0],
            refresh_us: SESSION_US[1],
            network: 0,
        }),
        Wish::Refresh { who, session, generation } => {
            CustomerCommand::RefreshSession(RefreshSession {
                customer: named(who),
                session: id(*session),
                generation: *generation,
                lifetime_us: SESSION_US[0],
                refresh_us: SESSION_US[1],
                network: 0,
                grace_us: GRACE_US,
                session_max_us: SESSION_MAX_US,
            })
        }
        Wish::Logout { who, session } => CustomerCommand::CloseSessions(CloseSessions {
            customer: named(who),
            session: session.map(id),
        }),
        Wish::Change { who, name, active } => {
            CustomerCommand::Update(Box::new(update(who, name.as_ref(), *active)))
        }
        Wish::Erase { who, if_expired } => {
            CustomerCommand::Erase(EraseCustomer { customer: named(who), if_expired: *if_expired })
        }
        Wish::Queue => CustomerCommand::QueueRegistration(QueueRegistration {
            operation: id(request),
            sealed: "sealed".to_owned(),
            callback: None,
        }),
        Wish::Fail { operation } => CustomerCommand::FailOperation(FailOperation {
            operation: id(*operation),
            explanation: "no".to_owned(),
        }),
        Wish::Tag { account, numbers, off } => return tag(*account, numbers, *off),
        Wish::Fields { account, payment, change } => return fields(*account, *payment, change),
    })
}

fn register(it: &Join) -> Register {
    Register {
        profile: Profile {
            email: it.address.to_uppercase(),
            email_key: it.address.clone(),
            first_name: it.name.clone(),
            last_name: LAST_NAME.to_owned(),
            preferences: String::new(),
        },
        person: Person::default(),
        currency: it.currency.map(currency_of),
        password_hash: "hash".to_owned(),
        taken: if it.tell { Taken::NotifyByMail } else { Taken::Refuse },
        verification: match it.given {
            true => Verification::Given,
            false => Verification::Mailed { within_us: TOKEN_US },
        },
        operation: it.operation.map(id),
    }
}

fn update(who: &Who, name: Option<&String>, is_active: Option<bool>) -> UpdateCustomer {
    UpdateCustomer { first_name: name.cloned(), is_active, ..UpdateCustomer::of(named(who)) }
}

fn tag(account: Uid, numbers: &[u8], off: bool) -> Command {
    let number = |number: &u8| TagDefinitionId::new(Uuid::from_u128(u128::from(*number)));
    let (account, definitions) = (id(account), numbers.iter().map(number).collect());
    match off {
        false => {
            Command::Account(AccountCommand::AddTags(AddTags { account, part: None, definitions }))
        }
        true => Command::Account(AccountCommand::RemoveTags(RemoveTags {
            account,
            part: None,
            definitions,
        })),
    }
}

fn fields(account: Uid, payment: Option<Uid>, change: &FieldChange) -> Command {
    let account = id(account);
    let object = payment.map_or(Object::Account(account), |it| Object::Payment(id(it)));
    Command::Account(match change {
        FieldChange::Add(fields) => {
            let new = |(name, value): &(String, String)| NewCustomField {
                name: name.clone(),
                value: value.clone(),
            };
            let fields = fields.iter().map(new).collect();
            AccountCommand::AddCustomFields(AddCustomFields { account, object, fields })
        }
        FieldChange::Set { made_by, value } => {
            let id = RequestId(Uuid::from_u128(*made_by)).entity(0);
            let fields = vec![NewValue { id, name: None, value: value.clone() }];
            AccountCommand::UpdateCustomFields(UpdateCustomFields { account, object, fields })
        }
        FieldChange::Clear => AccountCommand::RemoveCustomFields(RemoveCustomFields {
            account,
            object,
            fields: vec![],
        }),
    })
}

const fn named(who: &Who) -> CustomerRef {
    let (id, account) = (Uuid::from_u128(who.id), Uuid::from_u128(who.account));
    CustomerRef { id: Id::new(id), account: Id::new(account) }
}

pub(super) fn said_by(reply: &CustomerReply) -> Said {
    Said::Customer(match reply {
        CustomerReply::Registered(it) => {
            Word::Joined(Who { id: it.id.uuid().as_u128(), account: it.account.uuid().as_u128() })
        }
        CustomerReply::Notified => Word::Notified,
        CustomerReply::Session { session, generation, expires_at } => Word::Session {
            session: session.uuid().as_u128(),
            generation: *generation,
            until: expires_at.0,
        },
        CustomerReply::SessionRevoked => Word::Revoked,
        CustomerReply::Queued(id) => Word::Queued(id.uuid().as_u128()),
    })
}

/// The kind of a stored mail.
#[must_use]
pub const fn letter(kind: MailKind) -> Letter {
    match kind {
        MailKind::Welcome => Letter::Welcome,
        MailKind::Verification => Letter::Verify,
        MailKind::PasswordReset => Letter::Reset,
        MailKind::PasswordChanged => Letter::Changed,
        MailKind::AlreadyRegistered => Letter::Known,
    }
}
