//! A message to measure, as `bench/peers/run` writes it down.

use std::collections::BTreeMap;
use std::error::Error;

/// A message: its format, its values, its bytes, and what an update sets.
pub struct Subject {
    pub name: String,
    pub layout: Layout,
    /// Class and length by field number, as jPOS names them.
    pub rows: BTreeMap<u16, Row>,
    pub values: BTreeMap<u16, Value>,
    pub packed: Vec<u8>,
    /// Each sets the same fields to other values.
    pub updates: Vec<Vec<(u16, String)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Text throughout, the bitmap in hexadecimal.
    Iso87A,
    /// BCD, lengths in BCD, the bitmap as bytes.
    Iso87Binary,
}

pub struct Row {
    pub class: String,
    pub length: usize,
}

pub enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

impl Subject {
    pub fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let mut subject = Self {
            name: String::new(),
            layout: Layout::Iso87A,
            rows: BTreeMap::new(),
            values: BTreeMap::new(),
            packed: vec![],
            updates: vec![],
        };
        for line in std::fs::read_to_string(path)?.lines() {
            subject.take(&line.split(' ').collect::<Vec<_>>())?;
        }
        Ok(subject)
    }

    fn take(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        match *words {
            ["name", name] => self.name = name.to_owned(),
            ["layout", "iso87a"] => self.layout = Layout::Iso87A,
            ["layout", "iso87binary"] => self.layout = Layout::Iso87Binary,
            ["row", number, class, length] => {
                let row = Row { class: class.to_owned(), length: length.parse()? };
                self.rows.insert(number.parse()?, row);
            }
            ["text", number, hex] => {
                let text = String::from_utf8(bytes_of_hex(hex)?)?;
                self.values.insert(number.parse()?, Value::Text(text));
            }
            ["bytes", number, hex] => {
                self.values.insert(number.parse()?, Value::Bytes(bytes_of_hex(hex)?));
            }
            ["packed", hex] => self.packed = bytes_of_hex(hex)?,
            ["update", ref settings @ ..] => {
                let setting = |setting: &&str| -> Result<(u16, String), Box<dyn Error>> {
                    let (number, value) = setting.split_once('=').ok_or("no value")?;
                    Ok((number.parse()?, value.to_owned()))
                };
                self.updates.push(settings.iter().map(setting).collect::<Result<_, _>>()?);
            }
            _ => return Err(format!("cannot read {words:?}").into()),
        }
        Ok(())
    }

    /// The values where all is text: bytes in hexadecimal.
    pub fn texts(&self) -> BTreeMap<u16, String> {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Bytes(bytes) => hex_of_bytes(bytes),
        };
        self.values.iter().map(|(number, value)| (*number, text(value))).collect()
    }

    /// The values after each of the updates.
    pub fn variants(&self) -> Vec<BTreeMap<u16, String>> {
        let variant = |update: &Vec<(u16, String)>| {
            let mut texts = self.texts();
            texts.extend(update.iter().cloned());
            texts
        };
        self.updates.iter().map(variant).collect()
    }

    /// The message type.
    pub fn mti(&self) -> String {
        self.texts()[&0].clone()
    }

    /// The bytes of a text message with its bitmap as eight bytes instead of sixteen digits.
    pub fn packed_with_raw_bitmap(&self) -> Vec<u8> {
        let bitmap = String::from_utf8_lossy(&self.packed[4..20]).into_owned();
        let bitmap = bytes_of_hex(&bitmap).expect("sixteen hexadecimal digits");
        [&self.packed[..4], &bitmap, &self.packed[20..]].concat()
    }
}

pub fn hex_of_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn bytes_of_hex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let pair = |at: usize| text.get(at..at + 2).ok_or("half a byte");
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(pair(at)?, 16)?)).collect()
}
