//! Request bodies: one JSON object each. Every refusal names the field, in Jackson's wording.
//!
//! A body is read in two steps. First serde reads the object into raw fields, which finds unknown and
//! duplicate fields by name. Then each field is converted to its type; numbers may be strings, as in
//! Jackson, and amounts keep their digits.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use domain::payment::TransactionType;
use domain::{AmountError, Currency, Id, Properties, Timestamp};
use http::StatusCode;
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::date;
use crate::error::{Failure, Problem, class, code};
use crate::request::{check_properties, printable};

/// The JSON text of a field; `None` if it is absent or null.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// The longest external key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// The longest amount, in characters.
const AMOUNT_CHARS_MAX: usize = 64;

/// The most elements of an array.
const ARRAY_MAX: usize = 256;

/// Parses a body; `None` if it is empty or null.
///
/// # Errors
/// 400 in Jackson's wording.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    json: Json,
    body: &'a [u8],
) -> Result<Option<T>, Failure> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        json.malformed(&format!("the body is not valid UTF-8 (byte {at})"))
    })?;
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut refusal = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = ObjectVisitor { refusal: &mut refusal, target: PhantomData };
    let parsed = deserializer.deserialize_any(object);
    match (parsed, refusal) {
        (Ok(value), _) => match deserializer.end() {
            Ok(()) => Ok(value),
            Err(error) => Err(json.malformed(&error.to_string())),
        },
        (Err(_), Some(refusal)) => Err(json.refused(&refusal)),
        // serde_json's message for invalid data quotes the text, which may contain card data.
        (Err(_), None) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Err(json.mismatched("it is no JSON object")),
            Err(error) => Err(json.malformed(&error.to_string())),
        },
    }
}

/// Visits the object and stores the error of its fields, which serde_json's error loses.
struct ObjectVisitor<'s, T> {
    refusal: &'s mut Option<FieldError>,
    target: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(Fields(map))).map(Some).map_err(|error| {
            let outer = de::Error::custom(&error);
            if !matches!(error, FieldError::Other(_)) {
                *self.refusal = Some(error);
            }
            outer
        })
    }
}

/// A map whose errors name the field.
struct Fields<A>(A);

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        match self.0.next_key::<Key<'de>>().map_err(FieldError::other)? {
            Some(Key(key)) => seed.deserialize(CowStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.next_value_seed(seed).map_err(FieldError::other)
    }
}

/// An error in the fields of an object.
#[derive(Debug)]
enum FieldError {
    Unknown { field: String, known: &'static [&'static str] },
    Duplicate(&'static str),
    Other(String),
}

impl FieldError {
    fn other(error: impl fmt::Display) -> Self {
        Self::Other(error.to_string())
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { field, .. } => write!(f, "unknown field {field}"),
            Self::Duplicate(field) => write!(f, "duplicate field {field}"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::other(message)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown { field: field.to_owned(), known }
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Duplicate(field)
    }
}

/// Reads the fields of one of Kill Bill's JSON classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json(pub(crate) &'static str);

impl Json {
    /// The refusal of a request without a body.
    pub(crate) fn missing_body(self) -> Failure {
        Failure::illegal(format!("{} body should be specified", self.0))
    }

    /// The refusal of a body without a required field.
    pub(crate) fn missing(self, field: &str) -> Failure {
        Failure::illegal(format!("{} {field} needs to be set", self.0))
    }

    fn malformed(self, message: &str) -> Failure {
        let code = code::plain(StatusCode::BAD_REQUEST, class::JSON_PARSE);
        Failure::coded(code, format!("{}: malformed JSON: {message}", self.0))
    }

    fn mismatched(self, message: &str) -> Failure {
        let code = code::plain(StatusCode::BAD_REQUEST, class::MISMATCHED_INPUT);
        let name = self.0;
        Failure::coded(code, format!("Cannot deserialize value of type `{name}`: {message}"))
    }

    fn refused(self, refusal: &FieldError) -> Failure {
        match refusal {
            FieldError::Unknown { field, known } => {
                let code = code::plain(StatusCode::BAD_REQUEST, class::UNRECOGNIZED_PROPERTY);
                let message = format!(
                    "Unrecognized field \"{}\" (class {}), not marked as ignorable ({} known \
                     properties: {known:?})",
                    printable(field),
                    self.class(),
                    known.len()
                );
                Failure::coded(code, message)
            }
            FieldError::Duplicate(field) => {
                self.malformed(&format!("the field \"{field}\" comes twice"))
            }
            FieldError::Other(message) => self.malformed(message),
        }
    }

    fn class(self) -> String {
        format!("org.killbill.billing.jaxrs.json.{}", self.0)
    }

    fn invalid_format(self, field: &str, kind: &str, value: &str) -> Failure {
        let code = code::plain(StatusCode::BAD_REQUEST, class::INVALID_FORMAT);
        let message = format!(
            "Cannot deserialize value of type `{kind}` from String \"{}\" (through reference \
             chain: {}[\"{field}\"])",
            printable(value.trim_matches('"')),
            self.class()
        );
        Failure::coded(code, message)
    }

    /// A text of at most `chars_max` characters, without control characters.
    pub(crate) fn text(
        self,
        field: &'static str,
        raw: Raw<'_>,
        chars_max: usize,
    ) -> Result<Option<String>, Failure> {
        self.bounded(field, raw, (chars_max, char::is_control))
    }

    /// A text that may have more than one line.
    pub(crate) fn lines(
        self,
        field: &'static str,
        raw: Raw<'_>,
        chars_max: usize,
    ) -> Result<Option<String>, Failure> {
        let is_refused = |it: char| it.is_control() && !matches!(it, '\n' | '\r' | '\t');
        self.bounded(field, raw, (chars_max, is_refused))
    }

    fn bounded(
        self,
        field: &'static str,
        raw: Raw<'_>,
        (chars_max, is_refused): (usize, fn(char) -> bool),
    ) -> Result<Option<String>, Failure> {
        let Some(text) = self.string(field, raw)? else { return Ok(None) };
        self.check_length(field, &text, chars_max)?;
        if text.chars().any(is_refused) {
            return Err(self.control_character(field));
        }
        Ok(Some(text))
    }

    /// An external key; `owner` is the class of the refusal.
    pub(crate) fn key(
        self,
        field: &'static str,
        raw: Raw<'_>,
        owner: &'static str,
    ) -> Result<Option<String>, Failure> {
        let Some(key) = self.string(field, raw)? else { return Ok(None) };
        if key.len() > KEY_CHARS_MAX && key.chars().count() > KEY_CHARS_MAX {
            let message = format!("External key exceeded {KEY_CHARS_MAX} characters ({field})");
            return Err(Failure::coded(code::key_too_long(owner), message));
        }
        if key.chars().any(char::is_control) {
            return Err(self.control_character(field));
        }
        Ok(Some(key))
    }

    fn check_length(self, field: &str, text: &str, chars_max: usize) -> Result<(), Failure> {
        if text.len() > chars_max && text.chars().count() > chars_max {
            let name = self.0;
            let message = format!("{name} {field} should have at most {chars_max} characters");
            return Err(Failure::illegal(message));
        }
        Ok(())
    }

    fn control_character(self, field: &str) -> Failure {
        Failure::illegal(format!("{} {field} has a control character", self.0))
    }

    /// The text of a string, a number or a boolean.
    fn string(self, field: &'static str, raw: Raw<'_>) -> Result<Option<String>, Failure> {
        let Some(raw) = raw.map(RawValue::get) else { return Ok(None) };
        match raw.as_bytes().first() {
            Some(b'"') if !raw.contains('\\') => Ok(Some(raw[1..raw.len() - 1].to_owned())),
            Some(b'"') => match serde_json::from_str(raw) {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(self.malformed(&format!("{field}: {error}"))),
            },
            Some(b'{' | b'[') | None => {
                Err(self.mismatched(&format!("{field} should be a string")))
            }
            Some(_) => Ok(Some(raw.to_owned())),
        }
    }

    /// The text of a string without escapes, or of a scalar.
    fn scalar<'a>(self, field: &str, raw: Raw<'a>) -> Result<Option<&'a str>, Failure> {
        let Some(raw) = raw.map(RawValue::get) else { return Ok(None) };
        match raw.as_bytes().first() {
            Some(b'"') => Ok(Some(&raw[1..raw.len() - 1])),
            Some(b'{' | b'[') | None => Err(self.mismatched(&format!("{field} should be a value"))),
            Some(_) => Ok(Some(raw)),
        }
    }

    /// An integer; `None` if it is absent.
    pub(crate) fn integer(self, field: &str, raw: Raw<'_>) -> Result<Option<i32>, Failure> {
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| self.invalid_format(field, "java.lang.Integer", text))
    }

    /// A boolean; `None` if it is absent.
    pub(crate) fn boolean(self, field: &str, raw: Raw<'_>) -> Result<Option<bool>, Failure> {
        match self.scalar(field, raw)? {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => Err(self.invalid_format(field, "java.lang.Boolean", text)),
        }
    }

    /// A UUID; `None` if it is absent.
    pub(crate) fn id<K>(self, field: &str, raw: Raw<'_>) -> Result<Option<Id<K>>, Failure> {
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        let id = parse_uuid(text).map(|uuid| Some(Id::new(uuid)));
        id.ok_or_else(|| self.invalid_format(field, "java.util.UUID", text))
    }

    /// The whole body: an array of ids.
    pub(crate) fn ids<K>(self, field: &str, body: &[u8]) -> Result<Vec<Id<K>>, Failure> {
        let items = self.array(field, body, ARRAY_MAX)?;
        let id = |item| self.id(field, item)?.ok_or_else(|| self.missing(field));
        items.into_iter().map(id).collect()
    }

    /// A body that is an array of objects.
    pub(crate) fn objects<'a, T: Deserialize<'a>>(self, body: &'a [u8]) -> Result<Vec<T>, Failure> {
        let items = self.array(self.0, body, ARRAY_MAX)?.into_iter().flatten();
        let object = |item: &'a RawValue| {
            parse(self, item.get().as_bytes())?.ok_or_else(|| self.missing_body())
        };
        items.map(object).collect()
    }

    /// The elements of a body that is an array, at most `most`.
    pub(crate) fn array<'a>(
        self,
        field: &str,
        body: &'a [u8],
        most: usize,
    ) -> Result<Vec<Raw<'a>>, Failure> {
        let text = std::str::from_utf8(body)
            .map_err(|_| self.malformed("the body is not valid UTF-8"))?
            .trim_ascii();
        if text.is_empty() {
            return Err(self.missing_body());
        }
        let raw: Raw<'_> =
            serde_json::from_str(text).map_err(|error| self.malformed(&error.to_string()))?;
        self.items_up_to(field, raw, most)?.ok_or_else(|| self.missing_body())
    }

    /// A currency's code.
    pub(crate) fn currency(self, field: &str, raw: Raw<'_>) -> Result<Option<Currency>, Failure> {
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        let currency = Currency::parse(text).map(Some);
        let kind = "org.killbill.billing.catalog.api.Currency";
        currency.ok_or_else(|| self.invalid_format(field, kind, text))
    }

    /// A transaction's type by Kill Bill's name.
    pub(crate) fn transaction_type(
        self,
        field: &str,
        raw: Raw<'_>,
    ) -> Result<Option<TransactionType>, Failure> {
        use TransactionType as T;
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        let kind = match text {
            "AUTHORIZE" => T::Authorize,
            "CAPTURE" => T::Capture,
            "CHARGEBACK" => T::Chargeback,
            "CREDIT" => T::Credit,
            "PURCHASE" => T::Purchase,
            "REFUND" => T::Refund,
            "VOID" => T::Void,
            _ => {
                let kind = "org.killbill.billing.payment.api.TransactionType";
                return Err(self.invalid_format(field, kind, text));
            }
        };
        Ok(Some(kind))
    }

    /// A decimal with its digits as sent; the domain checks it against the currency.
    pub(crate) fn amount(self, field: &str, raw: Raw<'_>) -> Result<Option<String>, Failure> {
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        if text.len() > AMOUNT_CHARS_MAX {
            let reason = format!("should have at most {AMOUNT_CHARS_MAX} characters");
            return Err(Failure::parameter(field, &reason));
        }
        if !is_decimal(text) {
            return Err(self.invalid_format(field, "java.math.BigDecimal", text));
        }
        Ok(Some(text.to_owned()))
    }

    /// A date with or without a time.
    pub(crate) fn time(self, field: &str, raw: Raw<'_>) -> Result<Option<Timestamp>, Failure> {
        let Some(text) = self.scalar(field, raw)? else { return Ok(None) };
        let at = date::parse(text).map(Some);
        at.ok_or_else(|| {
            let code = code::plain(StatusCode::BAD_REQUEST, class::JSON_MAPPING);
            let cause = format!("Invalid format: \"{}\"", printable(text));
            let chain = format!("(through reference chain: {}[\"{field}\"])", self.class());
            let mut problem = Problem::new(code, format!("{cause} {chain}"));
            problem.cause_class = Some(class::ILLEGAL_ARGUMENT);
            problem.cause_message = Some(cause);
            Failure::Problem(Box::new(problem))
        })
    }

    /// An array of texts.
    pub(crate) fn texts(
        self,
        field: &'static str,
        raw: Raw<'_>,
        chars_max: usize,
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some(items) = self.items(field, raw)? else { return Ok(None) };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            texts.extend(self.text(field, item, chars_max)?);
        }
        Ok(Some(texts))
    }

    /// An array of `{key, value}`; elements without a key or a value are skipped.
    pub(crate) fn properties(
        self,
        field: &'static str,
        raw: Raw<'_>,
    ) -> Result<Properties, Failure> {
        let mut properties = Properties::new();
        for item in self.items(field, raw)?.unwrap_or_default() {
            let Some(item) = item else { continue };
            let json = Json("PluginPropertyJson");
            let Some(it) = parse::<PropertyBody<'_>>(json, item.get().as_bytes())? else {
                continue;
            };
            let _is_updatable = json.boolean("isUpdatable", it.is_updatable)?;
            let key = json.string("key", it.key)?;
            if let (Some(key), Some(value)) = (key, json.string("value", it.value)?) {
                properties.push((key, value));
            }
        }
        check_properties(field, &properties)?;
        Ok(properties)
    }

    /// A field that is an object of another class; `None` if it is absent or null.
    pub(crate) fn object<'a, T: Deserialize<'a>>(
        self,
        field: &str,
        raw: Raw<'a>,
        json: Self,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = raw.map(RawValue::get) else { return Ok(None) };
        if !text.starts_with('{') {
            return Err(self.mismatched(&format!("{field} should be an object")));
        }
        parse(json, text.as_bytes())
    }

    /// The elements of a field that is an array; `None` if it is absent or null.
    pub(crate) fn items<'a>(
        self,
        field: &str,
        raw: Raw<'a>,
    ) -> Result<Option<Vec<Raw<'a>>>, Failure> {
        self.items_up_to(field, raw, ARRAY_MAX)
    }

    /// The elements of a field that is an array, at most `most`; `None` if it is absent or null.
    pub(crate) fn items_up_to<'a>(
        self,
        field: &str,
        raw: Raw<'a>,
        most: usize,
    ) -> Result<Option<Vec<Raw<'a>>>, Failure> {
        let Some(raw) = raw else { return Ok(None) };
        let items: Vec<Raw<'a>> = serde_json::from_str(raw.get())
            .map_err(|_| self.mismatched(&format!("{field} should be an array")))?;
        if items.len() > most {
            let message = format!("{} {field} should have at most {most} elements", self.0);
            return Err(Failure::illegal(message));
        }
        Ok(Some(items))
    }
}

/// Kill Bill's `PluginPropertyJson`.
#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PropertyJson<'a> {
    key: &'a str,
    value: &'a str,
    is_updatable: bool,
}

impl<'a> PropertyJson<'a> {
    pub(crate) fn all(properties: &'a Properties) -> Vec<Self> {
        let all = properties.iter();
        all.map(|(key, value)| Self { key, value, is_updatable: false }).collect()
    }
}

/// Kill Bill's `PluginPropertyJson`, of a request.
#[derive(serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PluginPropertyRequest)]
pub(crate) struct PropertyBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    value: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_updatable: Raw<'a>,
}

/// Parses a UUID with hyphens, the only form that Java accepts.
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok())?
}

/// Whether a text is a decimal number. The currency does not matter: the domain refuses too many
/// decimals and too large amounts.
fn is_decimal(text: &str) -> bool {
    let currency = Currency::parse("USD").expect("USD is a known currency");
    !matches!(domain::AmountMinor::parse(text, currency), Err(AmountError::NotANumber))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Body<'a> {
        #[serde(borrow)]
        name: Raw<'a>,
        #[serde(borrow)]
        first_name_length: Raw<'a>,
        #[serde(borrow)]
        amount: Raw<'a>,
        #[serde(borrow)]
        currency: Raw<'a>,
        #[serde(borrow)]
        at: Raw<'a>,
        #[serde(borrow)]
        id: Raw<'a>,
        #[serde(borrow)]
        properties: Raw<'a>,
    }

    fn read(body: &[u8]) -> Result<String, Failure> {
        let json = Json("TestJson");
        let Some(it) = parse::<Body<'_>>(json, body)? else { return Ok("no body".to_owned()) };
        let id: Option<domain::AccountId> = json.id("id", it.id)?;
        Ok(format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            json.text("name", it.name, 10)?,
            json.integer("firstNameLength", it.first_name_length)?,
            json.amount("amount", it.amount)?,
            json.currency("currency", it.currency)?,
            json.time("at", it.at)?.map(|at| at.0),
            id,
            json.properties("properties", it.properties)?,
        ))
    }

    fn check(body: impl AsRef<[u8]>, expected: Expect) {
        let actual = match read(body.as_ref()) {
            Ok(values) => values,
            Err(Failure::Problem(problem)) => {
                let code = format!("{:?}", problem.code);
                let class = code.rsplit('.').next().unwrap().trim_end_matches("\" }");
                format!("{class}: {}", problem.message)
            }
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&actual);
    }

    #[test]
    fn empty_bodies_and_lenient_values_are_accepted() {
        check("", expect!["no body"]);
        check("null", expect!["no body"]);
        check("{}", expect!["None None None None None None []"]);
        check(r#" {"name": null} "#, expect!["None None None None None None []"]);
        check(
            r#"{"name":"J\u00f6hn","firstNameLength":"3"}"#,
            expect![[r#"Some("Jöhn") Some(3) None None None None []"#]],
        );
        check(
            r#"{"name":123,"amount":10.00}"#,
            expect![[r#"Some("123") None Some("10.00") None None None []"#]],
        );
        check(
            r#"{"amount":"10.000000000000000001"}"#,
            expect![[r#"None None Some("10.000000000000000001") None None None []"#]],
        );
        check(
            r#"{"currency":"USD","at":"2020-01-02"}"#,
            expect!["None None None Some(USD) Some(1577923200000000) None []"],
        );
        check(
            r#"{"properties":[{"key":"a","value":"b","isUpdatable":false}]}"#,
            expect![[r#"None None None None None None [("a", "b")]"#]],
        );
    }

    #[test]
    fn a_body_that_is_not_a_json_object_is_refused() {
        check(
            "hello",
            expect![
                "JsonParseException: TestJson: malformed JSON: expected value at line 1 column 1"
            ],
        );
        check(
            r#"{"name":"#,
            expect![
                "JsonParseException: TestJson: malformed JSON: EOF while parsing a value at line 1 column 8"
            ],
        );
        check(
            r#"{"name":"a"} x"#,
            expect![
                "JsonParseException: TestJson: malformed JSON: trailing characters at line 1 column 14"
            ],
        );
        check(
            b"{\"name\":\"\xff\"}",
            expect![
                "JsonParseException: TestJson: malformed JSON: the body is not valid UTF-8 (byte 9)"
            ],
        );
        check(
            "[]",
            expect![
                "MismatchedInputException: Cannot deserialize value of type `TestJson`: it is no JSON object"
            ],
        );
        check(
            "3",
            expect![
                "MismatchedInputException: Cannot deserialize value of type `TestJson`: it is no JSON object"
            ],
        );
        check(
            r#""4111111111111111""#,
            expect![
                "MismatchedInputException: Cannot deserialize value of type `TestJson`: it is no JSON object"
            ],
        );
    }

    #[test]
    fn unknown_and_duplicate_fields_are_refused_by_name() {
        check(
            r#"{"foo":1}"#,
            expect![[
                r#"UnrecognizedPropertyException: Unrecognized field "foo" (class org.killbill.billing.jaxrs.json.TestJson), not marked as ignorable (7 known properties: ["name", "firstNameLength", "amount", "currency", "at", "id", "properties"])"#
            ]],
        );
        check(
            r#"{"name":"a","name":"b"}"#,
            expect![[
                r#"JsonParseException: TestJson: malformed JSON: the field "name" comes twice"#
            ]],
        );
        check(
            r#"{"properties":[{"key":"a","foo":"b"}]}"#,
            expect![[
                r#"UnrecognizedPropertyException: Unrecognized field "foo" (class org.killbill.billing.jaxrs.json.PluginPropertyJson), not marked as ignorable (3 known properties: ["key", "value", "isUpdatable"])"#
            ]],
        );
    }

    #[test]
    fn invalid_texts_ids_and_currencies_are_refused() {
        check(
            r#"{"name":{}}"#,
            expect![
                "MismatchedInputException: Cannot deserialize value of type `TestJson`: name should be a string"
            ],
        );
        check(
            r#"{"name":"12345678901"}"#,
            expect!["IllegalArgumentException: TestJson name should have at most 10 characters"],
        );
        check(
            r#"{"name":"\u0000"}"#,
            expect!["IllegalArgumentException: TestJson name has a control character"],
        );
        check(
            r#"{"name":"\ud800"}"#,
            expect![
                "JsonParseException: TestJson: malformed JSON: name: unexpected end of hex escape at line 1 column 8"
            ],
        );
        check(
            r#"{"id":"abc"}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `java.util.UUID` from String "abc" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["id"])"#
            ]],
        );
        check(
            r#"{"currency":"usd"}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `org.killbill.billing.catalog.api.Currency` from String "usd" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["currency"])"#
            ]],
        );
        check(
            r#"{"currency":"4111111111111111"}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `org.killbill.billing.catalog.api.Currency` from String "[not shown]" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["currency"])"#
            ]],
        );
        check(
            r#"{"properties":{}}"#,
            expect![
                "MismatchedInputException: Cannot deserialize value of type `TestJson`: properties should be an array"
            ],
        );
        check(
            r#"{"properties":[{"key":"a","value":"4111 1111 1111 1111"}]}"#,
            expect![
                "PaymentApiException: Invalid parameter properties: a holds card data, which is not taken: send a token of a vault"
            ],
        );
    }

    #[test]
    fn invalid_numbers_and_dates_are_refused() {
        check(
            r#"{"firstNameLength":"abc"}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `java.lang.Integer` from String "abc" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["firstNameLength"])"#
            ]],
        );
        check(
            r#"{"firstNameLength":1.5}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `java.lang.Integer` from String "1.5" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["firstNameLength"])"#
            ]],
        );
        check(
            r#"{"amount":"abc"}"#,
            expect![[
                r#"InvalidFormatException: Cannot deserialize value of type `java.math.BigDecimal` from String "abc" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["amount"])"#
            ]],
        );
        check(
            format!(r#"{{"amount":{}}}"#, "1".repeat(65)),
            expect![
                "PaymentApiException: Invalid parameter amount: should have at most 64 characters"
            ],
        );
        check(
            r#"{"at":"10000-01-01T00:00:00Z"}"#,
            expect![[
                r#"JsonMappingException: Invalid format: "10000-01-01T00:00:00Z" (through reference chain: org.killbill.billing.jaxrs.json.TestJson["at"])"#
            ]],
        );
    }
}
