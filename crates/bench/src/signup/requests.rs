//! The requests of a run, each for another user, and the check of their responses.

use std::fmt::Write as _;

use serde::Deserialize;

use command_line::Target;

/// Satisfies the rules for passwords.
const PASSWORD: &str = "LoadTest123@";

/// The operation under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The registration of a user.
    Registration,
    /// The billing account alone.
    Account,
}

impl Operation {
    /// The path of its POST.
    const fn path(self) -> &'static str {
        match self {
            Self::Registration => "/user/auth/register",
            Self::Account => "/billing/api/billing/accounts/",
        }
    }

    /// The health check of the service under load.
    pub const fn health_path(self) -> &'static str {
        match self {
            Self::Registration => "/user/health",
            Self::Account => "/billing/health",
        }
    }

    /// The status of a success.
    const fn created(self) -> u16 {
        match self {
            Self::Registration => 201,
            Self::Account => 200,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::Account => "account",
        }
    }

    /// The plural of its name, for headings.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Registration => "registrations",
            Self::Account => "accounts",
        }
    }

    /// The body for a user that no other run and no other number has.
    fn body(self, run: u64, number: u64) -> String {
        let email = format!("cap_{run:016x}_{number}@loadtest.example.com");
        match self {
            Self::Registration => format!(
                r#"{{"email":"{email}","password":"{PASSWORD}","first_name":"John","last_name":"Smith","accept_terms":true}}"#
            ),
            Self::Account => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&run.to_be_bytes());
                bytes[8..].copy_from_slice(&number.to_be_bytes());
                let customer = uuid::Builder::from_random_bytes(bytes).into_uuid();
                format!(
                    r#"{{"customer_id":"{customer}","email":"{email}","name":"John Smith","currency":"USD"}}"#
                )
            }
        }
    }

    /// The whole request, with header lines of credentials if some are given.
    pub fn request(
        self,
        target: &Target,
        credentials: Option<&str>,
        (run, number): (u64, u64),
    ) -> Vec<u8> {
        let body = self.body(run, number);
        let mut text = String::with_capacity(body.len() + 256);
        write!(
            text,
            "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            self.path(),
            target.authority,
            body.len()
        )
        .expect("writing to a String does not fail");
        text.extend([credentials.unwrap_or_default(), "\r\n", &body]);
        text.into_bytes()
    }

    /// The verdict on a response. Success needs both the status and the body's `success`.
    pub fn verdict(self, status: u16, body: &[u8]) -> Verdict {
        #[derive(Deserialize)]
        struct Body {
            success: bool,
        }
        if matches!(status, 429 | 503) {
            return Verdict::Refused;
        }
        if status != self.created() {
            return Verdict::Failed(status.to_string());
        }
        match serde_json::from_slice(body) {
            Ok(Body { success: true }) => Verdict::Done,
            Ok(Body { success: false }) => Verdict::Failed(format!("{status} without success")),
            Err(_) => Verdict::Failed(format!("{status} without a word on success")),
        }
    }
}

/// How the result of a request is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// Refused under load: nothing happened.
    Refused,
    /// A failure, by kind.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn shown(operation: Operation, number: u64) -> String {
        let target = Target::parse("--url", "127.0.0.1:8080").unwrap();
        let credentials = (operation == Operation::Account)
            .then_some("Authorization: Basic YWRtaW46cGFzc3dvcmQ=\r\n");
        let request = operation.request(&target, credentials, (0xfeed, number));
        String::from_utf8(request).unwrap().replace("\r\n", "\n")
    }

    #[test]
    fn requests_are_unique_per_number() {
        expect![[r#"
            POST /user/auth/register HTTP/1.1
            Host: 127.0.0.1:8080
            Accept: application/json
            Content-Type: application/json
            Content-Length: 141

            {"email":"cap_000000000000feed_7@loadtest.example.com","password":"LoadTest123@","first_name":"John","last_name":"Smith","accept_terms":true}"#]]
        .assert_eq(&shown(Operation::Registration, 7));
        expect![[r#"
            POST /billing/api/billing/accounts/ HTTP/1.1
            Host: 127.0.0.1:8080
            Accept: application/json
            Content-Type: application/json
            Content-Length: 145
            Authorization: Basic YWRtaW46cGFzc3dvcmQ=

            {"customer_id":"00000000-0000-4eed-8000-000000000007","email":"cap_000000000000feed_7@loadtest.example.com","name":"John Smith","currency":"USD"}"#]].assert_eq(&shown(Operation::Account, 7));
        assert_ne!(shown(Operation::Account, 7), shown(Operation::Account, 8));
    }

    #[test]
    fn success_needs_status_and_body() {
        let check = |operation: Operation, status, body: &str, expected: Verdict| {
            assert_eq!(
                operation.verdict(status, body.as_bytes()),
                expected,
                "{operation:?} {status} {body}"
            );
        };
        let failed = |kind: &str| Verdict::Failed(kind.to_owned());
        let body = r#"{"success":true,"message":"x"}"#;
        check(Operation::Registration, 201, body, Verdict::Done);
        check(Operation::Registration, 200, body, failed("200"));
        check(Operation::Registration, 202, body, failed("202"));
        check(Operation::Account, 200, body, Verdict::Done);
        check(Operation::Account, 201, body, failed("201"));
        check(Operation::Account, 200, r#"{"success":false}"#, failed("200 without success"));
        for body in ["", "{}", r#"{"success":"yes"}"#, "<html>"] {
            check(Operation::Registration, 201, body, failed("201 without a word on success"));
        }
        check(Operation::Registration, 503, body, Verdict::Refused);
        check(Operation::Account, 429, "", Verdict::Refused);
        check(Operation::Registration, 409, "", failed("409"));
    }
}
