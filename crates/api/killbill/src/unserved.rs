//! Kill Bill's routes that this API does not serve. They return 501, because 404 would mean that the
//! resource does not exist.

use http::Method;

/// Paths with their methods.
pub(crate) static UNSERVED: &[(&str, &[Method])] = &[
    ("/1.0/kb/accounts/{childAccountId}/transferCredit", &[Method::PUT]),
    ("/1.0/kb/bundles/{bundleId}", &[Method::POST]),
    ("/1.0/kb/invoicePayments/{paymentId}", &[Method::PUT]),
    ("/1.0/kb/invoicePayments/{paymentId}/chargebackReversals", &[Method::POST]),
    ("/1.0/kb/invoicePayments/{paymentId}/chargebacks", &[Method::POST]),
    (
        "/1.0/kb/invoicePayments/{paymentId}/customFields",
        &[Method::DELETE, Method::GET, Method::POST, Method::PUT],
    ),
    ("/1.0/kb/invoicePayments/{paymentId}/refunds", &[Method::POST]),
    ("/1.0/kb/invoicePayments/{paymentId}/tags", &[Method::DELETE, Method::GET, Method::POST]),
    ("/1.0/kb/invoices/catalogTranslation/{locale}", &[Method::GET, Method::POST]),
    ("/1.0/kb/invoices/manualPayTemplate", &[Method::POST]),
    ("/1.0/kb/invoices/manualPayTemplate/{locale}", &[Method::GET]),
    ("/1.0/kb/invoices/migration/{accountId}", &[Method::POST]),
    ("/1.0/kb/invoices/template", &[Method::GET, Method::POST]),
    ("/1.0/kb/invoices/translation/{locale}", &[Method::GET, Method::POST]),
    ("/1.0/kb/invoices/{invoiceId}/html", &[Method::GET]),
    ("/1.0/kb/overdue", &[Method::POST]),
    ("/1.0/kb/overdue/xml", &[Method::POST]),
    ("/1.0/kb/test/invoices/{accountId}/log", &[Method::POST]),
    ("/1.0/kb/usages", &[Method::POST]),
    ("/1.0/kb/usages/{subscriptionId}", &[Method::GET]),
    ("/1.0/kb/usages/{subscriptionId}/{unitType}", &[Method::GET]),
    ("/1.0/threads", &[Method::GET]),
    ("/plugins/{*subResources}", &[Method::DELETE, Method::GET, Method::POST, Method::PUT]),
    ("/swagger.json", &[Method::GET]),
    ("/swagger.yaml", &[Method::GET]),
];
