//! Golden vectors: what another implementation made of values and of bytes, and whether we agree.
//!
//! A file is JSON and says itself what it holds: messages with their packager (`table` or `xml`,
//! `vectors`, `malformed`), classes of fields, frames of channels, headers of BASE I, TLVs. Messages
//! are packed and read in [`Validation::Lenient`](crate::Validation::Lenient). A case passes where
//! we do the same, and where both refuse; a refusal must name the field, and in received bytes the
//! place. Where the other accepts what is lost or cannot be read back, a refusal is
//! [`Stricter`], with a reason that is looked up in the case itself. All else fails.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

mod channels;
mod extras;
mod messages;
mod stricter;
mod values;

pub use stricter::Stricter;

/// What became of the cases of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many agree.
    pub passed: usize,
    /// How many hold facts that are not compared.
    pub not_judged: usize,
    /// Which are refused for a good reason.
    pub stricter: BTreeMap<Stricter, Vec<String>>,
    /// Which differ, and how.
    pub failed: Vec<String>,
    /// Where both refuse, but for the sake of different fields: told, and not held against anybody.
    pub other_fields: Vec<String>,
}

/// Why a file was not judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// It is not JSON.
    #[error("this is no JSON")]
    Json(#[from] serde_json::Error),
    /// It holds nothing that is known here.
    #[error("there are no vectors in it: neither messages, classes, frames, headers nor TLVs")]
    Empty,
    /// It holds a list that nobody would look at.
    #[error("`{name}` is not known; vectors stand in {}", SECTIONS.join(", "))]
    UnknownSection {
        /// What it is called.
        name: String,
    },
}

/// The lists of cases that a file may hold.
const SECTIONS: [&str; 6] = ["vectors", "malformed", "cases", "frames", "reactions", "headers"];

/// What became of one case.
enum Verdict {
    Passed,
    /// Refused by both; the fields that the other and we name differ.
    OtherField(String),
    NotJudged,
    Stricter(Stricter),
    Failed(String),
}

/// Judges all cases of a file.
///
/// # Errors
/// If it is not a file of vectors.
pub fn judge(text: &str) -> Result<Outcome, VectorsError> {
    let file: Value = serde_json::from_str(text)?;
    let lists = file.as_object().into_iter().flatten().filter(|(_, value)| value.is_array());
    for (name, _) in lists {
        if !SECTIONS.contains(&name.as_str()) {
            return Err(VectorsError::UnknownSection { name: name.clone() });
        }
    }
    let mut outcome = Outcome::default();
    if file.get("vectors").is_some() || file.get("malformed").is_some() {
        messages::judge_file(&file, &mut outcome);
    }
    channels::judge_file(&file, &mut outcome);
    for case in values::list(&file["cases"]) {
        if case.get("class").is_some() {
            messages::judge_class(case, &mut outcome);
        } else {
            extras::judge(case, &mut outcome);
        }
    }
    if outcome == Outcome::default() { Err(VectorsError::Empty) } else { Ok(outcome) }
}

impl Outcome {
    /// How many are refused for a good reason.
    #[must_use]
    pub fn stricter_count(&self) -> usize {
        self.stricter.values().map(Vec::len).sum()
    }

    fn take(&mut self, case: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::OtherField(which) => {
                self.passed += 1;
                self.other_fields.push(format!("{case}: {which}"));
            }
            Verdict::NotJudged => self.not_judged += 1,
            Verdict::Stricter(reason) => {
                self.stricter.entry(reason).or_default().push(case.to_owned());
            }
            Verdict::Failed(why) => self.failed.push(format!("{case}: {why}")),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed) = (self.passed, self.failed.len());
        write!(f, "{passed} passed, {} stricter, {failed} failed", self.stricter_count())?;
        if self.not_judged > 0 {
            write!(f, ", {} not judged", self.not_judged)?;
        }
        Ok(())
    }
}
