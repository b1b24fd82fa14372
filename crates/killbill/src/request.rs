//! What comes beside the body: query parameters and Kill Bill's headers.

use std::borrow::Cow;

use domain::Properties;
use domain::card_data::{find_card_data, looks_like_pan};
use domain::payment::{Actor, ReplyKey};
use domain::{Idempotency, RequestId, TenantNo};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use ring::digest;
use uuid::Uuid;

use crate::error::Failure;

/// The tenant's key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-killbill-apikey");
/// The tenant's secret.
pub(crate) const API_SECRET: HeaderName = HeaderName::from_static("x-killbill-apisecret");
/// The request's id, taken and given back.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LEGACY: HeaderName = HeaderName::from_static("x-killbill-request-id-req");
const CREATED_BY: HeaderName = HeaderName::from_static("x-killbill-createdby");
const REASON: HeaderName = HeaderName::from_static("x-killbill-reason");
const COMMENT: HeaderName = HeaderName::from_static("x-killbill-comment");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long Kill Bill's columns for them are, in characters.
const CREATED_BY_CHARS_MAX: usize = 50;
const REASON_CHARS_MAX: usize = 255;
const COMMENT_CHARS_MAX: usize = 255;

/// How long a request id may be, in bytes; a longer one is replaced by ours.
const REQUEST_ID_BYTES_MAX: usize = 255;

/// How long an idempotency key may be, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Plugin properties per request.
const PROPERTIES_MAX: usize = 64;
/// How long a plugin property's key may be, in characters.
const PROPERTY_KEY_CHARS_MAX: usize = 255;
/// How long a plugin property's value may be, in characters.
const PROPERTY_VALUE_CHARS_MAX: usize = 4096;

/// How much of a refused value is shown, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// A query string; parameters are found by scanning it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// The query string without its question mark.
    pub(crate) const fn new(query: &'a str) -> Self {
        Self(query)
    }

    /// A parameter's value, the first of several.
    ///
    /// # Errors
    /// One that is no text.
    pub(crate) fn text(self, name: &'static str) -> Result<Option<Cow<'a, str>>, Failure> {
        self.all(name).next().transpose()
    }

    /// Whether a parameter is `true`; everything else is false, as Kill Bill reads it.
    pub(crate) fn flag(self, name: &'static str) -> bool {
        self.raw(name).next().is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The values of a parameter that may come several times.
    pub(crate) fn all(
        self,
        name: &'static str,
    ) -> impl Iterator<Item = Result<Cow<'a, str>, Failure>> {
        self.raw(name).map(move |value| {
            decode(value).ok_or_else(|| Failure::illegal(format!("{name} is not valid UTF-8")))
        })
    }

    fn raw(self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.0.split('&').filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        })
    }
}

fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('+') {
        return percent_decode_str(raw).decode_utf8().ok();
    }
    let spaced = raw.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(Cow::Owned(decoded.into_owned()))
}

/// `pluginProperty=k=v`, each split at its first `=`; those without a value are skipped.
///
/// # Errors
/// Too many or too long ones, and card data.
pub(crate) fn plugin_properties(query: Query<'_>) -> Result<Properties, Failure> {
    let mut properties = Properties::new();
    for property in query.all("pluginProperty") {
        let property = property?;
        let Some((key, value)) = property.split_once('=') else { continue };
        if !value.is_empty() {
            properties.push((key.to_owned(), value.to_owned()));
        }
    }
    check_properties("pluginProperty", &properties)?;
    Ok(properties)
}

/// Refuses what no gateway is to be given; names the property, never its value.
///
/// # Errors
/// Too many or too long ones, control characters, and card data.
pub(crate) fn check_properties(field: &str, properties: &Properties) -> Result<(), Failure> {
    if properties.is_empty() {
        return Ok(());
    }
    if properties.len() > PROPERTIES_MAX {
        return Err(Failure::parameter(field, &format!("at most {PROPERTIES_MAX} are taken")));
    }
    for (key, value) in properties {
        if key.chars().count() > PROPERTY_KEY_CHARS_MAX || looks_like_pan(key) {
            let reason = format!("a key has more than {PROPERTY_KEY_CHARS_MAX} characters");
            return Err(Failure::parameter(field, &reason));
        }
        if value.chars().count() > PROPERTY_VALUE_CHARS_MAX {
            let reason = format!("{key} has more than {PROPERTY_VALUE_CHARS_MAX} characters");
            return Err(Failure::parameter(field, &reason));
        }
        if key.chars().any(char::is_control) || value.contains('\0') {
            return Err(Failure::parameter(field, "has a control character"));
        }
    }
    match find_card_data(properties) {
        Some(name) => Err(Failure::parameter(
            field,
            &format!("{name} holds card data, which is not taken: send a token of a vault"),
        )),
        None => Ok(()),
    }
}

/// Control plugins do not exist here; one that is asked for is not silently left out.
///
/// # Errors
/// Where one is named.
pub(crate) fn refuse_control_plugins(query: Query<'_>) -> Result<(), Failure> {
    match query.text("controlPluginName")? {
        Some(name) if !name.is_empty() => {
            let reason = format!("there is no control plugin {}", shown(&name));
            Err(Failure::parameter("controlPluginName", &reason))
        }
        Some(_) | None => Ok(()),
    }
}

/// A refused value as far as it may be shown: not long, and no card number.
pub(crate) fn shown(value: &str) -> Cow<'_, str> {
    if looks_like_pan(value) {
        return Cow::Borrowed("[not shown]");
    }
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}...", &value[..end])),
        None => Cow::Borrowed(value),
    }
}

/// The client's id of the request, if it is fit to be given back.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let given = headers.get(REQUEST_ID).or_else(|| headers.get(REQUEST_ID_LEGACY))?;
    let fit = !given.is_empty() && given.len() <= REQUEST_ID_BYTES_MAX && given.to_str().is_ok();
    fit.then_some(given)
}

/// Who asks, for the audit.
///
/// # Errors
/// `X-Killbill-CreatedBy` missing, or a header too long or no text.
pub(crate) fn actor(headers: &HeaderMap, user: &str, id: RequestId) -> Result<Actor, Failure> {
    let Some(created_by) = header(headers, &CREATED_BY, CREATED_BY_CHARS_MAX)? else {
        return Err(Failure::illegal("Header X-Killbill-CreatedBy needs to be set"));
    };
    let token = request_id(headers).and_then(|it| Uuid::try_parse_ascii(it.as_bytes()).ok());
    Ok(Actor {
        user: user.to_owned(),
        created_by,
        reason: header(headers, &REASON, REASON_CHARS_MAX)?,
        comments: header(headers, &COMMENT, COMMENT_CHARS_MAX)?,
        token: token.unwrap_or(id.0),
    })
}

fn header(
    headers: &HeaderMap,
    name: &HeaderName,
    chars_max: usize,
) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
        return Err(Failure::illegal(format!("Header {name} is not valid UTF-8")));
    };
    if text.len() > chars_max && text.chars().count() > chars_max {
        let message = format!("Header {name} should have at most {chars_max} characters");
        return Err(Failure::illegal(message));
    }
    Ok(Some(text.to_owned()))
}

/// The parts of a request that make it the same request when it comes again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Same<'a> {
    pub(crate) tenant: TenantNo,
    pub(crate) user: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// The body, or what it says beside a secret.
    pub(crate) body: &'a [u8],
}

/// Whether the request says that it may come again.
pub(crate) fn has_idempotency_key(headers: &HeaderMap) -> bool {
    headers.contains_key(IDEMPOTENCY_KEY)
}

/// The `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07), quoted or bare.
///
/// # Errors
/// One that is empty, too long, or not of visible ASCII.
pub(crate) fn idempotency(
    headers: &HeaderMap,
    same: Same<'_>,
) -> Result<Option<Idempotency>, Failure> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let bad = |reason: &str| Failure::illegal(format!("Header Idempotency-Key {reason}"));
    let text = value.to_str().map_err(|_| bad("should be visible ASCII"))?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => quoted
            .strip_suffix('"')
            .ok_or_else(|| bad("has an opening quote but no closing one"))?,
        None => text,
    };
    if key.is_empty() {
        return Err(bad("should not be empty"));
    }
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(bad("should have at most 255 characters"));
    }
    let tenant = same.tenant.0.to_be_bytes();
    let name = hash(&[&tenant, same.user.as_bytes(), key.as_bytes()]);
    let print = [same.method, same.path, same.query].map(str::as_bytes);
    let fingerprint = hash(&[print[0], print[1], print[2], same.body]);
    Ok(Some(Idempotency { key: ReplyKey(name), fingerprint }))
}

/// The first 16 bytes of SHA-256 over the parts, each with its length.
fn hash(parts: &[&[u8]]) -> Uuid {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digest = context.finish();
    Uuid::from_slice(&digest.as_ref()[..16]).expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        HeaderMap::from_iter([(name, value)])
    }

    #[test]
    fn query_parameters() {
        let query = Query::new("a=1&b=x%20y+z&c&a=2&d=%ff&e=TRUE&f=1");
        assert_eq!(query.text("a").unwrap().as_deref(), Some("1"));
        assert_eq!(query.text("b").unwrap().as_deref(), Some("x y z"));
        assert_eq!(query.text("c").unwrap().as_deref(), Some(""));
        assert_eq!(query.text("z").unwrap().as_deref(), None);
        assert!(query.text("d").is_err());
        assert_eq!(query.all("a").map(Result::unwrap).collect::<Vec<_>>(), ["1", "2"]);
        assert!(query.flag("e") && !query.flag("f") && !query.flag("c"));
    }

    #[test]
    fn plugin_properties_are_split_at_the_first_equals_sign() {
        let read = |query: &'static str| plugin_properties(Query::new(query));
        let query = "pluginProperty=a%3Db%3Dc&pluginProperty=d%3D&pluginProperty=e&x=y";
        assert_eq!(read(query).unwrap(), [("a".to_owned(), "b=c".to_owned())]);
        let refused = read("pluginProperty=ccNumber%3D4111111111111111").unwrap_err();
        let shown = format!("{refused:?}");
        assert!(shown.contains("ccNumber") && !shown.contains("4111"), "{shown}");
    }

    #[test]
    fn too_many_or_too_long_properties_are_refused() {
        let property = |length: usize| ("k".to_owned(), "v".repeat(length));
        let check = |properties: Properties| check_properties("pluginProperty", &properties);
        assert!(check(vec![property(PROPERTY_VALUE_CHARS_MAX)]).is_ok());
        assert!(check(vec![property(PROPERTY_VALUE_CHARS_MAX + 1)]).is_err());
        assert!(check(vec![property(1); PROPERTIES_MAX]).is_ok());
        assert!(check(vec![property(1); PROPERTIES_MAX + 1]).is_err());
        assert!(check(vec![("a\nb".to_owned(), "v".to_owned())]).is_err());
    }

    #[test]
    fn values_that_may_not_be_shown() {
        assert_eq!(shown("abc"), "abc");
        assert_eq!(shown("4111 1111 1111 1111"), "[not shown]");
        assert_eq!(shown(&"x".repeat(100)).len(), SHOWN_CHARS_MAX + 3);
    }

    #[test]
    fn who_asks() {
        let id = RequestId(Uuid::from_u128(9));
        let read = |headers: &HeaderMap| actor(headers, "admin", id);
        assert!(read(&HeaderMap::new()).is_err());
        // Clients send empty and blank names, and Kill Bill takes them.
        assert_eq!(read(&with(CREATED_BY, "")).unwrap().created_by, "");
        let mut headers = with(CREATED_BY, "w");
        assert_eq!(read(&headers).unwrap().token, id.0);
        headers.insert(REQUEST_ID, HeaderValue::from_static("req-1"));
        assert_eq!(read(&headers).unwrap().token, id.0);
        let token = HeaderValue::from_static("0192aabb-ccdd-7123-9456-789abcdef012");
        headers.insert(REQUEST_ID, token);
        assert_eq!(read(&headers).unwrap().token.as_u128() >> 80, 0x0192_aabb_ccdd);
        assert!(read(&with(CREATED_BY, &"x".repeat(51))).is_err());
    }

    #[test]
    fn idempotency_keys() {
        let same = |body: &'static [u8]| Same {
            tenant: TenantNo(1),
            user: "admin",
            method: "POST",
            path: "/p",
            query: "",
            body,
        };
        let read = |key: &str| idempotency(&with(IDEMPOTENCY_KEY, key), same(b"1"));
        let bare = read("abc").unwrap().unwrap();
        assert_eq!(read("\"abc\"").unwrap(), Some(bare));
        assert_ne!(read("abd").unwrap().unwrap().key, bare.key);
        let other = idempotency(&with(IDEMPOTENCY_KEY, "abc"), same(b"2")).unwrap().unwrap();
        assert_eq!((other.key, other.fingerprint == bare.fingerprint), (bare.key, false));
        for refused in ["", "\"\"", "\"abc", "  "] {
            assert!(read(refused).is_err(), "{refused}");
        }
        assert!(read(&"k".repeat(255)).is_ok() && read(&"k".repeat(256)).is_err());
        assert_eq!(idempotency(&HeaderMap::new(), same(b"")).unwrap(), None);
    }
}
