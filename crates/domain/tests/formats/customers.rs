//! The durable formats of customers and of what belongs to them.

use domain::change::{Change, CustomerChange};
use domain::command::CustomerCommand;
use domain::customer::operation::{FailOperation, Operation, OperationStatus, QueueRegistration};
use domain::customer::{
    CloseSessions, Code, Credentials, Customer, CustomerRef, CustomerRejection, CustomerReply,
    CustomerStatus, EraseCustomer, Issued, NewSecondFactor, OpenSession, PasswordProof, Profile,
    Proposal, RefreshSession, Register, RequestToken, SecondFactor, SetPassword, Taken,
    TokenPurpose, UpdateCustomer, Verification, VerifyEmail,
};
use domain::{
    Command, Currency, Event, Person, Rejection, Reply, Revision, Seq, TenantNo, Timestamp,
};
use expect_test::{Expect, expect};
use serde::{Serialize, de::DeserializeOwned};

use crate::id;

/// Each value is written as expected, a line each, and what is written reads as the value.
fn check_each<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    values: &[T],
    lines: Expect,
) {
    let mut written = String::new();
    for value in values {
        let line = serde_json::to_string(value).expect("it is plain data");
        assert_eq!(&serde_json::from_str::<T>(&line).expect("what was written"), value);
        written += &(line + "\n");
    }
    lines.assert_eq(&written);
}

const CUSTOMER: CustomerRef = CustomerRef { id: id(1), account: id(2) };

fn profile() -> Profile {
    Profile {
        email: "Ada@Example.org".to_owned(),
        email_key: "ada@example.org".to_owned(),
        first_name: "Ada".to_owned(),
        last_name: "Lovelace".to_owned(),
        preferences: "{}".to_owned(),
    }
}

#[test]
fn commands_that_sign_somebody_up() {
    let register = |taken, verification, operation| {
        Command::Customer(CustomerCommand::Register(Box::new(Register {
            profile: profile(),
            person: Person { city: Some("Lyon".to_owned()), ..Person::default() },
            currency: Currency::parse("EUR"),
            password_hash: "hash".to_owned(),
            taken,
            verification,
            operation,
        })))
    };
    let customer = |it| Command::Customer(it);
    check_each(
        &[
            register(Taken::Refuse, Verification::Given, None),
            register(Taken::NotifyByMail, Verification::Mailed { within_us: 7 }, Some(id(3))),
            register(Taken::Silent, Verification::Given, None),
            customer(CustomerCommand::QueueRegistration(QueueRegistration {
                operation: id(3),
                sealed: "sealed".to_owned(),
                callback: Some("callback".to_owned()),
            })),
            customer(CustomerCommand::FailOperation(FailOperation {
                operation: id(3),
                explanation: "why".to_owned(),
            })),
            customer(CustomerCommand::VerifyEmail(VerifyEmail {
                customer: CUSTOMER,
                token: id(4),
            })),
        ],
        expect![[r#"
            {"Customer":{"Register":{"profile":{"email":"Ada@Example.org","email_key":"ada@example.org","first_name":"Ada","last_name":"Lovelace","preferences":"{}"},"person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":"Lyon","state":null,"country":null,"locale":null,"phone":null,"notes":null},"currency":"EUR","password_hash":"hash","taken":"Refuse","verification":"Given","operation":null}}}
            {"Customer":{"Register":{"profile":{"email":"Ada@Example.org","email_key":"ada@example.org","first_name":"Ada","last_name":"Lovelace","preferences":"{}"},"person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":"Lyon","state":null,"country":null,"locale":null,"phone":null,"notes":null},"currency":"EUR","password_hash":"hash","taken":"NotifyByMail","verification":{"Mailed":{"within_us":7}},"operation":"00000000-0000-0000-0000-000000000003"}}}
            {"Customer":{"Register":{"profile":{"email":"Ada@Example.org","email_key":"ada@example.org","first_name":"Ada","last_name":"Lovelace","preferences":"{}"},"person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":"Lyon","state":null,"country":null,"locale":null,"phone":null,"notes":null},"currency":"EUR","password_hash":"hash","taken":"Silent","verification":"Given","operation":null}}}
            {"Customer":{"QueueRegistration":{"operation":"00000000-0000-0000-0000-000000000003","sealed":"sealed","callback":"callback"}}}
            {"Customer":{"FailOperation":{"operation":"00000000-0000-0000-0000-000000000003","explanation":"why"}}}
            {"Customer":{"VerifyEmail":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"token":"00000000-0000-0000-0000-000000000004"}}}
        "#]],
    );
}

#[test]
fn commands_of_customers() {
    let token = |purpose| {
        CustomerCommand::RequestToken(RequestToken { customer: CUSTOMER, purpose, within_us: 7 })
    };
    let password = |by| {
        let password_hash = "hash".to_owned();
        CustomerCommand::SetPassword(SetPassword { customer: CUSTOMER, password_hash, by })
    };
    let open = |rehashed, code| {
        CustomerCommand::OpenSession(OpenSession {
            customer: CUSTOMER,
            password_version: 2,
            rehashed,
            code,
            lifetime_us: 7,
            refresh_us: 8,
            network: 9,
        })
    };
    let close =
        |session| CustomerCommand::CloseSessions(CloseSessions { customer: CUSTOMER, session });
    let all = [
        token(TokenPurpose::Verification),
        token(TokenPurpose::PasswordReset),
        password(PasswordProof::Token(id(4))),
        password(PasswordProof::Password { version: 2 }),
        open(None, None),
        open(Some("hash".to_owned()), Some(Code::Step(9))),
        open(None, Some(Code::Recovery("hash".to_owned()))),
        CustomerCommand::RefreshSession(RefreshSession {
            customer: CUSTOMER,
            session: id(5),
            generation: 3,
            lifetime_us: 7,
            refresh_us: 8,
            network: 9,
            grace_us: 10,
            session_max_us: 11,
        }),
        close(None),
        close(Some(id(5))),
        CustomerCommand::Erase(EraseCustomer { customer: CUSTOMER, if_expired: true }),
    ];
    check_each(
        &all.map(Command::Customer),
        expect![[r#"
            {"Customer":{"RequestToken":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"purpose":"Verification","within_us":7}}}
            {"Customer":{"RequestToken":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"purpose":"PasswordReset","within_us":7}}}
            {"Customer":{"SetPassword":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"password_hash":"hash","by":{"Token":"00000000-0000-0000-0000-000000000004"}}}}
            {"Customer":{"SetPassword":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"password_hash":"hash","by":{"Password":{"version":2}}}}}
            {"Customer":{"OpenSession":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"password_version":2,"rehashed":null,"code":null,"lifetime_us":7,"refresh_us":8,"network":9}}}
            {"Customer":{"OpenSession":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"password_version":2,"rehashed":"hash","code":{"Step":9},"lifetime_us":7,"refresh_us":8,"network":9}}}
            {"Customer":{"OpenSession":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"password_version":2,"rehashed":null,"code":{"Recovery":"hash"},"lifetime_us":7,"refresh_us":8,"network":9}}}
            {"Customer":{"RefreshSession":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"session":"00000000-0000-0000-0000-000000000005","generation":3,"lifetime_us":7,"refresh_us":8,"network":9,"grace_us":10,"session_max_us":11}}}
            {"Customer":{"CloseSessions":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"session":null}}}
            {"Customer":{"CloseSessions":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"session":"00000000-0000-0000-0000-000000000005"}}}
            {"Customer":{"Erase":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"if_expired":true}}}
        "#]],
    );
}

#[test]
fn commands_that_change_a_customer() {
    let update = |second_factor| {
        CustomerCommand::Update(Box::new(UpdateCustomer {
            customer: CUSTOMER,
            first_name: Some("Ada".to_owned()),
            last_name: None,
            preferences: Some("{}".to_owned()),
            person: Person::default(),
            is_active: Some(false),
            second_factor,
            preferences_before: None,
        }))
    };
    let (sealed, recovery_hashes) = ("sealed".to_owned(), vec!["hash".to_owned()]);
    let all = [
        update(None),
        update(Some(NewSecondFactor::Proposed { sealed, recovery_hashes })),
        update(Some(NewSecondFactor::Confirmed { step: 9 })),
        update(Some(NewSecondFactor::Removed)),
        update(Some(NewSecondFactor::Replaced {
            sealed: "sealed".to_owned(),
            recovery_hashes: vec!["hash".to_owned()],
            code: Code::Step(9),
        })),
        update(Some(NewSecondFactor::GivenUp { code: None })),
    ];
    check_each(
        &all.map(Command::Customer),
        expect![[r#"
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":null,"preferences_before":null}}}
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":{"Proposed":{"sealed":"sealed","recovery_hashes":["hash"]}},"preferences_before":null}}}
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":{"Confirmed":{"step":9}},"preferences_before":null}}}
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":"Removed","preferences_before":null}}}
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":{"Replaced":{"sealed":"sealed","recovery_hashes":["hash"],"code":{"Step":9}}},"preferences_before":null}}}
            {"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":"Ada","last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":false,"second_factor":{"GivenUp":{"code":null}},"preferences_before":null}}}
        "#]],
    );
}

/// A command that a front wrote before preferences were compared still changes the fields that it names.
#[test]
fn changes_of_customers_that_do_not_say_what_they_read() {
    let old = r#"{"Customer":{"Update":{"customer":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"},"first_name":null,"last_name":null,"preferences":"{}","person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"is_active":null,"second_factor":null}}}"#;
    let Ok(Command::Customer(CustomerCommand::Update(it))) = serde_json::from_str(old) else {
        panic!("it is what was written once");
    };
    assert_eq!((it.preferences.as_deref(), it.preferences_before), (Some("{}"), None));
}

#[test]
fn events_of_customers() {
    let (customer, account) = (id(1), id(2));
    check_each(
        &[
            Event::CustomerRegistered { customer, account },
            Event::CustomerVerified { customer, account },
            Event::CustomerChanged { customer, account },
            Event::CustomerErased { customer, account },
        ],
        expect![[r#"
            {"CustomerRegistered":{"customer":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"}}
            {"CustomerVerified":{"customer":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"}}
            {"CustomerChanged":{"customer":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"}}
            {"CustomerErased":{"customer":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"}}
        "#]],
    );
}

#[test]
fn answers_about_customers() {
    let replies = [
        CustomerReply::Registered(CUSTOMER),
        CustomerReply::Notified,
        CustomerReply::Session { session: id(5), generation: 3, expires_at: Timestamp(7) },
        CustomerReply::SessionRevoked,
        CustomerReply::Queued(id(3)),
    ];
    check_each(
        &replies.map(Reply::Customer),
        expect![[r#"
        {"Customer":{"Registered":{"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002"}}}
        {"Customer":"Notified"}
        {"Customer":{"Session":{"session":"00000000-0000-0000-0000-000000000005","generation":3,"expires_at":7}}}
        {"Customer":"SessionRevoked"}
        {"Customer":{"Queued":"00000000-0000-0000-0000-000000000003"}}
    "#]],
    );
    let refusals = [
        CustomerRejection::EmailTaken,
        CustomerRejection::NotFound,
        CustomerRejection::Deactivated,
        CustomerRejection::NotVerified,
        CustomerRejection::AlreadyVerified,
        CustomerRejection::TokenInvalid,
        CustomerRejection::PasswordChanged,
        CustomerRejection::CodeInvalid,
        CustomerRejection::NoSecondFactor,
        CustomerRejection::SessionNotFound,
        CustomerRejection::NotExpired,
        CustomerRejection::OperationNotFound,
        CustomerRejection::OperationSettled,
        CustomerRejection::PreferencesChanged,
    ];
    check_each(
        &refusals.map(Rejection::Customer),
        expect![[r#"
        {"Customer":"EmailTaken"}
        {"Customer":"NotFound"}
        {"Customer":"Deactivated"}
        {"Customer":"NotVerified"}
        {"Customer":"AlreadyVerified"}
        {"Customer":"TokenInvalid"}
        {"Customer":"PasswordChanged"}
        {"Customer":"CodeInvalid"}
        {"Customer":"NoSecondFactor"}
        {"Customer":"SessionNotFound"}
        {"Customer":"NotExpired"}
        {"Customer":"OperationNotFound"}
        {"Customer":"OperationSettled"}
        {"Customer":"PreferencesChanged"}
    "#]],
    );
}

fn customer(status: CustomerStatus) -> Customer {
    Customer {
        tenant: TenantNo(1),
        id: CUSTOMER.id,
        account: CUSTOMER.account,
        profile: Profile::default(),
        credentials: Credentials::default(),
        status,
        is_verified: true,
        password_version: 2,
        verification: Some(Issued { id: id(4), expires_at: Timestamp(7) }),
        reset: None,
        expires_at: Some(Timestamp(7)),
        created_at: Timestamp(1),
        updated_at: Timestamp(5),
        revision: Revision::first(Seq(9)),
    }
}

fn operation(status: OperationStatus) -> Operation {
    Operation {
        tenant: TenantNo(1),
        id: id(3),
        status,
        sealed: None,
        callback: None,
        notify_at: None,
        notify_attempts: 0,
        created_at: Timestamp(1),
        settled_at: Some(Timestamp(5)),
        revision: Revision::first(Seq(9)),
    }
}

/// The rows in the journal: nothing of the person, and nothing that they prove themselves with.
#[test]
fn images_of_customers() {
    let statuses = [CustomerStatus::Active, CustomerStatus::Deactivated, CustomerStatus::Erased];
    check_each(
        &statuses.map(|status| Change::Customer(CustomerChange::Customer(customer(status)))),
        expect![[r#"
            {"Customer":{"Customer":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002","status":"Active","is_verified":true,"password_version":2,"verification":{"id":"00000000-0000-0000-0000-000000000004","expires_at":7},"reset":null,"expires_at":7,"created_at":1,"updated_at":5,"revision":{"seq":9,"previous":null}}}}
            {"Customer":{"Customer":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002","status":"Deactivated","is_verified":true,"password_version":2,"verification":{"id":"00000000-0000-0000-0000-000000000004","expires_at":7},"reset":null,"expires_at":7,"created_at":1,"updated_at":5,"revision":{"seq":9,"previous":null}}}}
            {"Customer":{"Customer":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","account":"00000000-0000-0000-0000-000000000002","status":"Erased","is_verified":true,"password_version":2,"verification":{"id":"00000000-0000-0000-0000-000000000004","expires_at":7},"reset":null,"expires_at":7,"created_at":1,"updated_at":5,"revision":{"seq":9,"previous":null}}}}
        "#]],
    );
    let full = Customer {
        profile: profile(),
        credentials: Credentials {
            password_hash: "hash".to_owned(),
            second_factor: Some(SecondFactor {
                sealed: "sealed".to_owned(),
                is_confirmed: true,
                last_step: 9,
                recovery_hashes: vec!["hash".to_owned()],
                proposed: None,
            }),
        },
        ..customer(CustomerStatus::Active)
    };
    let text = |it: &Customer| serde_json::to_string(it).unwrap();
    assert_eq!(text(&full), text(&customer(CustomerStatus::Active)));
}

/// The stored form of a second factor, that of a build before proposals included.
#[test]
fn second_factors() {
    let factor = |proposed| SecondFactor {
        sealed: "sealed".to_owned(),
        is_confirmed: true,
        last_step: 9,
        recovery_hashes: vec!["hash".to_owned()],
        proposed,
    };
    let (sealed, recovery_hashes) = ("next".to_owned(), vec![]);
    check_each(
        &[factor(None), factor(Some(Proposal { sealed, recovery_hashes }))],
        expect![[r#"
            {"sealed":"sealed","is_confirmed":true,"last_step":9,"recovery_hashes":["hash"]}
            {"sealed":"sealed","is_confirmed":true,"last_step":9,"recovery_hashes":["hash"],"proposed":{"sealed":"next","recovery_hashes":[]}}
        "#]],
    );
}

/// The same for a queued registration and its callback.
#[test]
fn images_of_operations() {
    let statuses = [
        OperationStatus::Waiting,
        OperationStatus::Succeeded(Some(id(1))),
        OperationStatus::Succeeded(None),
        OperationStatus::Failed("why".to_owned()),
    ];
    check_each(
        &statuses.map(|status| Change::Customer(CustomerChange::Operation(operation(status)))),
        expect![[r#"
            {"Customer":{"Operation":{"tenant":1,"id":"00000000-0000-0000-0000-000000000003","status":"Waiting","created_at":1,"settled_at":5,"revision":{"seq":9,"previous":null}}}}
            {"Customer":{"Operation":{"tenant":1,"id":"00000000-0000-0000-0000-000000000003","status":{"Succeeded":"00000000-0000-0000-0000-000000000001"},"created_at":1,"settled_at":5,"revision":{"seq":9,"previous":null}}}}
            {"Customer":{"Operation":{"tenant":1,"id":"00000000-0000-0000-0000-000000000003","status":{"Succeeded":null},"created_at":1,"settled_at":5,"revision":{"seq":9,"previous":null}}}}
            {"Customer":{"Operation":{"tenant":1,"id":"00000000-0000-0000-0000-000000000003","status":{"Failed":"why"},"created_at":1,"settled_at":5,"revision":{"seq":9,"previous":null}}}}
        "#]],
    );
    let full = Operation {
        sealed: Some("sealed".to_owned()),
        callback: Some("callback".to_owned()),
        notify_at: Some(Timestamp(6)),
        notify_attempts: 2,
        ..operation(OperationStatus::Waiting)
    };
    let text = |it: &Operation| serde_json::to_string(it).unwrap();
    assert_eq!(text(&full), text(&operation(OperationStatus::Waiting)));
}
