//! Conversion of rows to messages.

use domain::payment::{PaymentFile, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency, Timestamp};
use engine::ports::AccountView;

use crate::api;

pub(crate) fn payment(file: PaymentFile) -> api::Payment {
    let it = file.payment;
    api::Payment {
        id: it.id.to_string(),
        account_id: it.account_id.to_string(),
        payment_method_id: it.payment_method_id.to_string(),
        number: it.number,
        payment_key: it.external_key.unwrap_or_else(|| it.id.to_string()),
        currency_code: it.currency.code().to_owned(),
        gateway: it.gateway,
        amounts: Some(api::PaymentAmounts {
            authorized_minor_units: it.amounts.authorized.0,
            captured_minor_units: it.amounts.captured.0,
            purchased_minor_units: it.amounts.purchased.0,
            refunded_minor_units: it.amounts.refunded.0,
            credited_minor_units: it.amounts.credited.0,
            charged_back_minor_units: it.amounts.charged_back.0,
        }),
        transactions: file.transactions.into_iter().map(transaction).collect(),
        create_time: Some(time(it.created_at)),
        update_time: Some(time(it.updated_at)),
    }
}

fn transaction(it: domain::payment::Transaction) -> api::Transaction {
    api::Transaction {
        id: it.id.to_string(),
        transaction_key: it.external_key.unwrap_or_else(|| it.id.to_string()),
        r#type: kind(it.kind).into(),
        status: status(it.status).into(),
        amount: money(it.amount, it.currency),
        processed_amount: money(it.processed_amount, it.processed_currency),
        gateway: it.gateway,
        gateway_error_code: it.gateway_error_code.unwrap_or_default(),
        gateway_error_message: it.gateway_error_message.unwrap_or_default(),
        first_reference: it.first_reference.unwrap_or_default(),
        second_reference: it.second_reference.unwrap_or_default(),
        effective_time: Some(time(it.effective_at)),
    }
}

pub(crate) fn account(AccountView { account, person }: AccountView) -> api::Account {
    let method = account.payment_method_id.map(|id| id.to_string());
    api::Account {
        id: account.id.to_string(),
        account_key: account.external_key.unwrap_or_else(|| account.id.to_string()),
        currency_code: account.currency.map(|it| it.code().to_owned()).unwrap_or_default(),
        default_payment_method_id: method.unwrap_or_default(),
        person: Some(api::Person {
            name: person.name.unwrap_or_default(),
            email: person.email.unwrap_or_default(),
            company: person.company.unwrap_or_default(),
            address1: person.address1.unwrap_or_default(),
            address2: person.address2.unwrap_or_default(),
            postal_code: person.postal_code.unwrap_or_default(),
            city: person.city.unwrap_or_default(),
            state: person.state.unwrap_or_default(),
            country: person.country.unwrap_or_default(),
            locale: person.locale.unwrap_or_default(),
            phone: person.phone.unwrap_or_default(),
        }),
        create_time: Some(time(account.created_at)),
        update_time: Some(time(account.updated_at)),
    }
}

fn money(amount: Option<AmountMinor>, currency: Option<Currency>) -> Option<api::Money> {
    let currency_code = currency?.code().to_owned();
    Some(api::Money { minor_units: amount?.0, currency_code })
}

pub(crate) fn time(at: Timestamp) -> prost_types::Timestamp {
    let nanos = at.0.rem_euclid(Timestamp::SECOND_US) * 1_000;
    prost_types::Timestamp {
        seconds: at.0.div_euclid(Timestamp::SECOND_US),
        nanos: i32::try_from(nanos).expect("less than a second"),
    }
}

pub(crate) const fn status(status: TransactionStatus) -> api::TransactionStatus {
    use api::TransactionStatus as Wire;
    match status {
        TransactionStatus::Success => Wire::Success,
        TransactionStatus::Pending => Wire::Pending,
        TransactionStatus::PaymentFailure => Wire::PaymentFailure,
        TransactionStatus::PluginFailure => Wire::PluginFailure,
        TransactionStatus::Unknown => Wire::Unknown,
        TransactionStatus::InFlight => Wire::InFlight,
    }
}

const fn kind(kind: TransactionType) -> api::TransactionType {
    use api::TransactionType as Wire;
    match kind {
        TransactionType::Authorize => Wire::Authorize,
        TransactionType::Capture => Wire::Capture,
        TransactionType::Purchase => Wire::Purchase,
        TransactionType::Refund => Wire::Refund,
        TransactionType::Credit => Wire::Credit,
        TransactionType::Void => Wire::Void,
        TransactionType::Chargeback => Wire::Chargeback,
        TransactionType::ChargebackReversal => Wire::ChargebackReversal,
    }
}
