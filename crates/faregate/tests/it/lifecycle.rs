//! Starting, stopping, and what is refused before anything is served.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::process::{Launch, Server, TempDir, eventually, faregate, run};

/// How soon an empty server has to be ready, with room for a slow debug build on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn the_first_start_keeps_generated_secrets_in_a_private_file() {
    let dir = TempDir::new();
    let launch = || Launch { arguments: vec![], environment: vec![] };
    let started = Instant::now();
    let server = Server::start_in(dir.path(), launch());
    assert!(started.elapsed() < READY_WITHIN);
    let url = server.url.clone();
    let health = Client::new(&url).get("/health/ready");
    assert_eq!((health.status, health.text().as_str()), (200, r#"{"status":"ready"}"#));
    let path = dir.path().join("first-start-credentials.txt");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let after = |label: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        line.expect(label).to_owned()
    };
    assert_eq!(after("user "), "admin");
    let password = after("password ");
    let (key, secret) = (after("API key "), after("API secret "));
    // The log is read from standard error, which is complete once the server has ended.
    let (_, shown) = server.stop();
    assert!(shown.contains("first-start-credentials.txt"), "{shown}");
    for secret in [&password, &key, &secret] {
        assert!(secret.len() >= 20 && !shown.contains(secret.as_str()), "{shown}");
    }

    let server = Server::start_in(dir.path(), launch());
    let client = Client::new(&server.url).user("admin", &password).tenant(&key, &secret);
    assert_eq!(client.get("/v1/ledger/accounts").status, 200);
    let (_, shown) = server.stop();
    assert!(!shown.contains("first start"), "{shown}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_simulators_files_are_private() {
    let dir = TempDir::new();
    let files = || {
        let files = std::fs::read_dir(dir.path().join("simulator")).unwrap();
        files.map(|it| it.unwrap().path()).collect::<Vec<_>>()
    };
    let assert_private = || {
        let files = files();
        assert!(!files.is_empty());
        for path in files {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    };
    Server::start_in(dir.path(), Launch::usual()).stop();
    assert_private();
    for path in files() {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    Server::start_in(dir.path(), Launch::usual()).stop();
    assert_private();
}

#[test]
fn the_environment_gives_the_secrets_of_the_first_start() {
    let launch = Launch::usual()
        .env("FAREGATE_FIRST_TENANT_API_KEY", "first")
        .env("FAREGATE_FIRST_TENANT_API_SECRET", "secret of the first");
    let server = Server::start_with(launch);
    let client = server.client().tenant("first", "secret of the first");
    assert_eq!(client.get("/v1/ledger/accounts").status, 200);
    assert!(!server.data_dir.join("first-start-credentials.txt").exists());
    let (_, shown) = server.stop();
    assert!(!shown.contains("secret of"), "{shown}");
}

#[test]
fn the_administrators_password_can_be_given() {
    let password = "given by the environment";
    let launch = Launch::usual().env("FAREGATE_ADMIN_PASSWORD", password);
    let server = Server::start_with(launch);
    let client = server.client().user("admin", password);
    let nameless = client.get("/v1/ledger/accounts");
    assert_eq!(nameless.json()["type"], "urn:faregate:problem:tenant-missing", "the user is known");
    let wrong = server.client().user("admin", "wrong").get("/v1/ledger/accounts");
    assert_eq!(wrong.status, 401);
    assert_eq!(wrong.json()["type"], "urn:faregate:problem:credentials-wrong");
    let (_, shown) = server.stop();
    assert!(!shown.contains(password), "{shown}");
}

/// The standard error of a start that must be refused, where other machines can reach the server.
fn refused_off_loopback(data_dir: &Path, password: Option<&str>) -> String {
    let mut start = faregate(&["serve", "--listen", "0.0.0.0:0", "--data-dir"]);
    start.arg(data_dir).envs(password.map(|it| ("FAREGATE_ADMIN_PASSWORD", it)));
    let ended = start.output().unwrap();
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn a_password_that_can_be_guessed_is_refused_off_loopback() {
    let dir = TempDir::new();
    for (given, reason) in [
        ("password", "it is tried first by everybody"),
        ("CHANGE-ME", "it is tried first by everybody"),
        ("eleven char", "it has fewer than 12 characters"),
    ] {
        let said = refused_off_loopback(&dir.path().join("new"), Some(given));
        assert!(said.contains(reason), "{given}: {said}");
        assert!(!said.contains(&format!("`{given}`")), "{said}");
        assert!(!dir.path().join("new").exists(), "a refused start makes nothing");
    }
    let mut config = faregate(&["config", "--check", "--listen", "0.0.0.0:0"]);
    let config = config.env("FAREGATE_ADMIN_PASSWORD", "password").output().unwrap();
    let said = String::from_utf8(config.stderr).unwrap();
    assert!(config.status.code() == Some(2) && said.contains("can be guessed"), "{said}");
    // The one that is stored counts, however it came there.
    let used = dir.path().join("used");
    let (_, log) = Server::start_in(&used, Launch::in_earnest()).stop();
    assert!(log.contains("the administrator's password can be guessed"), "{log}");
    for given in [None, Some("not used by this start")] {
        let said = refused_off_loopback(&used, given);
        assert!(said.contains("start on loopback and change it"), "{said}");
    }
}

#[test]
fn sigterm_ends_with_exit_code_0() {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start();
        server.signal(signal);
        let (status, _) = server.wait();
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let server = Server::start();
    let dir = server.data_dir.to_str().unwrap();
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", dir]);
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("is in use by another process") && said.contains(dir), "{said}");
}

#[test]
fn a_data_directory_of_something_else_is_refused() {
    let dir = TempDir::new();
    std::fs::write(dir.path().join("faregate.db"), b"not a database, but a text").unwrap();
    let path = dir.path().to_str().unwrap();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", path]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("faregate.db"), "{said}");
}

/// Before the database or a broker is asked for anything.
#[test]
fn brokers_elsewhere_need_tls_and_a_key() {
    let dir = TempDir::new();
    let path = dir.path().to_str().unwrap();
    let refusal = |allowed: &[&str]| {
        let config = dir.path().join("faregate.toml");
        std::fs::write(&config, format!("[kafka]\n{}", allowed.join("\n"))).unwrap();
        let mut arguments = vec!["serve", "--role", "processor", "--queue", "kafka"];
        arguments.extend(["--kafka-brokers", "kafka-1.invalid:9092", "--data-dir", path]);
        arguments.extend(["--database", "postgres://nobody@127.0.0.1:1/none?sslmode=disable"]);
        arguments.extend(["--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        let refused = run(&arguments);
        assert_eq!(refused.status.code(), Some(2));
        String::from_utf8(refused.stderr).unwrap()
    };
    let said = refusal(&[]);
    assert!(said.contains("kafka.security_protocol has no TLS"), "{said}");
    let said = refusal(&["plaintext_off_loopback = true"]);
    assert!(said.contains("`kafka.key_file` is needed"), "{said}");
    let said = refusal(&["plaintext_off_loopback = true", "key_file = \"/nowhere/kafka.key\""]);
    assert!(said.contains("the key /nowhere/kafka.key"), "{said}");
}

#[test]
fn a_hangup_does_not_end_a_server() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let server = Server::start_logging_to(file, &dir.path().join("data"), Launch::usual());
    let said = || std::fs::read_to_string(&log).unwrap();
    server.signal("-HUP");
    eventually("the signal is taken", || {
        said().contains("SIGHUP: there is no certificate to read again").then_some(())
    });
    assert_eq!(Client::new(&server.url).get("/health/ready").status, 200);
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0), "it drains as ever: {}", said());
}

#[test]
fn a_simulator_beyond_this_machine_warns_and_ends_with_its_terminal() {
    let dir = TempDir::new();
    for (listen, warns) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let simulator = Server::start_simulator(dir.path(), listen);
        simulator.signal("-HUP");
        let (status, said) = simulator.wait();
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said.contains("listens beyond this machine"), warns, "{said}");
    }
}

#[test]
fn an_address_in_use_is_refused() {
    let server = Server::start();
    let dir = TempDir::new();
    let address = server.url.strip_prefix("http://").unwrap();
    let path = dir.path().to_str().unwrap();
    let refused = run(&["serve", "--listen", address, "--data-dir", path]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(said.contains("choose another port (--listen"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made there");
}

#[test]
fn a_bad_configuration_names_its_key() {
    let dir = TempDir::new();
    let file = dir.path().join("faregate.toml");
    std::fs::write(&file, "[admission]\nrequest_max = 5\n").unwrap();
    let refused = run(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("there is no setting `admission.request_max`"), "{said}");
}

#[test]
fn the_effective_configuration_is_printed() {
    let dir = TempDir::new();
    let file = dir.path().join("faregate.toml");
    std::fs::write(&file, "data_dir = \"from-file\"\n[log]\nlevel = \"warn\"\n").unwrap();
    let mut command = faregate(&["config", "--config", file.to_str().unwrap()]);
    let output = command.args(["--listen", "127.0.0.1:1"]).env("FAREGATE_LOG_LEVEL", "error");
    let output = output.stdout(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    for line in ["listen = \"127.0.0.1:1\"", "data_dir = \"from-file\"", "level = \"error\""] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
}

/// The files of `ops/config`, with what belongs into the environment.
#[test]
fn the_configuration_of_each_deployment_is_valid() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/config");
    let mut names = vec![];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let mut command = faregate(&["config", "--config", path.to_str().unwrap()]);
        command.env("FAREGATE_DATABASE_URL", "postgres://faregate:secret@db.example.org/faregate");
        let output = command.env("FAREGATE_KAFKA_SASL_PASSWORD", "secret").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["front.toml", "postgresql.toml", "processor.toml", "single-node.toml"]);
}
