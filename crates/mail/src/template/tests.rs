//! Tests of the templates.

use super::*;
use expect_test::{Expect, expect};

fn variables() -> Variables {
    Variables {
        first_name: "Zoë".to_owned(),
        platform_name: "Bill & Co".to_owned(),
        email: "zoe@example.com".to_owned(),
        action_url: Some("https://example.org/verify-email?token=a&b=c".to_owned()),
        expires_in: Some("24 hours".to_owned()),
    }
}

fn check(json: &str, expected: Expect) {
    let shown = match Templates::parse(json) {
        Err(error) => error.to_string(),
        Ok(templates) => match templates.render(Template::Verification, &variables()) {
            Err(error) => error.to_string(),
            Ok(mail) => format!("{}\n{}\n{}", mail.subject, mail.text, mail.html),
        },
    };
    expected.assert_eq(&shown);
}

#[test]
fn every_built_in_template_renders_as_text_and_html() {
    for template in Template::ALL {
        assert_eq!(Template::named(template.name()), Some(template));
        let mail = Templates::default().render(template, &variables()).unwrap();
        for part in [&mail.subject, &mail.text, &mail.html] {
            assert!(!part.contains("{{") && !part.contains("}}"), "{part}");
        }
        assert!(mail.subject.contains("Bill & Co"), "{}", mail.subject);
        assert!(mail.text.contains("Hello Zoë,") && mail.html.contains("Hello Zoë,"));
        assert!(mail.html.contains("Bill &amp; Co") && !mail.html.contains("Bill & Co"));
        assert_eq!(mail.text.contains("token=a&b=c"), template.needs_link(), "{}", mail.text);
        let links = mail.html.matches("token=a&amp;b=c").count();
        assert_eq!(links, if template.needs_link() { 2 } else { 0 }, "{}", mail.html);
    }
}

#[test]
fn a_password_reset_has_its_link_and_validity() {
    let mail = Templates::default().render(Template::PasswordReset, &variables()).unwrap();
    let expected = expect![[r#"
        A new password for Bill & Co

        Hello Zoë,

        somebody, hopefully you, wants a new password for your account at Bill & Co. Choose it here:

        https://example.org/verify-email?token=a&b=c

        The link works once, for 24 hours. If it was not you, ignore this message: your password stays as it is.

        The Bill & Co team
    "#]];
    expected.assert_eq(&format!("{}\n\n{}", mail.subject, mail.text));
}

#[test]
fn templates_of_a_tenant_replace_the_built_in_ones() {
    let own = r#"{"verification": {
        "subject": "{{first_name}}, willkommen bei {{platform_name}}",
        "text": "Bitte hier: {{action_url}} ({{expires_in}})",
        "html": "<a href=\"{{action_url}}\">{{first_name}}</a>"}}"#;
    check(
        own,
        expect![[r#"
        Zoë, willkommen bei Bill & Co
        Bitte hier: https://example.org/verify-email?token=a&b=c (24 hours)
        <a href="https://example.org/verify-email?token=a&amp;b=c">Zoë</a>"#]],
    );
    check(
        "{}",
        expect![[r#"
        Confirm your address for Bill & Co
        Hello Zoë,

        please confirm that zoe@example.com is your address. Open this link:

        https://example.org/verify-email?token=a&b=c

        It works once, for 24 hours. If you did not ask for an account at Bill & Co, there is nothing to do: without the confirmation it cannot be used.

        The Bill & Co team

        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Confirm your address for Bill &amp; Co</title>
        </head>
        <body style="margin: 0 auto; max-width: 36em; padding: 1.5em; font-family: sans-serif; line-height: 1.5; color: #222222">
        <p>Hello Zoë,</p>
        <p>please confirm that zoe@example.com is your address. Open this link:</p>
        <p><a href="https://example.org/verify-email?token=a&amp;b=c" style="display: inline-block; padding: 0.6em 1.2em; background: #1a56db; color: #ffffff; text-decoration: none">Confirm the address</a></p>
        <p style="font-size: 85%; color: #555555">If the button does nothing, open this address: https://example.org/verify-email?token=a&amp;b=c</p>
        <p>It works once, for 24 hours. If you did not ask for an account at Bill &amp; Co, there is nothing to do: without the confirmation it cannot be used.</p>
        <p>The Bill &amp; Co team</p>
        </body>
        </html>
    "#]],
    );
}

#[test]
fn invalid_documents_are_refused_with_the_field() {
    let with = |parts: &str| format!("{{\"verification\": {parts}}}");
    check("{", expect!["templates: are not JSON: EOF while parsing an object at line 1 column 1"]);
    check("[]", expect!["templates: are an object"]);
    check(
        r#"{"goodbye": {}}"#,
        expect![
            "goodbye: there is no such mail; there are welcome, verification, password_reset, password_changed, already_registered"
        ],
    );
    check(&with("1"), expect!["verification: is an object with `subject`, `text` and `html`"]);
    check(
        &with(r#"{"text": "a", "html": "b"}"#),
        expect!["verification.subject: is missing, or no text"],
    );
    check(
        &with(r#"{"subject": "a", "text": 1, "html": "b"}"#),
        expect!["verification.text: is missing, or no text"],
    );
    check(
        &with(r#"{"subject": "a", "titel": "b"}"#),
        expect!["verification.titel: there is no such part; there are subject, text, html"],
    );
    check(
        &with(r#"{"subject": " ", "text": "", "html": ""}"#),
        expect!["verification.subject: has 1 to 255 bytes"],
    );
    check(
        &with(r#"{"subject": "a\r\nBcc: b", "text": "", "html": ""}"#),
        expect!["verification.subject: is one line, without control characters"],
    );
    check(
        &with(r#"{"subject": "{{nmae}}", "text": "", "html": ""}"#),
        expect![
            "verification.subject: there is no placeholder `nmae` here; there are `first_name`, `platform_name`, `email`, `action_url`, `expires_in`"
        ],
    );
    check(
        &with(r#"{"subject": "a", "text": "b", "html": ""}"#),
        expect!["verification.text: lacks the link: `{{action_url}}`"],
    );
    let welcome = r#"{"welcome": {"subject": "a", "text": "{{action_url}}", "html": ""}}"#;
    check(
        welcome,
        expect![
            "welcome.text: there is no placeholder `action_url` here; there are `first_name`, `platform_name`, `email`"
        ],
    );
    check(
        &" ".repeat(TEMPLATES_BYTES_MAX + 1),
        expect!["templates: have 1048577 bytes, 1048576 at most"],
    );
    let long = "x".repeat(LONG_PART_BYTES);
    check(
        &with(&format!(r#"{{"subject": "a", "text": "{long}", "html": ""}}"#)),
        expect!["verification.text: has 65537 bytes, 65536 at most"],
    );
}

/// One byte above the limit.
const LONG_PART_BYTES: usize = crate::pattern::PART_BYTES_MAX + 1;

#[test]
fn values_cannot_inject_headers_or_html() {
    let templates = Templates::default();
    let render = |variables: &Variables| templates.render(Template::Verification, variables);
    let hostile = Variables {
        first_name: "<script>\r\nBcc: x".to_owned(),
        platform_name: "A\r\nX-Evil: yes".to_owned(),
        ..variables()
    };
    let mail = render(&hostile).unwrap();
    assert_eq!(mail.subject, "Confirm your address for A X-Evil: yes");
    assert!(mail.text.starts_with("Hello script Bcc x,\n"), "{}", mail.text);
    assert!(!mail.html.contains("<script>"), "{}", mail.html);
    let nameless = render(&Variables { first_name: " ".to_owned(), ..variables() }).unwrap();
    assert!(nameless.text.starts_with("Hello,\n"), "{}", nameless.text);
}

#[test]
fn a_mail_with_a_link_requires_a_valid_one() {
    let templates = Templates::default();
    let with = |action_url: Option<&str>| {
        let action_url = action_url.map(str::to_owned);
        let variables = Variables { action_url, ..variables() };
        let rendered = templates.render(Template::Verification, &variables);
        rendered.err().map(|error| error.to_string())
    };
    let missing = "the mail `verification` needs a value for `action_url`";
    assert_eq!(with(None).as_deref(), Some(missing));
    assert_eq!(with(Some("http://localhost:8080/verify-email?token=a")), None);
    let long = format!("https://{}", "a".repeat(URL_BYTES_MAX));
    for no_link in ["", "javascript:alert(1)", "https://a/ b", "https://a/\r\nBcc: b", &long] {
        let error = with(Some(no_link)).unwrap();
        assert!(error.starts_with("`action_url` is no link"), "{error}");
    }
}
