//! A message format, compiled from a description: one row per field, and what stands around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::append::Way;
use crate::class::{Charset, Coding, Content, FieldFormat};
use crate::error::{DEPTH_MAX, Error, Problem};

/// The highest number of a field: a tag of three digits.
pub const FIELD_NUMBER_MAX: u16 = 999;

/// Fields with card data: never shown, never told in errors, whatever a description says.
const CARD_DATA: [u16; 7] = [2, 14, 34, 35, 36, 45, 52];

/// Fields that are treated in the same way unless a description says that they are open.
const SENSITIVE: [u16; 4] = [48, 55, 64, 128];

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
pub type Table = BTreeMap<u16, FieldDescription>;

/// A description of one field, in the words of jPOS's packagers.
#[derive(Clone, Debug, Default)]
pub struct FieldDescription {
    /// Such as `IFA_LLNUM`, with or without its Java package.
    pub class: String,
    /// The largest length, in characters or bytes.
    pub length: usize,
    /// An odd number of BCD digits is filled up on the left.
    pub pad: bool,
    /// A value that is shorter than its field is not filled up.
    pub trim: bool,
    /// The fields inside. `class` is then the one that frames them.
    pub sub: Option<Table>,
}

/// What every kind of description is turned into before it is compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) header_bytes: usize,
    pub(crate) fields: DraftFields,
}

pub(crate) type DraftFields = BTreeMap<u16, DraftField>;

/// A field of a draft.
#[derive(Clone, Debug)]
pub(crate) struct DraftField {
    pub(crate) name: String,
    pub(crate) format: FieldFormat,
    /// Nothing leaves it to the field's number.
    pub(crate) is_sensitive: Option<bool>,
    /// The fields inside; `format` then frames them.
    pub(crate) inside: Option<DraftFields>,
}

#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) fields: Vec<FieldFormat>,
    /// What the fields are called, by number.
    pub(crate) names: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) composites: Vec<Packager>,
    pub(crate) validation: Validation,
    pub(crate) name: String,
    pub(crate) title: String,
    /// Bytes in front of the message that mean nothing to the packager.
    pub(crate) header_bytes: usize,
    /// Messages are XML; `fields` is what they are turned into.
    pub(crate) is_xml: bool,
    /// Neither XML nor a header: the message begins where the bytes begin.
    pub(crate) is_bare: bool,
}

/// How fields find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Bitmap(BitmapFormat),
    /// One after the other from this one on. Inside a field the last may be missing, and those
    /// below the last that is present are filled; a message is whole.
    Positional {
        first: u16,
        is_whole: bool,
    },
    /// Each behind its number.
    Tagged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapFormat {
    /// `Raw`, `HexAscii` or `HexEbcdic`.
    pub(crate) coding: Coding,
    /// 1, 2 or 3 times 64 fields.
    pub(crate) words_max: u8,
    /// Bit 1 says that there is a second one.
    pub(crate) continues: bool,
    /// The field whose place the third bitmap has, among the other fields; 0 if there is none.
    pub(crate) third_field: u16,
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
        let fields = draft_of(table, 1)?;
        Self::from_draft(Draft { fields, ..Draft::default() })
    }

    pub(crate) fn from_draft(draft: Draft) -> Result<Self, Error> {
        let mut compiled = Compiled::new(&draft.fields, Around::default())?;
        compiled.name = draft.name;
        compiled.title = draft.title;
        compiled.header_bytes = draft.header_bytes;
        compiled.is_bare = draft.header_bytes == 0;
        Ok(Self(Arc::new(compiled)))
    }

    /// The format of XML messages: any field, with any value.
    pub(crate) fn of_xml_messages(name: String, title: String) -> Self {
        let mut compiled = Compiled::of_xml_messages(1);
        (compiled.name, compiled.title) = (name, title);
        Self(Arc::new(compiled))
    }

    /// Its short name, such as `iso87a`; empty if the description has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is, in a line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// What a field is called; empty if the description does not say it.
    #[must_use]
    pub fn field_name(&self, number: u16) -> &str {
        self.0.names.get(usize::from(number)).map_or("", String::as_str)
    }

    /// Bytes in front of each message that mean nothing to the packager.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.0.header_bytes
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
    fn new(draft: &DraftFields, around: Around) -> Result<Self, Error> {
        if around.fields >= DEPTH_MAX {
            return Err(Problem::TooDeep.into());
        }
        let last = draft.keys().next_back().copied().unwrap_or(0);
        if last > FIELD_NUMBER_MAX {
            return Err(Problem::NumberTooHigh { max: FIELD_NUMBER_MAX }.in_field(last));
        }
        let unknown = FieldFormat::from_class("IF_UNUSED", 0, false)?;
        let mut fields = vec![unknown; usize::from(last) + 1];
        let mut names = vec![String::new(); fields.len()];
        let mut composites = vec![];
        for (number, field) in draft {
            let place = usize::from(*number);
            names[place].clone_from(&field.name);
            fields[place] = format(*number, field, around).map_err(|it| it.in_field(*number))?;
            if let Some(inside) = &field.inside {
                let inner = Self::new(inside, around.inside(&fields[place]))
                    .map_err(|error| error.inside(*number, None))?;
                composites.push(Packager(Arc::new(inner)));
                fields[place].composite =
                    u16::try_from(composites.len()).expect("no more composites than fields");
                fields[place].way = Way::Other;
            }
        }
        let mut compiled = Self {
            layout: layout(&fields, around.fields + 1)?,
            fields,
            names,
            composites,
            validation: Validation::Strict,
            name: String::new(),
            title: String::new(),
            header_bytes: 0,
            is_xml: false,
            is_bare: true,
        };
        for number in 0..=last {
            let is_settable = compiled.refusal(number).is_none();
            let field = &mut compiled.fields[usize::from(number)];
            field.is_settable = is_settable;
            if !is_settable {
                field.way = Way::Other;
            }
        }
        Ok(compiled)
    }

    /// All fields at once have the same packager inside, so that it is compiled once per level.
    fn of_xml_messages(depth: usize) -> Self {
        let mut format = FieldFormat::marked().expect("the class is one of jPOS's");
        let mut composites = vec![];
        if depth < DEPTH_MAX {
            composites.push(Packager(Arc::new(Self::of_xml_messages(depth + 1))));
            format = format.as_composite().expect("it carries bytes");
            format.composite = 1;
        }
        format.is_settable = true;
        let mut fields = vec![format; usize::from(FIELD_NUMBER_MAX) + 1];
        // Messages in XML are messages at every depth, and have card data at the same numbers.
        let outermost = SENSITIVE.into_iter().filter(|_| depth == 1);
        for number in CARD_DATA.into_iter().chain(outermost) {
            fields[usize::from(number)].is_sensitive = true;
        }
        Self {
            names: vec![String::new(); fields.len()],
            fields,
            layout: Layout::Tagged,
            composites,
            validation: Validation::Strict,
            name: String::new(),
            title: String::new(),
            header_bytes: 0,
            is_xml: true,
            is_bare: false,
        }
    }

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
        // A number that does not fit into the digits of its tag could not be told from another.
        let tags = 10_u32.pow(u32::from(format.tag.digits));
        if format.tag.digits > 0 && u32::from(number) >= tags {
            return Some(Problem::NumberTooHigh { max: u16::try_from(tags - 1).unwrap_or(999) });
        }
        let is_no_value = matches!(format.content, Content::Unused | Content::Nothing);
        let is_beyond = number > self.number_max();
        (is_no_value || is_beyond).then_some(Problem::UnknownField)
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
            Layout::Positional { .. } | Layout::Tagged => 0,
        }
    }

    /// The highest number that the layout can carry.
    fn number_max(&self) -> u16 {
        match self.layout {
            Layout::Bitmap(bitmap) if bitmap.third_field > 0 => 192,
            Layout::Bitmap(bitmap) => u16::from(bitmap.words_max) * 64,
            Layout::Positional { .. } | Layout::Tagged => FIELD_NUMBER_MAX,
        }
    }

    /// What a description has to say of a field's sensitivity: nothing where it is the usual one.
    pub(crate) fn told_sensitivity(&self, number: u16, around: Around) -> Option<bool> {
        let is_sensitive = self.fields.get(usize::from(number))?.is_sensitive;
        (is_sensitive != around.makes_sensitive(number)).then_some(is_sensitive)
    }

    /// The packager of what is inside a field.
    pub(crate) fn inner(&self, format: &FieldFormat) -> Option<&Packager> {
        let place = usize::from(format.composite).checked_sub(1)?;
        self.composites.get(place)
    }
}

/// The draft of a table of class names.
fn draft_of(table: &Table, depth: usize) -> Result<DraftFields, Error> {
    if depth > DEPTH_MAX {
        return Err(Problem::TooDeep.into());
    }
    let field = |(number, description): (&u16, &FieldDescription)| {
        let number = *number;
        let inside = description.sub.as_ref().map(|sub| draft_of(sub, depth + 1));
        let inside = inside.transpose().map_err(|error| error.inside(number, None))?;
        let mut format = format_of(number, description, depth).map_err(|it| it.in_field(number))?;
        // jPOS begins with 1 inside a field, unless 0 is the bitmap.
        if depth > 1 && number == 0 && format.content != Content::Bitmap {
            format = FieldFormat::from_class("IF_NOP", 0, false)?;
        }
        let name = String::new();
        Ok((number, DraftField { name, format, is_sensitive: None, inside }))
    };
    table.iter().map(field).collect()
}

/// What a class means at this place: digits of field 35 are a track, with its separator.
pub(crate) fn format_of(
    number: u16,
    description: &FieldDescription,
    depth: usize,
) -> Result<FieldFormat, Problem> {
    let class = &description.class;
    let format = FieldFormat::from_class(class, description.length, description.pad)?;
    let format = format.with_trim(description.trim)?;
    if depth == 1 && number == 35 && format.content == Content::Digits {
        return format.with_charset(Charset::Track);
    }
    Ok(format)
}

fn format(number: u16, field: &DraftField, around: Around) -> Result<FieldFormat, Problem> {
    let mut format = field.format;
    if field.inside.is_some() {
        format = format.as_composite()?;
    }
    if around.fields == 0 && CARD_DATA.contains(&number) && field.is_sensitive == Some(false) {
        return Err(Problem::CardData);
    }
    format.is_sensitive = field.is_sensitive.unwrap_or(around.makes_sensitive(number));
    Ok(format)
}

/// What is around some fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// How many fields are.
    fields: usize,
    /// Whether the innermost of them is sensitive: what is inside is as well, unless the
    /// description says otherwise.
    is_sensitive: bool,
}

impl Around {
    /// What is around the fields in this one.
    pub(crate) fn inside(self, field: &FieldFormat) -> Self {
        Self { fields: self.fields + 1, is_sensitive: field.is_sensitive }
    }

    fn makes_sensitive(self, number: u16) -> bool {
        let is_outermost = self.fields == 0;
        self.is_sensitive
            || is_outermost && (CARD_DATA.contains(&number) || SENSITIVE.contains(&number))
    }
}

fn layout(fields: &[FieldFormat], depth: usize) -> Result<Layout, Error> {
    let is_bitmap = |place: &usize| fields[*place].content == Content::Bitmap;
    let mut bitmaps = (0..fields.len()).filter(is_bitmap);
    let Some(place) = bitmaps.next() else {
        let is_tagged = fields.iter().any(|field| field.tag.digits > 0 && !field.tag.is_own);
        return Ok(if is_tagged { Layout::Tagged } else { positional(fields, depth) });
    };
    let format = fields[place];
    let words_max = match format.length_max {
        8 => 1,
        16 => 2,
        24 => 3,
        _ => return Err(Problem::BadBitmapLength.in_field(number(place))),
    };
    let third = bitmaps.find(|third| fields[*third].length_max == 8 && words_max == 2);
    let third_field = third.map_or(0, number);
    let continues = words_max > 1;
    Ok(Layout::Bitmap(BitmapFormat { coding: format.coding, words_max, continues, third_field }))
}

fn number(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX)
}

fn positional(fields: &[FieldFormat], depth: usize) -> Layout {
    let is_value = |field: &FieldFormat| {
        field.length_max > 0 && !matches!(field.content, Content::Nothing | Content::Unused)
    };
    let first = u16::from(!fields.first().is_some_and(is_value));
    Layout::Positional { first, is_whole: depth == 1 }
}
