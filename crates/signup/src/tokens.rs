//! Tokens that prove themselves: each is a message authentication code of what it stands for.
//!
//! Rows hold ids and generations, nothing that could be presented: whoever reads the database has
//! no token. Every code is computed over a label of its own, so that a token of one sort is none of
//! another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::TenantNo;
use ring::hmac;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::keys::RootKey;

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// Bytes of the code of a token in a mail: 40 with the customer's id.
const ONE_TIME_MAC_BYTES: usize = 24;

/// Bytes of the code of an access token: 32 with the session's id, 43 characters.
const ACCESS_MAC_BYTES: usize = 16;

/// Bytes of a generation.
const GENERATION_BYTES: usize = 4;

/// Bytes of the code of a refresh token: 48 with session and generation, 64 characters.
const REFRESH_MAC_BYTES: usize = 28;

/// Bytes of a whole code.
const MAC_BYTES: usize = 32;

/// What a token in a mail is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Shows that the customer reads the address.
    VerifyEmail,
    /// Lets the customer set another password.
    ResetPassword,
}

impl Purpose {
    const fn label(self) -> &'static str {
        match self {
            Self::VerifyEmail => "verify-email",
            Self::ResetPassword => "reset-password",
        }
    }
}

/// A code as somebody presented it. It is compared in constant time only, and shown nowhere.
#[derive(Clone, Copy)]
pub struct Presented<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Presented<BYTES> {
    fn is_start_of(self, mac: &[u8; MAC_BYTES]) -> bool {
        self.0.as_slice().ct_eq(&mac[..BYTES]).into()
    }
}

impl<const BYTES: usize> std::fmt::Debug for Presented<BYTES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Presented(…)")
    }
}

/// The key that tokens are made and checked with.
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

impl TokenKey {
    /// Derives the key of tokens.
    #[must_use]
    pub fn new(root: &RootKey) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &root.derive("tokens")))
    }

    /// A token for a mail: base64url, 54 characters. It is good while the row of its id says so.
    #[must_use]
    pub fn issue(
        &self,
        purpose: Purpose,
        tenant: TenantNo,
        customer: Uuid,
        token_id: Uuid,
    ) -> String {
        let mac = self.one_time(purpose, tenant, customer, token_id);
        BASE64.encode([customer.as_bytes(), &mac[..ONE_TIME_MAC_BYTES]].concat())
    }

    /// Reads a token from a mail: whose it says that it is, and what is to be checked. Nothing is
    /// proved yet.
    #[must_use]
    pub fn read(text: &str) -> Option<(Uuid, Presented<ONE_TIME_MAC_BYTES>)> {
        let bytes: [u8; ID_BYTES + ONE_TIME_MAC_BYTES] = decode(text)?;
        let (customer, mac) = bytes.split_first_chunk()?;
        Some((Uuid::from_bytes(*customer), Presented(mac.try_into().ok()?)))
    }

    /// Whether what was presented is the code of this token.
    #[must_use]
    pub fn matches(
        &self,
        purpose: Purpose,
        tenant: TenantNo,
        (customer, presented): (Uuid, Presented<ONE_TIME_MAC_BYTES>),
        token_id: Uuid,
    ) -> bool {
        presented.is_start_of(&self.one_time(purpose, tenant, customer, token_id))
    }

    /// The access token of a session: base64url, 43 characters.
    #[must_use]
    pub fn issue_access(&self, tenant: TenantNo, session: Uuid, generation: u32) -> String {
        let mac = self.of_session("access", tenant, session, generation);
        BASE64.encode([session.as_bytes(), &mac[..ACCESS_MAC_BYTES]].concat())
    }

    /// Reads an access token: which session it says that it is of, and what is to be checked.
    #[must_use]
    pub fn read_access(text: &str) -> Option<(Uuid, Presented<ACCESS_MAC_BYTES>)> {
        let bytes: [u8; ID_BYTES + ACCESS_MAC_BYTES] = decode(text)?;
        let (session, mac) = bytes.split_first_chunk()?;
        Some((Uuid::from_bytes(*session), Presented(mac.try_into().ok()?)))
    }

    /// Whether what was presented is the access token of this generation of the session.
    #[must_use]
    pub fn matches_access(
        &self,
        tenant: TenantNo,
        (session, presented): (Uuid, Presented<ACCESS_MAC_BYTES>),
        generation: u32,
    ) -> bool {
        presented.is_start_of(&self.of_session("access", tenant, session, generation))
    }

    /// The refresh token of a session: base64url, 64 characters.
    #[must_use]
    pub fn issue_refresh(&self, tenant: TenantNo, session: Uuid, generation: u32) -> String {
        let mac = self.of_session("refresh", tenant, session, generation);
        let generation = generation.to_be_bytes();
        BASE64.encode([session.as_bytes(), &generation[..], &mac[..REFRESH_MAC_BYTES]].concat())
    }

    /// Reads and checks a refresh token: its session and its generation. An earlier generation is
    /// genuine too; that one comes back at all shows that the token was copied.
    #[must_use]
    pub fn read_refresh(&self, tenant: TenantNo, text: &str) -> Option<(Uuid, u32)> {
        let bytes: [u8; ID_BYTES + GENERATION_BYTES + REFRESH_MAC_BYTES] = decode(text)?;
        let (session, rest) = bytes.split_first_chunk()?;
        let (generation, mac) = rest.split_first_chunk()?;
        let (session, generation) = (Uuid::from_bytes(*session), u32::from_be_bytes(*generation));
        let presented: Presented<REFRESH_MAC_BYTES> = Presented(mac.try_into().ok()?);
        presented
            .is_start_of(&self.of_session("refresh", tenant, session, generation))
            .then_some((session, generation))
    }

    /// A code over fields: each with its length before it, so that no two lists are the same bytes.
    pub(crate) fn mac(&self, fields: &[&[u8]]) -> [u8; MAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        for field in fields {
            context.update(&(field.len() as u64).to_be_bytes());
            context.update(field);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn one_time(
        &self,
        purpose: Purpose,
        tenant: TenantNo,
        customer: Uuid,
        token_id: Uuid,
    ) -> [u8; MAC_BYTES] {
        let (label, tenant) = (purpose.label().as_bytes(), tenant.0.to_be_bytes());
        self.mac(&[b"one-time", label, &tenant, customer.as_bytes(), token_id.as_bytes()])
    }

    fn of_session(
        &self,
        label: &str,
        tenant: TenantNo,
        session: Uuid,
        generation: u32,
    ) -> [u8; MAC_BYTES] {
        let (tenant, generation) = (tenant.0.to_be_bytes(), generation.to_be_bytes());
        self.mac(&[label.as_bytes(), &tenant, session.as_bytes(), &generation])
    }
}

/// Exactly so many bytes in base64url, which has one spelling for them.
fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != (BYTES * 8).div_ceil(6) {
        return None;
    }
    BASE64.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENANT: TenantNo = TenantNo(7);
    const OTHER: TenantNo = TenantNo(8);

    fn key() -> TokenKey {
        TokenKey::new(&RootKey::new([7; 32]))
    }

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn a_token_of_a_mail_is_good_for_one_thing_of_one_customer() {
        let key = key();
        let text = key.issue(Purpose::VerifyEmail, TENANT, id(1), id(2));
        assert_eq!(text.len(), 54);
        let (customer, presented) = TokenKey::read(&text).unwrap();
        assert_eq!(customer, id(1));
        let matches = |key: &TokenKey, purpose, tenant, customer, token| {
            key.matches(purpose, tenant, (customer, presented), token)
        };
        assert!(matches(&key, Purpose::VerifyEmail, TENANT, id(1), id(2)));
        assert!(!matches(&key, Purpose::ResetPassword, TENANT, id(1), id(2)));
        assert!(!matches(&key, Purpose::VerifyEmail, OTHER, id(1), id(2)));
        assert!(!matches(&key, Purpose::VerifyEmail, TENANT, id(3), id(2)));
        assert!(!matches(&key, Purpose::VerifyEmail, TENANT, id(1), id(3)));
        let another = TokenKey::new(&RootKey::new([8; 32]));
        assert!(!matches(&another, Purpose::VerifyEmail, TENANT, id(1), id(2)));
    }

    #[test]
    fn an_access_token_is_good_for_one_generation_of_its_session() {
        let key = key();
        let text = key.issue_access(TENANT, id(1), 5);
        assert_eq!(text.len(), 43);
        let read = TokenKey::read_access(&text).unwrap();
        assert_eq!(read.0, id(1));
        assert!(key.matches_access(TENANT, read, 5));
        assert!(!key.matches_access(TENANT, read, 6));
        assert!(!key.matches_access(OTHER, read, 5));
        assert!(!key.matches_access(TENANT, (id(2), read.1), 5));
    }

    #[test]
    fn a_refresh_token_tells_its_generation() {
        let key = key();
        for generation in [0, 1, u32::MAX] {
            let text = key.issue_refresh(TENANT, id(1), generation);
            assert_eq!(text.len(), 64);
            assert_eq!(key.read_refresh(TENANT, &text), Some((id(1), generation)));
            assert_eq!(key.read_refresh(OTHER, &text), None);
        }
    }

    #[test]
    fn what_was_changed_is_no_token() {
        let key = key();
        let refresh = BASE64.decode(key.issue_refresh(TENANT, id(1), 5)).unwrap();
        for at in 0..refresh.len() {
            let mut changed = refresh.clone();
            changed[at] ^= 1;
            assert_eq!(key.read_refresh(TENANT, &BASE64.encode(changed)), None, "byte {at}");
        }
        let access = BASE64.decode(key.issue_access(TENANT, id(1), 5)).unwrap();
        for at in 0..access.len() {
            let mut changed = access.clone();
            changed[at] ^= 1;
            let read = TokenKey::read_access(&BASE64.encode(changed)).unwrap();
            assert!(!key.matches_access(TENANT, read, 5), "byte {at}");
        }
        let mail = BASE64.decode(key.issue(Purpose::ResetPassword, TENANT, id(1), id(2))).unwrap();
        for at in 0..mail.len() {
            let mut changed = mail.clone();
            changed[at] ^= 1;
            let read = TokenKey::read(&BASE64.encode(changed)).unwrap();
            assert!(!key.matches(Purpose::ResetPassword, TENANT, read, id(2)), "byte {at}");
        }
    }

    #[test]
    fn a_token_has_one_spelling() {
        let text = key().issue_access(TENANT, id(1), 5);
        // The last character of 43 carries two bits that mean nothing.
        let last = text.chars().last().unwrap();
        let spellings = ('-'..='z').filter(|c| {
            TokenKey::read_access(&format!("{}{c}", &text[..42]))
                .is_some_and(|read| key().matches_access(TENANT, read, 5))
        });
        assert_eq!(spellings.collect::<Vec<_>>(), [last]);
        assert!(TokenKey::read_access(&format!("{text}=")).is_none());
    }

    #[test]
    fn no_two_lists_of_fields_are_alike() {
        let key = key();
        let lists: [&[&[u8]]; 5] = [&[b"ab", b"c"], &[b"a", b"bc"], &[b"abc"], &[b"abc", b""], &[]];
        for (at, list) in lists.iter().enumerate() {
            for other in &lists[at + 1..] {
                assert_ne!(key.mac(list), key.mac(other), "{list:?} {other:?}");
            }
        }
        // The same session and generation, and yet no code is another's.
        let [access, refresh] =
            ["access", "refresh"].map(|label| key.of_session(label, TENANT, id(1), 5));
        assert_ne!(access[..ACCESS_MAC_BYTES], refresh[..ACCESS_MAC_BYTES]);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let (_, presented) = TokenKey::read_access(&key().issue_access(TENANT, id(1), 5)).unwrap();
        assert_eq!(format!("{:?} {presented:?}", key()), "TokenKey(…) Presented(…)");
    }

    proptest! {
        #[test]
        fn anything_can_be_read(text in ".{0,70}|[A-Za-z0-9_-]{43}|[A-Za-z0-9_-]{54}|[A-Za-z0-9_-]{64}") {
            let key = key();
            if let Some(read) = TokenKey::read(&text) {
                prop_assert!(!key.matches(Purpose::VerifyEmail, TENANT, read, id(1)));
            }
            if let Some(read) = TokenKey::read_access(&text) {
                prop_assert!(!key.matches_access(TENANT, read, 0));
            }
            prop_assert_eq!(key.read_refresh(TENANT, &text), None);
        }

        #[test]
        fn every_token_comes_back(session: u128, generation: u32, tenant: u32) {
            let (key, tenant) = (key(), TenantNo(tenant));
            let access = TokenKey::read_access(&key.issue_access(tenant, id(session), generation));
            prop_assert!(key.matches_access(tenant, access.unwrap(), generation));
            let refresh = key.issue_refresh(tenant, id(session), generation);
            prop_assert_eq!(key.read_refresh(tenant, &refresh), Some((id(session), generation)));
        }
    }
}
