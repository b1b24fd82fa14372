//! Tests of the configuration: precedence, names in errors, and that the default file is complete.

use super::*;
use expect_test::{Expect, expect};

const DEFAULT_FILE: &str = include_str!("../../../config.default.toml");

#[test]
fn the_default_file_equals_the_built_in_defaults_and_lists_every_setting() {
    let written: Table = DEFAULT_FILE.parse().unwrap();
    let built_in = Table::try_from(Config::default()).unwrap();
    let leaves = |table: &Table| {
        let mut leaves = Vec::new();
        collect_leaves(table, &mut Vec::new(), &mut leaves);
        leaves.into_iter().map(|path| path.join(".")).collect::<Vec<_>>()
    };
    let (mut in_file, mut known) = (leaves(&written), leaves(&built_in));
    in_file.sort();
    known.sort();
    assert_eq!(in_file, known);
    let read: Config = written.try_into().unwrap();
    assert_eq!(read, Config::default());
}

#[test]
fn every_setting_of_the_default_file_has_a_comment_and_its_variable() {
    let mut section = String::new();
    let lines: Vec<&str> = DEFAULT_FILE.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').replace('.', "_") + "_";
        } else if let Some((key, _)) = line.split_once(" = ")
            && !line.starts_with('#')
        {
            let comment = lines[..at].iter().rev().take_while(|line| line.starts_with('#'));
            let comment: String = comment.copied().collect();
            let variable = format!("FAREGATE_{section}{key}").to_uppercase();
            assert!(comment.contains(&variable), "{variable} is not named above `{line}`");
        }
    }
}

/// Shows what comes of a file, an environment and arguments.
fn check(file: &str, environment: &[(&str, &str)], arguments: Arguments, expected: Expect) {
    let dir = std::env::temp_dir().join(format!("faregate-config-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir(&dir).unwrap();
    let path = dir.join("faregate.toml");
    std::fs::write(&path, file).unwrap();
    let pairs: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let place = Place { config: Some(path), ..arguments.place.clone() };
    let arguments = Arguments { place, ..arguments };
    let shown = match Config::load_from(&arguments, &mut pairs.into_iter()) {
        Ok(config) => {
            let before = Table::try_from(Config::default()).unwrap();
            difference(&before, &Table::try_from(&config).unwrap())
        }
        Err(error) => error.to_string().replace(&dir.display().to_string(), "DIR"),
    };
    std::fs::remove_dir_all(&dir).unwrap();
    expected.assert_eq(&shown);
}

fn difference(before: &Table, after: &Table) -> String {
    let mut leaves = Vec::new();
    collect_leaves(after, &mut Vec::new(), &mut leaves);
    let get = |table: &Table, path: &[String]| {
        let value = path.iter().skip(1).try_fold(table.get(&path[0])?, |at, key| at.get(key));
        value.map(ToString::to_string)
    };
    let changed = leaves.iter().filter(|path| get(before, path) != get(after, path));
    let shown = |path: &Vec<String>| get(after, path).unwrap_or_default();
    changed.map(|path| format!("{} = {}\n", path.join("."), shown(path))).collect()
}

#[test]
fn the_command_line_beats_the_environment_which_beats_the_file() {
    let file = "listen = \"127.0.0.1:1\"\n[admission]\nrequests_max = 1\nconnections_max = 2\n";
    let environment =
        [("FAREGATE_LISTEN", "127.0.0.1:2"), ("FAREGATE_ADMISSION_REQUESTS_MAX", "3")];
    let arguments = Arguments { listen: Some("127.0.0.1:3".to_owned()), ..Arguments::default() };
    check(
        file,
        &environment,
        arguments,
        expect![[r#"
            admission.connections_max = 2
            admission.requests_max = 3
            listen = "127.0.0.1:3"
        "#]],
    );
}

#[test]
fn an_option_of_the_command_line_takes_the_name_of_a_host() {
    let arguments = Arguments {
        listen: Some("localhost:3".to_owned()),
        grpc_listen: Some("localhost:4".to_owned()),
        ..Arguments::default()
    };
    let expected = expect![[r#"
        grpc.listen = "127.0.0.1:4"
        listen = "127.0.0.1:3"
    "#]];
    check("", &[], arguments, expected);
}

#[test]
fn every_type_can_come_from_the_environment() {
    let environment = [
        ("FAREGATE_TEST_CLOCK", "true"),
        ("FAREGATE_GATEWAY_SIMULATOR_URL", "http://127.0.0.1:9000"),
        ("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1s, 2m"),
        ("FAREGATE_ACCESS_TRUSTED_PROXIES", "10.0.0.0/8, ::1"),
        ("FAREGATE_LOG_FORMAT", "json"),
        ("FAREGATE_SERVICE_HOST", "10.0.0.1"),
        ("FAREGATE_ADMIN_PASSWORD", "not a setting"),
    ];
    check(
        "",
        &environment,
        Arguments::default(),
        expect![[r#"
            access.trusted_proxies = ["10.0.0.0/8", "::1/128"]
            gateway.simulator.url = "http://127.0.0.1:9000"
            log.format = "json"
            resolver.unknown_delays = ["1s", "2m"]
            test_clock = true
        "#]],
    );
}

#[test]
fn a_database_is_named_and_its_password_not_shown() {
    let url = "postgres://me:secret@db.example.org/billing?sslmode=require";
    let environment = [("FAREGATE_DATABASE_URL", url)];
    check(
        "",
        &environment,
        Arguments::default(),
        expect![[r#"
            database.url = "postgres://me:***@db.example.org:5432/billing?sslmode=require"
        "#]],
    );
    let database = Some("postgres://me@[::1]/other".to_owned());
    let place = Place { database, ..Place::default() };
    check(
        "",
        &environment,
        Arguments { place, ..Arguments::default() },
        expect![[r#"
            database.url = "postgres://me@[::1]:5432/other?sslmode=prefer"
        "#]],
    );
    check(
        "[database]\nurl = \"postgres://me:secret@here/x?sslmode=maybe\"",
        &[],
        Arguments::default(),
        expect![
            "DIR/faregate.toml: setting `database.url`: its option `sslmode` is one of disable, prefer, require, verify-ca, verify-full"
        ],
    );
    check(
        "[database]\nurl = postgres://me:secret@here/x",
        &[],
        Arguments::default(),
        expect![
            "the configuration file DIR/faregate.toml is not TOML: line 2: string values must be quoted, expected literal string"
        ],
    );
}

#[test]
fn a_queue_between_processes_is_named_whole() {
    let role = Some("front".to_owned());
    check(
        "",
        &[],
        Arguments { role: role.clone(), ..Arguments::default() },
        expect![
            "command line: setting `role`: other than `all` needs a queue between the processes: `queue.kind`"
        ],
    );
    let queue = Some("kafka".to_owned());
    check(
        "",
        &[],
        Arguments { role: role.clone(), queue: queue.clone(), ..Arguments::default() },
        expect!["command line: setting `kafka.brokers`: is needed where `queue.kind` is `kafka`"],
    );
    let kafka_brokers = Some("a:9092,b:9092".to_owned());
    check(
        "[kafka]\nsasl_password = \"secret\"",
        &[],
        Arguments { role, queue, kafka_brokers, ..Arguments::default() },
        expect![[r#"
            kafka.brokers = "a:9092,b:9092"
            kafka.sasl_password = "***"
            queue.kind = "kafka"
            role = "front"
        "#]],
    );
}

#[test]
fn mail_by_smtp_is_set_up_whole() {
    let transport = ("FAREGATE_MAIL_TRANSPORT", "smtp");
    let host = ("FAREGATE_MAIL_SMTP_HOST", "mail.example.org");
    let username = ("FAREGATE_MAIL_SMTP_USERNAME", "me");
    let password_file = ("FAREGATE_MAIL_SMTP_PASSWORD_FILE", "/run/secrets/mail");
    let with = |environment: &[(&str, &str)], expected: Expect| {
        check("", environment, Arguments::default(), expected);
    };
    with(
        &[transport],
        expect![
            "environment variable FAREGATE_MAIL_TRANSPORT: setting `mail.smtp.host`: is needed where `mail.transport` is `smtp`"
        ],
    );
    with(
        &[transport, host, username],
        expect![
            "environment variable FAREGATE_MAIL_SMTP_USERNAME: setting `mail.smtp.username`: and `mail.smtp.password_file` are set together or not at all"
        ],
    );
    with(
        &[transport, host],
        expect![
            "environment variable FAREGATE_MAIL_SMTP_HOST: setting `mail.from`: must be an address of yours where `mail.transport` is `smtp`"
        ],
    );
    // What was set last is from another section.
    with(
        &[transport, host, ("FAREGATE_LISTEN", "127.0.0.1:1")],
        expect![
            "environment variable FAREGATE_MAIL_SMTP_HOST: setting `mail.from`: must be an address of yours where `mail.transport` is `smtp`"
        ],
    );
    let from = ("FAREGATE_MAIL_FROM", "billing@example.org");
    let clear = ("FAREGATE_MAIL_SMTP_SECURITY", "none");
    with(
        &[transport, host, username, password_file, from, clear],
        expect![
            "environment variable FAREGATE_MAIL_SMTP_SECURITY: setting `mail.smtp.security`: must be `starttls` or `tls` where there is a password"
        ],
    );
    let retries = ("FAREGATE_MAIL_RETRY_DELAYS", "1s, 2m");
    with(
        &[transport, host, username, password_file, from, retries],
        expect![[r#"
        mail.from = "billing@example.org"
        mail.retry_delays = ["1s", "2m"]
        mail.smtp.host = "mail.example.org"
        mail.smtp.password_file = "/run/secrets/mail"
        mail.smtp.username = "me"
        mail.transport = "smtp"
    "#]],
    );
}

#[test]
fn a_bad_setting_of_mail_is_named() {
    let with = |environment: &[(&str, &str)], expected: Expect| {
        check("", environment, Arguments::default(), expected);
    };
    with(
        &[("FAREGATE_MAIL_TRANSPORT", "post")],
        expect![
            "environment variable FAREGATE_MAIL_TRANSPORT: setting `mail.transport`: unknown variant `post`, expected one of `file`, `smtp`, `none`"
        ],
    );
    with(
        &[("FAREGATE_MAIL_FROM", "nobody")],
        expect![
            "environment variable FAREGATE_MAIL_FROM: setting `mail.from`: the address is invalid"
        ],
    );
    with(
        &[("FAREGATE_MAIL_BASE_URL", "example.org")],
        expect![
            "environment variable FAREGATE_MAIL_BASE_URL: setting `mail.base_url`: is no URL such as https://billing.example.org, without a query"
        ],
    );
    with(
        &[("FAREGATE_MAIL_ATTEMPTS", "0")],
        expect![
            "environment variable FAREGATE_MAIL_ATTEMPTS: setting `mail.attempts`: must be at least 1"
        ],
    );
    with(
        &[("FAREGATE_MAIL_RETRY_DELAYS", "0s")],
        expect![
            "environment variable FAREGATE_MAIL_RETRY_DELAYS: setting `mail.retry_delays`: must be more than nothing"
        ],
    );
    with(
        &[("FAREGATE_MAIL_RETRY_DELAYS", "")],
        expect![
            "environment variable FAREGATE_MAIL_RETRY_DELAYS: setting `mail.retry_delays`: are 1 to 100 periods"
        ],
    );
}

#[test]
fn kill_bills_callback_waits_ten_seconds_at_most() {
    check(
        "[push]\nkillbill_delay = \"10001ms\"",
        &[],
        Arguments::default(),
        expect!["DIR/faregate.toml: setting `push.killbill_delay`: must be at most 10s"],
    );
}

#[test]
fn a_bad_setting_is_named_with_where_it_came_from() {
    let none = || Arguments::default();
    check("listn = 1", &[], none(), expect!["DIR/faregate.toml: there is no setting `listn`"]);
    check(
        "[http]\nheaders_max = 1",
        &[],
        none(),
        expect!["DIR/faregate.toml: there is no setting `http.headers_max`"],
    );
    check(
        "[http]\nbody_timeout = \"soon\"",
        &[],
        none(),
        expect![
            "DIR/faregate.toml: setting `http.body_timeout`: `soon` is not a duration such as 250ms, 30s, 5m, 1h or 1d (at most 3650d)"
        ],
    );
    check(
        "http = 1",
        &[],
        none(),
        expect![
            "DIR/faregate.toml: setting `http`: invalid type: integer `1`, expected struct Http"
        ],
    );
    check(
        "",
        &[("FAREGATE_ADMISSION_REQUESTS_MAX", "many")],
        none(),
        expect![[
            r#"environment variable FAREGATE_ADMISSION_REQUESTS_MAX: setting `admission.requests_max`: invalid type: string "many", expected usize"#
        ]],
    );
    check(
        "[tls]\ncert = \"cert.pem\"",
        &[],
        none(),
        expect![
            "DIR/faregate.toml: setting `tls.cert`: and `tls.key` are set together or not at all"
        ],
    );
    check(
        "[admission]\nbodies_bytes_max = 1048575",
        &[],
        none(),
        expect![
            "DIR/faregate.toml: setting `admission.bodies_bytes_max`: must be at least `http.body_bytes_max`"
        ],
    );
    check(
        "[push]\nlanes = 0",
        &[],
        none(),
        expect!["DIR/faregate.toml: setting `push.lanes`: must be at least 1"],
    );
    check(
        "[operations]\nlisten = \"here\"",
        &[],
        none(),
        expect![
            "DIR/faregate.toml: setting `operations.listen`: is no address such as 127.0.0.1:9464"
        ],
    );
    let listen = Arguments { listen: Some("here".to_owned()), ..none() };
    check(
        "",
        &[],
        listen,
        expect!["command line: setting `listen`: invalid socket address syntax"],
    );
}

const GATEWAY: &str = r#"
    [gateway.http.acme-pay]
    url = "https://pay.example.com/faregate"
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"#;

#[test]
fn a_gateway_of_the_file_has_defaults_and_variables() {
    check(
        &format!("{GATEWAY}timeout = \"5s\""),
        &[("FAREGATE_GATEWAY_HTTP_ACME_PAY_IN_FLIGHT_MAX", "64")],
        Arguments::default(),
        expect![[r#"
            gateway.http.acme-pay.action_timeout = "1d"
            gateway.http.acme-pay.allow_loopback = false
            gateway.http.acme-pay.control = false
            gateway.http.acme-pay.in_flight_max = 64
            gateway.http.acme-pay.secret = "***"
            gateway.http.acme-pay.settle_after = "5s"
            gateway.http.acme-pay.timeout = "5s"
            gateway.http.acme-pay.url = "https://pay.example.com/faregate"
        "#]],
    );
}

#[test]
fn a_bad_gateway_is_named() {
    let bad = |change: (&str, &str), expected: Expect| {
        check(&GATEWAY.replace(change.0, change.1), &[], Arguments::default(), expected);
    };
    bad(
        ("acme-pay", "Acme"),
        expect![
            "DIR/faregate.toml: setting `gateway.http.Acme`: is no name of 1 to 50 lower-case letters, digits and `-`"
        ],
    );
    bad(
        ("acme-pay", "faregate-stripe"),
        expect![
            "DIR/faregate.toml: setting `gateway.http.faregate-stripe`: is the name of a gateway of Faregate"
        ],
    );
    bad(
        ("acme-pay", "killbill-payment-test"),
        expect![
            "DIR/faregate.toml: setting `gateway.http.killbill-payment-test`: is the name of a gateway of Faregate"
        ],
    );
    bad(
        ("https://pay.example.com", "https://127.0.0.1"),
        expect![
            "DIR/faregate.toml: setting `gateway.http.acme-pay.url`: leads to an address that is not public"
        ],
    );
    bad(
        ("https://pay.example.com/faregate", ""),
        expect!["DIR/faregate.toml: setting `gateway.http.acme-pay.url`: is not a URL"],
    );
    bad(
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8G"),
        expect![
            "DIR/faregate.toml: setting `gateway.http.acme-pay.secret`: is not 24 to 64 bytes in base64, with or without `whsec_`"
        ],
    );
    bad(
        ("secret", "secrets"),
        expect!["DIR/faregate.toml: there is no setting `gateway.http.acme-pay.secrets`"],
    );
    bad(
        ("url =", "settle_after = \"1ms\"\nurl ="),
        expect![
            "DIR/faregate.toml: setting `gateway.http.acme-pay.settle_after`: must be at least 1s"
        ],
    );
    bad(
        ("url =", "timeout = \"0s\"\nurl ="),
        expect![
            "DIR/faregate.toml: setting `gateway.http.acme-pay.timeout`: must be more than nothing"
        ],
    );
    bad(
        ("url =", "in_flight_max = 0\nurl ="),
        expect![
            "DIR/faregate.toml: setting `gateway.http.acme-pay.in_flight_max`: must be at least 1"
        ],
    );
    bad(
        ("[gateway.http.acme-pay]", "[gateway]\nhttp = 7\n[mail]"),
        expect![
            "DIR/faregate.toml: setting `gateway.http`: invalid type: integer `7`, expected a map"
        ],
    );
}
