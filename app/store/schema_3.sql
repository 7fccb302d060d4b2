-- Version 3: pinned and archived chats; which file a reply's model was.

ALTER TABLE chat ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reply ADD COLUMN model_digest TEXT NOT NULL DEFAULT '';

-- The index of all words (see search.py), kept by triggers and so in step whatever changes. Texts go
-- to `search_words` as bytes: a damaged one must not keep the others from being found.
CREATE VIEW message_words AS
    SELECT id, search_words(CAST(content AS BLOB)) AS words FROM message;

CREATE VIRTUAL TABLE search USING fts5 (
    words, content = 'message_words', content_rowid = 'id', prefix = '1 2',
    tokenize = "unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"
);

CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    INSERT INTO search (rowid, words) VALUES (new.id, search_words(CAST(new.content AS BLOB)));
END;

CREATE TRIGGER message_changed AFTER UPDATE OF content ON message
WHEN old.content IS NOT new.content BEGIN
    INSERT INTO search (search, rowid, words)
    VALUES ('delete', old.id, search_words(CAST(old.content AS BLOB)));
    INSERT INTO search (rowid, words) VALUES (new.id, search_words(CAST(new.content AS BLOB)));
END;

CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
    INSERT INTO search (search, rowid, words)
    VALUES ('delete', old.id, search_words(CAST(old.content AS BLOB)));
END;

INSERT INTO search (search) VALUES ('rebuild');
