//! Rules of the input of customers, and the fields that break them.

/// The largest preferences of a customer, in bytes.
pub const PREFERENCES_BYTES_MAX: usize = 16 * 1024;

/// A broken rule. The text is for the customer, and never repeats the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Fewer than 8 characters.
    #[error("Password must have at least 8 characters")]
    PasswordTooShort,
    /// More than 128 characters, or than 1,024 bytes.
    #[error("Password must have at most 128 characters")]
    PasswordTooLong,
    #[error("Password must contain at least one uppercase letter")]
    PasswordLacksUpper,
    #[error("Password must contain at least one lowercase letter")]
    PasswordLacksLower,
    #[error("Password must contain at least one digit")]
    PasswordLacksDigit,
    /// None of the special characters.
    #[error("Password must contain at least one special character")]
    PasswordLacksSpecial,
    /// A common password, or one around a common word.
    #[error("Password is one of the most common passwords")]
    PasswordCommon,
    /// Malformed or too long.
    #[error("Email is not a valid email address")]
    Email,
    /// Scripts mixed in one word, as in look-alike addresses.
    #[error("Email must not mix letters of different scripts")]
    EmailScripts,
    /// Empty, too long, or with control characters.
    #[error("First name must have 1 to 50 characters")]
    FirstName,
    /// Empty, too long, or with control characters.
    #[error("Last name must have 1 to 50 characters")]
    LastName,
    /// Not in the format of E.164.
    #[error("Phone must be an international phone number")]
    Phone,
    /// Not in the time zone database.
    #[error("Timezone is not a known time zone")]
    TimeZone,
    /// Not an object, too large, or with a value that parsers do not read.
    #[error("Preferences must be an object of at most {} bytes", PREFERENCES_BYTES_MAX)]
    Preferences,
}

impl Invalid {
    /// The field's name in the contract of sign-up.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::PasswordTooShort
            | Self::PasswordTooLong
            | Self::PasswordLacksUpper
            | Self::PasswordLacksLower
            | Self::PasswordLacksDigit
            | Self::PasswordLacksSpecial
            | Self::PasswordCommon => "password",
            Self::Email | Self::EmailScripts => "email",
            Self::FirstName => "first_name",
            Self::LastName => "last_name",
            Self::Phone => "phone",
            Self::TimeZone => "timezone",
            Self::Preferences => "preferences",
        }
    }
}
