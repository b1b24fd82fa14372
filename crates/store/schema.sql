-- Generated from src/tables.rs; a test keeps it up to date.

CREATE TABLE migration (
    version INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (version)
) STRICT, WITHOUT ROWID;

CREATE TABLE installation (
    id INTEGER NOT NULL,
    check_key BLOB NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE partition (
    id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    payment_number INTEGER NOT NULL,
    tenant_no INTEGER NOT NULL,
    queue_offset INTEGER,
    claims_end INTEGER,
    claims_after BLOB,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    committed_at_us INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    account_id BLOB,
    request_id BLOB NOT NULL,
    command TEXT NOT NULL,
    actor BLOB NOT NULL,
    token BLOB NOT NULL,
    changes TEXT,
    events TEXT,
    chain TEXT NOT NULL,
    PRIMARY KEY (seq)
) STRICT;

CREATE TABLE actor (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    id BLOB NOT NULL,
    salt BLOB,
    user_name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    reason TEXT,
    comments TEXT,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tenant (
    no INTEGER NOT NULL,
    id BLOB NOT NULL,
    external_key TEXT,
    api_key TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    previous_secret_hash TEXT,
    previous_secret_until_us INTEGER,
    is_active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tenant_by_id ON tenant (id);
CREATE UNIQUE INDEX tenant_by_api_key ON tenant (api_key);

CREATE TABLE tenant_value (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    id BLOB NOT NULL,
    value TEXT,
    seq INTEGER NOT NULL,
    counted_bytes INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX tenant_value_in_use ON tenant_value (name, tenant) WHERE value IS NOT NULL;
CREATE INDEX tenant_value_bytes ON tenant_value (tenant, counted_bytes) WHERE value IS NOT NULL;

CREATE TABLE app_user (
    username TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    roles TEXT NOT NULL,
    active INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (username)
) STRICT, WITHOUT ROWID;

CREATE TABLE role (
    name TEXT NOT NULL,
    permissions TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    external_key TEXT,
    currency TEXT,
    bill_cycle_day_local INTEGER NOT NULL,
    parent_account_id BLOB,
    is_payment_delegated_to_parent INTEGER NOT NULL,
    payment_method_id BLOB,
    external_payment_method BLOB,
    reference_time_us INTEGER NOT NULL,
    time_zone TEXT NOT NULL,
    is_migrated INTEGER,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    erased_at_us INTEGER,
    seq INTEGER NOT NULL,
    actor BLOB,
    actor_salt BLOB,
    actor_user TEXT,
    actor_created_by TEXT,
    actor_reason TEXT,
    actor_comments TEXT,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE account_person (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    name TEXT,
    first_name_length INTEGER,
    email TEXT,
    address1 TEXT,
    address2 TEXT,
    postal_code TEXT,
    company TEXT,
    city TEXT,
    state TEXT,
    country TEXT,
    locale TEXT,
    phone TEXT,
    notes TEXT,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_person_by_email ON account_person (tenant, lower(email)) WHERE email IS NOT NULL;

CREATE TABLE payment_method (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    external_key TEXT,
    gateway TEXT NOT NULL,
    external_payment_method_id TEXT,
    properties TEXT,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_method_by_account ON payment_method (tenant, account_id, id);
CREATE INDEX payment_method_by_gateway ON payment_method (tenant, gateway, active, id);

CREATE TABLE payment (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    payment_method_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    external_key TEXT,
    currency TEXT NOT NULL,
    gateway TEXT NOT NULL,
    operation INTEGER NOT NULL,
    status INTEGER NOT NULL,
    success_operation INTEGER,
    success_status INTEGER,
    authorized_minor INTEGER NOT NULL,
    captured_minor INTEGER NOT NULL,
    purchased_minor INTEGER NOT NULL,
    refunded_minor INTEGER NOT NULL,
    credited_minor INTEGER NOT NULL,
    charged_back_minor INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_by_account ON payment (tenant, account_id, id);
CREATE INDEX payment_by_gateway ON payment (tenant, gateway, id);
CREATE INDEX payment_by_rare_state ON payment (tenant, operation, status, id) WHERE (status NOT IN (1, 2) OR operation NOT IN (1, 2, 3));

CREATE TABLE payment_transaction (
    tenant INTEGER NOT NULL,
    payment_id BLOB NOT NULL,
    id BLOB NOT NULL,
    opened_seq INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    external_key TEXT,
    gateway TEXT NOT NULL,
    payment_method_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    amount_minor INTEGER,
    called_amount_minor INTEGER,
    currency TEXT,
    processed_amount_minor INTEGER,
    processed_currency TEXT,
    effective_at_us INTEGER NOT NULL,
    gateway_error_code TEXT,
    gateway_error_message TEXT,
    first_reference TEXT,
    second_reference TEXT,
    overruled INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, payment_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX payment_transaction_by_id ON payment_transaction (tenant, id);
CREATE INDEX payment_transaction_unresolved ON payment_transaction (tenant, effective_at_us, id, status) WHERE status IN (3, 6);

CREATE TABLE posting (
    seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    payment_id BLOB NOT NULL,
    transaction_id BLOB NOT NULL,
    gateway TEXT NOT NULL,
    debit INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (seq, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX posting_by_payment ON posting (tenant, account_id, payment_id);
CREATE INDEX posting_by_time ON posting (tenant, at_us);

CREATE TABLE claim (
    key_hash BLOB NOT NULL,
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    owner BLOB NOT NULL,
    account_id BLOB,
    PRIMARY KEY (key_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE claim_recent (
    n INTEGER NOT NULL,
    key_hash BLOB NOT NULL,
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    owner BLOB NOT NULL,
    account_id BLOB,
    PRIMARY KEY (n)
) STRICT;

CREATE TABLE outstanding (
    tenant INTEGER NOT NULL,
    transaction_id BLOB NOT NULL,
    payment_id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    gateway TEXT NOT NULL,
    deadline_us INTEGER NOT NULL,
    ask_at_us INTEGER,
    asked INTEGER NOT NULL,
    reply_key BLOB,
    user_name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    reason TEXT,
    comments TEXT,
    token BLOB NOT NULL,
    partition INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, transaction_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX outstanding_by_payment ON outstanding (payment_id);
CREATE INDEX outstanding_by_ask_at ON outstanding (partition, ask_at_us) WHERE ask_at_us IS NOT NULL;

CREATE TABLE quarantine (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    since_us INTEGER NOT NULL,
    request_id BLOB NOT NULL,
    command TEXT NOT NULL,
    reason TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE reply (
    key BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    answer TEXT,
    expires_at_us INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (key)
) STRICT, WITHOUT ROWID;
CREATE INDEX reply_by_expiry ON reply (expires_at_us);

CREATE TABLE follower (
    name TEXT NOT NULL,
    partition INTEGER NOT NULL,
    upto INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (name, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery (
    seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at_us INTEGER NOT NULL,
    error TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (seq, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_by_due_at ON delivery (due_at_us);

CREATE TABLE counter (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    gateway TEXT NOT NULL,
    partition INTEGER NOT NULL,
    value INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, gateway, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_total (
    tenant INTEGER NOT NULL,
    account INTEGER NOT NULL,
    gateway TEXT NOT NULL,
    currency TEXT NOT NULL,
    partition INTEGER NOT NULL,
    debit_minor TEXT NOT NULL,
    credit_minor TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account, gateway, currency, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE environment (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    definitions INTEGER NOT NULL,
    secrets INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    changes_need_approval INTEGER NOT NULL,
    changes_waiting INTEGER NOT NULL,
    definitions_bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX environment_by_seq ON environment (seq);

CREATE TABLE environment_secret (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    environment_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    expires_at_us INTEGER,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX environment_secret_by_environment ON environment_secret (tenant, environment_id, id);

CREATE TABLE definition (
    tenant INTEGER NOT NULL,
    environment_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    id BLOB NOT NULL,
    body TEXT NOT NULL,
    is_archived INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, environment_id, kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX definition_by_version ON definition (tenant, environment_id, version);

CREATE TABLE change_request (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    environment_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    patch TEXT NOT NULL,
    expected INTEGER,
    author TEXT NOT NULL,
    reason TEXT,
    comment TEXT,
    created_at_us INTEGER NOT NULL,
    due_at_us INTEGER,
    status INTEGER NOT NULL,
    decided_by TEXT,
    explanation TEXT,
    version INTEGER,
    settled_at_us INTEGER,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_request_by_environment ON change_request (tenant, environment_id, id);
CREATE INDEX change_request_due ON change_request (due_at_us, id) WHERE status = 2;

CREATE TABLE flag_insight (
    tenant INTEGER NOT NULL,
    environment_id BLOB NOT NULL,
    flag_key TEXT NOT NULL,
    hour INTEGER NOT NULL,
    variation_id TEXT NOT NULL,
    evaluations INTEGER NOT NULL,
    for_experiments INTEGER NOT NULL,
    PRIMARY KEY (tenant, environment_id, flag_key, hour, variation_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX flag_insight_by_hour ON flag_insight (hour);

CREATE TABLE metric_insight (
    tenant INTEGER NOT NULL,
    environment_id BLOB NOT NULL,
    event TEXT NOT NULL,
    hour INTEGER NOT NULL,
    kind TEXT NOT NULL,
    events INTEGER NOT NULL,
    total REAL NOT NULL,
    PRIMARY KEY (tenant, environment_id, event, hour, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX metric_insight_by_hour ON metric_insight (hour);

CREATE TABLE tag (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    definition INTEGER NOT NULL,
    id BLOB NOT NULL,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, definition)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tag_by_id ON tag (tenant, id);

CREATE TABLE customer (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    preferences TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    second_factor TEXT,
    status INTEGER NOT NULL,
    is_verified INTEGER NOT NULL,
    password_version INTEGER NOT NULL,
    verification_id BLOB,
    verification_until_us INTEGER,
    reset_id BLOB,
    reset_until_us INTEGER,
    expires_at_us INTEGER,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX customer_expiring ON customer (expires_at_us, id) WHERE expires_at_us IS NOT NULL;

CREATE TABLE customer_session (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    customer_id BLOB NOT NULL,
    generation INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    renewed_at_us INTEGER NOT NULL,
    expires_at_us INTEGER NOT NULL,
    refresh_until_us INTEGER NOT NULL,
    network INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX customer_session_by_customer ON customer_session (customer_id, tenant, id);
CREATE INDEX customer_session_ending ON customer_session (refresh_until_us, id);

CREATE TABLE mail (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    customer_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    token_id BLOB,
    created_at_us INTEGER NOT NULL,
    due_at_us INTEGER,
    attempts INTEGER NOT NULL,
    error TEXT,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_due ON mail (due_at_us, id) WHERE due_at_us IS NOT NULL;
CREATE INDEX mail_by_customer ON mail (customer_id, tenant);
CREATE INDEX mail_given_up ON mail (created_at_us, id) WHERE due_at_us IS NULL;

CREATE TABLE operation (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    status INTEGER NOT NULL,
    customer_id BLOB,
    explanation TEXT,
    sealed TEXT,
    callback TEXT,
    notify_at_us INTEGER,
    notify_attempts INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    settled_at_us INTEGER,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_waiting ON operation (id, status) WHERE status = 1;
CREATE INDEX operation_to_notify ON operation (notify_at_us, id) WHERE notify_at_us IS NOT NULL;
CREATE INDEX operation_settled ON operation (settled_at_us, id) WHERE settled_at_us IS NOT NULL;

CREATE INDEX account_by_parent ON account (tenant, parent_account_id, id) WHERE parent_account_id IS NOT NULL;
CREATE TABLE custom_field (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    object_type INTEGER NOT NULL,
    object_id BLOB NOT NULL,
    object_payment_id BLOB,
    name TEXT,
    value TEXT,
    ordinal INTEGER NOT NULL,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_field_by_object ON custom_field (tenant, object_type, object_id) WHERE active = 1 AND value IS NOT NULL;
CREATE INDEX custom_field_by_account ON custom_field (tenant, account_id);
CREATE INDEX custom_field_by_creation ON custom_field (tenant, created_at_us, ordinal, id) WHERE active = 1 AND value IS NOT NULL;
CREATE INDEX custom_field_by_name ON custom_field (tenant, object_type, name, value) WHERE active = 1 AND value IS NOT NULL;
CREATE INDEX custom_field_by_value ON custom_field (tenant, value) WHERE active = 1 AND value IS NOT NULL;

CREATE TABLE custom_field_value (
    tenant INTEGER NOT NULL,
    field_id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    value TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, field_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_field_value_by_account ON custom_field_value (tenant, account_id);

CREATE TABLE object_tag (
    tenant INTEGER NOT NULL,
    object_id BLOB NOT NULL,
    definition_id BLOB NOT NULL,
    object_type INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    object_payment_id BLOB,
    id BLOB NOT NULL,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, object_id, definition_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX object_tag_by_id ON object_tag (tenant, id);
CREATE INDEX object_tag_by_account ON object_tag (tenant, account_id);
CREATE INDEX object_tag_by_creation ON object_tag (tenant, created_at_us, definition_id, id) WHERE active = 1;
CREATE INDEX object_tag_by_definition ON object_tag (tenant, definition_id, created_at_us, id) WHERE active = 1;

CREATE TABLE tag_definition (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    applies_to TEXT NOT NULL,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE account_email (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    email TEXT,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_email_by_account ON account_email (tenant, account_id, created_at_us);

INSERT INTO object_tag (tenant, object_id, definition_id, object_type, account_id, id, active, created_at_us, seq) SELECT tenant, account_id, CASE definition WHEN 1 THEN x'00000000000000000000000000000001' WHEN 2 THEN x'00000000000000000000000000000002' WHEN 3 THEN x'00000000000000000000000000000003' WHEN 4 THEN x'00000000000000000000000000000004' WHEN 5 THEN x'00000000000000000000000000000005' WHEN 6 THEN x'00000000000000000000000000000006' WHEN 7 THEN x'00000000000000000000000000000007' WHEN 8 THEN x'00000000000000000000000000000008' WHEN 9 THEN x'00000000000000000000000000000009' END, 1, account_id, id, active, created_at_us, seq FROM tag;
DROP TABLE tag;
CREATE TABLE blocking_state (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    blocks_change INTEGER NOT NULL,
    blocks_entitlement INTEGER NOT NULL,
    blocks_billing INTEGER NOT NULL,
    effective_at_us INTEGER NOT NULL,
    active INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocking_state_by_account ON blocking_state (tenant, account_id, ordinal);
CREATE INDEX blocking_state_closing ON blocking_state (tenant, account_id, ordinal) WHERE service = 'account-service';

CREATE TABLE payment_rules (
    tenant INTEGER NOT NULL,
    retries TEXT,
    limits TEXT,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE payment_attempt (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    payment_id BLOB,
    transaction_id BLOB,
    payment_key TEXT,
    transaction_key TEXT,
    payment_method_id BLOB,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    plugins TEXT NOT NULL,
    properties TEXT,
    rules INTEGER,
    counted_on INTEGER,
    retries INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    due_at_us INTEGER,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_attempt_by_payment ON payment_attempt (payment_id) WHERE payment_id IS NOT NULL;
CREATE INDEX payment_attempt_by_account ON payment_attempt (tenant, account_id, id);
CREATE INDEX payment_attempt_scheduled ON payment_attempt (tenant, account_id, due_at_us, id) WHERE due_at_us IS NOT NULL;

CREATE TABLE payment_velocity (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    day INTEGER NOT NULL,
    payments INTEGER NOT NULL,
    amounts TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    object_id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    due_at_us INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind, object_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_by_due_at ON timer (partition, due_at_us, tenant, kind, object_id);

CREATE TABLE audit_imported (
    tenant INTEGER NOT NULL,
    object_id BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    reason TEXT,
    comments TEXT,
    token BLOB NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, object_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_imported_by_account ON audit_imported (tenant, account_id, object_id, ordinal);

DROP INDEX custom_field_by_name;
CREATE INDEX custom_field_by_name_in_order ON custom_field (tenant, object_type, name, value, created_at_us, ordinal, id, active) WHERE active = 1 AND value IS NOT NULL;
ALTER TABLE payment_transaction ADD COLUMN merchant_account TEXT;
ALTER TABLE outstanding ADD COLUMN next_action TEXT;
ALTER TABLE payment_rules ADD COLUMN merchant_accounts TEXT;
CREATE TABLE webhook_delivery (
    seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    endpoint_id BLOB NOT NULL,
    tenant INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at_us INTEGER NOT NULL,
    error TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (seq, ordinal, endpoint_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_delivery_by_due_at ON webhook_delivery (due_at_us, seq, ordinal, endpoint_id);

CREATE TABLE webhook_try (
    partition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    endpoint_id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    status INTEGER,
    took_ms INTEGER NOT NULL,
    answer TEXT,
    error TEXT,
    next_at_us INTEGER,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (partition, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_try_by_tenant ON webhook_try (tenant, number, partition);

CREATE TABLE webhook_health (
    tenant INTEGER NOT NULL,
    endpoint_id BLOB NOT NULL,
    partition INTEGER NOT NULL,
    failing_since_us INTEGER,
    received_at_us INTEGER,
    refused INTEGER NOT NULL,
    PRIMARY KEY (tenant, endpoint_id, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_replay (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    endpoint_id BLOB,
    from_us INTEGER NOT NULL,
    to_us INTEGER NOT NULL,
    events TEXT NOT NULL,
    account_id BLOB,
    created_at_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_replay_progress (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    partition INTEGER NOT NULL,
    upto INTEGER,
    queued INTEGER NOT NULL,
    is_done INTEGER NOT NULL,
    PRIMARY KEY (tenant, id, partition)
) STRICT, WITHOUT ROWID;

INSERT INTO webhook_delivery (seq, ordinal, endpoint_id, tenant, attempts, due_at_us, error, check_made, check_now) SELECT seq, ordinal, x'00000000000000000000000000000000', tenant, attempts, due_at_us, error, check_made, check_now FROM delivery;
DROP TABLE delivery;
ALTER TABLE payment_transaction ADD COLUMN routed TEXT;
ALTER TABLE payment_rules ADD COLUMN routing TEXT;
CREATE TABLE dispute (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    payment_id BLOB NOT NULL,
    transaction_id BLOB NOT NULL,
    gateway TEXT NOT NULL,
    case_id TEXT NOT NULL,
    dispute_status INTEGER NOT NULL,
    reason TEXT,
    amount_minor INTEGER NOT NULL,
    currency TEXT NOT NULL,
    evidence_due_by_us INTEGER,
    warned_of_us INTEGER,
    withdrawn_minor INTEGER NOT NULL,
    reinstated_minor INTEGER NOT NULL,
    charged_back_minor INTEGER NOT NULL,
    reversed_minor INTEGER NOT NULL,
    excess_minor INTEGER NOT NULL,
    excess_returned_minor INTEGER NOT NULL,
    booking_at_us INTEGER,
    warning_at_us INTEGER,
    asked_at_us INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dispute_by_case ON dispute (tenant, gateway, case_id);
CREATE INDEX dispute_by_account ON dispute (tenant, account_id, id);
CREATE INDEX dispute_by_status ON dispute (tenant, dispute_status, id);
CREATE INDEX dispute_by_payment ON dispute (payment_id, id);

ALTER TABLE payment_method ADD COLUMN merchant_account TEXT;
ALTER TABLE payment_method ADD COLUMN step INTEGER;
ALTER TABLE payment_method ADD COLUMN step_deadline_us INTEGER;
ALTER TABLE payment_method ADD COLUMN step_asked INTEGER;
ALTER TABLE payment_method ADD COLUMN step_reply BLOB;
ALTER TABLE payment_transaction ADD COLUMN heard_at_us INTEGER;
CREATE INDEX payment_method_by_external_id ON payment_method (tenant, external_payment_method_id, gateway, id) WHERE active = 1 AND external_payment_method_id IS NOT NULL;
DROP INDEX outstanding_by_ask_at;
CREATE INDEX outstanding_by_gateway ON outstanding (partition, gateway, ask_at_us) WHERE ask_at_us IS NOT NULL;
CREATE TABLE feature (
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    terms TEXT NOT NULL,
    archived INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE offer (
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    terms TEXT NOT NULL,
    for_newcomers INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX offer_for_newcomers ON offer (tenant, for_newcomers) WHERE for_newcomers = 1;

CREATE TABLE offer_version (
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    terms TEXT NOT NULL,
    for_newcomers INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, key, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE purchase (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    payment_id BLOB,
    offer TEXT NOT NULL,
    offer_version INTEGER NOT NULL,
    terms TEXT NOT NULL,
    purchase_status INTEGER NOT NULL,
    from_us INTEGER,
    until_us INTEGER,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX purchase_by_account ON purchase (tenant, account_id, id);

CREATE TABLE entitlements (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    grants TEXT NOT NULL,
    bought TEXT NOT NULL,
    changed_at_us INTEGER NOT NULL,
    due_at_us INTEGER,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id)
) STRICT;
CREATE INDEX entitlements_by_seq ON entitlements (seq);

ALTER TABLE payment ADD COLUMN purchase_id BLOB;
CREATE TABLE account_user (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    key_hash BLOB NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, key_hash)
) STRICT, WITHOUT ROWID;

ALTER TABLE entitlements ADD COLUMN users_version INTEGER;
CREATE TABLE feature_usage (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    feature TEXT NOT NULL,
    period_end_us INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    period_start_us INTEGER NOT NULL,
    used INTEGER NOT NULL,
    reserved TEXT NOT NULL,
    endings INTEGER NOT NULL,
    is_reached INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, feature, period_end_us, resets)
) STRICT, WITHOUT ROWID;
CREATE INDEX feature_usage_by_seq ON feature_usage (seq);

CREATE TABLE usage_event (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    event_key BLOB NOT NULL,
    feature TEXT NOT NULL,
    period_end_us INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    period_start_us INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    limited_to INTEGER NOT NULL,
    used INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    counted_at_us INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, event_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_event_by_time ON usage_event (counted_at_us);

CREATE TABLE usage_reservation (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    id BLOB NOT NULL,
    feature TEXT NOT NULL,
    period_end_us INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    period_start_us INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    until_us INTEGER NOT NULL,
    endings INTEGER NOT NULL,
    reservation_status INTEGER NOT NULL,
    confirmed INTEGER,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_reservation_by_end ON usage_reservation (until_us);

ALTER TABLE account ADD COLUMN external_key_folded TEXT;
ALTER TABLE account_person ADD COLUMN name_folded TEXT;
ALTER TABLE account_person ADD COLUMN email_folded TEXT;
ALTER TABLE account_person ADD COLUMN company_folded TEXT;
ALTER TABLE payment_method ADD COLUMN external_key_folded TEXT;
ALTER TABLE custom_field ADD COLUMN name_folded TEXT;
ALTER TABLE custom_field ADD COLUMN value_folded TEXT;
DROP INDEX account_person_by_email;
CREATE INDEX account_person_by_folded_email ON account_person (tenant, coalesce(email_folded, lower(email))) WHERE email IS NOT NULL;
CREATE TABLE catalog_version (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    effective_at_us INTEGER NOT NULL,
    is_withdrawn INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    compiled TEXT NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX catalog_version_by_seq ON catalog_version (tenant, seq);

CREATE TABLE catalog_text (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    text TEXT NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE account_billing (
    tenant INTEGER NOT NULL,
    account_id BLOB NOT NULL,
    credit INTEGER NOT NULL,
    invoiced_until TEXT,
    blocked_until_us INTEGER,
    due_at_us INTEGER,
    parked TEXT,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, account_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_billing_parked ON account_billing (tenant, account_id) WHERE parked IS NOT NULL;

CREATE TABLE bundle (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    external_key TEXT,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    external_key_folded TEXT,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX bundle_by_account ON bundle (tenant, account_id, id);

CREATE TABLE subscription (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    bundle_id BLOB NOT NULL,
    external_key TEXT,
    category INTEGER NOT NULL,
    transitions TEXT NOT NULL,
    in_effect INTEGER NOT NULL,
    entitled_from_us INTEGER NOT NULL,
    entitled_until_us INTEGER,
    entitlement_ended INTEGER NOT NULL,
    charged_through TEXT,
    settled TEXT NOT NULL,
    next_due TEXT,
    first_charged_id BLOB,
    given TEXT,
    is_over INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX subscription_by_account ON subscription (tenant, account_id, id);
CREATE INDEX subscription_by_bundle ON subscription (tenant, bundle_id, id);
CREATE INDEX subscription_by_key ON subscription (tenant, external_key, id) WHERE external_key IS NOT NULL;

CREATE TABLE invoice (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    status INTEGER NOT NULL,
    currency TEXT NOT NULL,
    invoice_date TEXT NOT NULL,
    target_date TEXT,
    charged INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    payments TEXT,
    is_open INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX invoice_by_account ON invoice (tenant, account_id, target_date, number);
CREATE UNIQUE INDEX invoice_by_number ON invoice (tenant, number);
CREATE INDEX invoice_open ON invoice (tenant, account_id, number) WHERE is_open = 1;

CREATE TABLE invoice_item (
    tenant INTEGER NOT NULL,
    id BLOB NOT NULL,
    account_id BLOB NOT NULL,
    invoice_id BLOB NOT NULL,
    subscription_id BLOB,
    bundle_id BLOB,
    kind INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    currency TEXT NOT NULL,
    start_date TEXT NOT NULL,
    end_date TEXT,
    last_day TEXT NOT NULL,
    linked_id BLOB,
    manual TEXT,
    description TEXT,
    details TEXT,
    adjusted INTEGER NOT NULL,
    repaired INTEGER NOT NULL,
    voided INTEGER NOT NULL,
    product TEXT,
    plan TEXT,
    phase TEXT,
    rate TEXT,
    catalog_effective_at_us INTEGER,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX invoice_item_by_invoice ON invoice_item (tenant, account_id, invoice_id, id);
CREATE INDEX invoice_item_by_subscription ON invoice_item (tenant, subscription_id, last_day) WHERE subscription_id IS NOT NULL;

CREATE TABLE plan_features (
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    features TEXT NOT NULL,
    on_payment INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_features_on_payment ON plan_features (tenant) WHERE on_payment = 1;

CREATE TABLE plan_features_version (
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    features TEXT NOT NULL,
    on_payment INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    check_made INTEGER NOT NULL,
    check_now INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind, name, version)
) STRICT, WITHOUT ROWID;

ALTER TABLE payment ADD COLUMN invoice_id BLOB;
ALTER TABLE blocking_state ADD COLUMN bundle_id BLOB;
ALTER TABLE blocking_state ADD COLUMN subscription_id BLOB;
ALTER TABLE payment_rules ADD COLUMN billing TEXT;
ALTER TABLE posting RENAME COLUMN payment_id TO source_id;
ALTER TABLE posting RENAME COLUMN transaction_id TO part_id;
DROP INDEX posting_by_payment;
CREATE INDEX posting_by_source ON posting (tenant, account_id, source_id);
