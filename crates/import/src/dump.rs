//! Kill Bill's exports: for each table a line `-- table column|column`, and a line per row behind it. A file may
//! have the exports of many accounts, one after the other.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::import::{
    Belongings, ImportAccount, ImportPayment, ImportTagDefinition, ImportedAudit,
};
use domain::{AccountId, PaymentId, TransactionId};
use uuid::Uuid;

use crate::cells::{Cells, Error, Name, name};
use crate::records;
use crate::{Found, FoundPayment};

/// How many columns a table has at most.
const COLUMNS_MAX: usize = 256;

const ID: Name = name("", "id");
const ACCOUNT_ID: Name = name("", "account_id");
const PAYMENT_ID: Name = name("", "payment_id");
const OBJECT_ID: Name = name("", "object_id");
const RECORD_ID: Name = name("", "record_id");

/// The tables that are read; others are passed over.
const TABLES: [&str; 16] = [
    "accounts",
    "account_emails",
    "payment_methods",
    "payments",
    "payment_transactions",
    "tags",
    "tag_definitions",
    "custom_fields",
    "audit_log",
    "account_history",
    "account_email_history",
    "payment_method_history",
    "payment_history",
    "payment_transaction_history",
    "tag_history",
    "custom_field_history",
];

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line is no row of its table.
    #[error("line {line}: {reason}")]
    Line { line: usize, reason: String },
    /// A record cannot be brought over.
    #[error(transparent)]
    Record(#[from] Error),
}

/// The rows of a table under the columns that its line named.
struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// Where a row is: which time that its table began, and which row of those.
type RowPosition = (usize, usize);

/// Rows by what they belong to.
type Index = HashMap<Uuid, Vec<RowPosition>>;

/// A file that was read.
#[derive(Default)]
pub struct Dump {
    tables: HashMap<String, Vec<Rows>>,
    /// The rows of each table by what they belong to: an account, a payment, or an object.
    index: HashMap<&'static str, Index>,
    audits: HashMap<Uuid, Vec<ImportedAudit>>,
}

impl Dump {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Malformed`]: a line is no row of its table, a row has no id or one that another has.
    pub fn read(text: &str) -> Result<Self, Malformed> {
        let mut dump = Self::default();
        let mut lines = Lines { text, line: 0 };
        let mut table: Option<String> = None;
        while let Some((line, raw)) = lines.next_record()? {
            if let Some(header) = raw.strip_prefix("-- ") {
                table = dump.begin(header, line)?;
            } else if raw.is_empty() {
                // Between two exports.
            } else if let Some(name) = &table {
                let rows = dump.tables.get_mut(name).and_then(|it| it.last_mut());
                let rows = rows.expect("its line made it");
                rows.rows.push(cells(raw, rows.columns.len(), line)?);
            } else if dump.tables.is_empty() && line == 1 {
                let reason = "should be `-- table column|column`".to_owned();
                return Err(Malformed::Line { line, reason });
            }
        }
        dump.index()?;
        Ok(dump)
    }

    /// Begins a table; `None`: it is passed over.
    fn begin(&mut self, header: &str, line: usize) -> Result<Option<String>, Malformed> {
        let malformed = |reason: &str| Malformed::Line { line, reason: reason.to_owned() };
        let (table, columns) = header
            .trim_end()
            .split_once(' ')
            .ok_or_else(|| malformed("should be `-- table column|column`"))?;
        let columns: Vec<_> = columns.split('|').map(|it| it.trim().to_lowercase()).collect();
        if columns.len() > COLUMNS_MAX {
            return Err(malformed("has too many columns"));
        }
        let table = table.to_lowercase();
        let rows = Rows { columns, rows: vec![] };
        let is_read = TABLES.contains(&&*table);
        self.tables.entry(table.clone()).or_default().push(rows);
        if !is_read {
            self.tables.insert(table, vec![]);
            return Ok(None);
        }
        Ok(Some(table))
    }

    fn index(&mut self) -> Result<(), Malformed> {
        let mut index: HashMap<&'static str, Index> = HashMap::new();
        for (table, by) in [
            ("accounts", ID),
            ("account_emails", ACCOUNT_ID),
            ("payment_methods", ACCOUNT_ID),
            ("payments", ACCOUNT_ID),
            ("payment_transactions", PAYMENT_ID),
            ("tags", OBJECT_ID),
            ("custom_fields", OBJECT_ID),
        ] {
            let mut seen = HashSet::new();
            let of_table = index.entry(table).or_default();
            for (at, cells) in self.rows(table) {
                let id = cells.id(table, ID)?;
                if !seen.insert(id) {
                    return Err(cells.error(&format!("{table} {id}"), ID, "is there twice").into());
                }
                of_table.entry(cells.id(&format!("{table} {id}"), by)?).or_default().push(at);
            }
        }
        self.index = index;
        self.audits = self.read_audits()?;
        Ok(())
    }

    /// The rows of a table with their positions.
    fn rows(&self, table: &str) -> impl Iterator<Item = (RowPosition, Cells<'_>)> {
        let parts = self.tables.get(table).map_or(&[][..], Vec::as_slice);
        parts.iter().enumerate().flat_map(|(part, it)| {
            it.rows
                .iter()
                .enumerate()
                .map(move |(at, cells)| ((part, at), Cells::Row { columns: &it.columns, cells }))
        })
    }

    /// The rows of a table that belong to something, in their order.
    fn of<'a>(&'a self, table: &'static str, owner: Uuid) -> impl Iterator<Item = Cells<'a>> {
        let positions = self.index.get(table).and_then(|it| it.get(&owner));
        positions.into_iter().flatten().map(move |(part, at)| {
            let rows = &self.tables[table][*part];
            Cells::Row { columns: &rows.columns, cells: &rows.rows[*at] }
        })
    }

    /// The audit of every object: `audit_log` names rows of the history tables, which name the objects.
    fn read_audits(&self) -> Result<HashMap<Uuid, Vec<ImportedAudit>>, Error> {
        let mut objects: HashMap<(String, i64), Uuid> = HashMap::new();
        for table in TABLES.iter().filter(|it| it.ends_with("_history")) {
            for (_, cells) in self.rows(table) {
                if let Some(record) = cells.int(table, RECORD_ID)? {
                    objects.insert(((*table).to_owned(), record), cells.id(table, ID)?);
                }
            }
        }
        let mut audits: HashMap<Uuid, Vec<ImportedAudit>> = HashMap::new();
        for (_, cells) in self.rows("audit_log") {
            let table = cells.text(name("", "table_name")).unwrap_or_default().to_lowercase();
            let record = cells.int("audit_log", name("", "target_record_id"))?.unwrap_or(-1);
            if let Some(object) = objects.get(&(table, record)) {
                audits.entry(*object).or_default().push(records::audit(cells, *object)?);
            }
        }
        for entries in audits.values_mut() {
            entries.sort_by_key(|it| it.at);
        }
        Ok(audits)
    }

    fn audits_of(&self, cells: Cells<'_>, object: Uuid) -> Result<Vec<ImportedAudit>, Error> {
        match self.audits.get(&object) {
            Some(entries) => Ok(entries.clone()),
            None => records::audits_of_row(cells, object),
        }
    }

    /// The tenant's own definitions of tags.
    ///
    /// # Errors
    /// [`Error`] of the first that cannot be read.
    pub fn definitions(&self) -> Result<Vec<ImportTagDefinition>, Error> {
        let active = self.rows("tag_definitions").filter(|(_, it)| records::is_active(*it));
        active.map(|(_, it)| records::definition(it)).collect()
    }

    /// The ids of its accounts, in their order.
    pub fn accounts(&self) -> impl Iterator<Item = Result<AccountId, Error>> {
        self.rows("accounts").map(|(_, cells)| records::account_id(cells))
    }

    /// Payments, methods and transactions whose account or payment is not in the file.
    ///
    /// # Errors
    /// [`Error`] of a row whose id cannot be read.
    pub fn orphans(&self) -> Result<Vec<String>, Error> {
        let mut orphans = vec![];
        for (table, owners) in [
            ("payment_methods", "accounts"),
            ("payments", "accounts"),
            ("payment_transactions", "payments"),
        ] {
            let by = if owners == "accounts" { ACCOUNT_ID } else { PAYMENT_ID };
            let mut known = HashSet::new();
            for (_, cells) in self.rows(owners) {
                known.insert(cells.id(owners, ID)?);
            }
            for (_, cells) in self.rows(table) {
                if !known.contains(&cells.id(table, by)?) {
                    let id = cells.id(table, ID)?;
                    orphans.push(format!("{table} {id}: {}: is not in the file", by.column));
                }
            }
        }
        Ok(orphans)
    }

    /// An account with all that the file has of it.
    ///
    /// # Errors
    /// [`Error`] of the first record that cannot be brought over.
    pub fn found(&self, id: AccountId) -> Result<Found, Error> {
        let of = format!("account {id}");
        let cells = self.of("accounts", id.uuid()).next();
        let cells = cells.ok_or_else(|| Error {
            of: of.clone(),
            field: "id",
            reason: "is not in the file".to_owned(),
        })?;
        let audits = self.audits_of(cells, id.uuid())?;
        let author = cells.safe(&of, records::CREATED_BY)?;
        let mut belongings = Belongings { audits, ..Belongings::default() };
        let (mut methods, mut emails) = (vec![], vec![]);
        for it in self.of("payment_methods", id.uuid()) {
            let method = records::method_id(it)?;
            let own = self.audits_of(it, method.uuid())?;
            methods.push(records::method(it, (method, id), &own)?);
            belongings.audits.extend(own);
        }
        for it in self.of("account_emails", id.uuid()).filter(|it| records::is_active(*it)) {
            let email = records::email(it, id, None)?;
            belongings.audits.extend(self.audits_of(it, email.id.uuid())?);
            emails.push(email);
        }
        let payments = self.of("payments", id.uuid()).map(|it| self.payment(it, id));
        let payments: Vec<_> = payments.collect::<Result<_, _>>()?;
        let account = ImportAccount {
            id,
            dates: records::dates(cells, &of, &belongings.audits)?,
            account: records::account(cells, &of)?,
            payment_method: records::default_method(cells, &of)?,
            methods,
            emails,
            belongings,
        };
        let mut found = Found { account, author, payments, left_out: vec![] };
        self.take_belongings(&mut found)?;
        Ok(found)
    }

    fn payment(&self, cells: Cells<'_>, account: AccountId) -> Result<FoundPayment, Error> {
        let id = PaymentId::new(cells.id("payment", ID)?);
        let of = format!("payment {id}");
        let key = cells.safe(&of, name("", "external_key"))?;
        let method = records::default_method(cells, &of)?;
        let method =
            method.ok_or_else(|| cells.error(&of, name("", "payment_method_id"), "is missing"))?;
        let mut belongings =
            Belongings { audits: self.audits_of(cells, id.uuid())?, ..Belongings::default() };
        let dates = records::dates(cells, &of, &belongings.audits)?;
        let mut transactions: Vec<domain::import::ImportedTransaction> = vec![];
        for it in self.of("payment_transactions", id.uuid()) {
            let currency = transactions.first().map(|it| it.currency);
            let transaction = records::transaction(it, (method, &transactions), currency)?;
            belongings.audits.extend(self.audits_of(it, transaction.id.uuid())?);
            transactions.push(transaction);
        }
        let author = cells.safe(&of, records::CREATED_BY)?;
        let external_key = key.unwrap_or_else(|| id.to_string());
        let payment = ImportPayment { account, id, external_key, dates, transactions, belongings };
        Ok(FoundPayment { payment, author })
    }

    /// Gives tags and fields to what they are on.
    fn take_belongings(&self, found: &mut Found) -> Result<(), Error> {
        let mut payments: BTreeMap<TransactionId, PaymentId> = BTreeMap::new();
        let mut objects = vec![found.account.id.uuid()];
        objects.extend(found.account.methods.iter().map(|it| it.id.uuid()));
        for FoundPayment { payment, .. } in &found.payments {
            objects.push(payment.id.uuid());
            for it in &payment.transactions {
                objects.push(it.id.uuid());
                payments.insert(it.id, payment.id);
            }
        }
        let payment_of = |id| payments.get(&id).copied();
        for owner in objects {
            for it in self.of("tags", owner).filter(|it| records::is_active(*it)) {
                let of = format!("tag {}", it.id("tag", ID)?);
                let object = records::object(it, &of, payment_of);
                match object.and_then(|object| records::tag(it, object, &of)) {
                    Ok(tag) => {
                        let own = self.audits_of(it, tag.id.uuid())?;
                        let belongings = found.belongings(tag.object);
                        belongings.tags.push(tag);
                        belongings.audits.extend(own);
                    }
                    Err(error) => found.left_out.push(error.to_string()),
                }
            }
            for it in self.of("custom_fields", owner).filter(|it| records::is_active(*it)) {
                let of = format!("custom field {}", it.id("custom field", ID)?);
                let object = records::object(it, &of, payment_of);
                match object.and_then(|object| records::field(it, object, &of)) {
                    Ok(field) => {
                        let own = self.audits_of(it, field.id.uuid())?;
                        let belongings = found.belongings(field.object);
                        belongings.fields.push(field);
                        belongings.audits.extend(own);
                    }
                    Err(error) => found.left_out.push(error.to_string()),
                }
            }
        }
        Ok(())
    }
}

/// The records of a text: a line each, or several where a cell in quotes has line breaks.
struct Lines<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    /// The next record with the number of its first line; `None` at the end.
    fn next_record(&mut self) -> Result<Option<(usize, &'a str)>, Malformed> {
        if self.text.is_empty() {
            return Ok(None);
        }
        let first = self.line + 1;
        let (mut is_quoted, mut end) = (false, self.text.len());
        let mut is_escaped = false;
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b'\n' => {
                    self.line += 1;
                    if !is_quoted {
                        end = at;
                        break;
                    }
                }
                _ => {}
            }
        }
        let record = &self.text[..end];
        if is_quoted || end == self.text.len() {
            let reason = match is_quoted {
                true => "the file ends within quotes",
                false => "the file ends within a line",
            };
            return Err(Malformed::Line { line: first, reason: reason.to_owned() });
        }
        self.text = &self.text[end + 1..];
        Ok(Some((first, record.strip_suffix('\r').unwrap_or(record))))
    }
}

/// The cells of a row.
fn cells(row: &str, columns: usize, line: usize) -> Result<Vec<Option<String>>, Malformed> {
    let malformed = |reason: String| Malformed::Line { line, reason };
    let mut cells = vec![];
    let mut rest = row;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (cell, after) = quoted_cell(quoted)
                    .ok_or_else(|| malformed("a cell in quotes does not end".to_owned()))?;
                (Some(cell), after)
            }
            None => {
                let end = rest.find('|').unwrap_or(rest.len());
                let (cell, after) = rest.split_at(end);
                (Some(cell.to_owned()).filter(|it| !it.is_empty()), after)
            }
        };
        cells.push(cell);
        if after.is_empty() {
            break;
        }
        rest = after
            .strip_prefix('|')
            .ok_or_else(|| malformed("something follows a cell in quotes".to_owned()))?;
    }
    match cells.len() == columns {
        true => Ok(cells),
        false => Err(malformed(format!("has {} cells, the table {columns} columns", cells.len()))),
    }
}

/// A cell behind its opening quote, and what follows its closing one.
fn quoted_cell(text: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut chars = text.char_indices();
    while let Some((at, it)) = chars.next() {
        match it {
            '"' if text[at + 1..].starts_with('"') => {
                chars.next();
                cell.push('"');
            }
            '"' => return Some((cell, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => cell.push('\n'),
                'r' => cell.push('\r'),
                other => cell.push(other),
            },
            other => cell.push(other),
        }
    }
    None
}
