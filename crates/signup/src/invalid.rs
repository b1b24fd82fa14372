//! What is wrong with something that a customer entered: the field, and the rule it breaks.

/// A rule that a field breaks. The text is for the customer, and never repeats what was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Fewer than 8 characters.
    #[error("Password must have at least 8 characters")]
    PasswordTooShort,
    /// More than 128 characters, or than 1,024 bytes.
    #[error("Password must have at most 128 characters")]
    PasswordTooLong,
    /// No upper-case letter.
    #[error("Password must contain at least one uppercase letter")]
    PasswordLacksUpper,
    /// No lower-case letter.
    #[error("Password must contain at least one lowercase letter")]
    PasswordLacksLower,
    /// No digit.
    #[error("Password must contain at least one digit")]
    PasswordLacksDigit,
    /// None of the special characters.
    #[error("Password must contain at least one special character")]
    PasswordLacksSpecial,
    /// What many people use.
    #[error("Password is one of the most common passwords")]
    PasswordCommon,
    /// Not an e-mail address, or longer than one may be.
    #[error("Email is not a valid email address")]
    Email,
    /// Letters of several scripts in one word, which look like another address.
    #[error("Email must not mix letters of different scripts")]
    EmailScripts,
    /// Empty, too long, or with control characters.
    #[error("First name must have 1 to 50 characters")]
    FirstName,
    /// Empty, too long, or with control characters.
    #[error("Last name must have 1 to 50 characters")]
    LastName,
    /// Not in the form of E.164.
    #[error("Phone must be an international phone number")]
    Phone,
    /// Not in the time zone database.
    #[error("Timezone is not a known time zone")]
    TimeZone,
    /// No object, or too large a one.
    #[error("Preferences must be an object of at most {} bytes", crate::preferences::BYTES_MAX)]
    Preferences,
}

impl Invalid {
    /// The field as the contract of sign-up names it.
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
