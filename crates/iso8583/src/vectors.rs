//! Compares this library with golden vectors, the recorded results of another implementation.
//!
//! A file is JSON with one or more kinds of cases: messages with their packager (`table` or `xml`,
//! `vectors`, `malformed`), several such `suites`, classes of fields, frames of channels, headers of
//! BASE I, TLVs. Messages are packed and unpacked with
//! [`Validation::Lenient`](crate::Validation::Lenient). A case passes if both results are equal, or if
//! both implementations refuse it; a refusal must name the field, and the offset in received bytes. If
//! the other implementation accepts a value that is lost or cannot be read back, a refusal counts as
//! [`Stricter`], with a reason that is verified with the case. All other cases fail.

use serde_json::Value;

mod channels;
mod extras;
mod messages;
mod outcome;
mod stricter;
mod values;

pub use outcome::Outcome;
pub use stricter::Stricter;

/// Why a file cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// The file is not JSON.
    #[error("the file is not JSON")]
    Json(#[from] serde_json::Error),
    /// The file has no known cases.
    #[error("there are no vectors in it: neither messages, classes, frames, headers nor TLVs")]
    Empty,
    /// The file has an unknown list, which would be ignored.
    #[error("`{name}` is unknown; the known sections are {}", SECTIONS.join(", "))]
    UnknownSection {
        /// The name of the list.
        name: String,
    },
}

/// The names of the lists of cases.
const SECTIONS: [&str; 7] =
    ["vectors", "malformed", "cases", "frames", "reactions", "headers", "suites"];

/// Checks all cases of a file.
///
/// # Errors
/// The file is not a file of vectors.
pub fn check(text: &str) -> Result<Outcome, VectorsError> {
    let file: Value = serde_json::from_str(text)?;
    let lists = file.as_object().into_iter().flatten().filter(|(_, value)| value.is_array());
    for (name, _) in lists {
        if !SECTIONS.contains(&name.as_str()) {
            return Err(VectorsError::UnknownSection { name: name.clone() });
        }
    }
    let mut outcome = Outcome::default();
    if file.get("vectors").is_some() || file.get("malformed").is_some() {
        messages::check_file(&file, &mut outcome);
    }
    for suite in values::list(&file["suites"]) {
        messages::check_file(suite, &mut outcome);
    }
    channels::check_file(&file, &mut outcome);
    for case in values::list(&file["cases"]) {
        if case.get("class").is_some() {
            messages::check_class(case, &mut outcome);
        } else {
            extras::check(case, &mut outcome);
        }
    }
    if outcome == Outcome::default() { Err(VectorsError::Empty) } else { Ok(outcome) }
}
