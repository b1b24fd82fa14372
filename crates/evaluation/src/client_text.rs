//! A flag's JSON in the messages to FeatBit's clients, but for what depends on the user: it is made once for however
//! many clients are sent the flag.

use std::ops::Range;
use std::sync::OnceLock;

use crate::model::{Flag, Variation};

/// What comes before the reason, and between it and whether the evaluation counts for experiments.
#[derive(Clone, Copy, Debug)]
pub struct ClientText<'s> {
    /// From `{"id":` to `"matchReason":`, in parts.
    pub head: [&'s str; 5],
    /// From `,"variationOptions":` to `"sendToExperiment":`.
    pub options: &'s str,
}

/// The texts of a flag, which are made for its first client.
#[derive(Debug, Default)]
pub(crate) struct ClientTexts(OnceLock<Texts>);

/// The texts of a flag: each of its own texts once, however many variations it has.
#[derive(Debug)]
struct Texts {
    /// From `{"id":` to `"variation":`.
    id: Box<str>,
    /// From `,"variationType":` to `"variationId":`.
    kind: Box<str>,
    options: Box<str>,
    /// Where the options have the id and the value of each variation.
    variations: Box<[(Range<usize>, Range<usize>)]>,
}

impl ClientTexts {
    /// What a client is sent whose user gets the variation, one of the flag's or a stand-in; none of an archived flag.
    pub(crate) fn of(&self, flag: &Flag, variation: Option<&Variation>) -> ClientText<'_> {
        let texts = self.0.get_or_init(|| Texts::new(flag));
        let own = |it: &Variation| flag.variations.iter().position(|other| std::ptr::eq(it, other));
        let (id, value) = match variation.map(own) {
            None => ("null", "null"),
            Some(None) => (r#""""#, r#""""#),
            Some(Some(index)) => {
                let (id, value) = &texts.variations[index];
                (&texts.options[id.clone()], &texts.options[value.clone()])
            }
        };
        let head = [&texts.id, value, &texts.kind, id, r#","matchReason":"#];
        ClientText { head, options: &texts.options }
    }
}

impl Texts {
    fn new(flag: &Flag) -> Self {
        let (mut options, mut variations) = (r#","variationOptions":["#.to_owned(), vec![]);
        for (number, it) in flag.variations.iter().enumerate() {
            options += if number > 0 { r#",{"id":"# } else { r#"{"id":"# };
            let id = append(&mut options, &it.id);
            options += r#","value":"#;
            let value = append(&mut options, &it.value);
            options += "}";
            variations.push((id, value));
        }
        options += r#"],"sendToExperiment":"#;
        let kind = json(&flag.variation_type);
        Self {
            id: format!(r#"{{"id":{},"variation":"#, json(&flag.key)).into(),
            kind: format!(r#","variationType":{kind},"variationId":"#).into(),
            options: options.into(),
            variations: variations.into(),
        }
    }
}

/// Appends a text as JSON, and says where it is.
fn append(out: &mut String, text: &str) -> Range<usize> {
    let from = out.len();
    *out += &json(text);
    from..out.len()
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Flag, MissingAttribute, Snapshot, User};

    /// Compares what a client is sent of the flag `"a"`, whose values are JSON texts.
    fn check(changed: &Value, (variation, id): (Option<&str>, Option<&str>)) {
        let mut flag = json!({ "key": "\"a\"", "variationType": "json", "isEnabled": true,
            "variations": [{ "id": "1", "name": "no", "value": "{\"a\":1}" },
                { "id": "2", "value": "\n" }],
            "disabledVariationId": "2",
            "fallthrough": { "variations": [{ "id": "1", "rollout": [0, 1] }] } });
        flag.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let flag: Flag = serde_json::from_value(flag).unwrap();
        let snapshot = Snapshot::new(MissingAttribute::Empty).with([flag], []);
        let text = snapshot.evaluate("\"a\"", &User::new("u")).unwrap().client_text();
        let sent = format!("{}0{}0}}", text.head.concat(), text.options);
        let sent: Value = serde_json::from_str(&sent).unwrap();
        let options = json!([{ "id": "1", "value": "{\"a\":1}" }, { "id": "2", "value": "\n" }]);
        let expected = json!({ "id": "\"a\"", "variation": variation, "variationType": "json",
            "variationId": id, "matchReason": 0, "variationOptions": options,
            "sendToExperiment": 0 });
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_flags_text_is_of_the_users_variation() {
        check(&json!({}), (Some("{\"a\":1}"), Some("1")));
        check(&json!({ "isEnabled": false }), (Some("\n"), Some("2")));
    }

    #[test]
    fn a_variation_that_is_not_there_is_empty_and_an_archived_flag_has_none() {
        let changed = json!({ "isEnabled": false, "disabledVariationId": "3" });
        check(&changed, (Some(""), Some("")));
        check(&json!({ "isArchived": true }), (None, None));
    }
}
