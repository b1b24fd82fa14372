//! Tokens, each of which contains a message authentication code (MAC) of what it grants.
//!
//! The database holds ids and generations, from which no token can be derived without the key.
//! Every MAC covers a label, so that a token of one kind is not valid as another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::TenantNo;
use ring::hmac;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use secrets::RootKey;

/// The purpose of a mailed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Proves that the customer reads the address.
    VerifyEmail,
    /// Allows setting a password.
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

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// Bytes of a tenant's number.
const TENANT_BYTES: usize = 4;

/// MAC of a mailed token, in bytes: 44 with the tenant and the customer's id.
const ONE_TIME_MAC_BYTES: usize = 24;

/// MAC of an access token, in bytes: 32 with the session's id, 43 characters.
const ACCESS_MAC_BYTES: usize = 16;

/// Bytes of a refresh token's generation.
const GENERATION_BYTES: usize = 4;

/// MAC of a refresh token, in bytes: 48 with session and generation, 64 characters.
const REFRESH_MAC_BYTES: usize = 28;

/// A whole MAC, in bytes.
const MAC_BYTES: usize = 32;

/// The MAC of a received token. It is compared in constant time only, and never printed.
#[derive(Clone, Copy)]
pub struct TokenMac<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> TokenMac<BYTES> {
    fn is_prefix_of(self, mac: &[u8; MAC_BYTES]) -> bool {
        self.0.as_slice().ct_eq(&mac[..BYTES]).into()
    }
}

impl<const BYTES: usize> std::fmt::Debug for TokenMac<BYTES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenMac(…)")
    }
}

/// A mailed token that was received. Nothing of it is authenticated before [`TokenKey::matches`].
#[derive(Clone, Copy, Debug)]
pub struct MailedToken {
    /// The tenant of the customer: links in mails carry no other credentials.
    pub tenant: TenantNo,
    pub customer: Uuid,
    mac: TokenMac<ONE_TIME_MAC_BYTES>,
}

impl MailedToken {
    /// Parses a text; `None` where no token has this form.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let bytes: [u8; TENANT_BYTES + ID_BYTES + ONE_TIME_MAC_BYTES] = decode(text)?;
        let (tenant, rest) = bytes.split_first_chunk()?;
        let (customer, mac) = rest.split_first_chunk()?;
        Some(Self {
            tenant: TenantNo(u32::from_be_bytes(*tenant)),
            customer: Uuid::from_bytes(*customer),
            mac: TokenMac(mac.try_into().ok()?),
        })
    }
}

/// The key that signs tokens.
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

    /// A mailed token: base64url, 59 characters. Its row determines how long it is valid.
    #[must_use]
    pub fn issue(
        &self,
        purpose: Purpose,
        tenant: TenantNo,
        customer: Uuid,
        token_id: Uuid,
    ) -> String {
        let mac = self.one_time_mac(purpose, tenant, customer, token_id);
        let tenant = tenant.0.to_be_bytes();
        BASE64.encode([&tenant[..], customer.as_bytes(), &mac[..ONE_TIME_MAC_BYTES]].concat())
    }

    /// Whether a mailed token was issued for this purpose, with this row.
    #[must_use]
    pub fn matches(&self, purpose: Purpose, token: &MailedToken, token_id: Uuid) -> bool {
        let MailedToken { tenant, customer, mac } = token;
        mac.is_prefix_of(&self.one_time_mac(purpose, *tenant, *customer, token_id))
    }

    /// The access token of a session: base64url, 43 characters.
    #[must_use]
    pub fn issue_access(&self, tenant: TenantNo, session: Uuid, generation: u32) -> String {
        let mac = self.session_mac("access", tenant, session, generation);
        BASE64.encode([session.as_bytes(), &mac[..ACCESS_MAC_BYTES]].concat())
    }

    /// Parses an access token into the session's id, which is not authenticated yet, and its MAC.
    #[must_use]
    pub fn read_access(text: &str) -> Option<(Uuid, TokenMac<ACCESS_MAC_BYTES>)> {
        let bytes: [u8; ID_BYTES + ACCESS_MAC_BYTES] = decode(text)?;
        let (session, mac) = bytes.split_first_chunk()?;
        Some((Uuid::from_bytes(*session), TokenMac(mac.try_into().ok()?)))
    }

    /// Whether a MAC is the one of the session's access token of this generation.
    #[must_use]
    pub fn matches_access(
        &self,
        tenant: TenantNo,
        (session, presented): (Uuid, TokenMac<ACCESS_MAC_BYTES>),
        generation: u32,
    ) -> bool {
        presented.is_prefix_of(&self.session_mac("access", tenant, session, generation))
    }

    /// The refresh token of a session: base64url, 64 characters.
    #[must_use]
    pub fn issue_refresh(&self, tenant: TenantNo, session: Uuid, generation: u32) -> String {
        let mac = self.session_mac("refresh", tenant, session, generation);
        let generation = generation.to_be_bytes();
        BASE64.encode([session.as_bytes(), &generation[..], &mac[..REFRESH_MAC_BYTES]].concat())
    }

    /// Verifies a refresh token and returns its session and generation. An earlier generation is
    /// authentic too; that it is used again shows that the token was copied.
    #[must_use]
    pub fn read_refresh(&self, tenant: TenantNo, text: &str) -> Option<(Uuid, u32)> {
        let bytes: [u8; ID_BYTES + GENERATION_BYTES + REFRESH_MAC_BYTES] = decode(text)?;
        let (session, rest) = bytes.split_first_chunk()?;
        let (generation, mac) = rest.split_first_chunk()?;
        let (session, generation) = (Uuid::from_bytes(*session), u32::from_be_bytes(*generation));
        let presented: TokenMac<REFRESH_MAC_BYTES> = TokenMac(mac.try_into().ok()?);
        presented
            .is_prefix_of(&self.session_mac("refresh", tenant, session, generation))
            .then_some((session, generation))
    }

    /// A MAC over fields with their lengths, so that no two lists have the same bytes.
    pub(crate) fn mac(&self, fields: &[&[u8]]) -> [u8; MAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        for field in fields {
            context.update(&(field.len() as u64).to_be_bytes());
            context.update(field);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn one_time_mac(
        &self,
        purpose: Purpose,
        tenant: TenantNo,
        customer: Uuid,
        token_id: Uuid,
    ) -> [u8; MAC_BYTES] {
        let (label, tenant) = (purpose.label().as_bytes(), tenant.0.to_be_bytes());
        self.mac(&[b"one-time", label, &tenant, customer.as_bytes(), token_id.as_bytes()])
    }

    fn session_mac(
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

/// Decodes exactly this many bytes from base64url in its canonical spelling.
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
    fn a_mailed_token_is_valid_for_its_purpose_and_customer_only() {
        let key = key();
        let text = key.issue(Purpose::VerifyEmail, TENANT, id(1), id(2));
        assert_eq!(text.len(), 59);
        let read = MailedToken::read(&text).unwrap();
        assert_eq!((read.tenant, read.customer), (TENANT, id(1)));
        let mac = read.mac;
        let matches = |key: &TokenKey, purpose, tenant, customer, token| {
            key.matches(purpose, &MailedToken { tenant, customer, mac }, token)
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
    fn an_access_token_is_valid_for_one_generation_of_its_session() {
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
    fn a_refresh_token_contains_its_generation() {
        let key = key();
        for generation in [0, 1, u32::MAX] {
            let text = key.issue_refresh(TENANT, id(1), generation);
            assert_eq!(text.len(), 64);
            assert_eq!(key.read_refresh(TENANT, &text), Some((id(1), generation)));
            assert_eq!(key.read_refresh(OTHER, &text), None);
        }
    }

    #[test]
    fn changed_tokens_are_invalid() {
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
            let read = MailedToken::read(&BASE64.encode(changed)).unwrap();
            assert!(!key.matches(Purpose::ResetPassword, &read, id(2)), "byte {at}");
        }
    }

    #[test]
    fn only_the_canonical_spelling_of_a_token_is_valid() {
        let text = key().issue_access(TENANT, id(1), 5);
        // The last of 43 characters has two unused bits.
        let last = text.chars().last().unwrap();
        let spellings = ('-'..='z').filter(|c| {
            TokenKey::read_access(&format!("{}{c}", &text[..42]))
                .is_some_and(|read| key().matches_access(TENANT, read, 5))
        });
        assert_eq!(spellings.collect::<Vec<_>>(), [last]);
        assert!(TokenKey::read_access(&format!("{text}=")).is_none());
    }

    #[test]
    fn different_lists_of_fields_have_different_macs() {
        let key = key();
        let lists: [&[&[u8]]; 5] = [&[b"ab", b"c"], &[b"a", b"bc"], &[b"abc"], &[b"abc", b""], &[]];
        for (at, list) in lists.iter().enumerate() {
            for other in &lists[at + 1..] {
                assert_ne!(key.mac(list), key.mac(other), "{list:?} {other:?}");
            }
        }
        // The kinds have different MACs for the same session and generation.
        let [access, refresh] =
            ["access", "refresh"].map(|label| key.session_mac(label, TENANT, id(1), 5));
        assert_ne!(access[..ACCESS_MAC_BYTES], refresh[..ACCESS_MAC_BYTES]);
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let (_, presented) = TokenKey::read_access(&key().issue_access(TENANT, id(1), 5)).unwrap();
        assert_eq!(format!("{:?} {presented:?}", key()), "TokenKey(…) TokenMac(…)");
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(text in ".{0,70}|[A-Za-z0-9_-]{43}|[A-Za-z0-9_-]{59}|[A-Za-z0-9_-]{64}") {
            let key = key();
            if let Some(read) = MailedToken::read(&text) {
                prop_assert!(!key.matches(Purpose::VerifyEmail, &read, id(1)));
            }
            if let Some(read) = TokenKey::read_access(&text) {
                prop_assert!(!key.matches_access(TENANT, read, 0));
            }
            prop_assert_eq!(key.read_refresh(TENANT, &text), None);
        }

        #[test]
        fn every_issued_token_is_valid(session: u128, generation: u32, tenant: u32) {
            let (key, tenant) = (key(), TenantNo(tenant));
            let access = TokenKey::read_access(&key.issue_access(tenant, id(session), generation));
            prop_assert!(key.matches_access(tenant, access.unwrap(), generation));
            let refresh = key.issue_refresh(tenant, id(session), generation);
            prop_assert_eq!(key.read_refresh(tenant, &refresh), Some((id(session), generation)));
        }
    }
}
