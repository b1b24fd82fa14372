//! A message format that is compiled from a description.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::class::{Charset, Coding, Content, FastEncoding, FieldFormat};
use crate::error::{DEPTH_MAX, Error, Problem};

/// The highest number of a field: a tag of three digits.
pub const FIELD_NUMBER_MAX: u16 = 999;

/// The fields with card data. They are always masked, and their content is never in errors.
const CARD_DATA: [u16; 7] = [2, 14, 34, 35, 36, 45, 52];

/// Further fields that are sensitive unless a description declares otherwise.
const SENSITIVE: [u16; 4] = [48, 55, 64, 128];

/// A message format. Cheap to clone: all clones share one table.
#[derive(Clone, Debug)]
pub struct Packager(Arc<Compiled>);

/// How strictly messages are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// Characters, digits, filling and the end of the message are validated.
    #[default]
    Strict,
    /// Only what is needed to find the fields is validated, like in jPOS.
    Lenient,
}

/// A description of a format: fields by number.
pub type Table = BTreeMap<u16, FieldDescription>;

/// A description of a field in terms of jPOS's packagers.
#[derive(Clone, Debug, Default)]
pub struct FieldDescription {
    /// A class such as `IFA_LLNUM`, with or without its Java package.
    pub class: String,
    /// The maximum length in characters or bytes.
    pub length: usize,
    /// An odd number of BCD digits is padded on the left.
    pub pad: bool,
    /// A value that is shorter than its field is not filled up.
    pub trim: bool,
    /// The inner fields. `class` is then the format around them.
    pub sub: Option<Table>,
}

/// The common form of all kinds of descriptions before their compilation.
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
    /// `None`: the field's number decides.
    pub(crate) is_sensitive: Option<bool>,
    /// The inner fields; `format` is then the format around them.
    pub(crate) inside: Option<DraftFields>,
}

#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) fields: Vec<FieldFormat>,
    /// The names of the fields by number.
    pub(crate) names: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) composites: Vec<Packager>,
    /// The composite fields that are bytes of a fixed length.
    pub(crate) fixed_frames: Vec<u16>,
    pub(crate) validation: Validation,
    pub(crate) name: String,
    pub(crate) title: String,
    /// The length of the opaque header in front of the message.
    pub(crate) header_bytes: usize,
    /// Messages are in XML; `fields` is their internal format.
    pub(crate) is_xml: bool,
    /// Neither XML nor a header.
    pub(crate) is_bare: bool,
}

/// How the present fields are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Bitmap(BitmapFormat),
    /// By position, from `first` on. In a composite field the last ones may be missing, and gaps before
    /// the last present one are filled; a message has all of them (`is_whole`).
    Positional {
        first: u16,
        is_whole: bool,
    },
    /// By the tag in front of each field.
    Tagged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapFormat {
    /// `Raw`, `HexAscii` or `HexEbcdic`.
    pub(crate) coding: Coding,
    /// 1, 2 or 3 times 64 fields.
    pub(crate) words_max: u8,
    /// Bit 1 announces a second word.
    pub(crate) continues: bool,
    /// The field that holds the third bitmap; 0 for none.
    pub(crate) third_field: u16,
}

impl BitmapFormat {
    /// The length on the wire of `words` words.
    pub(crate) fn bytes_of(self, words: u8) -> usize {
        usize::from(words) * if self.coding == Coding::Raw { 8 } else { 16 }
    }
}

impl Packager {
    /// Compiles a table of fields.
    ///
    /// # Errors
    /// A class is unknown, a length is invalid, or the nesting is too deep.
    pub fn from_table(table: &Table) -> Result<Self, Error> {
        let fields = draft_of(table, 1)?;
        Self::from_draft(Draft { fields, ..Draft::default() })
    }

    pub(crate) fn from_draft(draft: Draft) -> Result<Self, Error> {
        let mut compiled = Compiled::new(&draft.fields, Enclosing::default())?;
        compiled.name = draft.name;
        compiled.title = draft.title;
        compiled.header_bytes = draft.header_bytes;
        compiled.is_bare = draft.header_bytes == 0;
        Ok(Self(Arc::new(compiled)))
    }

    /// The format of XML messages, in which any field has any value.
    pub(crate) fn for_xml(name: String, title: String) -> Self {
        let mut compiled = Compiled::for_xml(1);
        (compiled.name, compiled.title) = (name, title);
        Self(Arc::new(compiled))
    }

    /// The name, such as `iso87a`; empty if the description has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The title; empty if the description has none.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// The name of a field; empty if the description has none.
    #[must_use]
    pub fn field_name(&self, number: u16) -> &str {
        self.0.names.get(usize::from(number)).map_or("", String::as_str)
    }

    /// The length of the opaque header in front of each message.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.0.header_bytes
    }

    /// The same format with this validation.
    #[must_use]
    pub fn with_validation(&self, validation: Validation) -> Self {
        let mut compiled = Compiled::clone(&self.0);
        compiled.validation = validation;
        for inner in &mut compiled.composites {
            *inner = inner.with_validation(validation);
        }
        Self(Arc::new(compiled))
    }

    /// How strictly the packager validates.
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
    fn new(draft: &DraftFields, enclosing: Enclosing) -> Result<Self, Error> {
        if enclosing.depth >= DEPTH_MAX {
            return Err(Problem::TooDeep.into());
        }
        let last = draft.keys().next_back().copied().unwrap_or(0);
        if last > FIELD_NUMBER_MAX {
            return Err(Problem::NumberTooHigh { max: FIELD_NUMBER_MAX }.in_field(last));
        }
        let unknown = FieldFormat::from_class("IF_UNUSED", 0, false)?;
        let mut fields = vec![unknown; usize::from(last) + 1];
        let mut names = vec![String::new(); fields.len()];
        let (mut composites, mut fixed_frames) = (vec![], vec![]);
        for (number, field) in draft {
            let index = usize::from(*number);
            names[index].clone_from(&field.name);
            fields[index] = format(*number, field, enclosing).map_err(|it| it.in_field(*number))?;
            if let Some(inside) = &field.inside {
                let inner = Self::new(inside, enclosing.inside(&fields[index]))
                    .map_err(|error| error.inside(*number, None))?;
                composites.push(Packager(Arc::new(inner)));
                fields[index].composite = u16::try_from(composites.len())
                    .expect("there are at most as many composites as fields");
                fields[index].fast_encoding = FastEncoding::Other;
                fixed_frames.extend(fields[index].is_fixed_frame().then_some(*number));
            }
        }
        let mut compiled = Self {
            layout: layout(&fields, enclosing.depth + 1)?,
            fields,
            names,
            composites,
            fixed_frames,
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
                field.fast_encoding = FastEncoding::Other;
            }
        }
        Ok(compiled)
    }

    /// All fields share an inner packager, so that it is compiled once per level.
    fn for_xml(depth: usize) -> Self {
        let mut format = FieldFormat::marked().expect("the class exists");
        let mut composites = vec![];
        if depth < DEPTH_MAX {
            composites.push(Packager(Arc::new(Self::for_xml(depth + 1))));
            format = format.as_composite().expect("a binary field can be composite");
            format.composite = 1;
        }
        format.is_settable = true;
        let mut fields = vec![format; usize::from(FIELD_NUMBER_MAX) + 1];
        // Inner messages in XML have card data in the same fields as the outer message.
        let outermost = SENSITIVE.into_iter().filter(|_| depth == 1);
        for number in CARD_DATA.into_iter().chain(outermost) {
            fields[usize::from(number)].is_sensitive = true;
        }
        Self {
            names: vec![String::new(); fields.len()],
            fields,
            layout: Layout::Tagged,
            composites,
            fixed_frames: vec![],
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
        // A number that does not fit into its tag is ambiguous.
        let tags = 10_u32.pow(u32::from(format.tag.digits));
        if format.tag.digits > 0 && u32::from(number) >= tags {
            return Some(Problem::NumberTooHigh { max: u16::try_from(tags - 1).unwrap_or(999) });
        }
        let is_no_value = matches!(format.content, Content::Unused | Content::Nothing);
        let is_beyond = number > self.number_max();
        (is_no_value || is_beyond).then_some(Problem::UnknownField)
    }

    /// Whether the fields are preceded by a message type.
    #[inline]
    pub(crate) fn has_message_type(&self) -> bool {
        self.fields.first().is_some_and(|first| {
            let is_other = matches!(first.content, Content::Bitmap | Content::Nothing);
            // A length of 0 means none, in composite fields.
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

    /// The sensitivity that a description must declare; `None` if the field has the default.
    pub(crate) fn explicit_sensitivity(&self, number: u16, enclosing: Enclosing) -> Option<bool> {
        let is_sensitive = self.fields.get(usize::from(number))?.is_sensitive;
        (is_sensitive != enclosing.makes_sensitive(number)).then_some(is_sensitive)
    }

    /// The packager of the inner fields.
    pub(crate) fn inner(&self, format: &FieldFormat) -> Option<&Packager> {
        let index = usize::from(format.composite).checked_sub(1)?;
        self.composites.get(index)
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
        // In a composite field jPOS begins with 1, unless 0 is the bitmap.
        if depth > 1 && number == 0 && format.content != Content::Bitmap {
            format = FieldFormat::from_class("IF_NOP", 0, false)?;
        }
        let name = String::new();
        Ok((number, DraftField { name, format, is_sensitive: None, inside }))
    };
    table.iter().map(field).collect()
}

/// The format of a class in this position: digits in field 35 are a track with its separator.
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

fn format(number: u16, field: &DraftField, enclosing: Enclosing) -> Result<FieldFormat, Problem> {
    let mut format = field.format;
    if field.inside.is_some() {
        format = format.as_composite()?;
    }
    if enclosing.depth == 0 && CARD_DATA.contains(&number) && field.is_sensitive == Some(false) {
        return Err(Problem::CardData);
    }
    format.is_sensitive = field.is_sensitive.unwrap_or(enclosing.makes_sensitive(number));
    Ok(format)
}

/// The composite fields around some fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enclosing {
    /// The nesting depth.
    depth: usize,
    /// Whether the innermost one is sensitive. Its fields are sensitive too, unless the description
    /// declares otherwise.
    is_sensitive: bool,
}

impl Enclosing {
    /// The enclosing fields of the inner fields of `field`.
    pub(crate) fn inside(self, field: &FieldFormat) -> Self {
        Self { depth: self.depth + 1, is_sensitive: field.is_sensitive }
    }

    fn makes_sensitive(self, number: u16) -> bool {
        let is_outermost = self.depth == 0;
        self.is_sensitive
            || is_outermost && (CARD_DATA.contains(&number) || SENSITIVE.contains(&number))
    }
}

fn layout(fields: &[FieldFormat], depth: usize) -> Result<Layout, Error> {
    let is_bitmap = |index: &usize| fields[*index].content == Content::Bitmap;
    let mut bitmaps = (0..fields.len()).filter(is_bitmap);
    let Some(index) = bitmaps.next() else {
        let is_tagged = fields.iter().any(|field| field.tag.digits > 0 && !field.tag.is_own);
        return Ok(if is_tagged { Layout::Tagged } else { positional(fields, depth) });
    };
    let format = fields[index];
    let words_max = match format.length_max {
        8 => 1,
        16 => 2,
        24 => 3,
        _ => return Err(Problem::BadBitmapLength.in_field(number(index))),
    };
    let third = bitmaps.find(|third| fields[*third].length_max == 8 && words_max == 2);
    let third_field = third.map_or(0, number);
    let continues = words_max > 1;
    Ok(Layout::Bitmap(BitmapFormat { coding: format.coding, words_max, continues, third_field }))
}

fn number(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

fn positional(fields: &[FieldFormat], depth: usize) -> Layout {
    let is_value = |field: &FieldFormat| {
        field.length_max > 0 && !matches!(field.content, Content::Nothing | Content::Unused)
    };
    let first = u16::from(!fields.first().is_some_and(is_value));
    Layout::Positional { first, is_whole: depth == 1 }
}
