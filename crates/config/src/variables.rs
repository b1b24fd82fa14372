//! Environment variables with our prefix that are no settings.

use super::PREFIX;

/// Variables of the command line, of tests and of scripts.
const KNOWN: [&str; 13] = [
    "FAREGATE_ADMIN_PASSWORD",
    "FAREGATE_API_KEY",
    "FAREGATE_API_SECRET",
    "FAREGATE_BIN",
    "FAREGATE_CONFIG",
    "FAREGATE_FIRST_TENANT_API_KEY",
    "FAREGATE_FIRST_TENANT_API_SECRET",
    "FAREGATE_PASSWORD",
    "FAREGATE_PROFILE",
    "FAREGATE_PROFILES",
    "FAREGATE_SETTINGS",
    "FAREGATE_URL",
    "FAREGATE_USER",
];

/// How many letters a name may differ in from a setting's to be taken for a mistake.
const LETTERS_MAX: usize = 2;

/// Whether a variable is for something else: for the command line, for tests, or set by Kubernetes for
/// a service named `faregate`.
pub fn is_known(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    let is_of_service = rest.contains("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || rest.split('_').any(|part| part == "PORT");
    KNOWN.contains(&name) || rest.starts_with("TEST_") || is_of_service
}

/// The variable of a setting. The `-` of a gateway's name is `_`, which shells can set.
pub fn of_setting(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("_").replace('-', "_").to_ascii_uppercase())
}

/// The name that was meant, where one is nearly the same.
pub fn nearest(name: &str, settings: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let distances = settings.map(|it| (strsim::damerau_levenshtein(&name, &it), it));
    let (distance, nearest) = distances.min()?;
    (distance <= LETTERS_MAX).then_some(nearest)
}
