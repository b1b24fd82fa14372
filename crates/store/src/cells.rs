//! The domain's own words as columns of a row, and read from one.

use domain::catalog::price::Price;
use domain::payment::ReplyKey;
use domain::{AmountMinor, Currency, Id, MerchantAccount, Revision, Seq, TenantNo, Timestamp};
use engine::ports::StoreError;
use jiff::civil::Date;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codes::Coded;
use crate::driver::{Cells, Value};

/// As long as most JSON texts: they are not moved while they grow.
const JSON_BYTES: usize = 768;

/// The id of a row that is no entity, or another 16 bytes.
pub(crate) type RowId = [u8; 16];

impl From<TenantNo> for Value<'_> {
    fn from(no: TenantNo) -> Self {
        Self::Int(i64::from(no.0))
    }
}
impl<K> From<Id<K>> for Value<'_> {
    fn from(id: Id<K>) -> Self {
        Self::from(id.uuid())
    }
}
impl From<ReplyKey> for Value<'_> {
    fn from(key: ReplyKey) -> Self {
        Self::from(key.0)
    }
}
macro_rules! from_int {
    ($($wrapper:ty),+) => {$(
        impl From<$wrapper> for Value<'_> {
            fn from(it: $wrapper) -> Self {
                Self::Int(it.0)
            }
        }
    )+};
}
from_int!(Timestamp, Seq, AmountMinor);
impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}
impl<'a> From<&'a Currency> for Value<'a> {
    fn from(currency: &'a Currency) -> Self {
        Self::Text(currency.code())
    }
}

impl<'a> From<&'a MerchantAccount> for Value<'a> {
    fn from(it: &'a MerchantAccount) -> Self {
        Self::Text(&it.0)
    }
}

impl Cells<'_> {
    /// A tenant's number.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where it is none; here and below.
    pub fn tenant(&mut self) -> Result<TenantNo, StoreError> {
        let no = self.int()?;
        u32::try_from(no).map(TenantNo).map_err(|_| self.corrupt("is no tenant's number"))
    }

    /// An id of a kind.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn entity<K>(&mut self) -> Result<Id<K>, StoreError> {
        self.id().map(Id::new)
    }

    /// An id of a kind, or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_entity<K>(&mut self) -> Result<Option<Id<K>>, StoreError> {
        Ok(self.opt_id()?.map(Id::new))
    }

    /// A point in time.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp)
    }

    /// A point in time, or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.opt_int()?.map(Timestamp))
    }

    /// A journal row's number.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn seq(&mut self) -> Result<Seq, StoreError> {
        self.int().map(Seq)
    }

    /// The newest revision: a row does not know the one before.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn revision(&mut self) -> Result<Revision, StoreError> {
        self.seq().map(Revision::first)
    }

    /// How many.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn count(&mut self) -> Result<u32, StoreError> {
        let count = self.int()?;
        u32::try_from(count).map_err(|_| self.corrupt("is no count"))
    }

    /// A number of bytes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: it is negative.
    pub fn length(&mut self) -> Result<u64, StoreError> {
        let length = self.int()?;
        u64::try_from(length).map_err(|_| self.corrupt("is no length"))
    }

    /// An amount.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn amount(&mut self) -> Result<AmountMinor, StoreError> {
        self.int().map(AmountMinor)
    }

    /// A yes or no.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn flag(&mut self) -> Result<bool, StoreError> {
        self.opt_flag()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A yes, a no, or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_flag(&mut self) -> Result<Option<bool>, StoreError> {
        match self.opt_int()? {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(_) => Err(self.corrupt("is neither 0 nor 1")),
        }
    }

    /// A currency.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn currency(&mut self) -> Result<Currency, StoreError> {
        self.opt_currency()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A currency or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_currency(&mut self) -> Result<Option<Currency>, StoreError> {
        let Some(code) = self.opt_text()? else { return Ok(None) };
        Currency::parse(code).map(Some).ok_or_else(|| self.corrupt("is no currency"))
    }

    /// A date.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn date(&mut self) -> Result<Date, StoreError> {
        self.opt_date()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A date or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_date(&mut self) -> Result<Option<Date>, StoreError> {
        let Some(text) = self.opt_text()? else { return Ok(None) };
        let date = text.parse().ok();
        date.map(Some).ok_or_else(|| self.corrupt("is no date"))
    }

    /// A price or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_price(&mut self) -> Result<Option<Price>, StoreError> {
        let Some(text) = self.opt_text()? else { return Ok(None) };
        let price = text.parse().ok();
        price.map(Some).ok_or_else(|| self.corrupt("is no price"))
    }

    /// A text of one's own.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn string(&mut self) -> Result<String, StoreError> {
        self.text().map(str::to_owned)
    }

    /// A text of one's own, or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_string(&mut self) -> Result<Option<String>, StoreError> {
        Ok(self.opt_text()?.map(str::to_owned))
    }

    /// The decoded value of a JSON text.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn json<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        self.opt_json()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// The decoded value of a JSON text; `None` for NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(text) = self.opt_text()? else { return Ok(None) };
        // The message of a JSON error may quote the value: only the position of the error is reported.
        serde_json::from_str(text).map(Some).map_err(|error| {
            self.corrupt(&format!("is not the JSON it should be, at byte {}", error.column()))
        })
    }

    /// A value that is held as a number.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn code<T: Coded>(&mut self) -> Result<T, StoreError> {
        self.opt_code()?.ok_or_else(|| self.corrupt("is NULL"))
    }

    /// A value that is held as a number, or NULL.
    ///
    /// # Errors
    /// See [`Cells::tenant`].
    pub fn opt_code<T: Coded>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(code) = self.opt_int()? else { return Ok(None) };
        T::of(code).map(Some).ok_or_else(|| self.corrupt("is an unknown code"))
    }
}

/// A text that is never empty, and NULL once it is erased.
pub(crate) fn erasable(text: &str) -> Value<'_> {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// A value as a JSON text.
///
/// # Panics
/// Never: what we store has texts for keys and serializes without failing.
#[must_use]
pub fn json<T: Serialize>(value: &T) -> String {
    let mut text = Vec::with_capacity(JSON_BYTES);
    serde_json::to_writer(&mut text, value).expect("stored values are plain data");
    String::from_utf8(text).expect("JSON is UTF-8")
}
