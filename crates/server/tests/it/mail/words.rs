//! Mails in a tenant's own words.

use domain::command::TenantCommand;
use domain::tenant::{MAIL_TEMPLATES, SetTenantValue};
use domain::{Command, Reply};
use engine::Answer;

use super::mailbox::{Mailbox, Manner};
use super::{Scene, to};

async fn say(scene: &Scene, value: Option<&str>) {
    let (key, value) = (MAIL_TEMPLATES.to_owned(), value.map(str::to_owned));
    let set = Command::Tenant(TenantCommand::SetValue(SetTenantValue::new(key, value)));
    assert_eq!(scene.submit(set).await, Answer::Replied(Reply::Done));
}

/// The subjects of the mails that a registration brings.
async fn subjects(scene: &Scene, mailbox: &Mailbox, email: &str) -> Vec<String> {
    let before = mailbox.mails().len();
    scene.register(email).await;
    scene.sent().await;
    let mails = mailbox.mails().split_off(before);
    let subject = |mail: &String| {
        let line = mail.lines().find_map(|line| line.strip_prefix("Subject: "));
        line.unwrap().to_owned()
    };
    let mut subjects: Vec<String> = mails.iter().map(subject).collect();
    subjects.sort_unstable();
    subjects
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_its_own_words_until_it_takes_them_back() {
    const OURS: [&str; 2] = ["Confirm your address for Faregate", "Welcome to Faregate"];
    let mailbox = Mailbox::start(Manner::Takes).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    assert_eq!(subjects(&scene, &mailbox, "a@example.com").await, OURS);
    let own = r#"{"welcome": {"subject": "Hi {{first_name}}", "text": "Hi", "html": "Hi"}}"#;
    say(&scene, Some(own)).await;
    assert_eq!(subjects(&scene, &mailbox, "b@example.com").await, [OURS[0], "Hi Ann"]);
    // What is no template is as if it were not there.
    say(&scene, Some(r#"{"welcome": {"subject": "Hi {{password}}"}}"#)).await;
    assert_eq!(subjects(&scene, &mailbox, "c@example.com").await, OURS);
    say(&scene, Some(own)).await;
    assert_eq!(subjects(&scene, &mailbox, "d@example.com").await, [OURS[0], "Hi Ann"]);
    say(&scene, None).await;
    assert_eq!(subjects(&scene, &mailbox, "e@example.com").await, OURS);
    scene.end().await;
}
