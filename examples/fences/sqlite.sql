-- The fence for SQLite: what a holder that comes too late sends is an error, and changes nothing.
--
-- Run this file once: sqlite3 -bail invoices.db < sqlite.sql. A refused statement fails with SQLITE_CONSTRAINT_TRIGGER and a text
-- that begins with `stale fencing token` or `no fencing token`. It is undone, and its transaction is still open: ROLLBACK,
-- and stop. Begin a transaction with what moves the fence, or with BEGIN IMMEDIATE: it has the write lock from there on.

-- 1. For what has no row of its own, and for several statements. Move the fence first, in the same transaction, and so also
-- before a read of which the write will be made:
--
--     BEGIN IMMEDIATE; REPLACE INTO fence (resource, token) VALUES (?1, ?2); ...; COMMIT;
--
-- The row in `fence` must stay for as long as the resource may be written.
CREATE TABLE fence (
    resource TEXT NOT NULL PRIMARY KEY CHECK (typeof(resource) = 'text'),
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
);

CREATE TRIGGER fence_moved BEFORE INSERT ON fence
WHEN NEW.token < (SELECT token FROM fence WHERE resource = NEW.resource)
BEGIN
    SELECT RAISE(ABORT, 'stale fencing token: a later holder has been here');
END;

CREATE TRIGGER fence_updated BEFORE UPDATE ON fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'stale fencing token: a later holder has been here');
END;

-- 2. For the rows of a table: a column `fence` with the token of the last writer, zero before the first.
--
--     UPDATE invoice SET paid = TRUE, fence = ?1 WHERE id = ?2;
--
-- Write the name of your table for `invoice`, and its key for `id`. An UPDATE that does not set the column is refused too.
-- The triggers cannot see:
--   - a DELETE or a new key, which take the fence with them, and an INSERT after it: move the fence of the resource before these;
--   - an INSERT without the column, whose row lets in any token: give it one;
--   - a REPLACE or UPDATE OR REPLACE that meets another UNIQUE key than `id`: compare that one in the triggers too;
--   - an UPDATE OR IGNORE or OR FAIL, which may let the next statement in without a token;
--   - an old token that is written back as it was read, as some mappers do with all columns: exclude this one there.
CREATE TABLE IF NOT EXISTS invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL DEFAULT FALSE);
ALTER TABLE invoice ADD COLUMN fence INTEGER NOT NULL DEFAULT 0 CHECK (typeof(fence) = 'integer' AND fence >= 0);

-- The token that the statement gives for the row it is at; empty between the rows.
CREATE TABLE IF NOT EXISTS fence_given (token INTEGER NOT NULL);

CREATE TRIGGER invoice_fence_compared BEFORE UPDATE OF fence ON invoice
BEGIN
    SELECT RAISE(ABORT, 'stale fencing token: a later holder has been here')
    WHERE NEW.fence < max(OLD.fence, coalesce((SELECT fence FROM invoice WHERE id = NEW.id), 0));
    SELECT RAISE(ABORT, 'no fencing token: what the statement has is none')
    WHERE typeof(NEW.fence) <> 'integer' OR NEW.fence < 1;
    INSERT INTO fence_given (token) VALUES (NEW.fence);
END;

CREATE TRIGGER invoice_fence_required AFTER UPDATE ON invoice
BEGIN
    SELECT RAISE(ABORT, 'no fencing token: the UPDATE does not set the column')
    WHERE NOT EXISTS (SELECT 1 FROM fence_given WHERE token = NEW.fence);
    DELETE FROM fence_given;
END;

-- A REPLACE deletes the row and inserts another, which no trigger of an UPDATE sees.
CREATE TRIGGER invoice_fence_replaced BEFORE INSERT ON invoice
WHEN coalesce(NEW.fence, 0) < (SELECT fence FROM invoice WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'stale fencing token: a later holder has been here') WHERE NEW.fence > 0;
    SELECT RAISE(ABORT, 'no fencing token: the INSERT does not set the column');
END;
