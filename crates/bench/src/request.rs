//! Request templates: a request is a copy of the template with a key and an account filled in.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use command_line::Target;

/// Bytes of a flow's key: the run in hexadecimal, a dash, the flow's number in hexadecimal.
pub const KEY_BYTES: usize = 16 + 1 + 10;
/// Bytes of an entity's id as the API writes it.
pub const ID_BYTES: usize = 36;

/// Stands for a byte of the key in a template's text; no header or body contains it.
const KEY_MARK: char = '\u{1}';
/// Stands for a byte of the account's id.
const ID_MARK: char = '\u{2}';

/// A flow's key as text: part of all its external keys.
pub type FlowKey = [u8; KEY_BYTES];
/// An entity's id as text.
pub type IdText = [u8; ID_BYTES];

/// The user and the tenant of a request.
#[derive(Clone)]
pub struct Identity {
    pub user: String,
    /// The user's password.
    pub password: String,
    pub api_key: String,
    /// The tenant's secret.
    pub api_secret: String,
}

/// A credential that a header cannot carry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: only visible ASCII characters can be sent")]
pub struct Unsendable(&'static str);

impl Identity {
    /// The head of a request up to and without `Content-Length`.
    pub fn head(&self, target: &Target, method: &str, path: &str) -> Result<String, Unsendable> {
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible(&self.api_key) {
            return Err(Unsendable("--api-key"));
        }
        if !visible(&self.api_secret) {
            return Err(Unsendable("--api-secret"));
        }
        let authorization = self.authorization()?;
        Ok(format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: {authorization}\r\n\
             X-Killbill-ApiKey: {}\r\nX-Killbill-ApiSecret: {}\r\nX-Killbill-CreatedBy: bench\r\n\
             Accept: application/json\r\nContent-Type: application/json\r\n",
            target.authority, self.api_key, self.api_secret
        ))
    }

    /// The metadata of a gRPC call.
    pub fn metadata(&self) -> Result<HeaderMap, Unsendable> {
        let value =
            |option, text: &str| HeaderValue::from_str(text).map_err(|_| Unsendable(option));
        let authorization = value("--user", &self.authorization()?)?;
        let mut metadata = HeaderMap::new();
        metadata.insert(header::TE, HeaderValue::from_static("trailers"));
        metadata.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        metadata.insert(header::AUTHORIZATION, authorization);
        metadata.insert("x-faregate-apikey", value("--api-key", &self.api_key)?);
        metadata.insert("x-faregate-apisecret", value("--api-secret", &self.api_secret)?);
        Ok(metadata)
    }

    fn authorization(&self) -> Result<String, Unsendable> {
        basic(&self.user, &self.password)
    }
}

/// The value of `Authorization` for a user (RFC 7617).
pub fn basic(user: &str, password: &str) -> Result<String, Unsendable> {
    if user.contains(':') {
        return Err(Unsendable("--user"));
    }
    Ok(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

/// A part of a request that differs from flow to flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Key,
    Account,
}

/// A request with gaps for a flow's key and account.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    slots: Vec<(usize, Slot)>,
}

impl Template {
    /// Builds a template. `{key}` in the body stands for the flow's key, `{account}` in the path
    /// for the account's id.
    pub fn new(
        identity: &Identity,
        target: &Target,
        path: &str,
        body: &str,
    ) -> Result<Self, Unsendable> {
        let path = path.replace("{account}", &ID_MARK.to_string().repeat(ID_BYTES));
        let body = body.replace("{key}", &KEY_MARK.to_string().repeat(KEY_BYTES));
        let mut text = identity.head(target, "POST", &path)?;
        write!(text, "Content-Length: {}\r\n\r\n{body}", body.len())
            .expect("writing to a String does not fail");
        let bytes = text.into_bytes();
        let mut slots = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let slot = match char::from(bytes[at]) {
                KEY_MARK => Some(Slot::Key),
                ID_MARK => Some(Slot::Account),
                _ => None,
            };
            slots.extend(slot.map(|slot| (at, slot)));
            at += slot.map_or(1, Slot::len);
        }
        Ok(Self { bytes, slots })
    }

    /// Writes the request for one flow into `into`, which is cleared first.
    pub fn fill(&self, key: &FlowKey, account: &IdText, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.bytes);
        for (at, slot) in &self.slots {
            let range: Range<usize> = *at..at + slot.len();
            match slot {
                Slot::Key => into[range].copy_from_slice(key),
                Slot::Account => into[range].copy_from_slice(account),
            }
        }
    }
}

impl Slot {
    const fn len(self) -> usize {
        match self {
            Self::Key => KEY_BYTES,
            Self::Account => ID_BYTES,
        }
    }
}

/// The key of a run's `number`-th flow.
pub fn flow_key(run: u64, number: u64) -> FlowKey {
    let mut key = [b'-'; KEY_BYTES];
    hexadecimal(run, &mut key[..16]);
    hexadecimal(number, &mut key[17..]);
    key
}

fn hexadecimal(mut value: u64, into: &mut [u8]) {
    for digit in into.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

/// The id at the end of a `Location`, with or without a slash behind it.
pub fn id_of(location: &[u8]) -> Option<IdText> {
    let path = location.strip_suffix(b"/").unwrap_or(location);
    let id = path.rsplit(|byte| *byte == b'/').next()?;
    let id: IdText = id.try_into().ok()?;
    let is_uuid_text = id.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    is_uuid_text.then_some(id)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn identity() -> Identity {
        Identity {
            user: "admin".to_owned(),
            password: "password".to_owned(),
            api_key: "bob".to_owned(),
            api_secret: "lazar".to_owned(),
        }
    }

    fn target() -> Target {
        Target::parse("--url", "127.0.0.1:8080").unwrap()
    }

    #[test]
    fn filled_template_has_key_and_account() {
        let path = "/1.0/kb/accounts/{account}/payments";
        let template =
            Template::new(&identity(), &target(), path, r#"{"a":"{key}","b":"t-{key}"}"#).unwrap();
        let mut request = b"left over".to_vec();
        template.fill(&flow_key(0xfeed, 0x12), &[b'a'; ID_BYTES], &mut request);
        expect![[r#"
            POST /1.0/kb/accounts/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/payments HTTP/1.1
            Host: 127.0.0.1:8080
            Authorization: Basic YWRtaW46cGFzc3dvcmQ=
            X-Killbill-ApiKey: bob
            X-Killbill-ApiSecret: lazar
            X-Killbill-CreatedBy: bench
            Accept: application/json
            Content-Type: application/json
            Content-Length: 71

            {"a":"000000000000feed-0000000012","b":"t-000000000000feed-0000000012"}"#]]
        .assert_eq(&String::from_utf8(request).unwrap().replace("\r\n", "\n"));
    }

    #[test]
    fn credentials_with_control_characters_are_refused() {
        let refuse = |identity: Identity| identity.head(&target(), "GET", "/").unwrap_err();
        let break_key = Identity { api_key: "bob\r\nX: y".to_owned(), ..identity() };
        assert_eq!(refuse(break_key), Unsendable("--api-key"));
        let break_secret = Identity { api_secret: "lazar\n".to_owned(), ..identity() };
        assert_eq!(refuse(break_secret), Unsendable("--api-secret"));
        let colon = Identity { user: "a:b".to_owned(), ..identity() };
        assert_eq!(refuse(colon), Unsendable("--user"));
    }

    #[test]
    fn id_is_the_last_segment_of_a_location() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        for location in [format!("http://h:1/1.0/kb/payments/{id}/"), format!("/a/{id}")] {
            assert_eq!(id_of(location.as_bytes()).as_ref().map(|id| &id[..]), Some(id.as_bytes()));
        }
        for location in
            ["", "/", "http://h/1.0/kb/accounts", "/a/01890a5d-ac96-774b-bcce-b302099a805z"]
        {
            assert_eq!(id_of(location.as_bytes()), None, "{location}");
        }
    }

    #[test]
    fn keys_differ_by_run_and_number() {
        assert_ne!(flow_key(1, 2), flow_key(1, 3));
        assert_ne!(flow_key(1, 2), flow_key(2, 2));
        assert_eq!(&flow_key(u64::MAX, 0)[..], b"ffffffffffffffff-0000000000");
    }
}
