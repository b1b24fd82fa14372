//! How Kafka is reached, and what that means to librdkafka.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use rdkafka::ClientConfig;
use secrets::private_file;

use crate::signature::{ClusterKeys, Role, Signer};

/// The largest message unless set otherwise.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// How far the clocks of two machines may differ, unless set otherwise.
pub const SIGNED_WITHIN: Duration = Duration::from_secs(12 * 3_600);

/// The largest part of a record beside its message, in bytes: key, headers, framing.
const RECORD_OVERHEAD_BYTES: usize = 4 * 1024;

/// Bytes of records that a consumer has fetched ahead, in KiB.
const FETCHED_KIB_MAX: usize = 16 * 1024;

/// The connection to Kafka.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `HOST:PORT`, several with commas: some of the brokers.
    pub brokers: String,
    /// The beginning of the names of all topics and groups, before a dot.
    pub topic_prefix: String,
    /// Authentication and trusted authorities.
    pub security: Security,
    /// Whether connections without TLS may leave this machine.
    pub plaintext_off_loopback: bool,
    /// The keys that records are signed with; without them nothing is signed and everything believed.
    pub keys: Option<ClusterKeys>,
    /// How far the time of a command's signature may be from the time at which the broker appended it,
    /// before or after.
    pub signed_within: Duration,
    /// How the members of a consumer group find together.
    pub group_protocol: GroupProtocol,
    /// After how long without a sign of life a member of a classic group is given up. The protocol
    /// `consumer` leaves that to the brokers.
    pub session_timeout: Duration,
    /// How long a message may take to reach the brokers; then it is given up.
    pub delivery_timeout: Duration,
    /// After a message, those that follow it to the same partition gather for so long, and travel
    /// together.
    pub linger: Duration,
    /// The largest message, in bytes; larger ones are refused where they are sent.
    pub message_bytes_max: usize,
}

/// Authentication and trusted authorities.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Whether there is TLS, and whether there is SASL.
    pub protocol: SecurityProtocol,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; empty for none.
    pub sasl_mechanism: String,
    pub sasl_username: String,
    pub sasl_password: Secret,
    /// A PEM file with the authorities that may vouch for brokers; empty for the system's.
    pub ssl_ca_location: String,
    /// A PEM file with our certificate; empty for none.
    pub ssl_certificate_location: String,
    /// A PEM file with its key.
    pub ssl_key_location: String,
    /// The password that the key file is encrypted with; empty where it is not encrypted.
    pub ssl_key_password: Secret,
}

/// A text that is not shown.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Takes a text that is not to be shown.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "set" })
    }
}

/// Whether there is TLS, and whether there is SASL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither TLS nor SASL.
    #[default]
    Plaintext,
    /// TLS without SASL.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL with TLS.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];

    /// Kafka's name for it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }

    const fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    const fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// How the members of a consumer group find together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The brokers assign (KIP-848, Kafka 4.0 and newer).
    #[default]
    Consumer,
    /// The members assign among themselves.
    Classic,
}

impl GroupProtocol {
    const ALL: [Self; 2] = [Self::Consumer, Self::Classic];

    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Classic => "classic",
        }
    }
}

impl std::str::FromStr for SecurityProtocol {
    type Err = SettingsError;
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let found = Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(text));
        let expected = "is none of plaintext, ssl, sasl_plaintext, sasl_ssl";
        found.ok_or_else(|| SettingsError::new("security_protocol", expected))
    }
}

impl std::str::FromStr for GroupProtocol {
    type Err = SettingsError;
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let found = Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| SettingsError::new("group_protocol", "is none of consumer, classic"))
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kafka.{field} {reason}")]
pub struct SettingsError {
    pub field: &'static str,
    /// Why the value is refused.
    pub reason: String,
}

impl SettingsError {
    fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl Settings {
    /// The defaults for these brokers.
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic_prefix: "faregate".to_owned(),
            security: Security::default(),
            plaintext_off_loopback: false,
            keys: None,
            signed_within: SIGNED_WITHIN,
            group_protocol: GroupProtocol::default(),
            session_timeout: Duration::from_secs(6),
            delivery_timeout: Duration::from_secs(20),
            linger: Duration::from_millis(20),
            message_bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    /// Checks what can be checked without a broker.
    ///
    /// # Errors
    /// [`SettingsError`] names the setting.
    pub fn validate(&self) -> Result<(), SettingsError> {
        const TIMEOUT_MIN: Duration = Duration::from_secs(1);
        let broken = |field, reason: &str| Err(SettingsError::new(field, reason));
        let has_port = |it: &str| {
            it.rsplit_once(':').is_some_and(|(host, port)| {
                !host.trim().is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if !self.brokers.split(',').all(has_port) {
            return broken("brokers", "is not HOST:PORT, several with commas");
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !(1..=100).contains(&self.topic_prefix.len()) || !self.topic_prefix.chars().all(is_name)
        {
            return broken(
                "topic_prefix",
                "has 1 to 100 letters, digits, dots, dashes or underscores",
            );
        }
        if !(1024..=64 * 1024 * 1024).contains(&self.message_bytes_max) {
            return broken("message_bytes_max", "is not between 1 KiB and 64 MiB");
        }
        if self.session_timeout < TIMEOUT_MIN {
            return broken("session_timeout", "is less than a second");
        }
        if self.delivery_timeout < TIMEOUT_MIN {
            return broken("delivery_timeout", "is less than a second");
        }
        let is_plain = !self.security.protocol.has_tls();
        if is_plain && !self.plaintext_off_loopback && !self.is_on_loopback() {
            return broken(
                "security_protocol",
                "has no TLS, and kafka.brokers are not loopback: set it to ssl or sasl_ssl, or set \
                 kafka.plaintext_off_loopback if the network is trusted",
            );
        }
        self.security.validate()
    }

    /// Whether all brokers that are named are on this machine.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        self.brokers.split(',').all(|broker| {
            let host = broker.trim().rsplit_once(':').map_or("", |(host, _)| host);
            let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            match address {
                Ok(address) => address.to_canonical().is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            }
        })
    }

    /// Signs and verifies records for a producer of this role.
    pub(crate) fn signer(&self, role: Role) -> Signer {
        Signer::new(self.keys.clone(), role)
    }

    /// The settings of every client.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "faregate")
            .set("security.protocol", self.security.protocol.name())
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("socket.timeout.ms", "10000")
            .set("socket.keepalive.enable", "true")
            .set("socket.nagle.disable", "true")
            .set("log.connection.close", "false");
        let security = &self.security;
        let texts = [
            ("sasl.mechanism", &security.sasl_mechanism),
            ("sasl.username", &security.sasl_username),
            ("sasl.password", &security.sasl_password.0),
            ("ssl.ca.location", &security.ssl_ca_location),
            ("ssl.certificate.location", &security.ssl_certificate_location),
            ("ssl.key.location", &security.ssl_key_location),
            ("ssl.key.password", &security.ssl_key_password.0),
        ];
        for (name, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
            config.set(name, value);
        }
        config
    }

    /// A producer whose records are on all in-sync replicas before they count, each exactly once.
    pub(crate) fn sure_producer(&self) -> ClientConfig {
        let mut config = self.producer();
        config.set("enable.idempotence", "true").set("acks", "all");
        config
    }

    fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("message.timeout.ms", milliseconds(self.delivery_timeout))
            .set("message.max.bytes", self.record_bytes_max())
            .set("compression.type", "lz4")
            .set("partitioner", "murmur2_random");
        config
    }

    /// A consumer that belongs to a group by name only, or in earnest once it subscribes. It never
    /// makes a topic.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config
            .set("group.id", group)
            .set("allow.auto.create.topics", "false")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", FETCHED_KIB_MAX.to_string())
            .set("fetch.message.max.bytes", self.record_bytes_max())
            // A full local queue, and a broker that had an error, are looked at again soon.
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.error.backoff.ms", "100");
        config
    }

    /// A member of a consumer group.
    pub(crate) fn member(&self, group: &str) -> ClientConfig {
        const HEARTBEATS_PER_SESSION: u32 = 6;
        let mut config = self.consumer(group);
        // Questions are read on from what is committed; of commands it is a hint for tools that show
        // how far a group is behind.
        config.set("enable.auto.commit", "true").set("auto.commit.interval.ms", "1000");
        config.set("group.protocol", self.group_protocol.name());
        match self.group_protocol {
            // The brokers' settings count, and a member that names its own is refused.
            GroupProtocol::Consumer => {}
            GroupProtocol::Classic => {
                let heartbeat = self.session_timeout / HEARTBEATS_PER_SESSION;
                config
                    .set("partition.assignment.strategy", "cooperative-sticky")
                    .set("session.timeout.ms", milliseconds(self.session_timeout))
                    .set("heartbeat.interval.ms", milliseconds(heartbeat));
            }
        }
        config
    }

    /// The largest record, in bytes.
    pub(crate) fn record_bytes_max(&self) -> String {
        (self.message_bytes_max + RECORD_OVERHEAD_BYTES).to_string()
    }
}

impl Security {
    fn validate(&self) -> Result<(), SettingsError> {
        let broken = |field, reason: &str| Err(SettingsError::new(field, reason));
        let is_scram = self.sasl_mechanism.starts_with("SCRAM-");
        if !cfg!(feature = "tls") && (self.protocol.has_tls() || is_scram) {
            let field = if is_scram { "sasl_mechanism" } else { "security_protocol" };
            return broken(field, "needs a build with the feature kafka_tls");
        }
        let mechanism = self.sasl_mechanism.as_str();
        if self.protocol.has_sasl() {
            if !["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].contains(&mechanism) {
                return broken("sasl_mechanism", "is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512");
            }
            if self.sasl_username.is_empty() {
                return broken("sasl_username", "is missing");
            }
            if self.sasl_password.0.is_empty() {
                return broken("sasl_password", "is missing");
            }
        } else if !mechanism.is_empty() {
            return broken("sasl_mechanism", "needs security_protocol sasl_plaintext or sasl_ssl");
        }
        if self.ssl_certificate_location.is_empty() != self.ssl_key_location.is_empty() {
            return broken("ssl_key_location", "and ssl_certificate_location go together");
        }
        if !self.ssl_key_location.is_empty() {
            let key = Path::new(&self.ssl_key_location);
            let broken =
                |error: io::Error| SettingsError::new("ssl_key_location", error.to_string());
            private_file::open(key).map_err(broken)?;
        }
        Ok(())
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Settings), expected: &str) {
        let mut settings = Settings::new("127.0.0.1:9092, localhost:9092");
        change(&mut settings);
        let outcome = settings.validate();
        assert_eq!(outcome.map_or_else(|error| error.to_string(), |()| String::new()), expected);
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        check(|_| {}, "");
        let brokers = "kafka.brokers is not HOST:PORT, several with commas";
        for text in ["", "a", "a:0", "a:70000", "a:1,", ":9092"] {
            check(|it| text.clone_into(&mut it.brokers), brokers);
        }
        let prefix = "kafka.topic_prefix has 1 to 100 letters, digits, dots, dashes or underscores";
        check(|it| it.topic_prefix.clear(), prefix);
        check(|it| it.topic_prefix.push('/'), prefix);
        check(
            |it| it.message_bytes_max = 5,
            "kafka.message_bytes_max is not between 1 KiB and 64 MiB",
        );
        check(
            |it| it.session_timeout = Duration::ZERO,
            "kafka.session_timeout is less than a second",
        );
        check(
            |it| it.security.sasl_mechanism = "PLAIN".to_owned(),
            "kafka.sasl_mechanism needs security_protocol sasl_plaintext or sasl_ssl",
        );
        check(
            |it| it.security.protocol = SecurityProtocol::SaslPlaintext,
            "kafka.sasl_mechanism is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        );
        check(
            |it| it.security.ssl_key_location = "key.pem".to_owned(),
            "kafka.ssl_key_location and ssl_certificate_location go together",
        );
    }

    #[test]
    fn connections_without_tls_stay_on_this_machine_unless_allowed() {
        let refusal = "kafka.security_protocol has no TLS, and kafka.brokers are not loopback: set it to \
                       ssl or sasl_ssl, or set kafka.plaintext_off_loopback if the network is trusted";
        for brokers in ["[::1]:9092", "LOCALHOST:1,127.5.0.1:2", "[::ffff:127.0.0.1]:1"] {
            check(|it| brokers.clone_into(&mut it.brokers), "");
        }
        for brokers in ["kafka-1:9092", "127.0.0.1:1,10.0.0.1:2", "[::]:1", "localhost.example:1"] {
            check(|it| brokers.clone_into(&mut it.brokers), refusal);
            let allowed = |it: &mut Settings| {
                brokers.clone_into(&mut it.brokers);
                it.plaintext_off_loopback = true;
            };
            check(allowed, "");
        }
        let sasl = |it: &mut Settings| {
            "kafka-1:9092".clone_into(&mut it.brokers);
            it.security.protocol = SecurityProtocol::SaslPlaintext;
        };
        check(sasl, refusal);
    }

    #[test]
    fn tls_is_a_matter_of_the_build() {
        let refusal = if cfg!(feature = "tls") {
            ""
        } else {
            "kafka.security_protocol needs a build with the feature kafka_tls"
        };
        check(|it| it.security.protocol = SecurityProtocol::Ssl, refusal);
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("SASL_SSL".parse(), Ok(SecurityProtocol::SaslSsl));
        assert_eq!("classic".parse(), Ok(GroupProtocol::Classic));
        let error = "KIP".parse::<GroupProtocol>().unwrap_err();
        assert_eq!(error.to_string(), "kafka.group_protocol is none of consumer, classic");
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = Settings::new("a:1");
        settings.security.sasl_password = Secret::new("hunter2".to_owned());
        let shown = format!("{settings:?}");
        assert!(shown.contains("sasl_password: set") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn librdkafka_takes_every_configuration() {
        for protocol in GroupProtocol::ALL {
            let mut settings = Settings::new("127.0.0.1:1");
            settings.group_protocol = protocol;
            settings.security.protocol = SecurityProtocol::SaslPlaintext;
            settings.security.sasl_mechanism = "PLAIN".to_owned();
            settings.security.sasl_username = "u".to_owned();
            settings.security.sasl_password = Secret::new("p".to_owned());
            assert_eq!(settings.validate(), Ok(()));
            let clients = [settings.sure_producer(), settings.member("g")];
            for config in clients {
                config.create_native_config().unwrap();
            }
            let member = settings.member("g").create::<rdkafka::consumer::BaseConsumer>();
            assert!(member.is_ok(), "{:?}", member.err());
        }
    }
}
