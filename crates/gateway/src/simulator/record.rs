//! The records of the simulator's journal: one line per record, with a checksum.

use domain::payment::{GATEWAY_TEXT_MAX, GatewayOutcome, GatewayStatus, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, GatewayCall, PaymentId, PaymentMethodId, TenantNo, Timestamp,
    TransactionId,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The maximum length of a line. A longer one is invalid.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// A line of the journal. The newest record of a transaction that is not a [`RecordKind::Attempt`]
/// holds the state of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The real time, not domain time.
    pub at: Timestamp,
    /// The cause of the record.
    pub kind: RecordKind,
    /// The effect on the money.
    pub effect: Effect,
    pub tenant: TenantNo,
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The requested operation.
    pub operation: TransactionType,
    /// `None` for a void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_amount: Option<AmountMinor>,
    /// The currency of the request.
    pub requested_currency: Currency,
    /// The state of the transaction after the record.
    pub outcome: RecordedOutcome,
    /// The number of notifications that the record sends.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notifications: u8,
    /// The scheduled changes of the transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

impl Record {
    /// The record of a call that sends no notification and has no scheduled change.
    #[must_use]
    pub const fn of_call(
        call: &GatewayCall,
        at: Timestamp,
        effect: Effect,
        outcome: RecordedOutcome,
    ) -> Self {
        Self {
            at,
            kind: RecordKind::Call,
            effect,
            tenant: call.tenant,
            payment: call.payment,
            transaction: call.transaction,
            operation: call.operation,
            requested_amount: call.amount,
            requested_currency: call.currency,
            outcome,
            notifications: 0,
            steps: vec![],
        }
    }
}

/// The cause of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A call: the first of a transaction, or one that completes a pending transaction.
    Call,
    /// A late outcome.
    Late,
    /// A success that became a failure.
    Reversal,
    /// A further call for a charged transaction with another operation or amount. It has no effect.
    Attempt,
}

/// The effect of a record on the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The operation was carried out.
    Charged,
    /// The operation was reversed.
    Reversed,
    /// No money moved.
    Nothing,
}

/// A scheduled change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The real time, not domain time.
    pub at: Timestamp,
    pub kind: RecordKind,
    /// The state of the transaction after the change.
    pub outcome: RecordedOutcome,
}

/// A [`GatewayOutcome`] in a record. Absent values are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOutcome {
    pub status: GatewayStatus,
    /// The processed amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<AmountMinor>,
    /// The currency of `amount`.
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

impl RecordedOutcome {
    /// Truncates the texts, which come from requests.
    #[must_use]
    pub fn new(outcome: &GatewayOutcome) -> Self {
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

    /// The outcome in the answer to a call.
    #[must_use]
    pub fn outcome(self) -> GatewayOutcome {
        GatewayOutcome {
            amount: self.amount,
            currency: self.currency,
            error_code: self.error_code,
            error_message: self.error_message,
            first_reference: self.first_reference,
            second_reference: self.second_reference,
            ..GatewayOutcome::new(self.status)
        }
    }

    /// The outcome after a reversal.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let error_code = Some("REVERSED".to_owned());
        Self { status: GatewayStatus::Error, error_code, ..self.clone() }
    }
}

/// A line about a payment method. The newest one of a method holds its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodRecord {
    /// The real time, not domain time.
    pub at: Timestamp,
    pub tenant: TenantNo,
    /// Whose method it is.
    pub account: AccountId,
    pub payment_method: PaymentMethodId,
    /// The method's state from then on.
    pub state: MethodState,
}

/// The state of a payment method at the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodState {
    /// It can be charged.
    Attached {
        /// The simulator's name for it.
        external_id: String,
    },
    /// It was refused, and never will be attached.
    Refused {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        message: String,
    },
    /// It was attached, and is no more.
    Detached,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Transaction(TransactionId),
    Method(PaymentMethodId),
}

/// The part of a line in front of its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The offset of the batch that the line belongs to. A batch is written after the earlier ones are
    /// durable.
    pub batch_start: u64,
    /// A line about a transaction has a [`Record`], one about a method a [`MethodRecord`].
    pub subject: Subject,
    /// Whether the record holds its subject's state.
    pub is_state: bool,
    /// The number of notifications that the record sends.
    pub notifications: u8,
    /// Whether the record has scheduled steps.
    pub has_steps: bool,
}

/// A record that is encoded except for the offset of its batch.
#[derive(Debug)]
pub struct EncodedRecord {
    heading: Heading,
    json: Vec<u8>,
}

impl EncodedRecord {
    /// Encodes a record.
    #[must_use]
    pub fn new(record: &Record) -> Self {
        let heading = Heading {
            batch_start: 0,
            subject: Subject::Transaction(record.transaction),
            is_state: record.kind != RecordKind::Attempt,
            notifications: record.notifications,
            has_steps: !record.steps.is_empty(),
        };
        Self::with(heading, record)
    }

    /// Encodes a record of a payment method.
    #[must_use]
    pub fn of_method(record: &MethodRecord) -> Self {
        let heading = Heading {
            batch_start: 0,
            subject: Subject::Method(record.payment_method),
            is_state: true,
            notifications: 0,
            has_steps: false,
        };
        Self::with(heading, record)
    }

    fn with(heading: Heading, record: &impl Serialize) -> Self {
        let json = serde_json::to_vec(record).expect("all map keys of a record are strings");
        Self { heading, json }
    }

    /// The heading, with a `batch_start` of 0.
    #[must_use]
    pub const fn heading(&self) -> Heading {
        self.heading
    }

    /// Appends `CHECKSUM BATCH FLAGS SUBJECT JSON\n`, numbers in hexadecimal.
    pub fn write(&self, batch_start: u64, out: &mut Vec<u8>) {
        let Heading { subject, is_state, notifications, has_steps, .. } = self.heading;
        let (id, is_method) = match subject {
            Subject::Transaction(id) => (id.uuid(), false),
            Subject::Method(id) => (id.uuid(), true),
        };
        let [is_state, has_steps, is_method] = [is_state, has_steps, is_method].map(u8::from);
        let flags = is_state | has_steps << 1 | is_method << 2 | (notifications & 0xf) << 4;
        let start = out.len();
        out.extend_from_slice(
            format!("00000000 {batch_start:016x} {flags:02x} {} ", id.simple()).as_bytes(),
        );
        out.extend_from_slice(&self.json);
        let checksum = format!("{:08x}", crc32(&out[start + CHECKED_FROM..]));
        out[start..start + 8].copy_from_slice(checksum.as_bytes());
        out.push(b'\n');
    }
}

const CHECKED_FROM: usize = 9;
const JSON_FROM: usize = 9 + 17 + 3 + 33;

/// Parses a line without its line feed; `None` if it is invalid.
#[must_use]
pub fn read_line(line: &[u8]) -> Option<(Heading, &[u8])> {
    let text = |from: usize, to: usize| std::str::from_utf8(line.get(from..to)?).ok();
    if text(0, CHECKED_FROM)? != format!("{:08x} ", crc32(line.get(CHECKED_FROM..)?)) {
        return None;
    }
    let flags = u8::from_str_radix(text(26, 28)?, 16).ok()?;
    let id = Uuid::try_parse(text(29, 61)?).ok()?;
    let heading = Heading {
        batch_start: u64::from_str_radix(text(9, 25)?, 16).ok()?,
        subject: match flags & 4 {
            0 => Subject::Transaction(TransactionId::new(id)),
            _ => Subject::Method(PaymentMethodId::new(id)),
        },
        is_state: flags & 1 != 0,
        notifications: flags >> 4,
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
    fn checksums_equal_the_standard_ones() {
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
            requested_amount: Some(AmountMinor(1_000)),
            requested_currency: usd,
            outcome: RecordedOutcome {
                status: GatewayStatus::Processed,
                amount: Some(AmountMinor(1_000)),
                currency: Some(usd),
                error_code: None,
                error_message: None,
                first_reference: None,
                second_reference: None,
            },
            notifications: 2,
            steps: vec![],
        }
    }

    #[test]
    fn a_written_line_is_read_back() {
        let mut line = vec![];
        EncodedRecord::new(&record()).write(0x1f, &mut line);
        expect![[r#"
            d0233bdb 000000000000001f 21 0192aabbccdd71239456789abcdef012 {"at":1763650000000000,"kind":"call","effect":"charged","tenant":1,"payment":"0192aabb-ccdd-7123-9456-789abcdef012","transaction":"0192aabb-ccdd-7123-9456-789abcdef012","operation":"Purchase","requested_amount":1000,"requested_currency":"USD","outcome":{"status":"Processed","amount":1000,"currency":"USD"},"notifications":2}
        "#]].assert_eq(std::str::from_utf8(&line).unwrap());
        let (heading, json) = read_line(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(
            heading,
            Heading { batch_start: 0x1f, ..EncodedRecord::new(&record()).heading() }
        );
        assert_eq!(serde_json::from_slice::<Record>(json).unwrap(), record());
    }

    #[test]
    fn a_line_about_a_method_is_read_back() {
        let Record { at, tenant, payment, .. } = record();
        let external_id = "card-7".to_owned();
        let state = MethodState::Attached { external_id };
        let (account, payment_method) =
            (AccountId::new(payment.uuid()), PaymentMethodId::new(payment.uuid()));
        let record = MethodRecord { at, tenant, account, payment_method, state };
        let mut line = vec![];
        EncodedRecord::of_method(&record).write(0, &mut line);
        expect![[r#"
            e56e5845 0000000000000000 05 0192aabbccdd71239456789abcdef012 {"at":1763650000000000,"tenant":1,"account":"0192aabb-ccdd-7123-9456-789abcdef012","payment_method":"0192aabb-ccdd-7123-9456-789abcdef012","state":{"attached":{"external_id":"card-7"}}}
        "#]].assert_eq(std::str::from_utf8(&line).unwrap());
        let (heading, json) = read_line(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(heading, EncodedRecord::of_method(&record).heading());
        assert_eq!(serde_json::from_slice::<MethodRecord>(json).unwrap(), record);
    }

    #[test]
    fn a_changed_or_truncated_line_is_invalid() {
        let mut line = vec![];
        EncodedRecord::new(&record()).write(7, &mut line);
        line.pop();
        for at in 0..line.len() {
            let mut changed = line.clone();
            changed[at] ^= 0x20;
            assert_eq!(read_line(&changed), None, "byte {at} is changed");
            assert_eq!(read_line(&line[..at]), None, "truncated at {at}");
        }
    }
}
