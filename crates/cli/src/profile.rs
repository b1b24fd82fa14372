//! Profiles: where servers are and the credentials for them, in a file of the user's own.
//!
//! ```toml
//! [default]
//! url = "http://127.0.0.1:8080"
//! user = "admin"
//! password = "..."
//! api_key = "shop"
//! api_secret = "..."
//! ```

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// The profile where none is named.
const DEFAULT: &str = "default";

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Permissions of the group and of others, which a file with secrets must not give.
const OTHERS: u32 = 0o077;

/// A server, and the credentials for it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: Option<String>,
    /// Certificates (PEM) of the authority that signed the server's.
    pub(crate) ca_file: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) api_secret: Option<String>,
}

impl Profile {
    /// The profile of this name, or the one called `default`; an empty one where there is no file and no
    /// profile was named.
    ///
    /// # Errors
    /// If the file cannot be read, others may read it, or it does not have the named profile.
    pub(crate) fn load(name: Option<&str>) -> anyhow::Result<Self> {
        match (path(), name) {
            (Some(path), _) if path.exists() => Self::of_file(&path, name),
            (_, None) => Ok(Self::default()),
            (Some(path), Some(name)) => {
                anyhow::bail!("there is no profile {name}: {} does not exist", path.display())
            }
            (None, Some(name)) => {
                anyhow::bail!("there is no profile {name}: set FAREGATE_PROFILES to its file")
            }
        }
    }

    fn of_file(path: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        let shown = path.display();
        let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
        anyhow::ensure!(
            metadata.permissions().mode() & OTHERS == 0,
            "{shown} has passwords and others may read it: chmod 600 {shown}"
        );
        anyhow::ensure!(
            metadata.len() <= FILE_BYTES_MAX,
            "{shown} has more than {FILE_BYTES_MAX} bytes"
        );
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        // The error's own text would quote a line, which may be a password.
        let mut profiles: BTreeMap<String, Self> = toml::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{shown}: {}", error.message()))?;
        match (profiles.remove(name.unwrap_or(DEFAULT)), name) {
            (Some(profile), _) => Ok(profile),
            (None, None) => Ok(Self::default()),
            (None, Some(name)) => {
                let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
                let known = known.join(", ");
                anyhow::bail!("there is no profile {name} in {shown}, which has: {known}")
            }
        }
    }
}

/// `$FAREGATE_PROFILES`, or `faregate/profiles.toml` in the user's configuration directory.
fn path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let directory =
        || variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    variable("FAREGATE_PROFILES").or_else(|| Some(directory()?.join("faregate/profiles.toml")))
}
