//! Pages for browsers: nothing runs in them and nothing is loaded, they are not stored, and they send no Referer.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderValue, StatusCode};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:4rem auto;padding:0 1rem;color:#222}\
input,button{font:inherit;padding:.5rem .8rem}input{width:100%;box-sizing:border-box;margin:.5rem 0 1rem}";

/// Where a page's form may lead.
#[derive(Clone, Copy)]
pub(crate) enum Forms {
    /// To the page itself.
    Own,
    /// From the page itself on to another site: browsers count that too.
    Elsewhere,
}

static OWN: LazyLock<HeaderValue> = LazyLock::new(|| policy("form-action 'self'; "));
static ELSEWHERE: LazyLock<HeaderValue> = LazyLock::new(|| policy(""));

fn policy(form_action: &str) -> HeaderValue {
    let style = BASE64.encode(ring::digest::digest(&ring::digest::SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; {form_action}base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("a policy is ASCII")
}

/// A page. `title` and `content` are HTML: nothing of a request stands in them that is not escaped.
pub(crate) fn page(status: StatusCode, title: &str, content: &str, forms: Forms) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>{content}</body></html>\n"
    );
    let mut response = Response::new(Body::from(html));
    *response.status_mut() = status;
    let text = HeaderValue::from_static;
    let policy = match forms {
        Forms::Own => OWN.clone(),
        Forms::Elsewhere => ELSEWHERE.clone(),
    };
    response.headers_mut().extend([
        (CONTENT_TYPE, text("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, text("no-store")),
        (REFERRER_POLICY, text("no-referrer")),
    ]);
    response
}
