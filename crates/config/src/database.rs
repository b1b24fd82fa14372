//! The address of a database server. It has a password: what is printed of it does not.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use store::Server;

/// A URL that [`Server`] understands; empty for none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server; `None` where none is named.
    ///
    /// # Errors
    /// [`store::Error`] where a file that the URL names cannot be read any more.
    pub fn server(&self) -> Result<Option<Server>, store::Error> {
        match self.0.as_str() {
            "" => Ok(None),
            url => Server::parse(url).map(Some),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server() {
            Ok(Some(server)) => f.write_str(&server.shown()),
            Ok(None) => Ok(()),
            Err(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let url = Self(String::deserialize(deserializer)?);
        url.server().map_err(de::Error::custom)?;
        Ok(url)
    }
}
