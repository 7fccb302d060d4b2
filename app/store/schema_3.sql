-- Version 3: pinned and archived chats; which file a reply's model was.

ALTER TABLE chat ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reply ADD COLUMN model_digest TEXT NOT NULL DEFAULT '';
