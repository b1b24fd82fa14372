//! Currencies: those of ISO 4217, retired ones, and those that Kill Bill knows besides.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// When the list was published that the table of listed codes follows.
pub const LIST_PUBLISHED: &str = "2026-01-01";

/// A currency: of ISO 4217's list one, retired since 2002, or one that Kill Bill has besides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The currency with this alphabetic code, upper case; `None` where there is none.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        let is_known = LISTED.binary_search(&code).is_ok()
            || KILL_BILLS.binary_search(&code).is_ok()
            || retired(code).is_some();
        is_known.then_some(Self(bytes))
    }

    /// The alphabetic code.
    #[must_use]
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only codes of the tables are constructed")
    }

    /// The currency that took the place of a retired one; `None` for one that is in use.
    #[must_use]
    pub fn successor(self) -> Option<Self> {
        Self::parse(retired(self.code())?)
    }

    /// Whether Kill Bill has the currency: its Java client fails to read a page with any other.
    #[must_use]
    pub fn is_of_kill_bill(&self) -> bool {
        NOT_OF_KILL_BILL.binary_search(&self.code()).is_err()
    }

    /// How many decimals the major unit has (ISO 4217 list one, column "minor unit"; of a retired currency the
    /// last).
    #[must_use]
    pub const fn decimals(self) -> u8 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG"
            | b"RWF" | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"ADP" | b"BEF" | b"BYR" | b"ESP" | b"GRD" | b"ITL" | b"LUF" | b"MGF" | b"PTE"
            | b"ROL" | b"TPE" | b"TRL" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            b"BTC" => 8,
            _ => 2,
        }
    }

    /// An amount or a sum in the major unit, with the currency's decimals: `10.00`. Sums can be larger than any
    /// one amount.
    #[must_use]
    pub fn decimal(self, minor: i128) -> String {
        let decimals = usize::from(self.decimals());
        let sign = if minor < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", minor.unsigned_abs(), width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        if decimals == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::parse(&code).ok_or_else(|| de::Error::custom("unknown currency"))
    }
}

/// The code of a retired currency's successor.
fn retired(code: &str) -> Option<&'static str> {
    let at = RETIRED.binary_search_by(|(retired, _)| (*retired).cmp(code)).ok()?;
    Some(RETIRED[at].1)
}

/// ISO 4217 list one, as of [`LIST_PUBLISHED`]. Funds codes, units of account without a minor unit and precious
/// metals are left out, but for CLF, UYI and UYW.
const LISTED: &[&str] = &[
    "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD",
    "BIF", "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF",
    "CLF", "CLP", "CNY", "COP", "CRC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP",
    "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD",
    "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY",
    "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD",
    "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK",
    "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK",
    "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG",
    "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS",
    "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYI", "UYU", "UYW",
    "UZS", "VED", "VES", "VND", "VUV", "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER", "ZAR",
    "ZMW", "ZWG",
];

/// Codes of Kill Bill that list one has not, or not with a minor unit. They have two decimals, BTC eight.
const KILL_BILLS: &[&str] = &["BTC", "GGP", "IMP", "JEP", "SPL", "TVD", "XDR", "ZWD"];

/// Currencies of ISO 4217 list three that were withdrawn since 2002, and what is paid with in their place now.
const RETIRED: &[(&str, &str)] = &[
    ("ADP", "EUR"),
    ("AFA", "AFN"),
    ("ANG", "XCG"),
    ("ATS", "EUR"),
    ("AZM", "AZN"),
    ("BEF", "EUR"),
    ("BGL", "EUR"),
    ("BGN", "EUR"),
    ("BYR", "BYN"),
    ("CSD", "RSD"),
    ("CUC", "CUP"),
    ("CYP", "EUR"),
    ("DEM", "EUR"),
    ("EEK", "EUR"),
    ("ESP", "EUR"),
    ("FIM", "EUR"),
    ("FRF", "EUR"),
    ("GHC", "GHS"),
    ("GRD", "EUR"),
    ("HRK", "EUR"),
    ("IEP", "EUR"),
    ("ITL", "EUR"),
    ("LTL", "EUR"),
    ("LUF", "EUR"),
    ("LVL", "EUR"),
    ("MGF", "MGA"),
    ("MRO", "MRU"),
    ("MTL", "EUR"),
    ("MZM", "MZN"),
    ("NLG", "EUR"),
    ("PTE", "EUR"),
    ("ROL", "RON"),
    ("RUR", "RUB"),
    ("SDD", "SDG"),
    ("SIT", "EUR"),
    ("SKK", "EUR"),
    ("SLL", "SLE"),
    ("SRG", "SRD"),
    ("STD", "STN"),
    ("TMM", "TMT"),
    ("TPE", "USD"),
    ("TRL", "TRY"),
    ("VEB", "VES"),
    ("VEF", "VES"),
    ("YUM", "RSD"),
    ("ZMK", "ZMW"),
    ("ZWL", "ZWG"),
    ("ZWN", "ZWG"),
    ("ZWR", "ZWG"),
];

/// The currencies that Kill Bill's enum `Currency` lacks (killbill-api 0.54 and killbill-client-java 1.4.0).
const NOT_OF_KILL_BILL: &[&str] = &[
    "ADP", "AFA", "ATS", "AZM", "BEF", "BGL", "BYN", "CLF", "CSD", "CYP", "DEM", "EEK", "ESP",
    "FIM", "FRF", "GHC", "GRD", "IEP", "ITL", "LUF", "MGF", "MRU", "MTL", "MZM", "NLG", "PTE",
    "ROL", "RUR", "SDD", "SIT", "SKK", "SLE", "SRG", "SSP", "STN", "TMM", "TPE", "TRL", "UYI",
    "UYW", "VEB", "VED", "VES", "XCG", "YUM", "ZMK", "ZWG", "ZWL", "ZWN", "ZWR",
];

#[cfg(test)]
mod tests {
    use super::*;

    const LIST_ONE: &str = include_str!("../tests/iso4217/list-one.csv");

    /// Codes of list one that are no currency to pay with.
    const LEFT_OUT: &[&str] = &[
        "BOV", "CHE", "CHW", "COU", "MXV", "USN", "XAD", "XAG", "XAU", "XBA", "XBB", "XBC", "XBD",
        "XDR", "XPD", "XPT", "XSU", "XTS", "XUA", "XXX",
    ];

    /// `tests/iso4217/list-one.csv` has the codes and minor units of the list that ISO 4217's maintenance agency
    /// published on that day.
    #[test]
    fn the_currencies_in_use_are_those_of_the_list_of_2026_01_01() {
        let (published, codes) = LIST_ONE.split_once('\n').unwrap();
        assert_eq!(published, "published,2026-01-01");
        assert_eq!(LIST_PUBLISHED, "2026-01-01");
        let listed = codes.lines().map(|line| line.split_once(',').unwrap());
        let listed = listed.filter(|(code, _)| !LEFT_OUT.contains(code));
        for (code, decimals) in listed.clone() {
            let currency = Currency::parse(code).unwrap_or_else(|| panic!("{code} is missing"));
            assert_eq!(
                (currency.decimals().to_string(), currency.successor()),
                (decimals.into(), None)
            );
        }
        assert!(LISTED.iter().copied().eq(listed.map(|(code, _)| code)));
    }

    /// Kill Bill's enum `Currency`.
    const OF_KILL_BILL: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL \
        BSD BTN BWP BYR BZD CAD CDF CHF CLP CNY COP CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP \
        GBP GEL GGP GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS IMP INR IQD IRR ISK JEP JMD JOD JPY KES \
        KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LTL LVL LYD MAD MDL MGA MKD MMK MNT MOP MRO MUR MVR \
        MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR \
        SDG SEK SGD SHP SLL SOS SPL SRD STD SVC SYP SZL THB TJS TMT TND TOP TRY TTD TVD TWD TZS UAH UGX USD UYU \
        UZS VEF VND VUV WST XAF XCD XDR XOF XPF YER ZAR ZMW ZWD BTC";

    #[test]
    fn currencies_that_kill_bill_has_are_known() {
        assert!(NOT_OF_KILL_BILL.is_sorted());
        let retired = RETIRED.iter().map(|(code, _)| code);
        for code in LISTED.iter().chain(KILL_BILLS).chain(retired) {
            let is_theirs = OF_KILL_BILL.split_whitespace().any(|it| it == *code);
            let currency = Currency::parse(code).unwrap();
            assert_eq!(currency.is_of_kill_bill(), is_theirs, "{code}");
        }
    }

    #[test]
    fn the_tables_are_sorted_and_have_no_code_in_common() {
        let retired: Vec<&str> = RETIRED.iter().map(|(code, _)| *code).collect();
        let tables = [LISTED, KILL_BILLS, &retired];
        assert!(tables.iter().all(|table| table.is_sorted_by(|a, b| a < b)));
        let all: std::collections::BTreeSet<&str> = tables.concat().into_iter().collect();
        assert_eq!(all.len(), tables.iter().map(|table| table.len()).sum::<usize>());
        assert_eq!(Currency::parse("usd"), None);
        assert_eq!(Currency::parse("XXX"), None);
    }

    #[test]
    fn retired_currencies_are_read_and_have_a_successor_that_is_in_use() {
        for (code, successor) in RETIRED {
            let currency = Currency::parse(code).unwrap();
            let successor = Currency::parse(successor).unwrap();
            assert_eq!((currency.code(), currency.successor()), (*code, Some(successor)));
            assert_eq!(successor.successor(), None, "{code}");
            let json = serde_json::to_string(&currency).unwrap();
            assert_eq!(serde_json::from_str::<Currency>(&json).unwrap(), currency);
        }
        let decimals = |code: &str| Currency::parse(code).unwrap().decimals();
        assert_eq!(
            ["BYR", "ITL", "LTL", "MRO", "STD", "VEF", "ANG"].map(decimals),
            [0, 0, 2, 2, 2, 2, 2]
        );
    }

    #[test]
    fn what_kill_bill_has_besides_is_in_use() {
        for code in ["GGP", "IMP", "JEP", "SPL", "TVD", "XDR", "ZWD"] {
            let currency = Currency::parse(code).unwrap();
            assert_eq!((currency.decimals(), currency.successor()), (2, None), "{code}");
        }
        assert_eq!(Currency::parse("BTC").unwrap().decimals(), 8);
    }
}
