//! Mail goes out by SMTP and into files, and what went wrong is told apart.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway::mail::{
    MailError, Mailer, Options, Outgoing, Security, SmtpOptions, Template, Templates, Transport,
    Variables,
};
use uuid::Uuid;

use crate::postbox::Postbox;

const SOON: Duration = Duration::from_millis(200);

pub fn mailer(transport: Transport) -> Mailer {
    let from = "Müller & Söhne <noreply@example.org>".to_owned();
    Mailer::new(&Options { from, transport }).unwrap()
}

pub fn by(options: SmtpOptions) -> Mailer {
    mailer(Transport::Smtp(options))
}

pub fn outgoing(mailer: &Mailer, template: Template, to: &str) -> Outgoing {
    let link = || Some("https://example.org/verify-email?token=abc".to_owned());
    let variables = Variables {
        first_name: "Zoë\r\nBcc: injected@example.net".to_owned(),
        platform_name: "Müller & Söhne".to_owned(),
        email: to.to_owned(),
        action_url: template.needs_link().then(link).flatten(),
        expires_in: template.needs_link().then(|| "24 hours".to_owned()),
    };
    Outgoing {
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
async fn mails_go_over_one_connection() {
    let postbox = Postbox::start().await;
    let mailer = by(postbox.options(Security::None));
    for template in Template::ALL {
        let mail = outgoing(&mailer, template, "zoe@example.com");
        mailer.send(&mail).await.unwrap();
        let mails = postbox.mails();
        let headers = headers(mails.last().unwrap());
        assert!(headers.contains(&format!("Message-ID: {}", mail.message_id)), "{headers}");
        assert!(headers.contains("Auto-Submitted: auto-generated"), "{headers}");
        assert!(headers.lines().all(|line| !line.starts_with("Bcc")), "{headers}");
    }
    assert_eq!((postbox.mails().len(), postbox.connections()), (Template::ALL.len(), 1));
    let commands = postbox.commands();
    assert_eq!(commands[0], "EHLO example.org");
    assert_eq!(commands[1], "MAIL FROM:<noreply@example.org>");
    assert_eq!(commands[2], "RCPT TO:<zoe@example.com>");
}

#[tokio::test]
async fn a_refusal_is_for_now_or_for_good() {
    let postbox = Postbox::start().await;
    let mailer = by(postbox.options(Security::None));
    let check = async |to: &str, expected: &str| {
        assert_eq!(send(&mailer, to).await.unwrap_err().to_string(), expected);
    };
    check("busy@example.com", "not now: transient error (451): later").await;
    check("nobody@example.com", "refused: permanent error (550): no such user at all").await;
    check("spam@example.com", "refused: permanent error (554): spam").await;
    // Our login is what is refused, not the mail.
    check("stranger@example.com", "not now: permanent error (530): log in first").await;
    let other_letters =
        "refused: the server does not take addresses with other letters than ASCII's";
    check("zoë@example.com", other_letters).await;
    let said = postbox.commands().len();
    check(
        "a@example.com>\r\nDATA",
        "refused: the address has characters that addresses here do not have",
    )
    .await;
    assert_eq!(postbox.commands().len(), said, "{:?}", postbox.commands());
    send(&mailer, "zoe@example.com").await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_for_now() {
    let postbox = Postbox::start().await;
    let options = SmtpOptions { port: 1, ..postbox.options(Security::None) };
    let error = send(&by(options), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_is_left_and_its_connection_not_used_again() {
    let postbox = Postbox::start().await;
    let mailer = by(SmtpOptions { timeout: SOON, ..postbox.options(Security::None) });
    let error = send(&mailer, "hang@example.com").await.unwrap_err();
    assert!(error.to_string().ends_with("did not take the mail within 200ms"), "{error}");
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    send(&mailer, "zoe@example.com").await.unwrap();
    assert_eq!((postbox.mails().len(), postbox.connections()), (1, 2));
}

#[tokio::test]
async fn a_server_that_does_not_greet_is_left() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let postbox = Postbox::start().await;
    let port = silent.local_addr().unwrap().port();
    for security in [Security::None, Security::Starttls, Security::Tls] {
        let options = SmtpOptions { port, timeout: SOON, ..postbox.options(security) };
        let error = send(&by(options), "zoe@example.com").await.unwrap_err();
        assert!(error.to_string().ends_with("was not ready for a mail within 200ms"), "{error}");
    }
}

#[tokio::test]
async fn a_mail_that_is_given_up_leaves_nothing_to_the_next() {
    let postbox = Postbox::start().await;
    let mailer = by(postbox.options(Security::None));
    let hanging = tokio::time::timeout(SOON, send(&mailer, "hang@example.com")).await;
    assert!(hanging.is_err());
    send(&mailer, "zoe@example.com").await.unwrap();
    assert_eq!((postbox.mails().len(), postbox.connections()), (1, 2));
}

#[tokio::test]
async fn without_encryption_nothing_is_said_where_it_is_required() {
    let postbox = Postbox::start().await;
    let password = scratch("password");
    std::fs::write(&password, "secret\n").unwrap();
    let options = SmtpOptions {
        username: "me".to_owned(),
        password_file: Some(password.clone()),
        ..postbox.options(Security::Starttls)
    };
    let error = send(&by(options), "zoe@example.com").await.unwrap_err();
    assert!(error.to_string().contains("STARTTLS is not supported"), "{error}");
    assert_eq!(postbox.commands(), ["EHLO example.org"]);
    send(&by(postbox.options(Security::Opportunistic)), "zoe@example.com").await.unwrap();
    std::fs::remove_file(password).unwrap();
}

#[tokio::test]
async fn a_mail_goes_out_encrypted() {
    let postbox = Postbox::encrypted(false).await;
    for security in [Security::Starttls, Security::Opportunistic] {
        send(&by(postbox.options(security)), "zoe@example.com").await.unwrap();
    }
    let hellos = postbox.commands().iter().filter(|line| line.starts_with("EHLO")).count();
    assert_eq!((postbox.mails().len(), hellos), (2, 4));
    let stranger = SmtpOptions { ca: None, ..postbox.options(Security::Starttls) };
    let error = send(&by(stranger), "zoe@example.com").await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let unnamed =
        SmtpOptions { host: "127.0.0.1".to_owned(), ..postbox.options(Security::Starttls) };
    let error = send(&by(unnamed), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    assert_eq!(postbox.mails().len(), 2);
}

#[tokio::test]
async fn an_answer_from_before_the_encryption_is_not_believed() {
    let postbox = Postbox::encrypted(true).await;
    let error =
        send(&by(postbox.options(Security::Starttls)), "zoe@example.com").await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    // The encryption fails: nothing is said behind it.
    assert_eq!(postbox.commands(), ["EHLO example.org", "STARTTLS"]);
}

#[tokio::test]
async fn a_file_is_whole_and_its_owners_alone() {
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
    // A file is where the directory would have to be.
    let below = self::mailer(Transport::File(file));
    let error = below.send(&mail).await.unwrap_err();
    assert!(matches!(error, MailError::Temporary(_)), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn nowhere_takes_what_could_be_sent() {
    let mailer = mailer(Transport::None);
    send(&mailer, "zoe@example.com").await.unwrap();
    let error = send(&mailer, "zoe").await.unwrap_err();
    assert!(matches!(error, MailError::Permanent(_)), "{error}");
}

#[tokio::test]
async fn a_wrong_setting_is_named() {
    let options = |change: &dyn Fn(&mut SmtpOptions)| {
        let mut smtp = SmtpOptions {
            host: "localhost".to_owned(),
            port: 25,
            security: Security::None,
            username: String::new(),
            password_file: None,
            ca: None,
            timeout: SOON,
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
    check(options(&|it| it.ca = Some(empty.clone())), "setting `mail.smtp.ca`: holds no");
    std::fs::remove_file(empty).unwrap();
    let from = "nobody".to_owned();
    check(Options { from, transport: Transport::None }, "setting `mail.from`: the address is none");
}

pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("faregate-{name}-{}", Uuid::now_v7()))
}
