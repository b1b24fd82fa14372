//! The query of a URI, decoded once (`application/x-www-form-urlencoded`, WHATWG URL section 5).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// A name or a value is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The parameter's name, where that is UTF-8 itself.
    pub name: Option<String>,
}

impl<'a> Query<'a> {
    /// Decodes a query without its question mark.
    ///
    /// # Errors
    /// [`NotUtf8`]: escapes that are not UTF-8, which the decoder alone would replace.
    pub fn parse(query: &'a str) -> Result<Self, NotUtf8> {
        for part in query.split('&').filter(|part| part.contains('%')) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(name) = decode(name) else { return Err(NotUtf8 { name: None }) };
            if decode(value).is_none() {
                return Err(NotUtf8 { name: Some(name.into_owned()) });
            }
        }
        Ok(Self { pairs: form_urlencoded::parse(query.as_bytes()).collect() })
    }

    /// The value of the first parameter of this name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of all parameters of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_ref())
    }

    /// All parameters, names first.
    pub fn into_pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.pairs.into_iter()
    }
}

/// The values of the parameters of this name, decoded one by one: nothing is allocated for the others,
/// and they are not checked. The name is compared without decoding.
pub fn values<'a>(
    query: &'a str,
    name: &'static str,
) -> impl Iterator<Item = Result<Cow<'a, str>, NotUtf8>> {
    query.split('&').filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let not_utf8 = || NotUtf8 { name: Some(name.to_owned()) };
        (key == name).then(|| decode(value).ok_or_else(not_utf8))
    })
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_their_order() {
        let query = Query::parse("a=1&b=x+y%2Fz&a=2&&c").unwrap();
        assert_eq!(query.first("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.first("b"), Some("x y/z"));
        assert_eq!(query.first("c"), Some(""));
        assert_eq!(query.first("d"), None);
    }

    #[test]
    fn values_are_decoded_alone() {
        let of = |name| values("a=1&b=x%20y+z&c&a=2&d=%ff", name).collect::<Vec<_>>();
        assert_eq!(of("a"), [Ok("1".into()), Ok("2".into())]);
        assert_eq!(of("b"), [Ok("x y z".into())]);
        assert_eq!(of("c"), [Ok("".into())]);
        assert_eq!(of("z"), []);
        assert_eq!(of("d"), [Err(NotUtf8 { name: Some("d".to_owned()) })]);
    }

    #[test]
    fn parameters_that_are_not_utf8_are_refused_by_name() {
        assert_eq!(Query::parse("from=%FF"), Err(NotUtf8 { name: Some("from".to_owned()) }));
        assert_eq!(Query::parse("%FF=1"), Err(NotUtf8 { name: None }));
    }
}
