//! Checks cases of TLVs and of message types.

use serde_json::Value;

use super::outcome::{Outcome, Verdict};
use super::stricter::Stricter;
use super::values::{bytes_of, hex, list, text};
use crate::message_type::response_to;
use crate::tlv::{Tags, TlvError, TlvList};

pub(super) fn check(case: &Value, outcome: &mut Outcome) {
    match text(case, "kind") {
        "tlv" => outcome.add(&format!("tlv {}", text(case, "hex")), check_tlv(case)),
        "mti" => outcome.add(&format!("mti {}", text(case, "mti")), check_message_type(case)),
        // Masks and keys are specific to the other implementation.
        _ => outcome.add("", Verdict::NotChecked),
    }
}

fn check_tlv(case: &Value) -> Verdict {
    let Some(bytes) = bytes_of(&case["hex"]) else {
        return Verdict::Failed("`hex` of this case cannot be read".to_owned());
    };
    let is_refused = case.get("error").is_some();
    let list = match TlvList::read(&bytes) {
        Ok(_) if is_refused => return Verdict::Failed("should be refused, is read".to_owned()),
        Ok(list) => list,
        Err(_) if is_refused => return Verdict::Passed,
        Err(error) => {
            let reason = offset_of(error).and_then(|at| Stricter::for_tlv(&bytes, at));
            return reason.map_or_else(|| Verdict::Failed(error.to_string()), Verdict::Stricter);
        }
    };
    let ours: Vec<_> = list.iter().map(|it| (it.tag.to_string(), hex(it.value))).collect();
    let theirs = list_of_tags(case);
    let iterated = Tags::new(&bytes).map_while(Result::ok).count();
    if ours != theirs {
        return Verdict::Failed(format!("should be {theirs:?}, is {ours:?}"));
    }
    if iterated != ours.len() || list.as_bytes() != bytes {
        return Verdict::Failed(format!("is written as {}", hex(list.as_bytes())));
    }
    Verdict::Passed
}

fn list_of_tags(case: &Value) -> Vec<(String, String)> {
    let tags = list(&case["tags"]).iter();
    tags.map(|it| (text(it, "tag").to_uppercase(), text(it, "value").to_uppercase())).collect()
}

fn offset_of(error: TlvError) -> Option<usize> {
    match error {
        TlvError::TagCutOff { at }
        | TlvError::TagTooLong { at }
        | TlvError::LengthCutOff { at, .. }
        | TlvError::LengthForm { at, .. }
        | TlvError::ValueCutOff { at, .. } => Some(at),
        TlvError::NoTag { .. } => None,
    }
}

fn check_message_type(case: &Value) -> Verdict {
    let ours = response_to(text(case, "mti").as_bytes());
    let ours = ours.map(|it| it.map(char::from).iter().collect::<String>());
    let theirs = Some(text(case, "response")).filter(|it| it.len() == 4);
    if ours.as_deref() == theirs {
        return Verdict::Passed;
    }
    Verdict::Failed(format!("should be answered by {theirs:?}, is by {ours:?}"))
}
