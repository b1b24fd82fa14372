//! The pages that links in mails lead to, `/verify-email` and `/reset-password`, for platforms that have
//! none of their own. Opening one changes nothing, because mail programs open links too: its button does.
//! They load nothing, are not stored, and send no Referer, so the token in the link stays where it is.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{StatusCode, Uri};
use sign_up::Error as SignUpError;
use sign_up::service::RequestContext;
use sign_up::tokens::MailedToken;
use utoipa::{IntoResponses, ToSchema};
use web::Query;
use web::body::read_limited;

use super::SignUpApi;
use super::context::Context;
use crate::error::Error;
use crate::html;

const FORM: &str = "application/x-www-form-urlencoded";

/// The form of `/verify-email`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct VerificationForm {
    token: String,
}

/// The form of `/reset-password`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct PasswordForm {
    token: String,
    password: String,
}

/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 4 * 1024;
/// The longest token, in characters; real ones are shorter.
const TOKEN_CHARS_MAX: usize = 256;

/// The texts and the inputs of a page.
#[derive(Clone, Copy)]
struct Page {
    title: &'static str,
    button: &'static str,
    /// The HTML of the form's inputs beside the token.
    inputs: &'static str,
    done: &'static str,
}

const VERIFY_EMAIL: Page = Page {
    title: "Confirm your e-mail address",
    button: "Confirm",
    inputs: "",
    done: "Your address is confirmed. You can log in now.",
};

const RESET_PASSWORD: Page = Page {
    title: "Choose a new password",
    button: "Set the password",
    inputs: "<label>New password<input type=\"password\" name=\"password\" required minlength=\"8\" \
             maxlength=\"128\" autocomplete=\"new-password\"></label>",
    done: "Your password is set. Log in with it.",
};

const INCOMPLETE: &str =
    "This link is not complete. Open it again from the mail, or ask for a new mail.";
const EXPIRED: &str = "This link was used already, or it has expired. Ask for a new mail.";
const FAILED: &str = "This did not work now. Try again in a moment.";

/// The page with its button.
fn ask(page: Page, uri: &Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default()).ok();
    let token = query.as_ref().and_then(|query| query.first("token")).filter(|it| is_token(it));
    let Some(token) = token else { return show(StatusCode::BAD_REQUEST, page, INCOMPLETE) };
    render(StatusCode::OK, page, &form_of(page, token))
}

/// The form of a page. A token has no character that HTML would read.
fn form_of(page: Page, token: &str) -> String {
    format!(
        "<form method=\"post\" action=\"?\"><input type=\"hidden\" name=\"token\" value=\"{token}\">{}<button>{}</button></form>",
        page.inputs, page.button
    )
}

/// The responses of a page.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
enum PageResponses {
    #[response(status = 200, description = "A page", content_type = "text/html")]
    Shown(String),
    #[response(status = 400, description = "A page: no valid token", content_type = "text/html")]
    NoToken(String),
    #[response(status = 422, description = "A page: a broken rule", content_type = "text/html")]
    Broken(String),
}

/// The page that the link in a mail leads to; it changes nothing
#[utoipa::path(get, path = "/verify-email", tag = "Sign-up", operation_id = "verify_email_page",
    params(("token" = String, Query)), responses(PageResponses))]
pub(super) async fn ask_to_verify(uri: Uri) -> Response {
    ask(VERIFY_EMAIL, &uri)
}

/// The button of that page: verifies the address
#[utoipa::path(post, path = "/verify-email", tag = "Sign-up", operation_id = "verify_email_form",
    request_body(content = VerificationForm, content_type = FORM), responses(PageResponses))]
pub(super) async fn verify_email(
    State(api): State<SignUpApi>,
    Context(context): Context,
    body: Body,
) -> Response {
    match form(body).await {
        Some((token, _)) => {
            let context = of_tenant(context, &token);
            let verified = api.sign_up.verify_email(&context, &token).await;
            end(VERIFY_EMAIL, &token, verified.map(|_| ()))
        }
        None => show(StatusCode::BAD_REQUEST, VERIFY_EMAIL, INCOMPLETE),
    }
}

/// The page that the link in a mail leads to; it changes nothing
#[utoipa::path(get, path = "/reset-password", tag = "Sign-up", operation_id = "reset_password_page",
    params(("token" = String, Query)), responses(PageResponses))]
pub(super) async fn ask_for_password(uri: Uri) -> Response {
    ask(RESET_PASSWORD, &uri)
}

/// The form of that page: sets the password; all sessions end
#[utoipa::path(post, path = "/reset-password", tag = "Sign-up", operation_id = "reset_password_form",
    request_body(content = PasswordForm, content_type = FORM), responses(PageResponses))]
pub(super) async fn reset_password(
    State(api): State<SignUpApi>,
    Context(context): Context,
    body: Body,
) -> Response {
    match form(body).await {
        Some((token, password)) => {
            let context = of_tenant(context, &token);
            let reset = api.sign_up.reset_password(&context, &token, &password).await;
            end(RESET_PASSWORD, &token, reset)
        }
        None => show(StatusCode::BAD_REQUEST, RESET_PASSWORD, INCOMPLETE),
    }
}

/// The request as one of the token's tenant, whose customer has the mail: a link carries no credentials.
fn of_tenant(context: RequestContext, token: &str) -> RequestContext {
    let tenant = MailedToken::read(token).map_or(context.tenant, |it| it.tenant);
    RequestContext { tenant, ..context }
}

/// The token and the password of a form; the latter is empty where there is none.
async fn form(body: Body) -> Option<(String, String)> {
    let bytes = read_limited(body, FORM_BYTES_MAX).await.ok()?;
    let form = Query::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
    let token = form.first("token").filter(|it| is_token(it))?.to_owned();
    Some((token, form.first("password").unwrap_or_default().to_owned()))
}

/// Whether a text can be a token: those have letters, digits and `-_.~` only.
fn is_token(text: &str) -> bool {
    let is_of_token = |it: u8| it.is_ascii_alphanumeric() || b"-_.~".contains(&it);
    (1..=TOKEN_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_of_token)
}

/// The page after its form was sent: with the form again where a field broke a rule. A failure has the
/// status and `Retry-After` of the API's answer.
fn end(page: Page, token: &str, result: Result<(), SignUpError>) -> Response {
    let Err(error) = result else { return show(StatusCode::OK, page, page.done) };
    let content = if let SignUpError::Fields(invalid) = &error {
        let rules: Vec<String> = invalid.iter().map(ToString::to_string).collect();
        format!("<p>{}.</p>{}", rules.join(". "), form_of(page, token))
    } else if matches!(error, SignUpError::TokenInvalid) {
        format!("<p>{EXPIRED}</p>")
    } else {
        format!("<p>{FAILED}</p>")
    };
    let answer = Error::from(error).into_response();
    let mut response = render(answer.status(), page, &content);
    if let Some(retry_after) = answer.headers().get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, retry_after.clone());
    }
    response
}

/// The page with a text that has no character that HTML would read.
fn show(status: StatusCode, page: Page, text: &str) -> Response {
    render(status, page, &format!("<p>{text}</p>"))
}

fn render(status: StatusCode, page: Page, content: &str) -> Response {
    html::page(status, page.title, content, html::Forms::Own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_need_no_escape_are_of_a_token() {
        assert!(is_token("aZ0-_.~"));
        for text in ["", "a b", "\"", "<", "&", "ä", &"a".repeat(TOKEN_CHARS_MAX + 1)] {
            assert!(!is_token(text), "{text}");
        }
    }
}
