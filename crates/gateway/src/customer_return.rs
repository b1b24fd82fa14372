//! Where a customer's browser comes back to after a challenge: a URL of ours, which has the gateway asked what became
//! of the transaction, and goes on to the merchant's.

use domain::{PaymentId, TenantNo, TransactionId};
use secrets::{Purpose, Sealer};
use uuid::Uuid;

/// It is sealed for no row: it names what it is for.
const NO_ROW: Uuid = Uuid::nil();

/// A customer's way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomerReturn {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The merchant's URL.
    pub url: String,
}

impl CustomerReturn {
    /// The path of the URL of ours, which no one else can make.
    #[must_use]
    pub fn path(&self, sealer: &Sealer) -> String {
        let bytes = [
            &self.tenant.0.to_be_bytes()[..],
            self.payment.uuid().as_bytes(),
            self.transaction.uuid().as_bytes(),
            self.url.as_bytes(),
        ]
        .concat();
        // The same each time: a request that is sent again with its idempotency key has to be equal.
        format!("/v1/pay/{}/return", sealer.seal_equally(Purpose::CustomerReturn, NO_ROW, &bytes))
    }

    /// Reads what stands in the path; `None` where it is not one of ours.
    #[must_use]
    pub fn open(sealed: &str, sealer: &Sealer) -> Option<Self> {
        let bytes = sealer.open(Purpose::CustomerReturn, NO_ROW, sealed).ok()?;
        let (tenant, rest) = bytes.split_first_chunk()?;
        let (payment, rest) = rest.split_first_chunk()?;
        let (transaction, url) = rest.split_first_chunk()?;
        Some(Self {
            tenant: TenantNo(u32::from_be_bytes(*tenant)),
            payment: PaymentId::new(Uuid::from_bytes(*payment)),
            transaction: TransactionId::new(Uuid::from_bytes(*transaction)),
            url: std::str::from_utf8(url).ok()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_is_read_as_it_was_made_and_no_other_is_believed() {
        let sealer = Sealer::new(&[7; 32]);
        let made = CustomerReturn {
            tenant: TenantNo(3),
            payment: PaymentId::new(Uuid::from_u128(1)),
            transaction: TransactionId::new(Uuid::from_u128(2)),
            url: "https://shop.example.com/done?order=7".to_owned(),
        };
        let path = made.path(&sealer);
        assert_eq!(path, made.path(&sealer));
        let sealed = path.strip_prefix("/v1/pay/").unwrap().strip_suffix("/return").unwrap();
        assert_eq!(CustomerReturn::open(sealed, &sealer), Some(made));
        assert_eq!(CustomerReturn::open(sealed, &Sealer::new(&[8; 32])), None);
        assert_eq!(CustomerReturn::open(&sealed[1..], &sealer), None);
        assert_eq!(CustomerReturn::open("", &sealer), None);
    }
}
