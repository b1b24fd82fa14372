//! Settings of sign-up.

use domain::Currency;
use serde::{Deserialize, Serialize};
use sign_up::limits::Settings;
use sign_up::passwords::Cost;

use super::period::Period;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signup {
    /// The file with the 32-byte root key of tokens and second factors; empty: `signup.key` in the
    /// data directory, if the database is there too.
    pub key_file: String,
    /// Whether to accept a key that differs from the one that the database was written with.
    pub key_replaced: bool,
    /// The tenant of requests without tenant headers: its external key or API key.
    pub tenant: String,
    /// How long a password may wait to be hashed; a request that would wait longer is refused at once.
    pub queue_wait_max: Period,
    /// Threads that hash passwords; 0: one for each core but one.
    pub hashing_threads: usize,
    /// Memory of a hash, in KiB.
    pub argon2_memory_kib: u32,
    /// Passes over it.
    pub argon2_passes: u32,
    /// How long an address may stay unverified before its customer is erased.
    pub verify_within: Period,
    /// Validity of a mailed link that resets a password.
    pub reset_within: Period,
    /// Validity of an access token.
    pub session: Period,
    /// Validity of an access token with `rememberMe`.
    pub session_remembered: Period,
    /// Validity of a refresh token.
    pub refresh: Period,
    /// The issuer that authenticator apps show beside the address.
    pub issuer: String,
    /// The currency of new accounts, ISO 4217.
    pub currency: String,
    /// Whether internal routes need no authentication.
    pub trust_internal: bool,
    /// The interval of the synthetic registration; 0: never.
    pub probe_interval: Period,
    pub limits: Limits,
}

/// Rate limits; above them 429. 0: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Registrations from one network in a minute.
    pub registrations_per_minute: u32,
    /// Logins with one address from one network in a minute.
    pub logins_per_minute: u32,
    /// Logins from one network in a minute.
    pub network_logins_per_minute: u32,
    /// Codes of second factors for one address in an hour.
    pub codes_per_hour: u32,
    /// Mails with tokens to one address in an hour.
    pub mails_per_hour: u32,
    /// Mails with tokens that one network requests in an hour.
    pub network_mails_per_hour: u32,
    /// Mailed tokens that one network sends in a minute.
    pub tokens_per_minute: u32,
    /// Refresh tokens that one network sends in a minute.
    pub refreshes_per_minute: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let it = Settings::default();
        Self {
            registrations_per_minute: it.registrations_per_minute,
            logins_per_minute: it.logins_per_minute,
            network_logins_per_minute: it.network_logins_per_minute,
            codes_per_hour: it.codes_per_hour,
            mails_per_hour: it.mails_per_hour,
            network_mails_per_hour: it.network_mails_per_hour,
            tokens_per_minute: it.tokens_per_minute,
            refreshes_per_minute: it.refreshes_per_minute,
        }
    }
}

impl Limits {
    /// The same in the words of sign-up.
    #[must_use]
    pub const fn settings(self) -> Settings {
        Settings {
            registrations_per_minute: self.registrations_per_minute,
            logins_per_minute: self.logins_per_minute,
            network_logins_per_minute: self.network_logins_per_minute,
            codes_per_hour: self.codes_per_hour,
            mails_per_hour: self.mails_per_hour,
            network_mails_per_hour: self.network_mails_per_hour,
            tokens_per_minute: self.tokens_per_minute,
            refreshes_per_minute: self.refreshes_per_minute,
        }
    }
}

impl Default for Signup {
    fn default() -> Self {
        const DAY: u64 = 24 * 3_600;
        Self {
            key_file: String::new(),
            key_replaced: false,
            tenant: "default".to_owned(),
            queue_wait_max: Period::seconds(25),
            hashing_threads: 0,
            argon2_memory_kib: 19 * 1024,
            argon2_passes: 2,
            verify_within: Period::seconds(2 * DAY),
            reset_within: Period::seconds(DAY),
            session: Period::seconds(7 * DAY),
            session_remembered: Period::seconds(30 * DAY),
            refresh: Period::seconds(30 * DAY),
            issuer: "Faregate".to_owned(),
            currency: "USD".to_owned(),
            trust_internal: false,
            probe_interval: Period::seconds(60),
            limits: Limits::default(),
        }
    }
}

impl Signup {
    /// What new hashes cost, if that can be.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        Cost::new(self.argon2_memory_kib, self.argon2_passes, 1)
    }

    /// Which setting cannot be, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.cost().is_none() {
            return Err((
                "signup.argon2_memory_kib",
                "is 8 to 262144, with 1 to 10 of `signup.argon2_passes`",
            ));
        }
        if Currency::parse(&self.currency).is_none() {
            return Err(("signup.currency", "is no currency of ISO 4217"));
        }
        if self.queue_wait_max.0.is_zero() {
            return Err(("signup.queue_wait_max", "must be more than nothing"));
        }
        Ok(())
    }
}
