-- Version 4: up to which number what was put is in these tables (see put_log.py).

CREATE TABLE written (number INTEGER NOT NULL);

INSERT INTO written (number) VALUES (0);
