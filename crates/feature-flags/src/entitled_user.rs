//! A user with what its account is entitled to.

use std::sync::Arc;

use domain::TenantNo;
use evaluation::{Entitled, User};

use crate::accounts::{Accounts, Following, KnownEntitled};
use crate::subscribers::Subscriber;

/// A user with what its account is entitled to, as far as flags depend on that.
pub struct EntitledUser {
    /// With what it was entitled to when that was looked up last.
    pub user: User,
    /// Another one with each change of its account.
    pub entitled_version: i64,
    /// Of a connection whose environment asks for what its user is entitled to.
    following: Option<Following>,
}

impl EntitledUser {
    #[must_use]
    pub const fn new(user: User) -> Self {
        Self { user, entitled_version: 0, following: None }
    }

    /// Whether it is the user that a client sends.
    #[must_use]
    pub fn is(&self, sent: &User) -> bool {
        let User { key_id, name, customized_properties, entitled: _ } = sent;
        (key_id, name, customized_properties)
            == (&self.user.key_id, &self.user.name, &self.user.customized_properties)
    }

    /// Takes over what is known of its account; returns what the user was entitled to before.
    pub fn take(&mut self, known: KnownEntitled) -> Entitled {
        let KnownEntitled { entitled, version } = known;
        self.entitled_version = version;
        std::mem::replace(&mut self.user.entitled, entitled)
    }

    /// Takes over what the user is entitled to now. Returns what it was entitled to before, where that differs.
    ///
    /// # Errors
    /// It is not known yet: the connection is woken once it is.
    pub(crate) fn update(
        &mut self,
        tenant: TenantNo,
        (accounts, subscriber): (&Accounts, &Arc<Subscriber>),
    ) -> Result<Option<Entitled>, NotKnown> {
        let follow = || accounts.user(tenant, &self.user.key_id).follow(Arc::clone(subscriber));
        let following = self.following.get_or_insert_with(follow);
        let known = following.user().entitled(accounts.now()).ok_or(NotKnown)?;
        let before = self.take(known);
        Ok((before != self.user.entitled).then_some(before))
    }
}

/// The user's entitlements are not known yet: they are being looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKnown;
