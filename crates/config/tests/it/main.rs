//! Configurations that are refused, by the names of their settings.

use config::{Arguments, Config, Error};

fn of_environment(variables: &[(&str, &str)]) -> Result<Config, Error> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Config::load_from(&Arguments::default(), &mut variables.iter().map(own))
}

#[test]
fn a_log_level_that_is_none_is_refused() {
    let check = |level: &str, expected: Option<&str>| {
        let refused = of_environment(&[("FAREGATE_LOG_LEVEL", level)]).err();
        let expected = expected.map(|word| {
            format!(
                "environment variable FAREGATE_LOG_LEVEL: setting `log.level`: `{word}` is no level: \
                 off, error, warn, info, debug or trace"
            )
        });
        assert_eq!(refused.map(|error| error.to_string()), expected, "{level}");
    };
    for level in ["info", "warn", "warning", "WARN", "off", "info,hyper=debug", "warn, store=trace"]
    {
        check(level, None);
    }
    check("ifno", Some("ifno"));
    check("warn,hyper", Some("hyper"));
    check("warn,hyper=loud", Some("loud"));
    check("", Some(""));
}

#[test]
fn a_variable_that_is_nearly_a_setting_stops_the_start() {
    let refused = |name: &str| of_environment(&[(name, "1")]).err().map(|it| it.to_string());
    assert_eq!(
        refused("FAREGATE_LISTNE").unwrap(),
        "environment variable FAREGATE_LISTNE: there is no such setting; FAREGATE_LISTEN is one"
    );
    assert_eq!(
        refused("FAREGATE_SIGNUP_TENNANT").unwrap(),
        "environment variable FAREGATE_SIGNUP_TENNANT: there is no such setting; \
         FAREGATE_SIGNUP_TENANT is one"
    );
    // Kubernetes sets these for a service named faregate.
    for name in [
        "FAREGATE_SERVICE_HOST",
        "FAREGATE_SERVICE_PORT_HTTP",
        "FAREGATE_PORT",
        "FAREGATE_PORT_8080_TCP_ADDR",
        "FAREGATE_POSTGRES_SERVICE_HOST",
        "FAREGATE_ADMIN_PASSWORD",
        "FAREGATE_TEST_POSTGRES",
    ] {
        assert_eq!(of_environment(&[(name, "x")]).unwrap().unknown_variables, [""; 0], "{name}");
    }
    let unknown = of_environment(&[("FAREGATE_SOMETHING_ELSE", "x")]).unwrap().unknown_variables;
    assert_eq!(unknown, ["FAREGATE_SOMETHING_ELSE"]);
}

#[test]
fn a_conflict_names_where_its_own_setting_is_from() {
    let variables = [("FAREGATE_TLS_CERT", "a.pem"), ("FAREGATE_LOG_LEVEL", "warn")];
    assert_eq!(
        of_environment(&variables).unwrap_err().to_string(),
        "environment variable FAREGATE_TLS_CERT: setting `tls.cert`: and `tls.key` are set together or \
         not at all"
    );
}

#[test]
fn a_test_clock_that_others_can_reach_needs_a_setting_of_its_own() {
    let clock = ("FAREGATE_TEST_CLOCK", "true");
    let refused = |more: &[(&str, &str)]| {
        let variables = [&[clock], more].concat();
        of_environment(&variables).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&[]), None, "the default listens on loopback");
    assert_eq!(refused(&[("FAREGATE_LISTEN", "[::1]:8080")]), None);
    let allowed = ("FAREGATE_TEST_CLOCK_OFF_LOOPBACK", "true");
    for address in [
        ("FAREGATE_LISTEN", "0.0.0.0:8080"),
        ("FAREGATE_LISTEN", "[::]:8080"),
        ("FAREGATE_LISTEN", "192.0.2.1:8080"),
        ("FAREGATE_GRPC_LISTEN", "0.0.0.0:9090"),
    ] {
        let said = refused(&[address]).unwrap();
        assert!(
            said.starts_with("environment variable FAREGATE_TEST_CLOCK: setting `test_clock`: "),
            "{said}"
        );
        assert_eq!(refused(&[address, allowed]), None, "{address:?}");
    }
}

#[test]
fn a_previous_key_needs_the_key_that_signs() {
    let previous = ("FAREGATE_KAFKA_PREVIOUS_KEY_FILE", "/old.key");
    let refused = of_environment(&[previous]).unwrap_err().to_string();
    assert!(refused.contains("`kafka.previous_key_file`: needs `kafka.key_file`"), "{refused}");
    assert!(of_environment(&[previous, ("FAREGATE_KAFKA_KEY_FILE", "/new.key")]).is_ok());
}

#[test]
fn this_machine_is_unlimited_while_no_other_reaches_the_server() {
    let check = |variables: &[(&str, &str)], expected: &[&str]| {
        let unlimited = of_environment(variables).unwrap().unlimited_networks();
        let unlimited: Vec<String> = unlimited.iter().map(ToString::to_string).collect();
        assert_eq!(unlimited, expected, "{variables:?}");
    };
    let proxy = ("FAREGATE_ACCESS_TRUSTED_PROXIES", "10.0.0.0/8");
    check(&[], &["127.0.0.0/8", "::1/128"]);
    check(&[("FAREGATE_LISTEN", "[::1]:8080")], &["127.0.0.0/8", "::1/128"]);
    check(&[("FAREGATE_LISTEN", "0.0.0.0:8080")], &[]);
    check(&[("FAREGATE_GRPC_LISTEN", "0.0.0.0:9090")], &[]);
    check(&[proxy], &["10.0.0.0/8"]);
    check(&[proxy, ("FAREGATE_LISTEN", "0.0.0.0:8080")], &["10.0.0.0/8"]);
}
