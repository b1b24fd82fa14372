//! The results of the cases of a file.

use std::collections::BTreeMap;
use std::fmt;

use super::stricter::Stricter;

/// The results of the cases of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of equal results.
    pub passed: usize,
    /// The number of cases that are not compared.
    pub not_checked: usize,
    /// The justified refusals by reason.
    pub stricter: BTreeMap<Stricter, Vec<String>>,
    /// The cases with different results, and the differences.
    pub failed: Vec<String>,
    /// The cases that both refuse because of different fields. They also count as passed.
    pub other_fields: Vec<String>,
}

/// The result of a case.
pub(super) enum Verdict {
    Passed,
    /// Both refuse, and name different fields.
    OtherField(String),
    NotChecked,
    Stricter(Stricter),
    Failed(String),
}

impl Outcome {
    /// The number of justified refusals.
    #[must_use]
    pub fn stricter_count(&self) -> usize {
        self.stricter.values().map(Vec::len).sum()
    }

    pub(super) fn add(&mut self, case: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::OtherField(which) => {
                self.passed += 1;
                self.other_fields.push(format!("{case}: {which}"));
            }
            Verdict::NotChecked => self.not_checked += 1,
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
        if self.not_checked > 0 {
            write!(f, ", {} not judged", self.not_checked)?;
        }
        Ok(())
    }
}
