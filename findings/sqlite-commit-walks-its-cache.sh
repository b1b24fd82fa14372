#!/usr/bin/env bash
# SQLite 3.54.1 (of libsqlite3-sys 0.39.1): while a database is smaller than 1 GiB, a commit that has divided or joined
# pages of a table looks at every page in the connection's cache.
#
# Balancing gives pages each other's numbers by way of a number that no page has: that of the page with the lock
# bytes, at 1 GiB (262,145 with pages of 4 KiB). The page cache keeps the highest number that it was asked for. At the
# commit it is to drop the pages beyond the end of the database, believes that there may be up to a quarter of a
# million, and walks all of its slots to find none. The larger the cache, the slower such a commit; a database beyond
# 1 GiB is spared. Who makes `cache_size` larger to speed up a writer of small commits makes them slower.
#
# Seen on 2026-11-30, with 100,000 pages of one table: the highest number asked for was 262145, and a commit that
# inserts three rows of 1,500 bytes took 47 and 52 us of CPU with 2 MiB of the pages in the cache and 1,390 and 1,731 us
# with all of them; one that changes a row in place took 4 and 5 us with either.
#
# Needs cargo (to download), a C compiler, 1 GB of disk and a minute. Fails where SQLite behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cargo init -q --name fetch . 2>/dev/null
cargo add -q --no-default-features libsqlite3-sys@=0.39.1 2>/dev/null
CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} cargo vendor -q vendor >/dev/null
sqlite=$folder/vendor/libsqlite3-sys/sqlite3

cat >try.c <<'C'
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* SQLite's own page cache, with a note of the highest number that a page was given. */
static sqlite3_pcache_methods2 own;
static unsigned highest;

static void rekey(sqlite3_pcache *cache, sqlite3_pcache_page *page, unsigned from, unsigned to) {
  if (to > highest) highest = to;
  own.xRekey(cache, page, from, to);
}

static void run(sqlite3 *db, const char *sql) {
  char *error = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
    fprintf(stderr, "%s: %s\n", sql, error);
    exit(2);
  }
}

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* The CPU of a commit, over 500 of them. */
static double commit(sqlite3 *db, const char *change) {
  const int commits = 500;
  double from = microseconds();
  for (int n = 0; n < commits; n++) {
    run(db, "BEGIN IMMEDIATE");
    run(db, change);
    run(db, "COMMIT");
  }
  return (microseconds() - from) / commits;
}

static double with_cache(const char *cache_size, const char *change) {
  sqlite3 *db;
  if (sqlite3_open("try.db", &db) != SQLITE_OK) exit(2);
  run(db, "PRAGMA synchronous = OFF");
  run(db, cache_size);
  /* Fills the cache. */
  run(db, "SELECT sum(length(value)) FROM large");
  double took = commit(db, change);
  sqlite3_close(db);
  return took;
}

int main(void) {
  sqlite3_pcache_methods2 noted;
  sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &own);
  noted = own;
  noted.xRekey = rekey;
  sqlite3_config(SQLITE_CONFIG_PCACHE2, &noted);
  sqlite3 *db;
  if (sqlite3_open("try.db", &db) != SQLITE_OK) return 2;
  run(db, "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  run(db, "CREATE TABLE large (key INTEGER PRIMARY KEY, value BLOB);"
          "CREATE TABLE small (key INTEGER PRIMARY KEY, value BLOB);"
          "INSERT INTO small VALUES (1, zeroblob(1500));"
          "WITH n(it) AS (SELECT 1 UNION ALL SELECT it + 1 FROM n WHERE it < 100000)"
          "INSERT INTO large SELECT it, zeroblob(3000) FROM n");
  sqlite3_close(db);

  const char *all = "PRAGMA cache_size = -800000", *few = "PRAGMA cache_size = -2000";
  const char *inserts = "INSERT INTO small SELECT abs(random()) / 2, zeroblob(1500) FROM large LIMIT 3";
  const char *changes = "UPDATE small SET value = zeroblob(1500) WHERE key = 1";
  double few_inserts = with_cache(few, inserts), all_inserts = with_cache(all, inserts);
  double few_changes = with_cache(few, changes), all_changes = with_cache(all, changes);
  printf("SQLite %s: highest page number %u\n", sqlite3_libversion(), highest);
  printf("a commit that inserts: %.0f us with 2 MiB of the pages in the cache, %.0f us with all\n",
         few_inserts, all_inserts);
  printf("a commit that changes a row: %.0f us, %.0f us\n", few_changes, all_changes);
  return highest == 0x40000000 / 4096 + 1 && all_inserts > 3 * few_inserts && all_changes < 3 * few_changes ? 0 : 1;
}
C
cc -O2 -I"$sqlite" -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION try.c "$sqlite/sqlite3.c" -lm -o try
./try
