//! Mail by servers that are not ours, with the feature `smtp_server`: `conformance/mail` starts them,
//! names them in `FAREGATE_TEST_SMTP`, and looks at what arrived.

use std::path::PathBuf;
use std::time::Duration;

use gateway::mail::{MailError, Mailer, Security, SmtpOptions, Template};
use serde_json::Value;

use crate::calls::PATIENCE;
use crate::mail::{by, outgoing, scratch};

fn told(name: &str) -> Value {
    let servers = std::env::var("FAREGATE_TEST_SMTP").expect("conformance/mail sets it");
    serde_json::from_str::<Value>(&servers).unwrap()[name].clone()
}

fn server(name: &str) -> SmtpOptions {
    let file = |name| Some(PathBuf::from(told(name).as_str().unwrap()));
    let security = match name {
        "starttls" => Security::Starttls,
        "tls" => Security::Tls,
        _ => Security::None,
    };
    let has_login = security != Security::None;
    SmtpOptions {
        host: "localhost".to_owned(),
        port: told(name).as_u64().unwrap().try_into().unwrap(),
        security,
        username: if has_login { "me".to_owned() } else { String::new() },
        password_file: has_login.then(|| file("password_file")).flatten(),
        ca: file("ca"),
        timeout: PATIENCE,
    }
}

async fn send(mailer: &Mailer, to: &str) -> Result<(), MailError> {
    mailer.send(&outgoing(mailer, Template::Welcome, to)).await
}

#[tokio::test]
async fn every_mail_arrives_on_every_way() {
    for way in ["plain", "starttls", "tls"] {
        let mailer = by(server(way));
        for template in Template::ALL {
            mailer.send(&outgoing(&mailer, template, "zoe@example.com")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_address_with_other_letters_needs_a_server_that_knows_them() {
    send(&by(server("plain")), "zoë@example.com").await.unwrap();
    let error = send(&by(server("tls")), "zoë@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Permanent(_)), "{error}");
}

#[tokio::test]
async fn refusals_are_for_now_or_for_good() {
    let mailer = by(server("plain"));
    let error = send(&mailer, "busy@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    for to in ["nobody@example.com", "spam@example.com"] {
        let error = send(&mailer, to).await.unwrap_err();
        assert!(matches!(error, MailError::Permanent(_)), "{error}");
    }
    let soon = Duration::from_millis(300);
    let error =
        send(&by(SmtpOptions { timeout: soon, ..server("silent") }), "zoe@example.com").await;
    assert!(matches!(error, Err(MailError::Temporary(_))), "{error:?}");
}

#[tokio::test]
async fn a_wrong_login_loses_no_mail() {
    let password = scratch("password");
    std::fs::write(&password, "wrong").unwrap();
    let wrong = SmtpOptions { password_file: Some(password.clone()), ..server("starttls") };
    let error = send(&by(wrong), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    assert!(error.to_string().contains("535"), "{error}");
    let none = SmtpOptions { username: String::new(), password_file: None, ..server("starttls") };
    let error = send(&by(none), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    std::fs::remove_file(password).unwrap();
}
