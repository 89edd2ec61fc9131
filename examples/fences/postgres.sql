-- The fence for PostgreSQL, tried on 15: what a holder that comes too late sends is an error, and changes nothing.
--
-- Run this file once in a schema of yours: psql -1 -v ON_ERROR_STOP=1 -f postgres.sql. It makes what refuses, and fences nothing by itself.
--   QL001  stale token: a later holder has been here. ROLLBACK, stop the work, and acquire anew.
--   QL002  no token: the statement has none, or what it has is none. ROLLBACK, and mend the program.
-- Both compare under a lock of the row, which is kept to the end of the transaction: an earlier holder is refused, a later
-- one waits. Under REPEATABLE READ and SERIALIZABLE it may get 40001 instead; then repeat the transaction from its beginning.
-- A holder that is paused inside its transaction lets later ones wait for it: set idle_in_transaction_session_timeout.

-- 1. For what has no row of its own, and for several statements. Move the fence first, in the same transaction, and so also
-- before a read of which the write will be made:
--
--     BEGIN; SELECT move_fence('invoice:42', $1); ...; COMMIT;
--
-- The row in `fence` must stay for as long as the resource may be written.
CREATE TABLE fence (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0)
);

CREATE FUNCTION move_fence(of_resource text, to_token bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF of_resource IS NULL OR to_token IS NULL OR to_token < 1 THEN
        RAISE EXCEPTION 'no fencing token for resource %: %', of_resource, to_token USING ERRCODE = 'QL002';
    END IF;
    INSERT INTO fence AS seen (resource, token) VALUES (of_resource, to_token)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale fencing token % for %: a later holder has been here', to_token, of_resource
            USING ERRCODE = 'QL001', HINT = 'Roll back, stop the work, and acquire anew.';
    END IF;
END $$;

CREATE FUNCTION keep_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.token < OLD.token THEN
        RAISE EXCEPTION 'stale fencing token % for %: a later holder has been here', NEW.token, OLD.resource
            USING ERRCODE = 'QL001', HINT = 'Roll back, stop the work, and acquire anew.';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER fence_kept BEFORE UPDATE ON fence FOR EACH ROW EXECUTE FUNCTION keep_fence();

-- 2. For the rows of a table: a column `fence` with the token of the last writer, zero before the first.
--
--     CALL add_fence('invoice');
--     UPDATE invoice SET paid = TRUE, fence = $1 WHERE id = $2;
--
-- An UPDATE that does not set the column is refused too. The triggers cannot see:
--   - a DELETE, a TRUNCATE or a new key, which take the fence with them, and an INSERT after it: move the fence of the resource
--     before these;
--   - an INSERT without the column, whose row lets in any token: give it one;
--   - an old token that is written back as it was read, as some mappers do with all columns, and GREATEST(fence, $1): exclude
--     this column there;
--   - a MERGE of which one UPDATE sets the column and another does not.
CREATE PROCEDURE add_fence(to_table regclass) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_inherits JOIN pg_class ON oid = inhparent WHERE inhparent = to_table AND relkind = 'r') THEN
        RAISE EXCEPTION 'other tables inherit from %, and its triggers do not fence their rows: call it for each', to_table;
    END IF;
    EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0', to_table);
    -- The sign is ours.
    EXECUTE format('ALTER TABLE %s ALTER COLUMN fence SET NOT NULL, ADD CHECK (fence >= 0)', to_table);
    -- Triggers run in the order of their names.
    EXECUTE format('CREATE TRIGGER fence_1 BEFORE UPDATE OF fence ON %s FOR EACH ROW EXECUTE FUNCTION compare_fence()', to_table);
    EXECUTE format('CREATE TRIGGER fence_2 BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION require_fence()', to_table);
END $$;

-- Runs where the statement sets the column, and marks what it lets in with a sign.
CREATE FUNCTION compare_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence IS NULL OR NEW.fence < 1 THEN
        RAISE EXCEPTION 'no fencing token for a row of %: %', TG_TABLE_NAME, NEW.fence USING ERRCODE = 'QL002';
    ELSIF NEW.fence < OLD.fence THEN
        RAISE EXCEPTION 'stale fencing token % for a row of %: a later holder has been here', NEW.fence, TG_TABLE_NAME
            USING ERRCODE = 'QL001', HINT = 'Roll back, stop the work, and acquire anew.';
    END IF;
    NEW.fence := -NEW.fence;
    RETURN NEW;
END $$;

-- Runs always, and takes the sign away. Where there is none, the statement has left the column out.
CREATE FUNCTION require_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence >= 0 THEN
        RAISE EXCEPTION 'no fencing token for a row of %: the UPDATE does not set the column', TG_TABLE_NAME
            USING ERRCODE = 'QL002';
    END IF;
    NEW.fence := -NEW.fence;
    RETURN NEW;
END $$;

-- Theirs is this schema, and no table of a caller's that has the same name.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION move_fence(text, bigint) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER PROCEDURE add_fence(regclass) SET search_path = %I, pg_temp', current_schema());
END $$;
