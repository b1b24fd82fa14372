//! A tenant's configuration of the gateway: JSON, or the text of Kill Bill's Stripe plugin.

use domain::MerchantAccount;
use serde::Deserialize;

/// The prefix of the keys of Kill Bill's plugin.
const KILL_BILL_PREFIX: &str = "org.killbill.billing.plugin.stripe.";

/// The keys of Kill Bill's plugin that are ignored: timeouts and addresses are the installation's settings.
const KILL_BILL_IGNORED: [&str; 10] = [
    "publicKey",
    "connectionTimeout",
    "readTimeout",
    "stripeRegion",
    "pendingPaymentExpirationPeriod",
    "pendingHppPaymentWithoutCompletionExpirationPeriod",
    "paymentMethodExpirationPeriod",
    "cancelOn3DSAuthorizationFailure",
    "proxyHost",
    "proxyPort",
];

/// How many secrets of webhook endpoints there can be: more than a rotation takes.
const WEBHOOK_SECRETS_MAX: usize = 5;

/// The longest key, secret or text.
const TEXT_BYTES_MAX: usize = 500;

/// How long a statement descriptor can be (Stripe's limit).
const DESCRIPTOR_CHARS_MAX: usize = 22;

/// A tenant's configuration.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Configuration {
    /// A secret or restricted key.
    pub(super) api_key: String,
    /// The account of the key, such as `acct_1Nv0`; asked for with the key where it is not given.
    pub(super) account_id: Option<String>,
    /// The signing secrets of the webhook endpoint; several while one is replaced.
    pub(super) webhook_secrets: Vec<String>,
    /// Shown in Stripe's dashboard.
    pub(super) charge_description: Option<String>,
    /// Follows the account's own descriptor on statements of cards.
    pub(super) charge_statement_descriptor: Option<String>,
}

impl Configuration {
    /// Reads a configuration, JSON or the plugin's text.
    ///
    /// # Errors
    /// The field that is wrong, and why; never a value.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parsed = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let known = "apiKey, accountId, webhookSecrets, chargeDescription and \
                             chargeStatementDescriptor are known";
                format!("is no configuration in JSON: line {line}, column {column}; {known}")
            })?,
            false => Self::of_properties(text)?,
        };
        parsed.check()
    }

    /// The text of Kill Bill's plugin: a property in each line.
    fn of_properties(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let property = line.strip_prefix(KILL_BILL_PREFIX).and_then(|it| it.split_once('='));
            let Some((name, value)) = property else {
                let line = at + 1;
                return Err(format!(
                    "has no property `{KILL_BILL_PREFIX}NAME=VALUE` in line {line}"
                ));
            };
            let value = value.trim().to_owned();
            match name.trim() {
                "apiKey" => read.api_key = value,
                "accountId" => read.account_id = Some(value),
                "webhookSecret" => read.webhook_secrets.push(value),
                "chargeDescription" => read.charge_description = Some(value),
                "chargeStatementDescriptor" => read.charge_statement_descriptor = Some(value),
                ignored if KILL_BILL_IGNORED.contains(&ignored) => {}
                _ => return Err(format!("has an unknown property in line {}", at + 1)),
            }
        }
        Ok(read)
    }

    fn check(self) -> Result<Self, String> {
        let is_key = ["sk_test_", "sk_live_", "rk_test_", "rk_live_"];
        let is_key = is_key.iter().any(|prefix| self.api_key.starts_with(prefix));
        if !is_key || !is_token(&self.api_key) {
            return Err(
                "apiKey: should be a secret key `sk_…` or a restricted key `rk_…`".to_owned()
            );
        }
        if self.account_id.as_ref().is_some_and(|it| !it.starts_with("acct_") || !is_token(it)) {
            return Err("accountId: should be the id of an account, `acct_…`".to_owned());
        }
        if self.webhook_secrets.len() > WEBHOOK_SECRETS_MAX {
            return Err(format!("webhookSecrets: are more than {WEBHOOK_SECRETS_MAX}"));
        }
        let is_secret = |it: &str| it.strip_prefix("whsec_").is_some_and(|it| !it.is_empty());
        if self.webhook_secrets.iter().any(|it| !is_secret(it) || !is_token(it)) {
            return Err("webhookSecrets: should be signing secrets, `whsec_…`".to_owned());
        }
        let is_long = |it: &String| it.len() > TEXT_BYTES_MAX;
        if self.charge_description.as_ref().is_some_and(is_long) {
            return Err(format!("chargeDescription: has more than {TEXT_BYTES_MAX} bytes"));
        }
        let descriptor = self.charge_statement_descriptor.as_ref();
        if descriptor.is_some_and(|it| it.chars().count() > DESCRIPTOR_CHARS_MAX) {
            let most = DESCRIPTOR_CHARS_MAX;
            return Err(format!("chargeStatementDescriptor: has more than {most} characters"));
        }
        Ok(self)
    }

    /// The account of this configuration, with its mode: what is made in one is not there in the other.
    pub(super) fn merchant_account(&self, account: &str) -> MerchantAccount {
        let is_live = self.api_key.get(3..).is_some_and(|it| it.starts_with("live_"));
        MerchantAccount(format!("{account}/{}", if is_live { "live" } else { "test" }))
    }
}

/// Whether a text can stand in a header: letters, digits, `_`.
fn is_token(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match Configuration::parse(text) {
            Ok(it) => format!(
                "{} {:?} {} {:?} {:?}",
                it.api_key,
                it.account_id,
                it.webhook_secrets.join(","),
                it.charge_description,
                it.charge_statement_descriptor
            ),
            Err(reason) => reason,
        });
    }

    #[test]
    fn json_and_the_plugins_text_say_the_same() {
        let json = r#"{"apiKey":"sk_test_1","accountId":"acct_1","webhookSecrets":["whsec_a","whsec_b"],"chargeDescription":"A plan"}"#;
        check(json, expect![[r#"sk_test_1 Some("acct_1") whsec_a,whsec_b Some("A plan") None"#]]);
        let text = "# of Kill Bill\n\norg.killbill.billing.plugin.stripe.apiKey=sk_test_1\n\
                    org.killbill.billing.plugin.stripe.accountId = acct_1\n\
                    org.killbill.billing.plugin.stripe.publicKey=pk_test_1\n\
                    org.killbill.billing.plugin.stripe.webhookSecret=whsec_a\n\
                    org.killbill.billing.plugin.stripe.webhookSecret=whsec_b\n\
                    org.killbill.billing.plugin.stripe.chargeDescription=A plan\n";
        check(text, expect![[r#"sk_test_1 Some("acct_1") whsec_a,whsec_b Some("A plan") None"#]]);
    }

    #[test]
    fn a_wrong_configuration_names_its_field_and_no_value() {
        check("", expect!["apiKey: should be a secret key `sk_…` or a restricted key `rk_…`"]);
        check(
            r#"{"apiKey":"pk_test_1"}"#,
            expect!["apiKey: should be a secret key `sk_…` or a restricted key `rk_…`"],
        );
        check(
            "{\"apiKey\":\"sk_test_1\\r\\nX: y\"}",
            expect!["apiKey: should be a secret key `sk_…` or a restricted key `rk_…`"],
        );
        check(
            r#"{"apiKey":"sk_test_1","secret":"s"}"#,
            expect![
                "is no configuration in JSON: line 1, column 30; apiKey, accountId, webhookSecrets, chargeDescription and chargeStatementDescriptor are known"
            ],
        );
        for secret in ["secret", "whsec_"] {
            check(
                &format!(r#"{{"apiKey":"sk_test_1","webhookSecrets":["{secret}"]}}"#),
                expect!["webhookSecrets: should be signing secrets, `whsec_…`"],
            );
        }
        check(
            "org.killbill.billing.plugin.stripe.key=sk_test_1",
            expect!["has an unknown property in line 1"],
        );
        check(
            "apiKey=sk_test_1",
            expect!["has no property `org.killbill.billing.plugin.stripe.NAME=VALUE` in line 1"],
        );
    }

    #[test]
    fn the_mode_of_a_key_is_part_of_its_account() {
        let of = |key: &str| {
            let it = Configuration { api_key: key.to_owned(), ..Configuration::default() };
            it.merchant_account("acct_1").0
        };
        assert_eq!(of("sk_test_1"), "acct_1/test");
        assert_eq!(of("rk_live_1"), "acct_1/live");
    }
}
