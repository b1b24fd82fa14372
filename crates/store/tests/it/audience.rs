//! The follower of feature flags behind a real engine on a real store: what it tells adds up to what
//! is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::command::FlagCommand;
use domain::flag::definition::{
    Definition, DefinitionKey, DefinitionKind, Expected, NewDefinition, PutDefinitions,
};
use domain::flag::environment::{AddSecret, CreateEnvironment, NewSecret, SecretKind};
use domain::payment::Actor;
use domain::{Command, EnvironmentId, Id, Reply, Request, Settings, TenantNo};
use engine::ports::{Audience, EnvironmentFile, Queries};
use engine::{Answer, Clock, Engine, Options, Parts, Running, flags};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use uuid::Uuid;

use crate::home::Home;

const TENANT: TenantNo = TenantNo(1);

/// How long a change may take to be published: far more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state that the published changes add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    is_complete: bool,
    environments: BTreeMap<EnvironmentId, (usize, BTreeMap<DefinitionKey, Definition>)>,
    /// How many environments were published as a whole, and how many times changes of one.
    whole: usize,
    changes: usize,
}

struct Listener(watch::Sender<Known>);

impl Audience for Listener {
    fn environments(&self, files: Vec<EnvironmentFile>) {
        self.0.send_modify(|known| {
            for file in files {
                known.whole += 1;
                let all = file.definitions.into_iter().map(|it| (it.key.clone(), it)).collect();
                known.environments.insert(file.environment.id, (file.secrets.len(), all));
            }
        });
    }

    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>) {
        self.0.send_modify(|known| {
            known.changes += 1;
            let (_, all) =
                known.environments.get_mut(&environment).expect("it was published before");
            all.extend(definitions.into_iter().map(|it| (it.key.clone(), it)));
        });
    }

    fn caught_up(&self) {
        self.0.send_modify(|known| known.is_complete = true);
    }
}

struct Scene {
    runtime: Runtime,
    engine: Engine,
    queries: Arc<dyn Queries>,
    running: Running,
    stop: watch::Sender<bool>,
    known: watch::Receiver<Known>,
}

impl Scene {
    fn start(home: &Home) -> Self {
        // A server's connection waits by itself, which a thread of the runtime must not.
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let store = home.open(&store::Options::default());
        let queries = Arc::new(store.queries(2).unwrap());
        let settings = Settings::without_gateways(domain::Timestamp::DAY_US, 10);
        let parts = Parts {
            store,
            queries: queries.clone(),
            gateways: BTreeMap::new(),
            clock: Clock::new(true),
            settings,
            options: Options { readers: 2, ..Options::default() },
        };
        let (engine, running) = Engine::start(parts).unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let (published, known) = watch::channel(Known::default());
        let until = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        tokio::spawn(flags::follow(engine.clone(), Arc::new(Listener(published)), until));
        drop(entered);
        Self { runtime, engine, queries, running, stop, known }
    }

    fn submit(&self, command: Command) -> Reply {
        let actor = Actor::new("admin", "test", Uuid::nil());
        let id = self.engine.mint();
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        match self.runtime.block_on(self.engine.submit(request)).unwrap() {
            Answer::Replied(reply) => reply,
            other @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
                panic!("{other:?}")
            }
        }
    }

    fn create(&self, n: u128) -> EnvironmentId {
        let id = Id::new(Uuid::from_u128(n));
        let create = CreateEnvironment {
            id,
            project: "default".to_owned(),
            key: format!("e{n}"),
            name: String::new(),
            secrets: vec![secret()],
        };
        self.submit(Command::Flag(FlagCommand::CreateEnvironment(create)));
        id
    }

    fn put(&self, environment: EnvironmentId, keys: &[&str], body: &str) {
        let define = |key: &&str| NewDefinition {
            kind: DefinitionKind::Flag,
            key: (*key).to_owned(),
            id: Id::new(Uuid::from_u128(1)),
            body: body.to_owned(),
            is_archived: false,
            expected: Expected::Anything,
        };
        let definitions = keys.iter().map(define).collect();
        let put = PutDefinitions { environment, version: None, definitions };
        self.submit(Command::Flag(FlagCommand::PutDefinitions(put)));
    }

    /// Waits until the published state is the committed one, and returns it.
    fn published(&self) -> Known {
        let mut committed = BTreeMap::new();
        for environment in self.queries.environments(TENANT).unwrap() {
            let (no, id) = (environment.tenant, environment.id);
            let file = self.queries.environment_file(no, id, None).unwrap().unwrap();
            let all = file.definitions.into_iter().map(|it| (it.key.clone(), it)).collect();
            committed.insert(id, (file.secrets.len(), all));
        }
        let mut known = self.known.clone();
        let is_all = |known: &Known| known.is_complete && known.environments == committed;
        let published = async {
            tokio::time::timeout(PATIENCE, known.wait_for(is_all))
                .await
                .map(|it| it.unwrap().clone())
        };
        let published = self.runtime.block_on(published);
        published.expect("what is committed is published")
    }

    fn end(self) {
        self.stop.send_replace(true);
        self.runtime.block_on(self.running.stop(PATIENCE));
    }
}

fn secret() -> NewSecret {
    NewSecret { kind: SecretKind::Server, name: String::new(), sealed: "s".to_owned() }
}

#[test]
fn commits_notify_the_audience() {
    let home = Home::new();
    let scene = Scene::start(&home);
    assert_eq!(scene.published().environments.len(), 0);
    let (first, second) = (scene.create(1), scene.create(2));
    scene.published();
    scene.put(first, &["a", "b"], "1");
    scene.put(second, &["a"], "1");
    let known = scene.published();
    assert_eq!(known.whole, 2, "a change is published by itself: {known:?}");
    assert!(known.changes >= 1, "{known:?}");
    scene.put(first, &["b"], "2");
    let add = AddSecret { environment: first, secret: secret() };
    scene.submit(Command::Flag(FlagCommand::AddSecret(add)));
    let known = scene.published();
    assert_eq!(known.whole, 3);
    assert_eq!(known.environments[&first].0, 2);
    for n in 0..200 {
        let environment = if n % 2 == 0 { first } else { second };
        scene.put(environment, &["a", "c"], &n.to_string());
    }
    scene.published();
    scene.end();

    // After a restart everything is read anew.
    let scene = Scene::start(&home);
    let known = scene.published();
    assert_eq!((known.whole, known.changes), (2, 0));
    scene.put(second, &["d"], "1");
    assert_eq!(scene.published().whole, 2);
    scene.end();
}
