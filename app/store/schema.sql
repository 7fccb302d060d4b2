-- Version 1 of the file that keeps the chats.
--
-- Messages are a tree: an edit or a new try is a further child of the same parent, nothing is
-- overwritten. AUTOINCREMENT keeps the highest id ever used, so that no id is given out twice.
--
-- A selected_id names the chosen one of several siblings and has no foreign key: a parent is
-- written before the child it selects, and perhaps in an earlier transaction. One that names
-- nothing does no harm, the newest child stands in for it.

PRAGMA application_id = 1397572715; -- "SMDk"

CREATE TABLE chat (
    id            INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    title         TEXT    NOT NULL,
    titled        INTEGER NOT NULL CHECK (titled IN (0, 1)), -- 1: the user chose the title
    created_at    REAL    NOT NULL,                          -- seconds since 1970, as all times
    updated_at    REAL    NOT NULL,
    deleted_at    REAL,
    selected_id   INTEGER,
    draft         TEXT    NOT NULL,
    system_prompt TEXT,                                      -- NULL: the model's own
    options       TEXT    NOT NULL                           -- JSON
) STRICT;

CREATE TABLE message (
    id          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    chat_id     INTEGER NOT NULL REFERENCES chat ON DELETE CASCADE,
    parent_id   INTEGER REFERENCES message ON DELETE CASCADE CHECK (parent_id <> id),
    role        TEXT    NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
    content     TEXT    NOT NULL,
    created_at  REAL    NOT NULL,
    deleted_at  REAL,
    selected_id INTEGER
) STRICT;

-- One for each message of the assistant. What a reason may be is the engine's to say, and grows.
CREATE TABLE reply (
    message_id          INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,
    status              TEXT NOT NULL
        CHECK (status IN ('waiting', 'streaming', 'finished', 'interrupted', 'failed')),
    reason              TEXT,
    error               TEXT NOT NULL,
    remedy              TEXT NOT NULL,
    token_ids           BLOB CHECK (length(token_ids) % 4 = 0), -- uint32, little-endian
    options             TEXT NOT NULL,                          -- JSON: [[first token, {…}], …]
    seed                INTEGER,
    model               TEXT NOT NULL,
    device              TEXT NOT NULL,
    precision           TEXT NOT NULL,
    prompt_tokens       INTEGER,                                -- these five: all or none
    reused_tokens       INTEGER,
    new_tokens          INTEGER,
    time_to_first_token REAL,
    tokens_per_second   REAL
) STRICT;

CREATE INDEX message_of_chat ON message (chat_id);
CREATE INDEX message_of_parent ON message (parent_id) WHERE parent_id IS NOT NULL; -- for cascades
CREATE INDEX chat_deleted ON chat (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX reply_unfinished ON reply (status) WHERE status IN ('waiting', 'streaming');
