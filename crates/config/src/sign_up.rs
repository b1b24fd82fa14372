//! Settings of sign-up.

use domain::Currency;
use serde::{Deserialize, Serialize};
use sign_up::limits;
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
    /// How long after a renewal the refresh token before it gets the same tokens again, on the same
    /// network.
    pub refresh_grace: Period,
    /// How long a session lasts at most, however often it is renewed.
    pub session_max: Period,
    /// The issuer that authenticator apps show beside the address.
    pub issuer: String,
    /// The currency of new accounts, ISO 4217.
    pub currency: String,
    /// Whether internal routes need no authentication.
    pub trust_internal: bool,
    /// Whether `DELETE /user/users/account` needs the password, and a code of a second factor.
    pub erasure_needs_password: bool,
    /// The interval of the synthetic registration; 0: never.
    pub probe_interval: Period,
    pub limits: limits::Settings,
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
            refresh_grace: Period::seconds(10),
            session_max: Period::seconds(180 * DAY),
            issuer: "Faregate".to_owned(),
            currency: "USD".to_owned(),
            trust_internal: false,
            erasure_needs_password: true,
            probe_interval: Period::seconds(60),
            limits: limits::Settings::default(),
        }
    }
}

impl Signup {
    /// The cost of new hashes; `None` where the settings are out of bounds.
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
        let currency = Currency::parse(&self.currency);
        if currency.is_none_or(|it| it.successor().is_some()) {
            return Err(("signup.currency", "is no currency of ISO 4217, or a retired one"));
        }
        if self.tenant.is_empty() {
            return Err(("signup.tenant", "must be a tenant's external key or API key"));
        }
        if self.refresh_grace.0 > std::time::Duration::from_secs(60) {
            return Err(("signup.refresh_grace", "must be at most 60s"));
        }
        if self.session_max.0 < self.session.0 {
            return Err(("signup.session_max", "must be at least `signup.session`"));
        }
        if self.queue_wait_max.0.is_zero() {
            return Err(("signup.queue_wait_max", "must be more than nothing"));
        }
        Ok(())
    }
}
