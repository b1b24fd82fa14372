//! Newcomers and what they get, and the users of accounts.

use domain::account::EraseAccount;
use domain::command::{AccountCommand, CustomerCommand, EntitlementCommand};
use domain::customer::{Profile, Register, Taken, Verification};
use domain::entitlement::account_user::SetAccountUsers;
use domain::entitlement::feature::FeatureValue;
use domain::entitlement::offer::{Lasts, OfferTerms, PutOffer};
use domain::flag::definition::Expected;
use domain::{Command, Currency, Person, Timestamp};

use super::{ACCOUNTS_MAX, Purchases};

/// How long newcomers have what they get, in days.
const WELCOME_DAYS: u32 = 45;

impl Purchases {
    /// Commits a new version of the offer for newcomers, with 0 to 3 seats; 0 withdraws it.
    pub(super) fn put_offer_for_newcomers(&mut self) -> Result<(), String> {
        self.welcome = self.kernel.random.between(0, 3);
        let features = [("pro", FeatureValue::On), ("seats", FeatureValue::Limit(self.welcome))];
        let terms = OfferTerms {
            lasts: Lasts::Days(WELCOME_DAYS),
            is_trial: true,
            for_newcomers: true,
            // Without seats it is given to nobody.
            withdrawn: self.welcome == 0,
            ..OfferTerms::free("welcome", &features)
        };
        let key = "welcome".to_owned();
        let put = PutOffer { key, terms, expected: Expected::Anything };
        self.submit(EntitlementCommand::PutOffer(Box::new(put)).into()).map(drop)
    }

    /// A customer signs up, unless there are accounts enough.
    pub(super) fn join(&mut self) -> Result<(), String> {
        if self.kernel.accounts.len() >= ACCOUNTS_MAX {
            return Ok(());
        }
        let email = format!("{}@example.com", self.kernel.minted());
        let register = Register {
            profile: Profile { email: email.clone(), email_key: email, ..Profile::default() },
            person: Person::default(),
            currency: Currency::parse("USD"),
            password_hash: "hash".to_owned(),
            taken: Taken::Refuse,
            verification: Verification::Given,
            operation: None,
        };
        let command = Command::Customer(CustomerCommand::Register(Box::new(register)));
        let (id, is_accepted) = self.submit(command)?;
        if !is_accepted {
            return Err("a newcomer is registered".to_owned());
        }
        let account = id.entity(0);
        if self.welcome > 0 {
            let until = self.kernel.now + i64::from(WELCOME_DAYS) * Timestamp::DAY_US;
            self.model.join(account, (self.kernel.now, until), self.welcome);
            self.kernel.count("newcomers");
        }
        self.equip(account)
    }

    /// Maps a few of few keys to an account, or erases the person of one.
    pub(super) fn map_users(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        if self.kernel.random.chance(100) {
            self.model.erase(account);
            let erase = AccountCommand::Erase(EraseAccount { account });
            return self.submit(Command::Account(erase)).map(drop);
        }
        let count = self.kernel.random.below(3);
        let users: Vec<String> =
            (0..count).map(|_| format!("user-{}", self.kernel.random.below(8))).collect();
        let may = self.model.map_users(account, &users);
        let set = SetAccountUsers { account, users, expected: Expected::Anything };
        let (_, is_accepted) = self.submit(EntitlementCommand::SetUsers(Box::new(set)).into())?;
        self.kernel.tally.add("mapped", is_accepted.into());
        match may == is_accepted {
            true => Ok(()),
            false => Err(format!("a key is of one account: {account}, refused: {}", !is_accepted)),
        }
    }
}
