//! Reads of environments, their secrets, and the feature flags and segments that are defined there.

use std::sync::LazyLock;

use domain::flag::definition::{Definition, DefinitionKey};
use domain::flag::environment::{Environment, Secret};
use domain::{EnvironmentId, Seq, TenantNo};
use engine::ports::{EnvironmentFile, FlagQueries, HistoryRow, Page, StoreError};

use super::history;
use super::{SqlQueries, window};
use crate::stored::KeyColumns;
use crate::tables::{self, DEFINITION, ENVIRONMENT, ENVIRONMENT_SECRET};

impl FlagQueries for SqlQueries {
    fn environments(&self, no: TenantNo) -> Result<Vec<Environment>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| ENVIRONMENT.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2"));
            let limit = window::limit(u64::MAX);
            reader.query(&SQL, &[no.into(), limit], |cells| tables::ENVIRONMENT.row(cells))
        })
    }

    fn environment_by_key(
        &self,
        no: TenantNo,
        project: &str,
        key: &str,
    ) -> Result<Option<Environment>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                ENVIRONMENT.select("WHERE tenant = ?1 AND project = ?2 AND key = ?3")
            });
            reader.query_one(&SQL, &[no.into(), project.into(), key.into()], |cells| {
                tables::ENVIRONMENT.row(cells)
            })
        })
    }

    fn secrets(&self, no: TenantNo) -> Result<Vec<Secret>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                ENVIRONMENT_SECRET
                    .select("WHERE tenant = ?1 ORDER BY created_at_us, kind, id LIMIT ?2")
            });
            reader.query(&SQL, &[no.into(), window::limit(u64::MAX)], |cells| {
                tables::ENVIRONMENT_SECRET.row(cells)
            })
        })
    }

    fn environments_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Environment>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                ENVIRONMENT.select("WHERE seq > ?1 ORDER BY seq, tenant, id LIMIT ?2")
            });
            reader.query(&SQL, &[after.into(), window::limit(limit as u64)], |cells| {
                tables::ENVIRONMENT.row(cells)
            })
        })
    }

    fn environment_file(
        &self,
        no: TenantNo,
        id: EnvironmentId,
        newer_than: Option<i64>,
    ) -> Result<Option<EnvironmentFile>, StoreError> {
        self.snapshot(|reader| {
            static BY_ID: LazyLock<String> =
                LazyLock::new(|| ENVIRONMENT.select("WHERE tenant = ?1 AND id = ?2"));
            static SECRETS: LazyLock<String> = LazyLock::new(|| {
                ENVIRONMENT_SECRET.select(
                    "WHERE tenant = ?1 AND environment_id = ?2 ORDER BY created_at_us, kind, id",
                )
            });
            static NEWER: LazyLock<String> = LazyLock::new(|| {
                DEFINITION.select(
                    "WHERE tenant = ?1 AND environment_id = ?2 AND version > ?3 \
                     ORDER BY version, kind, key",
                )
            });
            let key = [no.into(), id.into()];
            let Some(environment) =
                reader.query_one(&BY_ID, &key, |cells| tables::ENVIRONMENT.row(cells))?
            else {
                return Ok(None);
            };
            let secrets =
                reader.query(&SECRETS, &key, |cells| tables::ENVIRONMENT_SECRET.row(cells))?;
            let newer = [no.into(), id.into(), newer_than.unwrap_or(i64::MIN).into()];
            let definitions =
                reader.query(&NEWER, &newer, |cells| tables::DEFINITION.row(cells))?;
            Ok(Some(EnvironmentFile { environment, secrets, definitions }))
        })
    }

    fn definitions(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
    ) -> Result<Vec<Definition>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                DEFINITION.select("WHERE tenant = ?1 AND environment_id = ?2 ORDER BY kind, key")
            });
            reader.query(&SQL, &[no.into(), environment.into()], |cells| {
                tables::DEFINITION.row(cells)
            })
        })
    }

    fn definition(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
    ) -> Result<Option<Definition>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| DEFINITION.select(&DEFINITION.by_key()));
            reader.query_one(&SQL, &(no, key.clone()).columns(), |cells| {
                tables::DEFINITION.row(cells)
            })
        })
    }

    fn definition_history(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
        page: Page,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| history::of_definition(reader, no, key, page))
    }
}
