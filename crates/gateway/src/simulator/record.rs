//! What the simulator's journal holds: one line per record, with a checksum.

use domain::payment::{GATEWAY_TEXT_MAX, GatewayOutcome, GatewayStatus, TransactionType};
use domain::{AmountMinor, Currency, PaymentId, TenantNo, Timestamp, TransactionId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How long a line may be; what is longer was never written.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// One line of the journal. The newest record of a transaction that is no [`RecordKind::Attempt`]
/// says where the transaction stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Real time.
    pub at: Timestamp,
    /// What made the record.
    pub kind: RecordKind,
    /// What it did to the money.
    pub effect: Effect,
    /// Whose.
    pub tenant: TenantNo,
    /// The payment.
    pub payment: PaymentId,
    /// The transaction.
    pub transaction: TransactionId,
    /// What was asked for.
    pub operation: TransactionType,
    /// How much was asked for; `None` for a void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AmountMinor>,
    /// In which currency.
    pub asked_currency: Currency,
    /// Where the transaction stands after it.
    pub outcome: Recorded,
    /// How many notifications it sends.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notices: u8,
    /// What is to happen later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// What makes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A call: the first of a transaction, or one that goes on with a pending one.
    Call,
    /// A late outcome.
    Late,
    /// A success that turned into a failure.
    Reversal,
    /// Another call for a transaction whose outcome stands, asking for something else: nothing
    /// was charged.
    Attempt,
}

/// What a record did to the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The operation was carried out.
    Charged,
    /// It was undone.
    Reversed,
    /// Nothing moved.
    Nothing,
}

/// Something that is to happen later, at a point of real time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: RecordKind,
    /// Where the transaction stands then.
    pub outcome: Recorded,
}

/// A [`GatewayOutcome`] as it is written: nothing for what is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// How it stands.
    pub status: GatewayStatus,
    /// What was processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<AmountMinor>,
    /// In which currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second_reference: Option<String>,
}

impl Recorded {
    /// The outcome as it is to be written: the texts come from requests and are cut.
    #[must_use]
    pub fn of(outcome: &GatewayOutcome) -> Self {
        let cut = |text: &Option<String>| {
            text.as_ref().map(|text| text.chars().take(GATEWAY_TEXT_MAX).collect())
        };
        Self {
            status: outcome.status,
            amount: outcome.amount,
            currency: outcome.currency,
            error_code: cut(&outcome.error_code),
            error_message: cut(&outcome.error_message),
            first_reference: cut(&outcome.first_reference),
            second_reference: cut(&outcome.second_reference),
        }
    }

    /// The outcome as it is told.
    #[must_use]
    pub fn outcome(self) -> GatewayOutcome {
        GatewayOutcome {
            status: self.status,
            amount: self.amount,
            currency: self.currency,
            error_code: self.error_code,
            error_message: self.error_message,
            first_reference: self.first_reference,
            second_reference: self.second_reference,
        }
    }

    /// The same operation, undone: nothing of it counts as processed.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let error_code = Some("REVERSED".to_owned());
        Self { status: GatewayStatus::Error, error_code, ..self.clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// The part of a line that is understood without reading its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Where the batch begins that the line was written with. All of an earlier batch was durable
    /// before this one was written.
    pub batch_start: u64,
    /// Which transaction.
    pub transaction: TransactionId,
    /// Whether it says where the transaction stands.
    pub is_state: bool,
    /// How many notifications it sends.
    pub notices: u8,
    /// Whether it has steps to be done later.
    pub has_steps: bool,
}

/// A record that is ready to be written, but for the batch it will be in.
#[derive(Debug)]
pub struct Prepared {
    heading: Heading,
    json: Vec<u8>,
}

impl Prepared {
    /// Makes a line of a record.
    #[must_use]
    pub fn new(record: &Record) -> Self {
        let heading = Heading {
            batch_start: 0,
            transaction: record.transaction,
            is_state: record.kind != RecordKind::Attempt,
            notices: record.notices,
            has_steps: !record.steps.is_empty(),
        };
        let json = serde_json::to_vec(record).expect("a record has no map keys but strings");
        Self { heading, json }
    }

    /// What the line will say without its JSON.
    #[must_use]
    pub const fn heading(&self) -> Heading {
        self.heading
    }

    /// Appends `CHECKSUM BATCH FLAGS TRANSACTION JSON\n`, numbers in hexadecimal.
    pub fn write(&self, batch_start: u64, out: &mut Vec<u8>) {
        let Heading { transaction, is_state, notices, has_steps, .. } = self.heading;
        let flags = u8::from(is_state) | u8::from(has_steps) << 1 | (notices & 0xf) << 4;
        let transaction = transaction.uuid();
        let start = out.len();
        out.extend_from_slice(
            format!("00000000 {batch_start:016x} {flags:02x} {} ", transaction.simple()).as_bytes(),
        );
        out.extend_from_slice(&self.json);
        let checksum = format!("{:08x}", crc32(&out[start + CHECKED_FROM..]));
        out[start..start + 8].copy_from_slice(checksum.as_bytes());
        out.push(b'\n');
    }
}

const CHECKED_FROM: usize = 9;
const JSON_FROM: usize = 9 + 17 + 3 + 33;

/// Reads a line without its line feed; `None` where it is not what was written.
#[must_use]
pub fn read_line(line: &[u8]) -> Option<(Heading, &[u8])> {
    let text = |from: usize, to: usize| std::str::from_utf8(line.get(from..to)?).ok();
    if text(0, CHECKED_FROM)? != format!("{:08x} ", crc32(line.get(CHECKED_FROM..)?)) {
        return None;
    }
    let flags = u8::from_str_radix(text(26, 28)?, 16).ok()?;
    let heading = Heading {
        batch_start: u64::from_str_radix(text(9, 25)?, 16).ok()?,
        transaction: TransactionId::new(Uuid::try_parse(text(29, 61)?).ok()?),
        is_state: flags & 1 != 0,
        notices: flags >> 4,
        has_steps: flags & 2 != 0,
    };
    Some((heading, line.get(JSON_FROM..)?))
}

/// CRC-32 (IEEE 802.3, reflected), eight bytes at a time.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [a, b, c, d, e, f, g, h] = *chunk;
        let low = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        crc = TABLES[7][usize::from(low[0])]
            ^ TABLES[6][usize::from(low[1])]
            ^ TABLES[5][usize::from(low[2])]
            ^ TABLES[4][usize::from(low[3])]
            ^ TABLES[3][usize::from(e)]
            ^ TABLES[2][usize::from(f)]
            ^ TABLES[1][usize::from(g)]
            ^ TABLES[0][usize::from(h)];
    }
    for byte in rest {
        let at = crc.to_le_bytes()[0] ^ byte;
        crc = (crc >> 8) ^ TABLES[0][usize::from(at)];
    }
    !crc
}

/// `TABLES[n][b]`: the checksum's change by byte `b`, followed by `n` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0;
    let mut value = 0_u32;
    while byte < 256 {
        let mut crc = value;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
        value += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_checksum_is_the_well_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"12345678"), 0x9ae0_daaf);
    }

    fn record() -> Record {
        let id = Uuid::from_u128(0x0192_aabb_ccdd_7123_9456_789a_bcde_f012);
        let usd = Currency::parse("USD").unwrap();
        Record {
            at: Timestamp(1_763_650_000_000_000),
            kind: RecordKind::Call,
            effect: Effect::Charged,
            tenant: TenantNo(1),
            payment: PaymentId::new(id),
            transaction: TransactionId::new(id),
            operation: TransactionType::Purchase,
            asked: Some(AmountMinor(1_000)),
            asked_currency: usd,
            outcome: Recorded {
                status: GatewayStatus::Processed,
                amount: Some(AmountMinor(1_000)),
                currency: Some(usd),
                error_code: None,
                error_message: None,
                first_reference: None,
                second_reference: None,
            },
            notices: 2,
            steps: vec![],
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut line = vec![];
        Prepared::new(&record()).write(0x1f, &mut line);
        expect![[r#"
            58acf560 000000000000001f 21 0192aabbccdd71239456789abcdef012 {"at":1763650000000000,"kind":"call","effect":"charged","tenant":1,"payment":"0192aabb-ccdd-7123-9456-789abcdef012","transaction":"0192aabb-ccdd-7123-9456-789abcdef012","operation":"Purchase","asked":1000,"asked_currency":"USD","outcome":{"status":"Processed","amount":1000,"currency":"USD"},"notices":2}
        "#]].assert_eq(std::str::from_utf8(&line).unwrap());
        let (heading, json) = read_line(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(heading, Heading { batch_start: 0x1f, ..Prepared::new(&record()).heading() });
        assert_eq!(serde_json::from_slice::<Record>(json).unwrap(), record());
    }

    #[test]
    fn no_changed_bit_and_no_cut_goes_unnoticed() {
        let mut line = vec![];
        Prepared::new(&record()).write(7, &mut line);
        line.pop();
        for at in 0..line.len() {
            let mut changed = line.clone();
            changed[at] ^= 0x20;
            assert_eq!(read_line(&changed), None, "changed at {at}");
            assert_eq!(read_line(&line[..at]), None, "cut at {at}");
        }
    }
}
