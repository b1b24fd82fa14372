//! Background tasks beside an engine: spawned together, and stopped before the engine, because they
//! write through it.

use std::future::Future;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Tasks that are stopped together.
pub struct BackgroundTasks {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl BackgroundTasks {
    /// No tasks yet.
    pub fn new() -> Self {
        Self { stop: watch::Sender::new(false), tasks: Vec::new() }
    }

    /// Turns true when the tasks have to stop.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Ready once the tasks have to stop.
    pub fn until_stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        until(self.stopped())
    }

    /// Spawns a task, which ends once [`Self::stopped`] turns true.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(task));
    }

    /// Adds a task that runs already, and ends once [`Self::stopped`] turns true.
    pub fn add(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Stops all tasks and waits for their ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(error = %error, "a background task panicked");
            }
        }
    }
}

/// Ready once the value is true, or its sender is gone.
pub async fn until(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// A task that ends once all of these listeners have drained.
pub fn all_of(listeners: impl Iterator<Item = JoinHandle<()>>) -> JoinHandle<()> {
    let all = futures_util::future::join_all(listeners);
    tokio::spawn(async {
        for ended in all.await {
            if let Err(error) = ended {
                tracing::error!(error = %error, "a listener task failed");
            }
        }
    })
}
