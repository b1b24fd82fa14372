//! Query parameters and Kill Bill's headers.

use std::borrow::Cow;

use domain::Properties;
use domain::card_data::{contains_pan, find_card_data};
use domain::payment::{Actor, ReplyKey};
use domain::{Idempotency, RequestId, TenantNo, Timestamp};
use engine::access::text_of_header;
use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;
use web::fingerprint;

use crate::date;
use crate::error::Failure;

/// The tenant's API key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-killbill-apikey");
/// The tenant's API secret.
pub(crate) const API_SECRET: HeaderName = HeaderName::from_static("x-killbill-apisecret");
/// The id of the request, which the response repeats.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LEGACY: HeaderName = HeaderName::from_static("x-killbill-request-id-req");
const CREATED_BY: HeaderName = HeaderName::from_static("x-killbill-createdby");
const REASON: HeaderName = HeaderName::from_static("x-killbill-reason");
const COMMENT: HeaderName = HeaderName::from_static("x-killbill-comment");

/// The lengths of Kill Bill's columns, in characters.
const CREATED_BY_CHARS_MAX: usize = 50;
const REASON_CHARS_MAX: usize = 255;
const COMMENT_CHARS_MAX: usize = 255;

/// The longest request id that is repeated, in bytes; a longer one is replaced by ours.
const REQUEST_ID_BYTES_MAX: usize = 255;

/// The most plugin properties of a request.
const PROPERTIES_MAX: usize = 64;
/// The longest key of a plugin property, in characters.
const PROPERTY_KEY_CHARS_MAX: usize = 255;
/// The longest value of a plugin property, in characters.
const PROPERTY_VALUE_CHARS_MAX: usize = 4096;

/// How much of a refused value a message contains, in characters.
const PRINTABLE_CHARS_MAX: usize = 64;

/// A query string; each lookup scans it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// The query string without its question mark.
    pub(crate) const fn new(query: &'a str) -> Self {
        Self(query)
    }

    /// All parameters as they were sent.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// The value of the first parameter of this name.
    ///
    /// # Errors
    /// 400 if it is not UTF-8.
    pub(crate) fn text(self, name: &'static str) -> Result<Option<Cow<'a, str>>, Failure> {
        self.all(name).next().transpose()
    }

    /// Whether a parameter is `true`, in any case. Everything else is false, as in Kill Bill.
    pub(crate) fn flag(self, name: &'static str) -> bool {
        let value = web::query::values(self.0, name).next().and_then(Result::ok);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The date in the first parameter of this name; `None` if it is empty.
    ///
    /// # Errors
    /// 400 if it is no date.
    pub(crate) fn date(self, name: &'static str) -> Result<Option<Timestamp>, Failure> {
        let Some(text) = self.text(name)?.filter(|it| !it.is_empty()) else { return Ok(None) };
        let invalid = || Failure::illegal(format!("{name}: {} is no date", printable(&text)));
        date::parse(&text).map(Some).ok_or_else(invalid)
    }

    /// The values of all parameters of this name.
    pub(crate) fn all(
        self,
        name: &'static str,
    ) -> impl Iterator<Item = Result<Cow<'a, str>, Failure>> {
        web::query::values(self.0, name).map(move |value| {
            value.map_err(|_| Failure::illegal(format!("{name} is not valid UTF-8")))
        })
    }
}

/// Parses `pluginProperty=k=v`, each split at its first `=`; those without a value are skipped.
///
/// # Errors
/// See [`check_properties`].
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

/// Refuses properties that no gateway may receive. The message names the property, never its value.
///
/// # Errors
/// 400 if there are too many or too long ones, control characters, or card data.
pub(crate) fn check_properties(field: &str, properties: &Properties) -> Result<(), Failure> {
    if properties.is_empty() {
        return Ok(());
    }
    if properties.len() > PROPERTIES_MAX {
        return Err(Failure::parameter(field, &format!("at most {PROPERTIES_MAX} are taken")));
    }
    for (key, value) in properties {
        if key.chars().count() > PROPERTY_KEY_CHARS_MAX || contains_pan(key) {
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

/// A refused value for a message: truncated, and masked if it looks like a card number.
pub(crate) fn printable(value: &str) -> Cow<'_, str> {
    if contains_pan(value) {
        return Cow::Borrowed("[not shown]");
    }
    match value.char_indices().nth(PRINTABLE_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}...", &value[..end])),
        None => Cow::Borrowed(value),
    }
}

/// The client's id of the request, if the response can repeat it.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let id = headers.get(REQUEST_ID).or_else(|| headers.get(REQUEST_ID_LEGACY))?;
    let is_valid = !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.to_str().is_ok();
    is_valid.then_some(id)
}

/// Whether a request is audited, and who its author is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audited {
    Not,
    /// The author is `X-Killbill-CreatedBy`, which is mandatory.
    ByHeader,
    /// The same, and without the header the user.
    ByHeaderOrUser,
}

/// The actor that the audit records; `None` on a route that is not audited.
///
/// # Errors
/// 400 if `X-Killbill-CreatedBy` is mandatory and missing, or a header is too long.
pub(crate) fn actor(
    audited: Audited,
    headers: &HeaderMap,
    user: &str,
    id: RequestId,
) -> Result<Option<Actor>, Failure> {
    let author = || header(headers, &CREATED_BY, CREATED_BY_CHARS_MAX);
    let created_by = match audited {
        Audited::Not => return Ok(None),
        Audited::ByHeader => author()?
            .ok_or_else(|| Failure::illegal("Header X-Killbill-CreatedBy needs to be set"))?,
        Audited::ByHeaderOrUser => author()?.unwrap_or_else(|| user.to_owned()),
    };
    let token = request_id(headers).and_then(|it| Uuid::try_parse_ascii(it.as_bytes()).ok());
    Ok(Some(Actor {
        user: user.to_owned(),
        created_by,
        reason: header(headers, &REASON, REASON_CHARS_MAX)?,
        comments: header(headers, &COMMENT, COMMENT_CHARS_MAX)?,
        token: token.unwrap_or(id.0),
    }))
}

fn header(
    headers: &HeaderMap,
    name: &HeaderName,
    chars_max: usize,
) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = text_of_header(value.as_bytes());
    if text.len() > chars_max && text.chars().count() > chars_max {
        let message = format!("Header {name} should have at most {chars_max} characters");
        return Err(Failure::illegal(message));
    }
    Ok(Some(text.into_owned()))
}

/// The parts of a request that a retry with the same idempotency key repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestIdentity<'a> {
    pub(crate) tenant: TenantNo,
    pub(crate) user: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// The body without its secrets.
    pub(crate) body: &'a [u8],
}

/// The `Idempotency-Key` with the fingerprint of its request.
///
/// # Errors
/// 400 if the key is invalid.
pub(crate) fn idempotency(
    headers: &HeaderMap,
    request: RequestIdentity<'_>,
) -> Result<Option<Idempotency>, Failure> {
    let key = web::headers::idempotency_key(headers);
    let key = key.map_err(|error| Failure::illegal(format!("Header Idempotency-Key {error}")))?;
    let Some(key) = key else { return Ok(None) };
    let tenant = request.tenant.0.to_be_bytes();
    let name = fingerprint(&[&tenant, request.user.as_bytes(), key.as_bytes()]);
    let [method, path, query] = [request.method, request.path, request.query].map(str::as_bytes);
    let fingerprint = fingerprint(&[method, path, query, request.body]);
    Ok(Some(Idempotency { key: ReplyKey(name), fingerprint }))
}

/// A parameter of a path as it was sent, by its name in the template, such as `accountId`.
pub(crate) fn parameter<'p>(template: &str, path: &'p str, name: &str) -> Option<&'p str> {
    let is_named =
        |segment: &str| segment.strip_prefix('{').and_then(|it| it.strip_suffix('}')) == Some(name);
    let position = template.split('/').position(is_named)?;
    path.split('/').nth(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_refused<T: std::fmt::Debug>(result: Result<T, Failure>, message: &str) {
        let failure = result.unwrap_err();
        let Failure::Problem(problem) = failure else { panic!("{failure:?}") };
        assert_eq!(problem.message, message);
    }

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        HeaderMap::from_iter([(name, value)])
    }

    #[test]
    fn query_parameters_are_decoded_and_the_first_of_a_name_is_returned() {
        let query = Query::new("a=1&b=x%20y+z&c&a=2&d=%ff&e=TRUE&f=1");
        assert_eq!(query.text("a").unwrap().as_deref(), Some("1"));
        assert_eq!(query.text("b").unwrap().as_deref(), Some("x y z"));
        assert_eq!(query.text("c").unwrap().as_deref(), Some(""));
        assert_eq!(query.text("z").unwrap().as_deref(), None);
        assert_refused(query.text("d"), "d is not valid UTF-8");
        assert_eq!(query.all("a").map(Result::unwrap).collect::<Vec<_>>(), ["1", "2"]);
        assert!(query.flag("e") && !query.flag("f") && !query.flag("c"));
    }

    #[test]
    fn plugin_properties_are_split_at_the_first_equals_sign() {
        let read = |query: &'static str| plugin_properties(Query::new(query));
        let query = "pluginProperty=a%3Db%3Dc&pluginProperty=d%3D&pluginProperty=e&x=y";
        assert_eq!(read(query).unwrap(), [("a".to_owned(), "b=c".to_owned())]);
        assert_refused(
            read("pluginProperty=ccNumber%3D4111111111111111"),
            "Invalid parameter pluginProperty: ccNumber holds card data, which is not taken: send a \
             token of a vault",
        );
    }

    #[test]
    fn properties_above_the_limits_and_with_control_characters_are_refused() {
        let property = |length: usize| ("k".to_owned(), "v".repeat(length));
        let check = |properties: Properties| check_properties("pluginProperty", &properties);
        check(vec![property(PROPERTY_VALUE_CHARS_MAX)]).unwrap();
        check(vec![property(1); PROPERTIES_MAX]).unwrap();
        for (properties, reason) in [
            (vec![property(PROPERTY_VALUE_CHARS_MAX + 1)], "k has more than 4096 characters"),
            (vec![property(1); PROPERTIES_MAX + 1], "at most 64 are taken"),
            (vec![("a\nb".to_owned(), "v".to_owned())], "has a control character"),
        ] {
            let message = format!("Invalid parameter pluginProperty: {reason}");
            assert_refused(check(properties), &message);
        }
    }

    #[test]
    fn long_values_are_truncated_and_card_numbers_are_masked() {
        assert_eq!(printable("abc"), "abc");
        assert_eq!(printable("4111 1111 1111 1111"), "[not shown]");
        assert_eq!(printable(&"x".repeat(100)).len(), PRINTABLE_CHARS_MAX + 3);
    }

    #[test]
    fn the_actor_is_read_from_the_audit_headers() {
        let id = RequestId(Uuid::from_u128(9));
        let of = |audited, headers: &HeaderMap| actor(audited, headers, "admin", id);
        let read = |headers: &HeaderMap| of(Audited::ByHeader, headers).map(Option::unwrap);
        let by_user = of(Audited::ByHeaderOrUser, &HeaderMap::new()).unwrap().unwrap();
        assert_eq!(by_user.created_by, "admin");
        assert_eq!(of(Audited::Not, &HeaderMap::new()).unwrap(), None);
        assert_refused(read(&HeaderMap::new()), "Header X-Killbill-CreatedBy needs to be set");
        // Clients send empty and blank names, and Kill Bill accepts them.
        assert_eq!(read(&with(CREATED_BY, "")).unwrap().created_by, "");
        // As axios and Python's `requests` send it, and as browsers do.
        let latin = HeaderValue::from_bytes(b"J\xfcrgen").unwrap();
        let latin = HeaderMap::from_iter([(CREATED_BY, latin)]);
        assert_eq!(read(&latin).unwrap().created_by, "Jürgen");
        assert_eq!(read(&with(CREATED_BY, "Jürgen")).unwrap().created_by, "Jürgen");
        let mut headers = with(CREATED_BY, "w");
        assert_eq!(read(&headers).unwrap().token, id.0);
        headers.insert(REQUEST_ID, HeaderValue::from_static("req-1"));
        assert_eq!(read(&headers).unwrap().token, id.0);
        let token = HeaderValue::from_static("0192aabb-ccdd-7123-9456-789abcdef012");
        headers.insert(REQUEST_ID, token);
        assert_eq!(read(&headers).unwrap().token.as_u128() >> 80, 0x0192_aabb_ccdd);
        assert_refused(
            read(&with(CREATED_BY, &"x".repeat(51))),
            "Header x-killbill-createdby should have at most 50 characters",
        );
    }

    fn key_name() -> HeaderName {
        HeaderName::from_static("idempotency-key")
    }

    #[test]
    fn an_idempotency_key_identifies_its_request() {
        let request = |body: &'static [u8]| RequestIdentity {
            tenant: TenantNo(1),
            user: "admin",
            method: "POST",
            path: "/p",
            query: "",
            body,
        };
        let read = |key: &str| idempotency(&with(key_name(), key), request(b"1"));
        let bare = read("abc").unwrap().unwrap();
        assert_eq!(read("\"abc\"").unwrap(), Some(bare));
        assert_ne!(read("abd").unwrap().unwrap().key, bare.key);
        let other = idempotency(&with(key_name(), "abc"), request(b"2")).unwrap().unwrap();
        assert_eq!((other.key, other.fingerprint == bare.fingerprint), (bare.key, false));
        for (key, reason) in [
            ("", "should not be empty"),
            ("\"\"", "should not be empty"),
            ("  ", "should not be empty"),
            ("\"abc", "has an opening quote but no closing one"),
            (&"k".repeat(256), "should have at most 255 characters"),
        ] {
            assert_refused(read(key), &format!("Header Idempotency-Key {reason}"));
        }
        read(&"k".repeat(255)).unwrap();
        assert_eq!(idempotency(&HeaderMap::new(), request(b"")).unwrap(), None);
    }
}
