//! E-mail addresses: the shown form of an address is an address that shows and compares as before, its
//! domain is ASCII, it holds nothing that separates headers or recipients of a mail, and case does not
//! change the form that is compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sign_up::email::EmailAddress;

fuzz_target!(|text: &str| {
    let Ok(address) = EmailAddress::parse(text) else {
        return;
    };
    let (shown, folded) = (address.shown(), address.folded());
    for form in [shown, folded] {
        assert!(form.len() <= 254, "{form}");
        let (local, domain) = form.split_once('@').expect("an address has a domain");
        assert!(!local.is_empty() && local.len() <= 64 && !domain.contains('@'));
        let is_label = |it: &str| (1..=63).contains(&it.len()) && !it.starts_with('-');
        assert!(domain.is_ascii() && domain.split('.').count() > 1);
        assert!(domain.split('.').all(is_label), "{domain}");
        let separates =
            |c: char| c.is_control() || c.is_whitespace() || "<>,;:()[]\\\"".contains(c);
        assert!(!form.contains(separates), "{form:?}");
    }
    let again = EmailAddress::parse(shown).expect("the shown form is an address");
    assert_eq!((again.shown(), again.folded()), (shown, folded));
    let again = EmailAddress::parse(folded).expect("the folded form is an address");
    assert_eq!(again.folded(), folded);
    if text.is_ascii() {
        let upper = EmailAddress::parse(&text.to_ascii_uppercase()).expect("case does not matter");
        assert_eq!(upper.folded(), folded);
    }
});
