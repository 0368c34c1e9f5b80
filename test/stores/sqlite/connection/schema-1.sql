-- The tables of a file of version 1, as keystile 0.1 made them. Never changes.
CREATE TABLE keystile_schema (version INTEGER NOT NULL) STRICT;
CREATE TABLE keystile_workspaces (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_workspaces_list ON keystile_workspaces (workspace_id, id);
CREATE TABLE keystile_apis (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_apis_list ON keystile_apis (workspace_id, id);
CREATE TABLE keystile_identities (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_identities_list ON keystile_identities (workspace_id, id);
CREATE TABLE keystile_roles (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_roles_list ON keystile_roles (workspace_id, id);
CREATE TABLE keystile_permissions (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_permissions_list ON keystile_permissions (workspace_id, id);
CREATE TABLE keystile_migrations (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
CREATE INDEX keystile_migrations_list ON keystile_migrations (workspace_id, id);
CREATE TABLE keystile_keys (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    api INTEGER NOT NULL REFERENCES keystile_apis (n),
    identity INTEGER,
    version INTEGER NOT NULL CHECK (version > 0),
    digest TEXT,
    foreign_digest TEXT,
    grants TEXT NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
CREATE INDEX keystile_keys_list ON keystile_keys (api, id);
CREATE TABLE keystile_places (place INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (place, n)) STRICT, WITHOUT ROWID;
CREATE TABLE keystile_fresh_places (place INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (place, n)) STRICT, WITHOUT ROWID;
CREATE VIEW keystile_lookup AS
    SELECT place, n FROM keystile_places UNION ALL SELECT place, n FROM keystile_fresh_places;
CREATE TABLE keystile_credits (
    n INTEGER PRIMARY KEY REFERENCES keystile_keys (n) ON DELETE CASCADE,
    unlimited INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
    remaining INTEGER NOT NULL CHECK (remaining BETWEEN 0 AND 9007199254740991),
    amount INTEGER NOT NULL CHECK (amount BETWEEN 0 AND 9007199254740991),
    period INTEGER NOT NULL,
    generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 9007199254740991)
  ) STRICT;
CREATE TABLE keystile_leases (
    n INTEGER NOT NULL REFERENCES keystile_keys (n) ON DELETE CASCADE,
    holder TEXT NOT NULL,
    reserved INTEGER NOT NULL CHECK (reserved BETWEEN 0 AND 9007199254740991),
    generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 9007199254740991),
    expires INTEGER NOT NULL,
    PRIMARY KEY (n, holder)
  ) STRICT, WITHOUT ROWID;
CREATE TABLE keystile_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL) STRICT;
INSERT INTO keystile_schema VALUES (1);
INSERT INTO keystile_changes (what) VALUES ('*');
