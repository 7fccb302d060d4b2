-- Version 2: of how many messages, for want of room, a reply knew nothing.

ALTER TABLE reply ADD COLUMN left_out_messages INTEGER NOT NULL DEFAULT 0;
