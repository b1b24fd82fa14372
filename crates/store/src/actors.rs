//! Who made a change, and why: rows beside the journal, because they have names and texts of people.
//!
//! A journal row holds the id of its actor's row: the first 16 bytes of SHA-256 over
//! `"faregate actor 1\n"`, a random salt and the texts. So an edited text is found
//! (`crate::verify::actors`), and nothing of an erased one can be guessed from what is left. An account
//! has one row for each combination of texts, however many changes were made with them; that of the actor
//! who made it is part of the account's row, which that commit writes anyway.

use std::collections::HashMap;

use domain::change::{AccountChange, Change};
use domain::payment::Actor;
use domain::{Account, AccountId, Revision, TenantNo};
use engine::ports::{Batch, Entry, StoreError};
use uuid::Uuid;

use crate::cells::RowId;
use crate::chain;
use crate::driver::{Cells, Database, Reader, Value};
use crate::journal;
use crate::recent::Cache;
use crate::table::ACTOR;

/// The prefix of the hashed bytes, so that hashes of actors differ from all others.
const PREFIX: &[u8] = b"faregate actor 1\n";

/// How many rows of an account are looked at for one with the same texts; beyond, another is made.
const LOOKED_AT_MAX: i64 = 64;

/// Rows that are held in memory for one account.
const HELD_PER_ACCOUNT_MAX: usize = 16;

/// How many columns an actor has in an account's row.
pub(crate) const COLUMNS: usize = 6;

/// A row's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) user: String,
    pub(crate) created_by: String,
    pub(crate) reason: Option<String>,
    pub(crate) comments: Option<String>,
}

/// A row that this store wrote.
pub(crate) struct Row {
    id: RowId,
    salt: RowId,
    texts: Texts,
}

/// The account of a journal row, by which its actor is found; rows about no account share one place.
type Place = (TenantNo, AccountId);

/// The actors' rows that the writer holds in memory, by account.
pub(crate) struct Actors {
    held: Cache<Place, Vec<(Texts, RowId)>>,
}

/// The rows of a batch's entries.
#[derive(Default)]
pub(crate) struct Named {
    /// One per entry, in their order.
    pub(crate) ids: Vec<RowId>,
    /// Those that were not known: they are held once the batch is committed.
    found: Vec<(Place, Texts, RowId)>,
    /// Those who made an account, for its row.
    makers: HashMap<Place, Row>,
}

impl Named {
    /// Who made an account, where this batch makes it.
    pub(crate) fn maker(&self, of: &Account) -> Option<&Row> {
        self.makers.get(&(of.tenant, of.id))
    }
}

impl Texts {
    fn of(actor: &Actor) -> Self {
        Self {
            user: actor.user.clone(),
            created_by: actor.created_by.clone(),
            reason: actor.reason.clone(),
            comments: actor.comments.clone(),
        }
    }

    fn is_of(&self, actor: &Actor) -> bool {
        self.user == actor.user
            && self.created_by == actor.created_by
            && self.reason == actor.reason
            && self.comments == actor.comments
    }

    /// The id of a row with these texts and this salt.
    pub(crate) fn id(&self, salt: RowId) -> RowId {
        let columns = [
            Value::Id(salt),
            Value::Text(&self.user),
            Value::Text(&self.created_by),
            self.reason.as_ref().into(),
            self.comments.as_ref().into(),
        ];
        let hash = chain::hash(PREFIX, &columns);
        let mut id = RowId::default();
        id.copy_from_slice(&hash[..size_of::<RowId>()]);
        id
    }

    /// Reads the four columns of the texts.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            user: cells.string()?,
            created_by: cells.string()?,
            reason: cells.opt_string()?,
            comments: cells.opt_string()?,
        })
    }
}

impl Row {
    fn new(texts: Texts) -> Self {
        let salt = secrets::random::bytes();
        Self { id: texts.id(salt), salt, texts }
    }
}

impl Actors {
    pub(crate) fn new(accounts_held: usize) -> Self {
        Self { held: Cache::new(accounts_held) }
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// The ids of the entries' actors; those that have no row yet get one.
    pub(crate) fn name(&mut self, db: &Database, batch: &Batch) -> Result<Named, StoreError> {
        let mut named = Named::default();
        let mut made: Vec<(Place, Row)> = vec![];
        for entry in &batch.entries {
            let place = place(entry);
            let id = match self.known(&named, place, &entry.actor) {
                Some(id) => id,
                None => {
                    let texts = Texts::of(&entry.actor);
                    let id = if makes_account(entry, place.1) {
                        let row = Row::new(texts.clone());
                        let id = row.id;
                        named.makers.insert(place, row);
                        id
                    } else if let Some(id) = find(db.reader(), place, &texts)? {
                        id
                    } else {
                        let row = Row::new(texts.clone());
                        let id = row.id;
                        made.push((place, row));
                        id
                    };
                    named.found.push((place, texts, id));
                    id
                }
            };
            named.ids.push(id);
        }
        if !made.is_empty() {
            let mut put = db.insert(&ACTOR)?;
            for ((tenant, account), row) in &made {
                let [id, salt, user, created_by, reason, comments] = columns(Some(row));
                let account = (*account).into();
                let tenant = (*tenant).into();
                put.row(&[tenant, account, id, salt, user, created_by, reason, comments])?;
            }
        }
        Ok(named)
    }

    fn known(&mut self, named: &Named, place: Place, actor: &Actor) -> Option<RowId> {
        let mut held = self.held.get(place).into_iter().flatten();
        let held = held.find(|(texts, _)| texts.is_of(actor)).map(|(_, id)| *id);
        held.or_else(|| {
            let mut found = named.found.iter();
            found.find(|(of, texts, _)| *of == place && texts.is_of(actor)).map(|(.., id)| *id)
        })
    }

    /// The batch was committed: what it found and made is held.
    pub(crate) fn committed(&mut self, named: Named) {
        for (place, texts, id) in named.found {
            match self.held.get(place) {
                Some(held) if held.len() >= HELD_PER_ACCOUNT_MAX => *held = vec![(texts, id)],
                Some(held) => held.push((texts, id)),
                None => self.held.insert(place, vec![(texts, id)]),
            }
        }
    }

    /// The texts of an account were erased.
    pub(crate) fn erased(&mut self, tenant: TenantNo, account: AccountId) {
        if let Some(held) = self.held.get((tenant, account)) {
            held.clear();
        }
    }
}

/// The place of a journal row's actor.
pub(crate) fn place_of(tenant: TenantNo, account: Option<AccountId>) -> Place {
    (tenant, account.unwrap_or(AccountId::new(Uuid::nil())))
}

fn place(entry: &Entry) -> Place {
    place_of(entry.tenant, journal::account(entry))
}

/// Whether the entry makes this account, which then has no rows yet.
fn makes_account(entry: &Entry, account: AccountId) -> bool {
    let made = Revision::first(entry.seq);
    entry.changes.iter().any(|change| {
        matches!(change, Change::Account(AccountChange::Account(it))
            if it.id == account && it.revision == made)
    })
}

/// A row with these texts; none where they give a reason or comments, which are hardly written twice.
fn find(
    reader: &Reader,
    (tenant, account): Place,
    texts: &Texts,
) -> Result<Option<RowId>, StoreError> {
    if texts.reason.is_some() || texts.comments.is_some() {
        return Ok(None);
    }
    let sql = "SELECT actor FROM account WHERE tenant = ?1 AND id = ?2 AND actor_user = ?3 \
               AND actor_created_by = ?4 AND actor_reason IS NULL AND actor_comments IS NULL \
               AND actor_salt IS NOT NULL UNION ALL \
               SELECT id FROM (SELECT * FROM actor WHERE tenant = ?1 AND account_id = ?2 LIMIT ?5) AS looked_at \
               WHERE user_name = ?3 AND created_by = ?4 AND reason IS NULL AND comments IS NULL \
               AND salt IS NOT NULL LIMIT 1";
    let (user, created_by) = ((&texts.user).into(), (&texts.created_by).into());
    let parameters = [tenant.into(), account.into(), user, created_by, LOOKED_AT_MAX.into()];
    Ok(reader.query_one(sql, &parameters, |cells| cells.id())?.map(Uuid::into_bytes))
}

/// A row's columns after those that say whose it is; all of them NULL where there is none.
pub(crate) fn columns(row: Option<&Row>) -> [Value<'_>; COLUMNS] {
    let Some(Row { id, salt, texts }) = row else { return [Value::Null; COLUMNS] };
    [
        Value::Id(*id),
        Value::Id(*salt),
        (&texts.user).into(),
        (&texts.created_by).into(),
        texts.reason.as_ref().into(),
        texts.comments.as_ref().into(),
    ]
}
