//! A flag's JSON in the messages to FeatBit's clients, but for what depends on the user: it is made once for however
//! many clients are sent the flag.

use std::ops::Range;
use std::sync::OnceLock;

use serde::Serialize;

use crate::model::{Flag, Variation};

/// Up to the reason, and between it and whether the evaluation counts for experiments.
#[derive(Clone, Copy, Debug)]
pub struct ClientText<'s> {
    /// From `{"id":` to `"matchReason":`.
    pub head: &'s str,
    /// From `,"variationOptions":` to `"sendToExperiment":`.
    pub options: &'s str,
}

/// The texts of a flag, which are made for its first client.
#[derive(Debug, Default)]
pub(crate) struct ClientTexts(OnceLock<Texts>);

/// The texts of a flag, for each of its variations.
#[derive(Debug)]
struct Texts {
    /// All of them, one after the other.
    text: Box<str>,
    /// Where the heads are: those of the variations, of one that the flag does not have, and of an archived flag.
    heads: Box<[Range<usize>]>,
}

#[derive(Serialize)]
struct VariationOption<'f> {
    id: &'f str,
    value: &'f str,
}

impl ClientTexts {
    /// What a client is sent whose user gets the variation, one of the flag's or a stand-in; none of an archived flag.
    pub(crate) fn of(&self, flag: &Flag, variation: Option<&Variation>) -> ClientText<'_> {
        let texts = self.0.get_or_init(|| Texts::new(flag));
        let (archived, absent) = (texts.heads.len() - 1, texts.heads.len() - 2);
        let head = variation.map_or(archived, |it| {
            let index = flag.variations.iter().position(|other| std::ptr::eq(it, other));
            index.unwrap_or(absent)
        });
        let options = texts.heads[archived].end;
        ClientText { head: &texts.text[texts.heads[head].clone()], options: &texts.text[options..] }
    }
}

impl Texts {
    fn new(flag: &Flag) -> Self {
        let absent = Variation::default();
        let each = flag.variations.iter().chain([&absent]).map(Some).chain([None]);
        let (mut text, mut heads) = (String::new(), vec![]);
        for variation in each {
            let begins_at = text.len();
            text += r#"{"id":"#;
            text += &json(&flag.key);
            text += r#","variation":"#;
            text += &json(&variation.map(|it| &it.value));
            text += r#","variationType":"#;
            text += &json(&flag.variation_type);
            text += r#","variationId":"#;
            text += &json(&variation.map(|it| &it.id));
            text += r#","matchReason":"#;
            heads.push(begins_at..text.len());
        }
        let options = flag.variations.iter();
        let options = options.map(|it| VariationOption { id: &it.id, value: &it.value });
        text += r#","variationOptions":"#;
        text += &json(&options.collect::<Vec<_>>());
        text += r#","sendToExperiment":"#;
        Self { text: text.into(), heads: heads.into() }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and lists are JSON")
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
        let sent: Value =
            serde_json::from_str(&format!("{}0{}0}}", text.head, text.options)).unwrap();
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
