//! The names of jPOS's field classes: those that name another class's format, and those that are
//! refused with a reason.

use crate::error::Problem;

/// The Java packages of jPOS's own classes.
const PACKAGES: [&str; 2] = ["org.jpos.iso", "org.jpos.iso.packager"];

/// The Java package of the classes for tagged sequences.
const TLV_PACKAGE: &str = "org.jpos.tlv.packager";

/// A class name without its Java package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassName<'a> {
    pub(super) name: &'a str,
    /// The length, if the class ignores the one in the file.
    pub(super) length: Option<usize>,
    /// The value begins with a letter or a blank, which distinguishes it from a tag.
    pub(super) is_letter: bool,
}

/// Classes that write the same bytes as another one: the class, the other one, and the length in bytes
/// if the class has only one.
const SAME_BYTES: [(&str, &str, Option<usize>); 6] = [
    ("IFA_AMOUNT2003", "IFA_NUMERIC", None),
    ("IFB_AMOUNT2003", "IFB_NUMERIC", None),
    ("IFMC_TCC", "IF_CHAR", None),
    ("IFEMC_TCC", "IFE_CHAR", None),
    // Both have one word, whatever length the file says.
    ("X92_BITMAP", "IFA_BITMAP", Some(8)),
    ("Base1_BITMAP126", "IFB_BITMAP", Some(8)),
];

const BASE_CLASS: &str = "it is a base class and has no format of its own";
const TAGGED_SEQUENCE: &str = "it is a part of a tagged sequence, whose tags are no field numbers";

/// Classes of jPOS without a format here, and the reason.
const REFUSED: [(&str, &str); 27] = [
    ("IF_TCHAR", "its value ends at a token, which may be a part of the value"),
    ("IF_TBASE", BASE_CLASS),
    ("ISOAmountFieldPackager", BASE_CLASS),
    ("ISOBinaryFieldPackager", BASE_CLASS),
    ("ISOBitMapPackager", BASE_CLASS),
    ("ISOFieldPackager", BASE_CLASS),
    ("ISOFilledStringFieldPackager", BASE_CLASS),
    ("ISOFormattableBinaryFieldPackager", BASE_CLASS),
    ("ISOFormattableStringFieldPackager", BASE_CLASS),
    ("ISOStringFieldPackager", BASE_CLASS),
    ("ISOTagBinaryFieldPackager", BASE_CLASS),
    ("ISOTagStringFieldPackager", BASE_CLASS),
    ("TaggedFieldPackagerBase", BASE_CLASS),
    ("ISOMsgFieldPackager", "a field with inner fields is an element `isofieldpackager`"),
    ("ISOMsgFieldValidatingPackager", "a field with inner fields is an element `isofieldpackager`"),
    ("IFTA_LLBINARY", TAGGED_SEQUENCE),
    ("IFTA_LLCHAR", TAGGED_SEQUENCE),
    ("IFTA_LLLBINARY", TAGGED_SEQUENCE),
    ("IFTA_LLLCHAR", TAGGED_SEQUENCE),
    ("IFTA_LLLNUM", TAGGED_SEQUENCE),
    ("IFTA_LLNUM", TAGGED_SEQUENCE),
    ("IFTB_LLBINARY", TAGGED_SEQUENCE),
    ("IF_FBINARY", TAGGED_SEQUENCE),
    ("IF_FCHAR", TAGGED_SEQUENCE),
    ("IF_FSTBINARY", TAGGED_SEQUENCE),
    ("IF_FSTCHAR", TAGGED_SEQUENCE),
    ("BinaryHexTaggedSequencePackager$TagPackager", TAGGED_SEQUENCE),
];

/// The name that describes the format of a class, given with or without its Java package.
///
/// # Errors
/// The class is in another package, because its behaviour does not follow from its name, or it is
/// refused.
pub(super) fn resolve(class: &str) -> Result<ClassName<'_>, Problem> {
    let (package, name) = class.rsplit_once('.').unwrap_or((PACKAGES[0], class));
    let is_tlv = package == TLV_PACKAGE;
    let is_own = PACKAGES.contains(&package) || package.starts_with("org.jpos.iso.packager.");
    if !is_own && !is_tlv {
        return Err(Problem::UnknownClass);
    }
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(Problem::UnsupportedClass { reason });
    }
    if is_tlv {
        // The length takes one byte, as behind `LLH`.
        let name = Some("IFB_LLHBINARY").filter(|_| name == "IFB_LHBINARY");
        let name = name.ok_or(Problem::UnknownClass)?;
        return Ok(ClassName { name, length: None, is_letter: false });
    }
    let same = SAME_BYTES.iter().find(|(class, ..)| *class == name);
    let (format, length) = same.map_or((name, None), |(_, format, length)| (*format, *length));
    Ok(ClassName { name: format, length, is_letter: name.ends_with("_TCC") })
}
