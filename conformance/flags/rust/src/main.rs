//! featbit-server-sdk, unchanged, in a conversation with ../../__main__.py: one JSON object per line.

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};

use featbit_server_sdk::{FbClient, FbOptions, FbUser};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, secret] = arguments.as_slice() else { return Err("URL SECRET".into()) };
    let options = FbOptions::builder(secret)
        .streaming_url(url.replacen("http", "ws", 1))
        .event_url(url)
        .build()?;
    let client = FbClient::with_options(options);
    say(&json!({ "initialized": client.initialized() }))?;
    for line in stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let flag = asked["flag"].as_str().ok_or("no flag")?;
        let detail = client.string_variation_detail(flag, &user(&asked["user"])?, "");
        let is_known = !detail.variation_id.is_empty();
        say(&json!({ "value": is_known.then_some(detail.value) }))?;
    }
    client.close();
    Ok(())
}

fn user(described: &Value) -> Result<FbUser, Box<dyn Error + Send + Sync>> {
    let text = |of: &Value| of.as_str().map(str::to_owned).ok_or("a text is missing");
    let mut user = FbUser::builder(text(&described["keyId"])?).name(text(&described["name"])?);
    for (name, value) in described["properties"].as_object().ok_or("no properties")? {
        user = user.custom(name, text(value)?);
    }
    Ok(user.build())
}

fn say(what: &Value) -> std::io::Result<()> {
    writeln!(stdout(), "{what}")?;
    stdout().flush()
}
