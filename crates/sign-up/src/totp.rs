//! Second factors: time-based codes (TOTP, RFC 6238) and recovery codes.

use data_encoding::BASE32_NOPAD;
use domain::TenantNo;
use engine::text;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use ring::hmac;
use secrets::random;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::tokens::TokenKey;

/// Bytes of a secret: as long as the hash, as RFC 4226 recommends.
pub const SECRET_BYTES: usize = 20;

/// How many recovery codes a customer gets.
pub const RECOVERY_CODES: usize = 8;

/// How long a step is.
const STEP_SECONDS: u64 = 30;

/// Digits of a code, and how many codes there are.
const DIGITS: usize = 6;
const CODES: u32 = 1_000_000;

/// Steps before and after the current one whose codes are accepted too, because clocks differ.
const WINDOW_STEPS: u64 = 1;

/// Random bytes of a recovery code: 16 characters.
const RECOVERY_BYTES: usize = 10;

/// Characters of a recovery code between two dashes.
const RECOVERY_GROUP: usize = 4;

/// All but the unreserved characters of RFC 3986.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The secret that a customer's device derives codes from.
#[derive(Clone, Copy)]
pub struct Secret([u8; SECRET_BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new random secret.
    #[must_use]
    pub fn generate() -> Self {
        Self(random::bytes())
    }

    /// A stored secret; `None` where it has another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes to store, which have to be sealed: codes can be derived from them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The secret for typing it in.
    #[must_use]
    pub fn base32(&self) -> String {
        BASE32_NOPAD.encode(&self.0)
    }

    /// The URI for a QR code (the key URI format of Google Authenticator).
    #[must_use]
    pub fn uri(&self, issuer: &str, account: &str) -> String {
        let (secret, issuer, account) = (self.base32(), escape(issuer), escape(account));
        format!(
            "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}\
             &algorithm=SHA1&digits={DIGITS}&period={STEP_SECONDS}"
        )
    }

    /// The step that this code belongs to, if it is the current one or a neighbour. Each step may
    /// be used once: the caller stores it and passes the last one that was used.
    #[must_use]
    pub fn check(&self, code: &str, unix_seconds: u64, last_used: Option<u64>) -> Option<u64> {
        let code = &*text::code(code);
        if code.len() != DIGITS || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let now = unix_seconds / STEP_SECONDS;
        let steps = now.saturating_sub(WINDOW_STEPS)..=now.saturating_add(WINDOW_STEPS);
        let mut found = None;
        // All of them are compared, so that the duration does not reveal which one matches.
        for step in steps {
            let is_new = last_used.is_none_or(|used| step > used);
            if bool::from(self.code(step).as_bytes().ct_eq(code.as_bytes())) && is_new {
                found = found.or(Some(step));
            }
        }
        found
    }

    /// The code that a device displays at this time.
    #[must_use]
    pub fn code_at(&self, unix_seconds: u64) -> String {
        self.code(unix_seconds / STEP_SECONDS)
    }

    /// The code of a step (RFC 4226, section 5.3).
    fn code(&self, step: u64) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.0);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let mac = tag.as_ref();
        let at = usize::from(mac[mac.len() - 1] & 0x0f);
        let word = mac[at..at + 4].try_into().expect("the offset is 15 at most, of 20 bytes");
        let number = u32::from_be_bytes(word) & 0x7fff_ffff;
        format!("{:0DIGITS$}", number % CODES)
    }
}

/// Replaces a code once, where the device is lost. It is displayed once; only its MAC is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct RecoveryCode(String);

impl std::fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryCode(…)")
    }
}

impl RecoveryCode {
    /// New random codes for a customer.
    #[must_use]
    pub fn generate() -> [Self; RECOVERY_CODES] {
        std::array::from_fn(|_| Self(BASE32_NOPAD.encode(&random::bytes::<RECOVERY_BYTES>())))
    }

    /// Parses a typed code: dashes, spaces and case are ignored, and digits that are not in the
    /// alphabet stand for the letters that they resemble.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > 64 {
            return None;
        }
        let text = text::code(text);
        let typed = text.chars().filter(|c| !matches!(c, '-' | ' '));
        let meant = typed.map(|c| match c.to_ascii_uppercase() {
            '0' => 'O',
            '1' => 'I',
            '8' => 'B',
            other => other,
        });
        let code: String = meant.collect();
        let bytes = BASE32_NOPAD.decode(code.as_bytes()).ok()?;
        (bytes.len() == RECOVERY_BYTES).then_some(Self(code))
    }

    /// The display form: `ABCD-EFGH-IJKL-MNOP`.
    #[must_use]
    pub fn shown(&self) -> String {
        let groups: Vec<_> = (0..self.0.len())
            .step_by(RECOVERY_GROUP)
            .map(|at| &self.0[at..at + RECOVERY_GROUP])
            .collect();
        groups.join("-")
    }

    /// The MAC to store. A code has 80 random bits and needs no slow hash; without the key, the
    /// database alone does not allow trying codes.
    #[must_use]
    pub fn stored(&self, key: &TokenKey, tenant: TenantNo, customer: Uuid) -> [u8; 32] {
        let tenant = tenant.0.to_be_bytes();
        key.mac(&[b"recovery", &tenant, customer.as_bytes(), self.0.as_bytes()])
    }

    /// Whether this is the stored code, compared in constant time.
    #[must_use]
    pub fn matches(&self, key: &TokenKey, tenant: TenantNo, customer: Uuid, stored: &[u8]) -> bool {
        self.stored(key, tenant, customer).as_slice().ct_eq(stored).into()
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
fn escape(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, &RESERVED)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use secrets::RootKey;

    /// The secret of the test vectors of RFC 4226, appendix D, and RFC 6238, appendix B.
    const VECTORS: Secret = Secret(*b"12345678901234567890");

    #[test]
    fn codes_match_the_vectors_of_rfc_4226() {
        let codes = [
            "755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583",
            "399871", "520489",
        ];
        for (step, code) in codes.into_iter().enumerate() {
            assert_eq!(VECTORS.code(step as u64), code);
        }
    }

    #[test]
    fn codes_match_the_vectors_of_rfc_6238() {
        // The RFC gives eight digits: the last six are the same.
        for (seconds, code) in [
            (59, "94287082"),
            (1_111_111_109, "07081804"),
            (1_111_111_111, "14050471"),
            (1_234_567_890, "89005924"),
            (2_000_000_000, "69279037"),
            (20_000_000_000, "65353130"),
        ] {
            let step = VECTORS.check(&code[2..], seconds, None);
            assert_eq!(step, Some(seconds / STEP_SECONDS), "{seconds}");
        }
    }

    #[test]
    fn a_code_is_valid_in_its_step_and_its_neighbours() {
        let step = 37_037_036;
        let code = VECTORS.code(step);
        let at = |seconds| VECTORS.check(&code, seconds, None);
        assert_eq!(at((step - 1) * 30), Some(step));
        assert_eq!(at(step * 30 + 29), Some(step));
        assert_eq!(at((step + 1) * 30 + 29), Some(step));
        assert_eq!(at((step - 1) * 30 - 1), None);
        assert_eq!(at((step + 2) * 30), None);
        for at in [0, u64::MAX] {
            assert_eq!(VECTORS.check("000000", at, None), None);
        }
    }

    #[test]
    fn a_step_cannot_be_used_twice() {
        let step = 37_037_036;
        let check = |code: &str, used| VECTORS.check(code, step * 30, used);
        let code = VECTORS.code(step);
        assert_eq!(check(&code, Some(step - 1)), Some(step));
        assert_eq!(check(&code, Some(step)), None);
        // An earlier step is refused too.
        assert_eq!(check(&VECTORS.code(step - 1), Some(step)), None);
        assert_eq!(check(&VECTORS.code(step + 1), Some(step)), Some(step + 1));
    }

    #[test]
    fn malformed_codes_are_refused() {
        for code in ["", "75522", "7552240", "75522a", "7552 2a", "+55224"] {
            assert_eq!(VECTORS.check(code, 0, None), None, "{code}");
        }
        for code in ["755224", "７５５２２４", " 755 224"] {
            assert_eq!(VECTORS.check(code, 0, None), Some(0), "{code}");
        }
    }

    #[test]
    fn the_uri_follows_the_key_uri_format() {
        assert_eq!(
            VECTORS.uri("Ana & Söhne", "ana@example.com"),
            "otpauth://totp/Ana%20%26%20S%C3%B6hne:ana%40example.com\
             ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Ana%20%26%20S%C3%B6hne\
             &algorithm=SHA1&digits=6&period=30"
        );
        assert_eq!(format!("{VECTORS:?}"), "Secret(…)");
    }

    #[test]
    fn stored_secrets_are_read_back() {
        let secret = Secret::generate();
        assert_ne!(Secret::generate().0, secret.0);
        assert_eq!(Secret::from_bytes(secret.as_bytes()).unwrap().0, secret.0);
        assert!(Secret::from_bytes(&[0; 19]).is_none() && Secret::from_bytes(&[]).is_none());
    }

    #[test]
    fn recovery_codes_are_parsed_whatever_their_dashes_and_case() {
        let code = RecoveryCode::read("BOIB-2345-abcd EFGH").unwrap();
        assert_eq!(code.shown(), "BOIB-2345-ABCD-EFGH");
        assert_eq!(
            RecoveryCode::read("8018 2345 abcd efgh"),
            RecoveryCode::read("BOIB2345ABCDEFGH")
        );
        for text in ["", "BOIB-2345-ABCD-EFG", "BOIB-2345-ABCD-EFGHI", "BOIB-2349-ABCD-EFGH"] {
            assert!(RecoveryCode::read(text).is_none(), "{text}");
        }
        let long = format!("BOIB2345ABCDEFGH{}", "-".repeat(60));
        assert!(RecoveryCode::read(&long).is_none());
        assert_eq!(format!("{code:?}"), "RecoveryCode(…)");
    }

    #[test]
    fn a_recovery_code_matches_for_its_customer_only() {
        let key = TokenKey::new(&RootKey::new([7; 32]));
        let (tenant, customer) = (TenantNo(7), Uuid::from_u128(1));
        let codes = RecoveryCode::generate();
        let stored = codes[0].stored(&key, tenant, customer);
        let matching =
            codes.iter().filter(|code| code.matches(&key, tenant, customer, &stored)).count();
        assert_eq!(matching, 1);
        assert!(codes[0].matches(&key, tenant, customer, &stored));
        assert!(!codes[0].matches(&key, TenantNo(8), customer, &stored));
        assert!(!codes[0].matches(&key, tenant, Uuid::from_u128(2), &stored));
        assert!(!codes[0].matches(&key, tenant, customer, &stored[..16]));
        assert!(!codes[0].matches(&key, tenant, customer, &[]));
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(text in ".{0,80}", seconds: u64) {
            let _ = VECTORS.check(&text, seconds, None);
            if let Some(code) = RecoveryCode::read(&text) {
                prop_assert_eq!(RecoveryCode::read(&code.shown()), Some(code));
            }
        }
    }
}
