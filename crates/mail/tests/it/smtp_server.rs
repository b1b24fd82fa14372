//! Tests of mail with real SMTP servers. `conformance/mail` starts them, passes them in
//! `FAREGATE_TEST_SMTP`, and checks the received mails.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use mail::{MailError, Mailer, Security, SmtpOptions, Template};
use serde_json::Value;

use crate::TIMEOUT;
use crate::transport::{outgoing, scratch, smtp_mailer};

fn setting(name: &str) -> Value {
    let servers = std::env::var("FAREGATE_TEST_SMTP").expect("conformance/mail sets it");
    serde_json::from_str::<Value>(&servers).unwrap()[name].clone()
}

fn server(name: &str) -> SmtpOptions {
    let file = |name| Some(PathBuf::from(setting(name).as_str().unwrap()));
    let security = match name {
        "starttls" => Security::Starttls,
        "tls" => Security::Tls,
        _ => Security::None,
    };
    let has_login = security != Security::None;
    SmtpOptions {
        host: "localhost".to_owned(),
        port: setting(name).as_u64().unwrap().try_into().unwrap(),
        security,
        username: if has_login { "me".to_owned() } else { String::new() },
        password_file: has_login.then(|| file("password_file")).flatten(),
        ca: file("ca"),
        timeout: TIMEOUT,
    }
}

async fn send(mailer: &Mailer, to: &str) -> Result<(), MailError> {
    mailer.send(&outgoing(mailer, Template::Welcome, to)).await
}

#[tokio::test]
#[ignore = "needs SMTP servers: conformance/run"]
async fn every_mail_arrives_with_every_encryption() {
    for encryption in ["plain", "starttls", "tls"] {
        let mailer = smtp_mailer(server(encryption));
        for template in Template::ALL {
            mailer.send(&outgoing(&mailer, template, "zoe@example.com")).await.unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs SMTP servers: conformance/run"]
async fn a_non_ascii_address_requires_smtputf8() {
    send(&smtp_mailer(server("plain")), "zoë@example.com").await.unwrap();
    let error = send(&smtp_mailer(server("tls")), "zoë@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Permanent(_)), "{error}");
}

#[tokio::test]
#[ignore = "needs SMTP servers: conformance/run"]
async fn refusals_are_temporary_or_permanent() {
    let mailer = smtp_mailer(server("plain"));
    let error = send(&mailer, "busy@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    for to in ["nobody@example.com", "spam@example.com"] {
        let error = send(&mailer, to).await.unwrap_err();
        assert!(matches!(error, MailError::Permanent(_)), "{error}");
    }
    let short = Duration::from_millis(300);
    let error =
        send(&smtp_mailer(SmtpOptions { timeout: short, ..server("silent") }), "zoe@example.com")
            .await;
    assert!(matches!(error, Err(MailError::Temporary(_))), "{error:?}");
}

#[tokio::test]
#[ignore = "needs SMTP servers: conformance/run"]
async fn failed_authentication_is_temporary() {
    let password = scratch("password");
    std::fs::write(&password, "wrong").unwrap();
    std::fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let wrong = SmtpOptions { password_file: Some(password.clone()), ..server("starttls") };
    let error = send(&smtp_mailer(wrong), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    assert!(error.to_string().contains("535"), "{error}");
    let none = SmtpOptions { username: String::new(), password_file: None, ..server("starttls") };
    let error = send(&smtp_mailer(none), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    std::fs::remove_file(password).unwrap();
}
