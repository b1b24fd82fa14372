//! Who made a change, and why: rows beside the journal, because they have names and texts of people.
//!
//! A journal row holds the id of its actor's row: the first 16 bytes of SHA-256 over
//! `"faregate actor 1\n"`, a random salt and the texts. So an edited text is found
//! (`crate::verify::actors`), and nothing of an erased one can be guessed from what is left. An account
//! has one row for each combination of texts, however many changes were made with them.

use domain::payment::Actor;
use domain::{AccountId, TenantNo};
use engine::ports::{Batch, Entry, StoreError};
use uuid::Uuid;

use crate::cells::RowId;
use crate::chain;
use crate::driver::{Cells, Database, Reader, Value};
use crate::journal;
use crate::recent::Cache;
use crate::tables::ACTOR;

/// What the hash begins with, so that it is the hash of nothing else.
const PREFIX: &[u8] = b"faregate actor 1\n";

/// How many rows of an account are looked at for one with the same texts; beyond, another is made.
const LOOKED_AT_MAX: i64 = 64;

/// Rows that are held in memory for one account.
const HELD_PER_ACCOUNT_MAX: usize = 16;

/// A row's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) user: String,
    pub(crate) created_by: String,
    pub(crate) reason: Option<String>,
    pub(crate) comments: Option<String>,
}

/// The account of a journal row, by which its actor is found; rows about no account share one place.
type Place = (TenantNo, AccountId);

/// What the writer knows of actors' rows.
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
        let mut made: Vec<(Place, RowId, usize)> = vec![];
        for entry in &batch.entries {
            let place = place(entry);
            let id = match self.known(&named, place, &entry.actor) {
                Some(id) => id,
                None => {
                    let texts = Texts::of(&entry.actor);
                    let is_to_be_found =
                        !is_new(entry) && texts.reason.is_none() && texts.comments.is_none();
                    let stored = match is_to_be_found {
                        true => find(db.reader(), place, &texts)?,
                        false => None,
                    };
                    let id = stored.unwrap_or_else(|| {
                        let salt = secrets::random::bytes();
                        made.push((place, salt, named.found.len()));
                        texts.id(salt)
                    });
                    named.found.push((place, texts, id));
                    id
                }
            };
            named.ids.push(id);
        }
        if !made.is_empty() {
            let mut put = db.insert(&ACTOR)?;
            for (place, salt, at) in made {
                let (_, texts, id) = &named.found[at];
                put.row(&row(place, *id, Some(salt), texts))?;
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

/// Erases the texts on an account's rows. The user who acted stays: it is the installation's operator.
pub(crate) fn erase(db: &Database, tenant: TenantNo, account: AccountId) -> Result<(), StoreError> {
    let sql = "UPDATE actor SET salt = NULL, created_by = user_name, reason = NULL, comments = NULL \
               WHERE tenant = ?1 AND account_id = ?2";
    db.prepare(sql)?.row(&[tenant.into(), account.into()])
}

/// The place of a journal row's actor.
pub(crate) fn place_of(tenant: TenantNo, account: Option<AccountId>) -> Place {
    (tenant, account.unwrap_or(AccountId::new(Uuid::nil())))
}

fn place(entry: &Entry) -> Place {
    place_of(entry.tenant, journal::account(entry))
}

/// Whether the entry makes its account, which then has no rows yet.
fn is_new(entry: &Entry) -> bool {
    use domain::change::{AccountChange, Change};
    entry.changes.iter().any(|change| {
        matches!(change, Change::Account(AccountChange::Account(it)) if it.revision.previous.is_none())
    })
}

/// A row without reason and comments.
fn find(
    reader: &Reader,
    (tenant, account): Place,
    texts: &Texts,
) -> Result<Option<RowId>, StoreError> {
    let sql = "SELECT id FROM (SELECT * FROM actor WHERE tenant = ?1 AND account_id = ?2 LIMIT ?5) AS looked_at \
               WHERE user_name = ?3 AND created_by = ?4 AND reason IS NULL AND comments IS NULL \
               AND salt IS NOT NULL LIMIT 1";
    let (user, created_by) = ((&texts.user).into(), (&texts.created_by).into());
    let parameters = [tenant.into(), account.into(), user, created_by, LOOKED_AT_MAX.into()];
    Ok(reader.query_one(sql, &parameters, |cells| cells.id())?.map(Uuid::into_bytes))
}

fn row<'a>(
    (tenant, account): Place,
    id: RowId,
    salt: Option<RowId>,
    texts: &'a Texts,
) -> [Value<'a>; 8] {
    [
        tenant.into(),
        account.into(),
        Value::Id(id),
        salt.map_or(Value::Null, Value::Id),
        (&texts.user).into(),
        (&texts.created_by).into(),
        texts.reason.as_ref().into(),
        texts.comments.as_ref().into(),
    ]
}
