//! The table from [`Rejection`] to Kill Bill's status, code, class and message.

use domain::catalog::NoPrice;
use domain::{
    AccessRejection, AccountId, AccountRejection, BillingRejection, InvoiceId, PaymentRejection,
    Rejection, TenantRejection,
};

use http::StatusCode;

use super::{Code, class, code};
use crate::payment_states::{START_STATE, state_name};

pub(super) fn wire(rejection: &Rejection) -> (Code, String) {
    match rejection {
        Rejection::Tenant(it) => wire_tenant(it),
        Rejection::Access(it) => wire_access(it),
        Rejection::Account(it) => wire_account(it),
        Rejection::Payment(it) => wire_payment(it),
        Rejection::Billing(it) => wire_billing(it),
        Rejection::InvalidParameter { field, reason } => {
            (code::INVALID_PARAMETER, invalid_parameter(field, reason))
        }
        // No route of this API returns these.
        Rejection::Flag(_) | Rejection::Customer(_) | Rejection::Entitlement(_) => {
            (code::ILLEGAL_ARGUMENT, rejection.to_string())
        }
    }
}

fn wire_tenant(rejection: &TenantRejection) -> (Code, String) {
    use TenantRejection as R;
    match rejection {
        R::AlreadyExists { key } => {
            (code::TENANT_ALREADY_EXISTS, format!("Tenant already exists for key {key}"))
        }
        R::TagDefinitionReserved { name } => {
            (code::TAG_DEFINITION_RESERVED, reserved_definition(name))
        }
        R::TagDefinitionExists { name } => {
            (code::TAG_DEFINITION_EXISTS, format!("The tag definition {name} already exists "))
        }
        R::TagDefinitionNotFound { id } => (code::NO_SUCH_TAG_DEFINITION, no_tag_definition(id)),
        R::TagDefinitionInUse { id } => {
            (code::TAG_DEFINITION_IN_USE, format!("The tag definition {id} is currently in use"))
        }
        R::TagDefinitionNotLowercase { name } => {
            (code::TAG_DEFINITION_HAS_UPPERCASE, not_lowercase(name))
        }
        R::CatalogRefused { .. } => (code::INVALID_CATALOG, rejection.to_string()),
        R::SimplePlanRefused { .. } => (code::INVALID_SIMPLE_PLAN, rejection.to_string()),
        // No route of this API returns it.
        R::ValueChanged { .. } => (code::ILLEGAL_ARGUMENT, rejection.to_string()),
    }
}

fn wire_billing(rejection: &BillingRejection) -> (Code, String) {
    use BillingRejection as R;
    let code = match rejection {
        R::NoCatalog => code::NO_CATALOG,
        R::NoSuchPlan { .. } => code::NO_SUCH_PLAN,
        R::NoSuchProduct { .. } => code::NO_SUCH_PRODUCT,
        R::NoPlanOffered { .. } => code::NO_PLAN_OFFERED,
        R::SeveralPlansOffered { .. } => code::SEVERAL_PLANS_OFFERED,
        R::NoSuchPhase { .. } => code::NO_SUCH_PHASE,
        R::NoPrice { why: NoPrice::Missing, .. } => code::NO_PRICE,
        R::NoPrice { why: NoPrice::NotSold, .. } => code::NOT_SOLD_IN_CURRENCY,
        R::InvalidPriceOverride { .. } => code::INVALID_PRICE_OVERRIDE,
        R::NoSuchSubscription { .. } => code::NO_SUCH_SUBSCRIPTION,
        R::NoSuchBundle { .. } => code::NO_SUCH_BUNDLE,
        R::BundleKeyInUse { .. } => code::BUNDLE_KEY_IN_USE,
        R::BaseExists { .. } => code::BASE_EXISTS,
        R::NoBase => code::NO_BASE,
        R::AddOnIncluded { .. } => code::ADD_ON_INCLUDED,
        R::AddOnNotAvailable { .. } => code::ADD_ON_NOT_AVAILABLE,
        R::TooManyInBundle { .. } => code::TOO_MANY_IN_BUNDLE,
        R::TooManySubscriptions | R::TooManyTransitions => code::ILLEGAL_ARGUMENT,
        R::BeforeLastTransition { .. } => code::REQUESTED_DATE_TOO_EARLY,
        R::NotChangeable { .. } => code::NOT_CHANGEABLE,
        R::Blocked { .. } => code::BLOCKED,
        R::CancelPending { .. } => code::CANCEL_PENDING,
        R::ExpiresBefore { .. } => code::EXPIRES_BEFORE,
        R::AlreadyCancelled { .. } => code::ALREADY_CANCELLED,
        R::NotCancelled { .. } => code::NOT_CANCELLED,
        R::NoChangePending { .. } => code::NO_CHANGE_PENDING,
        R::ChangeIllegal { .. } => code::CHANGE_ILLEGAL,
        R::TargetTooFar { .. } => code::TARGET_TOO_FAR,
        R::CannotBeBilled { .. } => code::ILLEGAL_ARGUMENT,
        R::NoSuchItem { .. } => code::NO_SUCH_INVOICE_ITEM,
        R::InvoiceCommitted { .. } => code::INVOICE_COMMITTED,
        R::InvoiceVoid { .. } => code::INVOICE_VOID,
        R::NoDraft { .. } => code::INVOICE_STATUS,
        R::ChargeNotPositive => code::CHARGE_AMOUNT,
        R::CreditNotPositive => code::CREDIT_AMOUNT,
        R::AdjustmentNotPositive => code::ADJUSTMENT_AMOUNT,
        R::AdjustmentTooLarge { .. } => code::ADJUSTMENT_TOO_LARGE,
        R::NotAdjustable { .. } => code::NOT_ADJUSTABLE,
        R::InvoicePaid { .. } => code::INVOICE_PAID,
        R::InvoiceRepaired { .. } | R::DaysChargedAgain { .. } => code::INVOICE_REPAIRED,
        R::CreditUsed { .. } => code::CREDIT_USED,
        R::SystemCredit { .. } => code::SYSTEM_CREDIT,
        R::OtherCurrency { .. } | R::InvoiceTooLarge => code::ILLEGAL_ARGUMENT,
        R::NothingToInvoice => code::plain(StatusCode::NOT_FOUND, class::INVOICE),
        R::NoSuchInvoice { invoice } => return (code::NO_SUCH_INVOICE, no_such_invoice(invoice)),
        R::InvoiceOfAnotherAccount { .. } => code::INVOICE_OF_ANOTHER_ACCOUNT,
        R::InvoiceNotPayable { .. } => code::INVOICE_STATUS,
        R::AboveBalance { invoice, amount, balance, in_flight, currency } => {
            let amounts = [amount, balance, in_flight].map(|it| it.decimal(*currency));
            return (code::PLUGIN_EXCEPTION, above_balance(invoice, amounts));
        }
        R::OfEntry { bundle, entry, why } => {
            let (code, message) = wire(why);
            return (code, format!("entry {entry} of bundle {bundle}: {message}"));
        }
    };
    (code, rejection.to_string())
}

pub(crate) fn no_such_invoice(invoice: &impl std::fmt::Display) -> String {
    format!("No invoice could be found for id {invoice}.")
}

/// Kill Bill's text, which its clients look into, and what is on its way.
fn above_balance(invoice: &InvoiceId, [amount, balance, in_flight]: [String; 3]) -> String {
    let text = format!(
        "Plugin exception Invalid amount '{amount}' for invoice '{invoice}': invoice balance is = '{balance}'"
    );
    match in_flight.bytes().all(|it| matches!(it, b'0' | b'.')) {
        true => text,
        false => format!("{text}, of which '{in_flight}' is on its way"),
    }
}

fn wire_access(rejection: &AccessRejection) -> (Code, String) {
    use AccessRejection as R;
    match rejection {
        R::UserAlreadyExists { username } => {
            (code::USER_ALREADY_EXISTS, format!("The user {username} already exists"))
        }
        R::UserNotFound { username } => (code::INVALID_USER, missing("user", username)),
        R::RoleAlreadyExists { role } => {
            (code::ROLE_ALREADY_EXISTS, format!("The role {role} already exists"))
        }
        R::RoleNotFound { role } => (code::INVALID_ROLE, missing("role", role)),
        R::PermissionInvalid { permission } => {
            (code::INVALID_PERMISSION, format!("The permission {permission} is invalid"))
        }
    }
}

fn wire_account(rejection: &AccountRejection) -> (Code, String) {
    use AccountRejection as R;
    match rejection {
        R::AlreadyExists { key } => {
            (code::ACCOUNT_ALREADY_EXISTS, format!("Account already exists for key {key}"))
        }
        R::NotFound { id } => {
            (code::ACCOUNT_NOT_FOUND_BY_ID, format!("Account does not exist for id {id}"))
        }
        R::KeyIsFixed { current } => (code::ACCOUNT_KEY_IS_FIXED, key_is_fixed(current)),
        R::FieldIsFixed { field } => (code::ILLEGAL_ARGUMENT, field_is_fixed(field)),
        R::TagDefinitionNotFound { id } => (code::NO_DEFINITION_FOR_TAG, no_tag_definition(id)),
        R::TagNotFound { name } => {
            (code::NO_SUCH_TAG, format!("The tag does not exist (name: {name})"))
        }
        R::TagNotApplicable { name, on } => {
            (code::TAG_NOT_APPLICABLE, not_applicable(name, on.name()))
        }
        R::TagNeedsDefaultMethod { name } => {
            (code::TAG_CANNOT_BE_REMOVED, tag_needs_default_method(name))
        }
        R::CustomFieldNotFound { id } => (code::NO_SUCH_CUSTOM_FIELD, no_custom_field(id)),
        R::CustomFieldNameIsFixed { id, name } => {
            (code::CUSTOM_FIELD_NAME_IS_FIXED, field_name_is_fixed(id, name))
        }
        R::TooManyCustomFields => (code::ILLEGAL_ARGUMENT, rejection.to_string()),
        R::PaymentMethodNotFound { id } => {
            (code::NO_SUCH_PAYMENT_METHOD, format!("Payment method {id} does not exist"))
        }
        R::ExternalPaymentMethodExists { account } => {
            (code::EXTERNAL_PAYMENT_METHOD_EXISTS, external_method_exists(account))
        }
        R::DefaultPaymentMethodInUse { account } => {
            (code::DEFAULT_PAYMENT_METHOD, default_method_in_use(account))
        }
        R::Closed { account, to } => (code::BLOCKED, blocked(to.name(), account)),
    }
}

fn tag_needs_default_method(name: &str) -> String {
    format!(
        "The tag {name} cannot be removed because the account does not have a default payment method"
    )
}

fn wire_payment(rejection: &PaymentRejection) -> (Code, String) {
    use PaymentRejection as R;
    match rejection {
        R::GatewayNotRegistered { gateway } => (code::NO_SUCH_PLUGIN, no_such_plugin(gateway)),
        R::NotFound { payment } => (code::NO_SUCH_PAYMENT, no_such_payment(payment)),
        R::TransactionNotFound { transaction } => {
            (code::NO_SUCH_PAYMENT, no_such_payment(transaction))
        }
        R::OfAnotherAccount { payment: key } | R::TransactionOfAnotherAccount { key } => {
            (code::DIFFERENT_ACCOUNT, format!("Payment {key} has a different account id"))
        }
        R::TransactionKeySucceeded { key } => (code::ACTIVE_TRANSACTION_KEY, key_succeeded(key)),
        R::NoSuchSuccess { payment } => {
            (code::NO_SUCH_SUCCESS, format!("Payment {payment} did not succeed"))
        }
        R::InvalidTransition { operation, from } => {
            let from = from.map_or_else(|| START_STATE.to_owned(), state_name);
            (code::INVALID_OPERATION, invalid_transition(operation.killbill_name(), &from))
        }
        R::InDoubt { operation, .. } => {
            (code::INVALID_OPERATION, invalid_transition(operation.killbill_name(), "UNKNOWN"))
        }
    }
}

fn blocked(action: &str, account: &AccountId) -> String {
    format!("The action {action} is block on this account with id={account}")
}

fn missing(what: &str, name: &str) -> String {
    format!("The {what} {name} does not exist or has been inactivated")
}

fn key_is_fixed(current: &str) -> String {
    format!("External keys cannot be updated. Original key remains: {current} (externalKey)")
}

fn field_is_fixed(field: &str) -> String {
    format!("Killbill doesn't support updating the account {field}")
}

pub(crate) fn no_tag_definition(id: &impl std::fmt::Display) -> String {
    format!("The tag definition {id} does not exist")
}

fn no_custom_field(id: &impl std::fmt::Display) -> String {
    format!("The custom field does not exists for id {id}")
}

fn field_name_is_fixed(id: &impl std::fmt::Display, name: &str) -> String {
    format!("Failed to update custom field {id}: Invalid value {name} for field FieldName")
}

fn reserved_definition(name: &str) -> String {
    format!("The tag definition name conflicts with a reserved {name}")
}

fn not_lowercase(name: &str) -> String {
    format!("The tag definition name must be in lowercase {name}")
}

fn not_applicable(name: &str, kind: &str) -> String {
    format!("Invalid control tag '{name}' for object type '{kind}'")
}

fn external_method_exists(account: &impl std::fmt::Display) -> String {
    format!("External payment method already exists for account {account}")
}

fn default_method_in_use(account: &impl std::fmt::Display) -> String {
    format!("Cannot delete default payment method for account {account}")
}

fn no_such_plugin(gateway: &str) -> String {
    format!("Payment plugin {gateway} is not registered")
}

pub(crate) fn no_such_payment(payment: &str) -> String {
    format!("Payment {payment} does not exist")
}

fn key_succeeded(key: &str) -> String {
    format!("Successful transaction with external key {key} already exists")
}

fn invalid_transition(operation: &str, from: &str) -> String {
    format!("Invalid payment transition {operation} from state {from}")
}

pub(super) fn invalid_parameter(field: &str, reason: &str) -> String {
    format!("Invalid parameter {field}: {reason}")
}

#[cfg(test)]
mod tests {
    use domain::account::blocking_state::ClosedTo;
    use domain::billing::invoice::InvoiceStatus;
    use domain::object::ObjectType;
    use domain::payment::{PaymentState, TransactionStatus, TransactionType};
    use domain::{
        AccountId, AmountMinor, Currency, CustomFieldId, FlagRejection, InvoiceId, PaymentId,
        PaymentMethodId, TagDefinitionId,
    };
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;

    fn check(rejection: impl Into<Rejection>, expected: Expect) {
        let (code, message) = wire(&rejection.into());
        let class = code.class.rsplit('.').next().unwrap_or_default();
        let number = code.number.map_or("null".to_owned(), |number| number.to_string());
        expected.assert_eq(&format!("{} {number} {class}: {message}", code.status.as_u16()));
    }

    #[test]
    fn tenant_user_and_account_refusals_have_kill_bills_codes() {
        let name = || "n".to_owned();
        let id = AccountId::new(Uuid::nil());
        check(
            TenantRejection::AlreadyExists { key: name() },
            expect!["409 20000 TenantApiException: Tenant already exists for key n"],
        );
        check(
            AccessRejection::UserAlreadyExists { username: name() },
            expect!["400 40002 SecurityApiException: The user n already exists"],
        );
        check(
            AccessRejection::UserNotFound { username: name() },
            expect![
                "400 40001 SecurityApiException: The user n does not exist or has been inactivated"
            ],
        );
        check(
            AccessRejection::RoleAlreadyExists { role: name() },
            expect!["400 40004 SecurityApiException: The role n already exists"],
        );
        check(
            AccessRejection::RoleNotFound { role: name() },
            expect![
                "400 40003 SecurityApiException: The role n does not exist or has been inactivated"
            ],
        );
        check(
            FlagRejection::EnvironmentAlreadyExists { key: name() },
            expect!["400 null IllegalArgumentException: there is an environment n already"],
        );
        check(
            AccessRejection::PermissionInvalid { permission: name() },
            expect!["400 40005 SecurityApiException: The permission n is invalid"],
        );
        check(
            AccountRejection::AlreadyExists { key: name() },
            expect!["409 3000 AccountApiException: Account already exists for key n"],
        );
        check(
            AccountRejection::NotFound { id },
            expect![
                "404 3002 AccountApiException: Account does not exist for id 00000000-0000-0000-0000-000000000000"
            ],
        );
        check(
            AccountRejection::KeyIsFixed { current: name() },
            expect![
                "400 3005 AccountApiException: External keys cannot be updated. Original key remains: n (externalKey)"
            ],
        );
        check(
            AccountRejection::FieldIsFixed { field: name() },
            expect![
                "400 null IllegalArgumentException: Killbill doesn't support updating the account n"
            ],
        );
        check(
            AccountRejection::ExternalPaymentMethodExists { account: id },
            expect![
                "400 7023 PaymentApiException: External payment method already exists for account 00000000-0000-0000-0000-000000000000"
            ],
        );
        check(
            AccountRejection::DefaultPaymentMethodInUse { account: id },
            expect![
                "400 7022 PaymentApiException: Cannot delete default payment method for account 00000000-0000-0000-0000-000000000000"
            ],
        );
    }

    #[test]
    fn closed_accounts_have_kill_bills_code() {
        let account = AccountId::new(Uuid::nil());
        for (to, expected) in [
            (
                ClosedTo::Payment(TransactionType::Purchase),
                expect![
                    "400 6000 EntitlementApiException: The action PURCHASE is block on this account with id=00000000-0000-0000-0000-000000000000"
                ],
            ),
            (
                ClosedTo::PaymentMethod,
                expect![
                    "400 6000 EntitlementApiException: The action ADD_PAYMENT_METHOD is block on this account with id=00000000-0000-0000-0000-000000000000"
                ],
            ),
        ] {
            check(AccountRejection::Closed { account, to }, expected);
        }
    }

    #[test]
    fn refusals_of_payments_of_invoices_have_kill_bills_codes() {
        use BillingRejection as R;
        let invoice = InvoiceId::new(Uuid::nil());
        check(
            R::NoSuchInvoice { invoice },
            expect![
                "404 4006 InvoiceApiException: No invoice could be found for id 00000000-0000-0000-0000-000000000000."
            ],
        );
        check(
            R::InvoiceOfAnotherAccount { invoice },
            expect![
                "400 4001 InvoiceApiException: the invoice 00000000-0000-0000-0000-000000000000 is of another account"
            ],
        );
        check(
            R::InvoiceNotPayable { invoice, status: InvoiceStatus::Void },
            expect![
                "400 4023 InvoiceApiException: the invoice 00000000-0000-0000-0000-000000000000 is VOID, and cannot be paid"
            ],
        );
        let above = |in_flight| R::AboveBalance {
            invoice,
            amount: AmountMinor(10_000),
            balance: AmountMinor(2_999),
            in_flight: AmountMinor(in_flight),
            currency: Currency::parse("USD").unwrap(),
        };
        check(
            above(0),
            expect![
                "400 7199 PaymentApiException: Plugin exception Invalid amount '100.00' for invoice '00000000-0000-0000-0000-000000000000': invoice balance is = '29.99'"
            ],
        );
        check(
            above(500),
            expect![
                "400 7199 PaymentApiException: Plugin exception Invalid amount '100.00' for invoice '00000000-0000-0000-0000-000000000000': invoice balance is = '29.99', of which '5.00' is on its way"
            ],
        );
    }

    #[test]
    fn tag_refusals_have_kill_bills_codes() {
        let name = || "n".to_owned();
        let id = TagDefinitionId::new(Uuid::nil());
        check(
            AccountRejection::TagDefinitionNotFound { id },
            expect![
                "400 3902 TagApiException: The tag definition 00000000-0000-0000-0000-000000000000 does not exist"
            ],
        );
        check(
            AccountRejection::TagNotFound { name: name() },
            expect!["404 3950 TagApiException: The tag does not exist (name: n)"],
        );
        check(
            AccountRejection::TagNotApplicable { name: name(), on: ObjectType::Account },
            expect![
                "400 null IllegalStateException: Invalid control tag 'n' for object type 'ACCOUNT'"
            ],
        );
        check(
            AccountRejection::TagNeedsDefaultMethod { name: name() },
            expect![
                "400 3951 TagApiException: The tag n cannot be removed because the account does not have a default payment method"
            ],
        );
        check(
            TenantRejection::TagDefinitionReserved { name: name() },
            expect![
                "400 3900 TagDefinitionApiException: The tag definition name conflicts with a reserved n"
            ],
        );
        check(
            TenantRejection::TagDefinitionExists { name: name() },
            expect!["409 3901 TagDefinitionApiException: The tag definition n already exists "],
        );
        check(
            TenantRejection::TagDefinitionNotFound { id },
            expect![
                "404 3902 TagDefinitionApiException: The tag definition 00000000-0000-0000-0000-000000000000 does not exist"
            ],
        );
        check(
            TenantRejection::TagDefinitionInUse { id },
            expect![
                "400 3903 TagDefinitionApiException: The tag definition 00000000-0000-0000-0000-000000000000 is currently in use"
            ],
        );
        check(
            TenantRejection::TagDefinitionNotLowercase { name: name() },
            expect![
                "400 3904 TagDefinitionApiException: The tag definition name must be in lowercase n"
            ],
        );
    }

    #[test]
    fn custom_field_refusals_have_kill_bills_codes() {
        let id = CustomFieldId::new(Uuid::nil());
        let name = "n".to_owned();
        check(
            AccountRejection::CustomFieldNotFound { id },
            expect![
                "400 9001 CustomFieldApiException: The custom field does not exists for id 00000000-0000-0000-0000-000000000000"
            ],
        );
        check(
            AccountRejection::CustomFieldNameIsFixed { id, name },
            expect![
                "400 9002 CustomFieldApiException: Failed to update custom field 00000000-0000-0000-0000-000000000000: Invalid value n for field FieldName"
            ],
        );
        check(
            AccountRejection::TooManyCustomFields,
            expect!["400 null IllegalArgumentException: there are 100 custom fields at most"],
        );
    }

    #[test]
    fn payment_refusals_have_kill_bills_codes() {
        let key = || "k".to_owned();
        let id = PaymentMethodId::new(Uuid::nil());
        let from = |operation, status| Some(PaymentState { operation, status });
        let operation = TransactionType::Refund;
        check(
            AccountRejection::PaymentMethodNotFound { id },
            expect![
                "404 7000 PaymentApiException: Payment method 00000000-0000-0000-0000-000000000000 does not exist"
            ],
        );
        check(
            PaymentRejection::GatewayNotRegistered { gateway: key() },
            expect!["400 7028 PaymentApiException: Payment plugin k is not registered"],
        );
        check(
            PaymentRejection::NotFound { payment: key() },
            expect!["404 7020 PaymentApiException: Payment k does not exist"],
        );
        check(
            PaymentRejection::TransactionNotFound { transaction: key() },
            expect!["404 7020 PaymentApiException: Payment k does not exist"],
        );
        check(
            PaymentRejection::OfAnotherAccount { payment: key() },
            expect!["400 7034 PaymentApiException: Payment k has a different account id"],
        );
        check(
            PaymentRejection::TransactionOfAnotherAccount { key: key() },
            expect!["400 7034 PaymentApiException: Payment k has a different account id"],
        );
        check(
            PaymentRejection::TransactionKeySucceeded { key: key() },
            expect![
                "400 7030 PaymentApiException: Successful transaction with external key k already exists"
            ],
        );
        let payment = PaymentId::new(Uuid::nil());
        check(
            PaymentRejection::NoSuchSuccess { payment },
            expect![
                "404 7024 PaymentApiException: Payment 00000000-0000-0000-0000-000000000000 did not succeed"
            ],
        );
        check(
            PaymentRejection::InvalidTransition { operation, from: None },
            expect![
                "400 7032 PaymentApiException: Invalid payment transition REFUND from state BIG_BANG_INIT"
            ],
        );
        let reversed = from(TransactionType::ChargebackReversal, TransactionStatus::Success);
        let operation = TransactionType::ChargebackReversal;
        check(
            PaymentRejection::InvalidTransition { operation, from: reversed },
            expect![
                "400 7032 PaymentApiException: Invalid payment transition CHARGEBACK from state CHARGEBACK_FAILED"
            ],
        );
        check(
            PaymentRejection::InDoubt { payment: PaymentId::new(Uuid::nil()), operation },
            expect![
                "400 7032 PaymentApiException: Invalid payment transition CHARGEBACK from state UNKNOWN"
            ],
        );
        check(
            Rejection::invalid("amount", "needs to be set"),
            expect!["400 7031 PaymentApiException: Invalid parameter amount: needs to be set"],
        );
    }
}
