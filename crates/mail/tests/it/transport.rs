//! Tests of mail by SMTP and as files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mail::{
    MailError, Mailer, Options, OutgoingMail, Security, SmtpOptions, Template, Templates,
    Transport, Variables,
};
use uuid::Uuid;

use crate::smtp_stub::SmtpStub;

const SHORT: Duration = Duration::from_millis(200);

pub fn mailer(transport: Transport) -> Mailer {
    let from = "Müller & Söhne <noreply@example.org>".to_owned();
    Mailer::new(&Options { from, transport }).unwrap()
}

pub fn smtp_mailer(options: SmtpOptions) -> Mailer {
    mailer(Transport::Smtp(options))
}

pub fn outgoing(mailer: &Mailer, template: Template, to: &str) -> OutgoingMail {
    let link = || Some("https://example.org/verify-email?token=abc".to_owned());
    let variables = Variables {
        first_name: "Zoë\r\nBcc: injected@example.net".to_owned(),
        platform_name: "Müller & Söhne".to_owned(),
        email: to.to_owned(),
        action_url: template.needs_link().then(link).flatten(),
        expires_in: template.needs_link().then(|| "24 hours".to_owned()),
    };
    OutgoingMail {
        message_id: mailer.message_id(Uuid::now_v7()),
        to: to.to_owned(),
        to_name: "Zoë\r\nBcc: injected@example.net".to_owned(),
        rendered: Templates::default().render(template, &variables).unwrap(),
    }
}

async fn send(mailer: &Mailer, to: &str) -> Result<(), MailError> {
    mailer.send(&outgoing(mailer, Template::Welcome, to)).await
}

fn headers(mail: &str) -> &str {
    mail.split_once("\r\n\r\n").unwrap().0
}

#[tokio::test]
async fn mails_share_a_connection() {
    let server = SmtpStub::start().await;
    let mailer = smtp_mailer(server.options(Security::None));
    for template in Template::ALL {
        let mail = outgoing(&mailer, template, "zoe@example.com");
        mailer.send(&mail).await.unwrap();
        let mails = server.mails();
        let headers = headers(mails.last().unwrap());
        assert!(headers.contains(&format!("Message-ID: {}", mail.message_id)), "{headers}");
        assert!(headers.contains("Auto-Submitted: auto-generated"), "{headers}");
        assert!(headers.lines().all(|line| !line.starts_with("Bcc")), "{headers}");
    }
    assert_eq!((server.mails().len(), server.connections()), (Template::ALL.len(), 1));
    let commands = server.commands();
    assert_eq!(commands[0], "EHLO example.org");
    assert_eq!(commands[1], "MAIL FROM:<noreply@example.org>");
    assert_eq!(commands[2], "RCPT TO:<zoe@example.com>");
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    let server = SmtpStub::start().await;
    let mailer = smtp_mailer(server.options(Security::None));
    send(&mailer, "leave@example.com").await.unwrap();
    send(&mailer, "vanish@example.com").await.unwrap_err();
    send(&mailer, "zoe@example.com").await.unwrap();
    // The queue sends the second one again, later: whether it was taken is not known.
    assert_eq!((server.mails().len(), server.connections()), (3, 3));
}

#[tokio::test]
async fn refusals_are_temporary_or_permanent() {
    let server = SmtpStub::start().await;
    let mailer = smtp_mailer(server.options(Security::None));
    let check = async |to: &str, expected: &str| {
        assert_eq!(send(&mailer, to).await.unwrap_err().to_string(), expected);
    };
    check("busy@example.com", "not now: transient error (451): later").await;
    check("unknown@example.com", "refused: permanent error (550): no such user at all").await;
    check("spam@example.com", "refused: permanent error (554): spam").await;
    // The refusal concerns the authentication, not the mail.
    check("unauthenticated@example.com", "not now: permanent error (530): log in first").await;
    let no_smtputf8 = "refused: the server does not support addresses with non-ASCII characters";
    check("zoë@example.com", no_smtputf8).await;
    let commands = server.commands().len();
    check("a@example.com>\r\nDATA", "refused: the address has unsupported characters").await;
    assert_eq!(server.commands().len(), commands, "{:?}", server.commands());
    send(&mailer, "zoe@example.com").await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_a_temporary_error() {
    let server = SmtpStub::start().await;
    let options = SmtpOptions { port: 1, ..server.options(Security::None) };
    let error = send(&smtp_mailer(options), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
}

#[tokio::test]
async fn a_timeout_is_temporary_and_its_connection_is_not_reused() {
    let server = SmtpStub::start().await;
    let mailer = smtp_mailer(SmtpOptions { timeout: SHORT, ..server.options(Security::None) });
    let error = send(&mailer, "hang@example.com").await.unwrap_err();
    assert!(error.to_string().ends_with("did not accept the mail within 200ms"), "{error}");
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    send(&mailer, "zoe@example.com").await.unwrap();
    assert_eq!((server.mails().len(), server.connections()), (1, 2));
}

#[tokio::test]
async fn a_server_that_does_not_greet_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = SmtpStub::start().await;
    let port = silent.local_addr().unwrap().port();
    for security in [Security::None, Security::Starttls, Security::Tls] {
        let options = SmtpOptions { port, timeout: SHORT, ..server.options(security) };
        let error = send(&smtp_mailer(options), "zoe@example.com").await.unwrap_err();
        assert!(error.to_string().ends_with("was not ready for a mail within 200ms"), "{error}");
    }
}

#[tokio::test]
async fn the_connection_of_a_cancelled_mail_is_not_reused() {
    let server = SmtpStub::start().await;
    let mailer = smtp_mailer(server.options(Security::None));
    let hanging = tokio::time::timeout(SHORT, send(&mailer, "hang@example.com")).await;
    hanging.expect_err("the server does not respond");
    send(&mailer, "zoe@example.com").await.unwrap();
    assert_eq!((server.mails().len(), server.connections()), (1, 2));
}

#[tokio::test]
async fn a_server_without_required_starttls_receives_no_commands() {
    let server = SmtpStub::start().await;
    let password = scratch("password");
    std::fs::write(&password, "secret\n").unwrap();
    std::fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let options = SmtpOptions {
        username: "me".to_owned(),
        password_file: Some(password.clone()),
        ..server.options(Security::Starttls)
    };
    let error = send(&smtp_mailer(options), "zoe@example.com").await.unwrap_err();
    assert!(error.to_string().contains("STARTTLS is not supported"), "{error}");
    assert_eq!(server.commands(), ["EHLO example.org"]);
    send(&smtp_mailer(server.options(Security::Opportunistic)), "zoe@example.com").await.unwrap();
    std::fs::remove_file(password).unwrap();
}

#[tokio::test]
async fn mails_are_encrypted_and_servers_are_authenticated() {
    let server = SmtpStub::encrypted(false).await;
    for security in [Security::Starttls, Security::Opportunistic] {
        send(&smtp_mailer(server.options(security)), "zoe@example.com").await.unwrap();
    }
    let hellos = server.commands().iter().filter(|line| line.starts_with("EHLO")).count();
    assert_eq!((server.mails().len(), hellos), (2, 4));
    let untrusted = SmtpOptions { ca: None, ..server.options(Security::Starttls) };
    let error = send(&smtp_mailer(untrusted), "zoe@example.com").await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let misnamed =
        SmtpOptions { host: "127.0.0.1".to_owned(), ..server.options(Security::Starttls) };
    let error = send(&smtp_mailer(misnamed), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    assert_eq!(server.mails().len(), 2);
}

#[tokio::test]
async fn a_response_injected_before_the_encryption_is_refused() {
    let server = SmtpStub::encrypted(true).await;
    let error = send(&smtp_mailer(server.options(Security::Starttls)), "zoe@example.com")
        .await
        .unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    // The encryption fails, and no command follows.
    assert_eq!(server.commands(), ["EHLO example.org", "STARTTLS"]);
}

#[tokio::test]
async fn a_file_is_replaced_and_readable_by_its_owner_only() {
    let directory = scratch("mail");
    let mailer = mailer(Transport::File(directory.join("sent")));
    let mut mail = outgoing(&mailer, Template::Verification, "zoe@example.com");
    mailer.send(&mail).await.unwrap();
    mail.rendered.subject = "Again".to_owned();
    mailer.send(&mail).await.unwrap();
    let names: Vec<_> = std::fs::read_dir(directory.join("sent"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, [format!("{}.eml", mail.message_id.mail())]);
    let file = directory.join("sent").join(&names[0]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(headers(&text).contains("\nSubject: Again\r\n"), "{text}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&directory.join("sent"))), (0o600, 0o700));
    // The path of the directory is a file.
    let below = self::mailer(Transport::File(file));
    let error = below.send(&mail).await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn the_transport_none_validates_and_discards() {
    let mailer = mailer(Transport::None);
    send(&mailer, "zoe@example.com").await.unwrap();
    let error = send(&mailer, "zoe").await.unwrap_err();
    assert!(matches!(error, MailError::Permanent(_)), "{error}");
}

#[tokio::test]
async fn an_invalid_setting_is_named() {
    let options = |change: &dyn Fn(&mut SmtpOptions)| {
        let mut smtp = SmtpOptions {
            host: "localhost".to_owned(),
            port: 25,
            security: Security::None,
            username: String::new(),
            password_file: None,
            ca: None,
            timeout: SHORT,
        };
        change(&mut smtp);
        Options { from: "a@example.org".to_owned(), transport: Transport::Smtp(smtp) }
    };
    let check = |options: Options, expected: &str| {
        let error = Mailer::new(&options).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|it| it.starts_with(expected)), "{error:?}");
    };
    check(options(&|it| it.host.clear()), "setting `mail.smtp.host`: is needed");
    check(options(&|it| it.port = 0), "setting `mail.smtp.port`");
    check(options(&|it| it.timeout = Duration::ZERO), "setting `mail.smtp.timeout`");
    check(options(&|it| it.username.push('a')), "setting `mail.smtp.username`: and");
    let missing = || Some(PathBuf::from("/does/not/exist"));
    let login = |it: &mut SmtpOptions| {
        it.username.push('a');
        it.password_file = missing();
    };
    check(options(&login), "setting `mail.smtp.security`: must be `starttls` or `tls`");
    let encrypted = |it: &mut SmtpOptions| {
        login(it);
        it.security = Security::Tls;
    };
    check(options(&encrypted), "setting `mail.smtp.password_file`: /does/not/exist: No such file");
    check(options(&|it| it.ca = missing()), "setting `mail.smtp.ca`: /does/not/exist");
    let empty = scratch("ca");
    std::fs::write(&empty, "").unwrap();
    check(options(&|it| it.ca = Some(empty.clone())), "setting `mail.smtp.ca`: has no");
    std::fs::remove_file(empty).unwrap();
    let from = "no address".to_owned();
    check(Options { from, transport: Transport::None }, "setting `mail.from`: the address");
}

pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("faregate-{name}-{}", Uuid::now_v7()))
}
