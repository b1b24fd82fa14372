//! All that is stored about an account, in Kill Bill's form: a line `-- table column|column` for each table, and
//! behind it a line per row.

use domain::{AccountId, TenantNo};
use engine::Engine;
use engine::ports::{ExportPart, ExportPoint};

use crate::accounts::check_account_of;
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::stream::{self, Parts};

/// Rows of a part.
const PART_ROWS: u64 = 1_000;

/// Exports all that is stored about the account, table by table.
///
/// A line `-- table column|column` is followed by a line per row. Nothing stands for NULL. A cell with `|`, `"`, `\\`
/// or a line break, and an empty one, is put into double quotes: in it `"` is doubled, and `\\` and line breaks are
/// written as `\\\\`, `\\n` and `\\r`. Amounts are in minor units. Rows are read while they are sent.
#[utoipa::path(get, path = "/1.0/kb/export/{accountId}", tag = "Export", operation_id = "account",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn account(call: Call) -> HandlerResult {
    let account = call.param_id("accountId")?;
    check_account_of(&call, account).await?;
    let export = Export {
        engine: call.api.engine().clone(),
        tenant: call.tenant(),
        account,
        at: Some(ExportPoint::default()),
    };
    stream::response(export, "text/plain;charset=utf-8").await
}

struct Export {
    engine: Engine,
    tenant: TenantNo,
    account: AccountId,
    /// Where to go on; `None` at the end.
    at: Option<ExportPoint>,
}

impl Parts for Export {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(at) = self.at.take() else { return Ok(None) };
        let begins = at.after.is_empty();
        let of = (self.tenant, self.account);
        let find = move |queries: &dyn engine::ports::Queries| queries.export(of, at, PART_ROWS);
        let part = self.engine.read(find).await?;
        let text = lines(&part, begins);
        self.at = part.next;
        Ok(Some(text.into_bytes()))
    }
}

/// The rows of a part, behind the line of their table where they are its first.
fn lines(part: &ExportPart, begins: bool) -> String {
    let mut text = String::new();
    if begins {
        text += &format!("-- {} {}\n", part.table, part.columns.join("|"));
    }
    for row in &part.rows {
        for (at, cell) in row.iter().enumerate() {
            if at > 0 {
                text.push('|');
            }
            push_cell(cell.as_deref(), &mut text);
        }
        text.push('\n');
    }
    text
}

fn push_cell(cell: Option<&str>, text: &mut String) {
    let Some(cell) = cell else { return };
    let is_plain = |it: char| !matches!(it, '|' | '"' | '\\' | '\n' | '\r');
    // A row must not look like the line of a table.
    if !cell.is_empty() && cell.chars().all(is_plain) && !cell.starts_with("--") {
        text.push_str(cell);
        return;
    }
    text.push('"');
    for letter in cell.chars() {
        match letter {
            '"' => text.push_str("\"\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            _ => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn cells_that_could_be_taken_for_something_else_are_quoted() {
        let cells = ["a b", "", "a|b", "\"x\"", "c:\\d", "1\r\n2", "-- tag id"];
        let mut row: Vec<_> = cells.iter().map(|it| Some((*it).to_owned())).collect();
        row.push(None);
        let part =
            ExportPart { table: "tag", columns: vec!["id", "name"], rows: vec![row], next: None };
        expect![[r#"
            -- tag id|name
            a b|""|"a|b"|"""x"""|"c:\\d"|"1\r\n2"|"-- tag id"|
        "#]]
        .assert_eq(&lines(&part, true));
        assert_eq!(lines(&ExportPart { rows: vec![], ..part }, false), "");
    }
}
