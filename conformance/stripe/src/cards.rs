//! Stripe's test cards by the names of their test payment methods and tokens, and what each one does.

/// When a card wants 3-D Secure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// Only if the request asks for it.
    Supported,
    /// For each payment, with the customer there or not.
    Always,
    /// Until it was set up for payments without the customer.
    UntilSetUp,
    /// While the customer is there: it is set up already.
    OnSession,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refunds {
    Succeed,
    /// Pending, and succeeds after `REFUND_SETTLES_AFTER_S`.
    PendFirst,
    /// Succeeded, and fails after `REFUND_SETTLES_AFTER_S`.
    FailLater,
    /// Pending, and fails after `REFUND_SETTLES_AFTER_S`.
    PendAndFail,
}

/// A refusal of the bank: code and decline code.
pub type Refusal = (&'static str, &'static str);

pub struct TestCard {
    /// What follows `pm_card_` and `tok_`.
    pub name: &'static str,
    pub brand: &'static str,
    pub last4: &'static str,
    pub country: &'static str,
    pub funding: &'static str,
    pub authentication: Authentication,
    /// What a charge is refused with, after the challenge if there is one.
    pub declines: Option<Refusal>,
    /// Whether attaching and setting up is declined like a charge.
    pub declines_attaching: bool,
    pub refunds: Refunds,
    /// The reason of the dispute that a captured charge gets.
    pub dispute: Option<&'static str>,
    /// The dispute is an inquiry, which moves no money.
    pub is_inquiry: bool,
    /// Whether several captures of one authorization are available.
    pub multicapture: bool,
}

const VISA: TestCard = TestCard {
    name: "visa",
    brand: "visa",
    last4: "4242",
    country: "US",
    funding: "credit",
    authentication: Authentication::Supported,
    declines: None,
    declines_attaching: true,
    refunds: Refunds::Succeed,
    dispute: None,
    is_inquiry: false,
    multicapture: true,
};

const fn plain(name: &'static str, brand: &'static str, last4: &'static str) -> TestCard {
    TestCard { name, brand, last4, ..VISA }
}

const fn of_country(name: &'static str, country: &'static str, last4: &'static str) -> TestCard {
    TestCard { name, country, last4, ..VISA }
}

const fn declining(name: &'static str, last4: &'static str, refusal: Refusal) -> TestCard {
    TestCard { name, last4, declines: Some(refusal), ..VISA }
}

const fn asking(
    name: &'static str,
    last4: &'static str,
    authentication: Authentication,
) -> TestCard {
    TestCard { name, last4, authentication, ..VISA }
}

/// Each also as `visa_NAME`.
static CARDS: &[TestCard] = &[
    VISA,
    TestCard { funding: "debit", ..plain("visa_debit", "visa", "5556") },
    plain("mastercard", "mastercard", "4444"),
    TestCard { funding: "debit", ..plain("mastercard_debit", "mastercard", "8210") },
    TestCard { funding: "prepaid", ..plain("mastercard_prepaid", "mastercard", "5100") },
    plain("amex", "amex", "8431"),
    plain("discover", "discover", "9424"),
    plain("diners", "diners", "3237"),
    plain("jcb", "jcb", "0505"),
    plain("unionpay", "unionpay", "0005"),
    plain("bypassPending", "visa", "0077"),
    TestCard {
        multicapture: false,
        ..plain("credit_disableEnterpriseCardFeatures", "visa", "0076")
    },
    of_country("us", "US", "4242"),
    of_country("de", "DE", "0016"),
    of_country("fr", "FR", "0003"),
    of_country("gb", "GB", "0000"),
    of_country("jp", "JP", "0003"),
    declining("chargeDeclined", "0002", ("card_declined", "generic_decline")),
    declining("chargeDeclinedInsufficientFunds", "9995", ("card_declined", "insufficient_funds")),
    declining("chargeDeclinedLostCard", "9987", ("card_declined", "lost_card")),
    declining("chargeDeclinedStolenCard", "9979", ("card_declined", "stolen_card")),
    declining(
        "chargeDeclinedVelocityLimitExceeded",
        "6975",
        ("card_declined", "card_velocity_exceeded"),
    ),
    declining("chargeDeclinedFraudulent", "0019", ("card_declined", "fraudulent")),
    declining("radarBlock", "0019", ("card_declined", "fraudulent")),
    declining("chargeDeclinedExpiredCard", "0069", ("expired_card", "expired_card")),
    declining("chargeDeclinedIncorrectCvc", "0127", ("incorrect_cvc", "incorrect_cvc")),
    declining("chargeDeclinedProcessingError", "0119", ("processing_error", "processing_error")),
    TestCard {
        declines_attaching: false,
        ..declining("chargeCustomerFail", "0341", ("card_declined", "generic_decline"))
    },
    asking("authenticationRequired", "3184", Authentication::Always),
    asking("threeDSecure2Required", "3220", Authentication::Always),
    asking("threeDSecureRequired", "3063", Authentication::Always),
    asking("authenticationRequiredOnSetup", "3155", Authentication::UntilSetUp),
    asking("authenticationRequiredSetupForOffSession", "0446", Authentication::OnSession),
    TestCard {
        authentication: Authentication::Always,
        declines_attaching: false,
        ..declining(
            "authenticationRequiredChargeDeclinedInsufficientFunds",
            "8400",
            ("card_declined", "insufficient_funds"),
        )
    },
    TestCard {
        authentication: Authentication::Always,
        declines_attaching: false,
        ..declining(
            "threeDSecureRequiredChargeDeclined",
            "1629",
            ("card_declined", "generic_decline"),
        )
    },
    TestCard { dispute: Some("fraudulent"), ..plain("createDispute", "visa", "0259") },
    TestCard {
        dispute: Some("product_not_received"),
        ..plain("createDisputeProductNotReceived", "visa", "2685")
    },
    TestCard {
        dispute: Some("fraudulent"),
        is_inquiry: true,
        ..plain("createDisputeInquiry", "visa", "1976")
    },
    TestCard { refunds: Refunds::PendFirst, ..plain("pendingRefund", "visa", "7726") },
    TestCard { refunds: Refunds::FailLater, ..plain("refundFail", "visa", "5126") },
    // No card of Stripe's: there a pending refund that fails cannot be made to order.
    TestCard { refunds: Refunds::PendAndFail, ..plain("pendingRefundFail", "visa", "7734") },
];

/// The card of a test payment method (`pm_card_...`) or token (`tok_...`).
pub fn find(id: &str) -> Option<&'static TestCard> {
    let name = id.strip_prefix("pm_card_").or_else(|| id.strip_prefix("tok_"))?;
    named(name).or_else(|| named(name.strip_prefix("visa_")?))
}

pub fn named(name: &str) -> Option<&'static TestCard> {
    CARDS.iter().find(|it| it.name == name)
}

/// The bank's words for a refusal.
pub fn message(refusal: (&str, &str)) -> &'static str {
    match refusal {
        ("card_declined", "insufficient_funds") => "Your card has insufficient funds.",
        ("card_declined", _) => "Your card was declined.",
        ("expired_card", _) => "Your card has expired.",
        ("incorrect_cvc", _) => "Your card's security code is incorrect.",
        ("authentication_required", _) => {
            "Your card was declined. This transaction requires authentication."
        }
        _ => "An error occurred while processing your card. Try again in a little bit.",
    }
}
