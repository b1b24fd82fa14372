//! A message format, compiled from a description: one row per field, and what stands around them.

use std::sync::Arc;

use crate::class::{Charset, Coding, Content, FieldFormat, Way};
use crate::error::{DEPTH_MAX, Error, Problem};

/// The highest number of a field: a tag of three digits.
pub const FIELD_NUMBER_MAX: u16 = 999;

/// Fields that are not shown and not told in errors unless the description says otherwise.
const SENSITIVE: [u16; 11] = [2, 14, 34, 35, 36, 45, 48, 52, 55, 64, 128];

/// A message format. Cheap to clone: all clones share one table.
#[derive(Clone, Debug)]
pub struct Packager(Arc<Compiled>);

/// How much is demanded of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// Characters, digits, fillings and the end of the message are checked.
    #[default]
    Strict,
    /// Only what is needed to find the fields: what jPOS accepts.
    Lenient,
}

/// A description of a format: fields by number.
pub type Table = std::collections::BTreeMap<u16, FieldDescription>;

/// A description of one field, in the words of jPOS's packagers.
#[derive(Clone, Debug, Default)]
pub struct FieldDescription {
    /// Such as `IFA_LLNUM`, with or without its Java package.
    pub class: String,
    /// The largest length, in characters or bytes.
    pub length: usize,
    /// An odd number of BCD digits is filled up on the left.
    pub pad: bool,
    /// Trailing blanks are taken off when the field is read.
    pub trim: bool,
    /// The fields inside. `class` is then the one that frames them.
    pub sub: Option<Table>,
}

#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) fields: Vec<FieldFormat>,
    pub(crate) layout: Layout,
    pub(crate) composites: Vec<Packager>,
    pub(crate) validation: Validation,
}

/// How fields find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Bitmap(BitmapFormat),
    /// One after the other; those below the last that is present are filled.
    Positional,
    /// Each behind its number.
    Tagged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapFormat {
    /// `Raw`, `HexAscii` or `HexEbcdic`.
    pub(crate) coding: Coding,
    /// 1, 2 or 3 times 64 fields.
    pub(crate) words_max: u8,
    /// The bitmap stands at 1, so that bit 1 says that there is a second one.
    pub(crate) continues: bool,
}

impl BitmapFormat {
    /// Bytes on the wire of so many words.
    pub(crate) fn bytes_of(self, words: u8) -> usize {
        usize::from(words) * if self.coding == Coding::Raw { 8 } else { 16 }
    }
}

impl Packager {
    /// Compiles a format from a table of fields.
    ///
    /// # Errors
    /// If a class is unknown, a length impossible or the nesting too deep.
    pub fn from_table(table: &Table) -> Result<Self, Error> {
        Self::compile(table, 1)
    }

    fn compile(table: &Table, depth: usize) -> Result<Self, Error> {
        if depth > DEPTH_MAX {
            return Err(Problem::TooDeep.into());
        }
        let last = table.keys().next_back().copied().unwrap_or(0);
        if last > FIELD_NUMBER_MAX {
            return Err(Problem::NumberTooHigh { max: FIELD_NUMBER_MAX }.in_field(last));
        }
        let unknown = FieldFormat::from_class("IF_UNUSED", 0, false)?;
        let mut fields = vec![unknown; usize::from(last) + 1];
        let mut composites = vec![];
        for (number, description) in table {
            let format =
                format(*number, description, depth).map_err(|problem| problem.in_field(*number))?;
            fields[usize::from(*number)] = format;
            if let Some(sub) = &description.sub {
                let mut inner =
                    Self::compile(sub, depth + 1).map_err(|error| error.inside(*number, None))?;
                if format.is_sensitive {
                    inner = inner.all_sensitive();
                }
                composites.push(inner);
                let field = &mut fields[usize::from(*number)];
                field.composite =
                    u16::try_from(composites.len()).expect("no more composites than fields");
                field.way = Way::Other;
            }
        }
        let layout = layout(&fields)?;
        let validation = Validation::Strict;
        let mut compiled = Compiled { fields, layout, composites, validation };
        for number in 0..=last {
            let is_settable = compiled.refusal(number).is_none();
            compiled.fields[usize::from(number)].is_settable = is_settable;
        }
        Ok(Self(Arc::new(compiled)))
    }

    /// The same format, validating this much.
    #[must_use]
    pub fn with_validation(&self, validation: Validation) -> Self {
        let mut compiled = Compiled::clone(&self.0);
        compiled.validation = validation;
        for inner in &mut compiled.composites {
            *inner = inner.with_validation(validation);
        }
        Self(Arc::new(compiled))
    }

    /// The same format inside a field that is sensitive.
    fn all_sensitive(&self) -> Self {
        let mut compiled = Compiled::clone(&self.0);
        for field in &mut compiled.fields {
            field.is_sensitive = true;
        }
        for inner in &mut compiled.composites {
            *inner = inner.all_sensitive();
        }
        Self(Arc::new(compiled))
    }

    /// How much this packager demands.
    #[must_use]
    pub fn validation(&self) -> Validation {
        self.0.validation
    }

    #[inline]
    pub(crate) fn compiled(&self) -> &Compiled {
        &self.0
    }
}

impl Compiled {
    #[inline]
    pub(crate) fn is_strict(&self) -> bool {
        self.validation == Validation::Strict
    }

    /// A field's format, if the packager has it and its value can be set.
    #[inline]
    pub(crate) fn settable(&self, number: u16) -> Result<&FieldFormat, Problem> {
        match self.fields.get(usize::from(number)) {
            Some(format) if format.is_settable => Ok(format),
            _ => Err(self.refusal(number).unwrap_or(Problem::UnknownField)),
        }
    }

    /// Why a field cannot be set, if it cannot.
    #[cold]
    fn refusal(&self, number: u16) -> Option<Problem> {
        let Some(format) = self.fields.get(usize::from(number)) else {
            return Some(Problem::UnknownField);
        };
        let continues = number == 1 && self.continues() || number == 65 && self.words_max() == 3;
        if continues || format.content == Content::Bitmap {
            return Some(Problem::BitmapIsDerived);
        }
        let is_no_value = matches!(format.content, Content::Unused | Content::Nothing);
        is_no_value.then_some(Problem::UnknownField)
    }

    /// Is there a message type in front of the fields?
    #[inline]
    pub(crate) fn has_message_type(&self) -> bool {
        self.fields.first().is_some_and(|first| {
            let is_other = matches!(first.content, Content::Bitmap | Content::Nothing);
            // Of length 0 it stands for none, in fields inside others.
            first.length_max > 0 && !is_other && first.content != Content::Unused
        })
    }

    #[inline]
    fn continues(&self) -> bool {
        matches!(self.layout, Layout::Bitmap(BitmapFormat { continues: true, .. }))
    }

    #[inline]
    fn words_max(&self) -> u8 {
        match self.layout {
            Layout::Bitmap(bitmap) => bitmap.words_max,
            Layout::Positional | Layout::Tagged => 0,
        }
    }

    /// The packager of what is inside a field.
    pub(crate) fn inner(&self, format: &FieldFormat) -> Option<&Packager> {
        let place = usize::from(format.composite).checked_sub(1)?;
        self.composites.get(place)
    }
}

fn format(
    number: u16,
    description: &FieldDescription,
    depth: usize,
) -> Result<FieldFormat, Problem> {
    let class = &description.class;
    let mut format = FieldFormat::from_class(class, description.length, description.pad)?;
    format.trims = description.trim;
    if depth == 1 {
        format.is_sensitive = SENSITIVE.contains(&number);
        if number == 35 && format.content == Content::Digits {
            return format.with_charset(Charset::Track);
        }
    }
    if description.sub.is_some() {
        return format.as_composite();
    }
    Ok(format)
}

fn layout(fields: &[FieldFormat]) -> Result<Layout, Error> {
    let place = fields.iter().take(2).position(|field| field.content == Content::Bitmap);
    let Some(place) = place else {
        let is_tagged = fields.iter().any(|field| field.tag.digits > 0 && !field.tag.is_own);
        return Ok(if is_tagged { Layout::Tagged } else { Layout::Positional });
    };
    let format = fields[place];
    let words_max = match format.length_max {
        8 => 1,
        16 => 2,
        24 => 3,
        _ => return Err(Problem::BadBitmapLength.into()),
    };
    let continues = place == 1 && words_max > 1;
    Ok(Layout::Bitmap(BitmapFormat { coding: format.coding, words_max, continues }))
}
