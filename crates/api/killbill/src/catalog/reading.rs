//! Reads words, names and numbers in the elements of a catalog, and collects mistakes.

use std::collections::BTreeSet;
use std::fmt;

use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::{PhaseType, ProductCategory};
use domain::{Currency, Timestamp};

use crate::date;
use crate::request::printable;
use crate::xml::Element;

/// How many mistakes are listed at most.
const MISTAKES_MAX: usize = 100;

/// The longest name, in characters.
pub(super) const NAME_CHARS_MAX: usize = 255;

/// A mistake in a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// From 1.
    pub(crate) line: usize,
    /// The element, with its name where it has one.
    pub(crate) element: String,
    pub(crate) text: String,
}

impl Mistake {
    /// With its place.
    pub(super) fn shown(&self) -> String {
        format!("line {}, {}: {}", self.line, self.element, self.text)
    }
}

/// A catalog on its way: mistakes and names so far.
#[derive(Default)]
pub(super) struct Reading {
    mistakes: Vec<Mistake>,
    objections: Vec<Mistake>,
    /// Of the version.
    pub(super) effective_at: Timestamp,
    names: BTreeSet<String>,
    /// Names that are referred to, with where.
    references: Vec<(usize, String, String)>,
}

impl Reading {
    pub(super) fn mistake(&mut self, at: &Element, text: impl fmt::Display) {
        note(&mut self.mistakes, at, text);
    }

    pub(super) fn objection(&mut self, at: &Element, text: impl fmt::Display) {
        note(&mut self.objections, at, text);
    }

    /// The one of several words that an element's text is.
    pub(super) fn word<T: Copy>(&mut self, at: &Element, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == at.text).map(|(_, it)| *it);
        if found.is_none() {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.mistake(at, format!("should be one of {}", all.join(", ")));
        }
        found
    }

    pub(super) fn period(&mut self, at: &Element) -> Option<BillingPeriod> {
        self.word(at, &BillingPeriod::ALL.map(|it| (it.name(), it)))
    }

    pub(super) fn category(&mut self, at: &Element) -> Option<ProductCategory> {
        self.word(at, &ProductCategory::ALL.map(|it| (it.name(), it)))
    }

    pub(super) fn phase_type(&mut self, at: &Element) -> Option<PhaseType> {
        self.word(at, &PhaseType::ALL.map(|it| (it.name(), it)))
    }

    /// The name that an element refers to.
    pub(super) fn reference(&mut self, at: &Element) -> String {
        self.references.push((at.line, titled(at), at.text.clone()));
        at.text.clone()
    }

    /// The name that an element has by its attribute.
    pub(super) fn name(&mut self, at: &Element) -> String {
        let name = at.attribute("name").unwrap_or_default().to_owned();
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            self.mistake(
                at,
                format!("name should be a text of at most {NAME_CHARS_MAX} characters"),
            );
        } else if !self.names.insert(name.clone()) {
            self.mistake(at, "has the name of another element");
        }
        name
    }

    pub(super) fn currency(&mut self, at: &Element) -> Option<Currency> {
        let found = Currency::parse(&at.text).filter(Currency::is_of_kill_bill);
        if found.is_none() {
            self.mistake(at, "should be a currency of Kill Bill");
        }
        found
    }

    pub(super) fn instant(&mut self, at: &Element) -> Option<Timestamp> {
        let found = date::parse(&at.text);
        if found.is_none() {
            let text = printable(&at.text);
            self.mistake(at, format!("{text} is no date with time (ISO 8601)"));
        }
        found
    }

    pub(super) fn number(&mut self, at: &Element) -> Option<Price> {
        let found = Price::parse(&at.text);
        if found.is_none() {
            self.mistake(at, "should be a decimal number up to 10^15 with at most nine decimals");
        }
        found
    }

    pub(super) fn integer(&mut self, at: &Element) -> Option<i32> {
        let found = at.text.parse().ok();
        if found.is_none() {
            self.mistake(at, "should be an integer");
        }
        found
    }
}

fn note(list: &mut Vec<Mistake>, at: &Element, text: impl fmt::Display) {
    if list.len() < MISTAKES_MAX {
        list.push(Mistake { line: at.line, element: titled(at), text: text.to_string() });
    }
}

fn titled(it: &Element) -> String {
    match it.attribute("name") {
        Some(name) => format!("{} {}", it.name, printable(name)),
        None => it.name.clone(),
    }
}

impl Reading {
    /// All mistakes, with the names that are not there; where there is none, all objections.
    pub(super) fn into_mistakes(self) -> Vec<Mistake> {
        let Self { mut mistakes, objections, names, references, .. } = self;
        for (line, element, name) in references {
            if !names.contains(&name) && mistakes.len() < MISTAKES_MAX {
                let text = format!("refers to {}, which is not there", printable(&name));
                mistakes.push(Mistake { line, element, text });
            }
        }
        if mistakes.is_empty() { objections } else { mistakes }
    }
}

/// The elements within one, which come in an order.
pub(super) struct Sequence<'a> {
    of: &'a Element,
    rest: &'a [Element],
}

impl<'a> Sequence<'a> {
    pub(super) fn of(of: &'a Element) -> Self {
        Self { of, rest: &of.elements }
    }

    /// The next element, if it has this name.
    pub(super) fn optional(&mut self, name: &str) -> Option<&'a Element> {
        let (first, rest) = self.rest.split_first()?;
        if first.name != name {
            return None;
        }
        self.rest = rest;
        Some(first)
    }

    pub(super) fn required(&mut self, reading: &mut Reading, name: &str) -> Option<&'a Element> {
        let found = self.optional(name);
        if found.is_none() {
            let instead = self.rest.first().map(|it| format!(", not {}", printable(&it.name)));
            let text = format!("should have {name} next{}", instead.unwrap_or_default());
            reading.mistake(self.rest.first().unwrap_or(self.of), text);
            // What stands elsewhere is read, so that its own mistakes are found.
            let at = self.rest.iter().position(|it| it.name == name)?;
            self.rest = &self.rest[at + 1..];
        }
        found
    }

    pub(super) fn many(&mut self, name: &str) -> Vec<&'a Element> {
        std::iter::from_fn(|| self.optional(name)).collect()
    }

    /// Refuses what is left.
    pub(super) fn end(self, reading: &mut Reading) {
        if let Some(left) = self.rest.first() {
            reading.mistake(left, format!("should not be here, within {}", self.of.name));
        }
    }
}

/// All elements within one, which are of one name.
pub(super) fn all<'a>(reading: &mut Reading, of: &'a Element, name: &str) -> Vec<&'a Element> {
    let mut sequence = Sequence::of(of);
    let found = sequence.many(name);
    sequence.end(reading);
    found
}

/// A time as Java's `Date` writes it: `Sun Jan 01 00:00:00 GMT 2023`.
pub(super) fn java_date(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or_default();
    at.strftime("%a %b %d %H:%M:%S GMT %Y").to_string()
}
