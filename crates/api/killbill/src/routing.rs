//! Routing: the configuration of `faregate-router`, and the gateways that a request names.

use std::collections::{BTreeMap, BTreeSet};

use domain::account::tag::{CONTROL_TAGS, DefinitionRef};
use domain::payment::decline::{DeclineClass, DeclineCodes};
use domain::tenant::routing_rules::{
    AmountRange, BIN_DIGITS_MAX, BIN_DIGITS_MIN, BinRange, CascadeRules, Conditions, RULES_MAX,
    RoutingRule, RoutingRules, Share, TRIES_MAX, Targets, VALUES_MAX,
};
use domain::{AmountMinor, Currency, Properties, TagDefinitionId};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::Call;
use crate::error::Failure;
use crate::request::printable;

/// The property of a request that names gateways in order.
const GATEWAYS: &str = "gateways";

/// The permission to name gateways in a request.
pub(crate) const OVERRIDE: &str = "routing:override";

/// How many characters a name or a value in rules has at most.
const TEXT_CHARS_MAX: usize = 255;

/// Takes the gateways that a request names out of its properties.
///
/// # Errors
/// 401 where the caller may not name them; 400 where there are too many.
pub(crate) fn named_gateways(
    call: &Call,
    properties: &mut Properties,
) -> Result<Vec<String>, Failure> {
    let Some(at) = properties.iter().position(|(key, _)| key == GATEWAYS) else {
        return Ok(vec![]);
    };
    if !call.caller.may(OVERRIDE) {
        return Err(Failure::forbidden(OVERRIDE));
    }
    let (_, names) = properties.remove(at);
    if properties.iter().any(|(key, _)| key == GATEWAYS) {
        return Err(Failure::parameter(GATEWAYS, "is there twice"));
    }
    let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    if names.len() > TRIES_MAX || names.iter().any(String::is_empty) {
        let reason = format!("should be 1 to {TRIES_MAX} names with commas between");
        return Err(Failure::parameter(GATEWAYS, &reason));
    }
    Ok(names)
}

/// Reads the configuration of `faregate-router`. Whether its gateways are there, the core knows.
///
/// # Errors
/// 400 that names the field.
pub(crate) fn routing_rules(text: &str) -> Result<RoutingRules, Failure> {
    read(text).map_err(|reason| Failure::illegal(format!("pluginConfig {reason}")))
}

/// A field and what is wrong with it.
pub(crate) type Refused = String;

/// As [`routing_rules`], with the field and what is wrong with it.
pub(crate) fn read(text: &str) -> Result<RoutingRules, Refused> {
    let body: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    let body = Fields::of("", &body, &["rules", "cascade"])?;
    let rules = body.list("rules", RULES_MAX)?.ok_or("rules needs to be set")?;
    let rules = rules.iter().map(|(path, rule)| read_rule(path, rule)).collect::<Result<_, _>>()?;
    let cascade = body.get("cascade").map(|it| read_cascade(&it.0, it.1)).transpose()?;
    Ok(RoutingRules { rules, cascade: cascade.unwrap_or_default() })
}

fn read_rule(path: &str, rule: &Value) -> Result<RoutingRule, Refused> {
    let rule = Fields::of(path, rule, &["name", "when", "gateways", "split"])?;
    let name = rule.get("name").ok_or_else(|| format!("{path}.name needs to be set"))?;
    let name = text(&name.0, name.1)?;
    let when = rule.get("when").map(|it| read_conditions(&it.0, it.1)).transpose()?;
    let to = match (rule.texts("gateways", TRIES_MAX)?, rule.list("split", 100)?) {
        (Some(gateways), None) => Targets::Gateways(gateways),
        (None, Some(shares)) => {
            let shares = shares.iter().map(|(path, share)| read_share(path, share));
            Targets::Split(shares.collect::<Result<_, _>>()?)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(format!("{path} should have either gateways or split"));
        }
    };
    Ok(RoutingRule { name, when: when.unwrap_or_default(), to })
}

fn read_share(path: &str, share: &Value) -> Result<Share, Refused> {
    let share = Fields::of(path, share, &["percent", "gateways"])?;
    let percent = share.get("percent").and_then(|it| it.1.as_u64());
    let percent = percent.and_then(|it| u8::try_from(it).ok()).filter(|it| *it <= 100);
    let percent =
        percent.ok_or_else(|| format!("{path}.percent should be a whole number from 0 to 100"))?;
    let gateways = share.texts("gateways", TRIES_MAX)?;
    Ok(Share { percent, gateways: gateways.unwrap_or_default() })
}

fn read_conditions(path: &str, when: &Value) -> Result<Conditions, Refused> {
    const KNOWN: [&str; 8] =
        ["currencies", "amounts", "countries", "bins", "kinds", "tags", "fields", "healthy"];
    let when = Fields::of(path, when, &KNOWN)?;
    let each = |name: &str| -> Result<Vec<(String, String)>, Refused> {
        let all = when.texts(name, VALUES_MAX)?.unwrap_or_default();
        Ok(all.into_iter().map(|it| (format!("{path}.{name}"), it)).collect())
    };
    let set = |name: &str| -> Result<BTreeSet<String>, Refused> {
        Ok(each(name)?.into_iter().map(|(_, text)| text).collect())
    };
    let currencies = each("currencies")?;
    let currencies = currencies.iter().map(|(path, code)| currency(path, code));
    let countries = each("countries")?;
    let countries = countries.into_iter().map(|(path, code)| country(&path, code));
    let bins = each("bins")?;
    let bins = bins.iter().map(|(path, range)| bin_range(path, range));
    let tags = each("tags")?;
    let tags = tags.iter().map(|(path, name)| tag(path, name));
    let mut amounts = BTreeMap::new();
    for (path, code, range) in when.entries("amounts")? {
        let currency = currency(&path, &code)?;
        amounts.insert(currency, amount_range(&path, range, currency)?);
    }
    let mut fields = BTreeMap::new();
    for (path, name, value) in when.entries("fields")? {
        fields.insert(name, text(&path, value)?);
    }
    Ok(Conditions {
        currencies: currencies.collect::<Result<_, _>>()?,
        amounts,
        countries: countries.collect::<Result<_, _>>()?,
        bins: bins.collect::<Result<_, _>>()?,
        kinds: set("kinds")?,
        tags: tags.collect::<Result<_, _>>()?,
        fields,
        healthy: set("healthy")?,
    })
}

fn read_cascade(path: &str, cascade: &Value) -> Result<CascadeRules, Refused> {
    let cascade = Fields::of(path, cascade, &["after", "codes", "refundLateSuccesses"])?;
    let defaults = CascadeRules::default();
    let after = cascade.texts("after", DeclineClass::ALL.len())?;
    let after = after.map(|all| all.iter().map(|it| class(&format!("{path}.after"), it)).collect());
    let mut codes = BTreeMap::new();
    for (path, gateway, own) in cascade.entries("codes")? {
        let own = own.as_object().ok_or_else(|| format!("{path} should be an object of codes"))?;
        if own.len() > VALUES_MAX {
            return Err(format!("{path} has more than {VALUES_MAX} codes"));
        }
        let read = |(code, of): (&String, &Value)| {
            let path = format!("{path}.{}", printable(code));
            Ok((bounded(&path, code)?, class(&path, &text(&path, of)?)?))
        };
        codes.insert(gateway, own.iter().map(read).collect::<Result<DeclineCodes, Refused>>()?);
    }
    let refunds = match cascade.get("refundLateSuccesses") {
        None => false,
        Some((path, it)) => it.as_bool().ok_or(format!("{path} should be true or false"))?,
    };
    let after = after.transpose()?.unwrap_or(defaults.after);
    Ok(CascadeRules { after, codes, refunds_late_successes: refunds })
}

fn class(path: &str, name: &str) -> Result<DeclineClass, Refused> {
    let found = DeclineClass::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| format!("{path} should be soft, hard or fraud"))
}

fn currency(path: &str, code: &str) -> Result<Currency, Refused> {
    Currency::parse(code)
        .ok_or_else(|| format!("{path} has an unknown currency: {}", printable(code)))
}

fn country(path: &str, code: String) -> Result<String, Refused> {
    let is_code = code.len() == 2 && code.bytes().all(|it| it.is_ascii_uppercase());
    is_code.then_some(code).ok_or_else(|| format!("{path} should be codes of two capital letters"))
}

fn amount_range(path: &str, range: &Value, currency: Currency) -> Result<AmountRange, Refused> {
    let range = Fields::of(path, range, &["min", "max"])?;
    let amount = |name: &str| -> Result<Option<AmountMinor>, Refused> {
        let Some((path, it)) = range.get(name) else { return Ok(None) };
        let text = it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        let amount = AmountMinor::parse(&text, currency)
            .map_err(|error| format!("{path} is not an amount: {error}"))?;
        Ok(Some(amount))
    };
    let (min, max) = (amount("min")?, amount("max")?);
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        return Err(format!("{path} has a min above its max"));
    }
    Ok(AmountRange { min, max })
}

/// A bank identification number or a range of them: `411111`, `51000000-51999999`.
fn bin_range(path: &str, range: &str) -> Result<BinRange, Refused> {
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let lengths = usize::from(BIN_DIGITS_MIN)..=usize::from(BIN_DIGITS_MAX);
    let number = |it: &str| {
        let is_bin = lengths.contains(&it.len()) && it.bytes().all(|byte| byte.is_ascii_digit());
        it.parse::<u32>().ok().filter(|_| is_bin)
    };
    let digits = u8::try_from(from.len()).ok().filter(|_| from.len() == to.len());
    let found = digits.zip(number(from).zip(number(to)));
    let found = found.filter(|(_, (from, to))| from <= to);
    let (digits, (from, to)) = found.ok_or_else(|| {
        format!("{path} should be {BIN_DIGITS_MIN} to {BIN_DIGITS_MAX} digits, or a range of them")
    })?;
    Ok(BinRange { digits, from, to })
}

/// A tag by the name of a control tag or by the id of its definition.
fn tag(path: &str, name: &str) -> Result<DefinitionRef, Refused> {
    let control = CONTROL_TAGS.iter().find(|it| it.name == name);
    let control = control.map(|it| DefinitionRef::Control(it.tag));
    let by_id = || {
        let id = Uuid::try_parse(name).ok()?;
        Some(DefinitionRef::of(TagDefinitionId::new(id)))
    };
    control
        .or_else(by_id)
        .ok_or_else(|| format!("{path} should be control tags or ids of tag definitions"))
}

fn text(path: &str, value: &Value) -> Result<String, Refused> {
    let found = value.as_str().ok_or_else(|| format!("{path} should be a text"))?;
    bounded(path, found)
}

fn bounded(path: &str, text: &str) -> Result<String, Refused> {
    let is_fit = (1..=TEXT_CHARS_MAX).contains(&text.chars().count());
    match is_fit && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("{path} should have 1 to {TEXT_CHARS_MAX} characters")),
    }
}

/// An object of the configuration, with the path that messages name it by.
struct Fields<'v> {
    path: String,
    fields: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    fn of(path: &str, value: &'v Value, known: &[&str]) -> Result<Self, Refused> {
        let shown = if path.is_empty() { "the configuration" } else { path };
        let fields = value.as_object().ok_or_else(|| format!("{shown} should be an object"))?;
        if let Some(unknown) = fields.keys().find(|it| !known.contains(&it.as_str())) {
            let known = known.join(", ");
            return Err(format!(
                "{shown} has an unknown field {}: there are {known}",
                printable(unknown)
            ));
        }
        Ok(Self { path: path.to_owned(), fields })
    }

    /// A field that is there and not null, with its path.
    fn get(&self, name: &str) -> Option<(String, &'v Value)> {
        let found = self.fields.get(name).filter(|it| !it.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        Some((format!("{}{dot}{name}", self.path), found))
    }

    /// The items of an array, with their paths.
    fn list(&self, name: &str, most: usize) -> Result<Option<Vec<(String, &'v Value)>>, Refused> {
        let Some((path, found)) = self.get(name) else { return Ok(None) };
        let items = found.as_array().ok_or_else(|| format!("{path} should be an array"))?;
        if items.len() > most {
            return Err(format!("{path} has more than {most} items"));
        }
        let items = items.iter().enumerate().map(|(at, it)| (format!("{path}[{at}]"), it));
        Ok(Some(items.collect()))
    }

    fn texts(&self, name: &str, most: usize) -> Result<Option<Vec<String>>, Refused> {
        let Some(items) = self.list(name, most)? else { return Ok(None) };
        items.iter().map(|(path, it)| text(path, it)).collect::<Result<_, _>>().map(Some)
    }

    /// The fields of an object, each with its path and its name.
    fn entries(&self, name: &str) -> Result<Vec<(String, String, &'v Value)>, Refused> {
        let Some((path, found)) = self.get(name) else { return Ok(vec![]) };
        let fields = found.as_object().ok_or_else(|| format!("{path} should be an object"))?;
        if fields.len() > VALUES_MAX {
            return Err(format!("{path} has more than {VALUES_MAX} fields"));
        }
        let entry = |(name, value): (&String, &'v Value)| {
            let path = format!("{path}.{}", printable(name));
            Ok((path.clone(), bounded(&path, name)?, value))
        };
        fields.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match read(text) {
            Ok(rules) => serde_json::to_string(&rules).unwrap(),
            Err(reason) => reason,
        });
    }

    #[test]
    fn rules_are_read() {
        check(r#"{"rules":[]}"#, expect![[r#"{"rules":[],"cascade":{"after":["soft"]}}"#]]);
        check(
            r#"{"rules":[
                {"name":"cards","when":{"currencies":["USD"],"amounts":{"USD":{"min":"10","max":99.5}},
                  "countries":["DE"],"bins":["411111","51000000-51999999"],"kinds":["card"],
                  "tags":["TEST","00000000-0000-0000-0000-00000000abcd"],"fields":{"tier":"gold"},"healthy":["a"]},
                 "gateways":["a","b"]},
                {"name":"rest","split":[{"percent":70,"gateways":["a"]},{"percent":30,"gateways":["b"]}]}],
               "cascade":{"after":["soft","hard"],"codes":{"a":{"X1":"soft"}},"refundLateSuccesses":true}}"#,
            expect![[
                r#"{"rules":[{"name":"cards","when":{"currencies":["USD"],"amounts":{"USD":{"min":1000,"max":9950}},"countries":["DE"],"bins":[{"digits":6,"from":411111,"to":411111},{"digits":8,"from":51000000,"to":51999999}],"kinds":["card"],"tags":["Test","00000000-0000-0000-0000-00000000abcd"],"fields":{"tier":"gold"},"healthy":["a"]},"to":{"Gateways":["a","b"]}},{"name":"rest","when":{},"to":{"Split":[{"percent":70,"gateways":["a"]},{"percent":30,"gateways":["b"]}]}}],"cascade":{"after":["soft","hard"],"codes":{"a":{"X1":"soft"}},"refunds_late_successes":true}}"#
            ]],
        );
    }

    fn rule(rest: &str) -> String {
        format!(r#"{{"rules":[{{"name":"r",{rest}}}]}}"#)
    }

    #[test]
    fn what_cannot_be_a_rule_is_refused_by_field() {
        for (text, expected) in [
            ("rules".to_owned(), expect!["is no JSON: expected value at line 1 column 1"]),
            ("[]".to_owned(), expect!["the configuration should be an object"]),
            ("{}".to_owned(), expect!["rules needs to be set"]),
            (r#"{"rules":{}}"#.to_owned(), expect!["rules should be an array"]),
            (
                r#"{"rules":[],"more":1}"#.to_owned(),
                expect!["the configuration has an unknown field more: there are rules, cascade"],
            ),
            (
                r#"{"rules":[{"gateways":["a"]}]}"#.to_owned(),
                expect!["rules[0].name needs to be set"],
            ),
            (
                r#"{"rules":[{"name":""}]}"#.to_owned(),
                expect!["rules[0].name should have 1 to 255 characters"],
            ),
            (
                rule(r#""gateways":["a"],"split":[]"#),
                expect!["rules[0] should have either gateways or split"],
            ),
            (
                rule(r#""gateways":["a","b","c","d","e"]"#),
                expect!["rules[0].gateways has more than 4 items"],
            ),
            (
                rule(r#""split":[{"percent":101,"gateways":["a"]}]"#),
                expect!["rules[0].split[0].percent should be a whole number from 0 to 100"],
            ),
            (
                r#"{"rules":[],"cascade":{"after":["never"]}}"#.to_owned(),
                expect!["cascade.after should be soft, hard or fraud"],
            ),
            (
                r#"{"rules":[],"cascade":{"codes":{"a":{"1":"x"}}}}"#.to_owned(),
                expect!["cascade.codes.a.1 should be soft, hard or fraud"],
            ),
            (
                r#"{"rules":[],"cascade":{"refundLateSuccesses":1}}"#.to_owned(),
                expect!["cascade.refundLateSuccesses should be true or false"],
            ),
        ] {
            check(&text, expected);
        }
    }

    #[test]
    fn what_cannot_be_a_condition_is_refused_by_field() {
        let when = |it: &str| rule(&format!(r#""when":{it},"gateways":["a"]"#));
        for (text, expected) in [
            (
                when(r#"{"currencies":["XXX"]}"#),
                expect!["rules[0].when.currencies has an unknown currency: XXX"],
            ),
            (
                when(r#"{"currencies":"USD"}"#),
                expect!["rules[0].when.currencies should be an array"],
            ),
            (
                when(r#"{"amounts":{"USD":{"min":"1.001"}}}"#),
                expect![
                    "rules[0].when.amounts.USD.min is not an amount: more decimals than the currency has (2)"
                ],
            ),
            (
                when(r#"{"amounts":{"USD":{"min":2,"max":1}}}"#),
                expect!["rules[0].when.amounts.USD has a min above its max"],
            ),
            (
                when(r#"{"countries":["Germany"]}"#),
                expect!["rules[0].when.countries should be codes of two capital letters"],
            ),
            (
                when(r#"{"bins":["41111"]}"#),
                expect!["rules[0].when.bins should be 6 to 8 digits, or a range of them"],
            ),
            (
                when(r#"{"bins":["411111111"]}"#),
                expect!["rules[0].when.bins should be 6 to 8 digits, or a range of them"],
            ),
            (
                when(r#"{"bins":["511111-411111"]}"#),
                expect!["rules[0].when.bins should be 6 to 8 digits, or a range of them"],
            ),
            (
                when(r#"{"bins":["411111-41111199"]}"#),
                expect!["rules[0].when.bins should be 6 to 8 digits, or a range of them"],
            ),
            (
                when(r#"{"tags":["gold"]}"#),
                expect!["rules[0].when.tags should be control tags or ids of tag definitions"],
            ),
            (when(r#"{"fields":{"a":1}}"#), expect!["rules[0].when.fields.a should be a text"]),
            (
                when(r#"{"health":[]}"#),
                expect![
                    "rules[0].when has an unknown field health: there are currencies, amounts, countries, bins, kinds, tags, fields, healthy"
                ],
            ),
        ] {
            check(&text, expected);
        }
    }
}
