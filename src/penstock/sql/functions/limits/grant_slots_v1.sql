-- Grant slots of concurrency limits to a lease: for each key as many as it wants, as far as there is room.
-- slots is what the lease holds from now on, never less than it uses; NULL means that the key has no limit any more.
-- share is what the lease should go down to as its jobs end. While more slots are wanted than there are, each lease
-- gets an equal part, or what it wants if that is less. Shares add up to the limit, so no lease waits for ever. The
-- remainder of the division goes around by the clock, starting with another lease for each key: otherwise one lease
-- would get the only slot of every lane at the same time. While there is enough for all, share is the whole limit.
--
-- Grants of one key are made one after the other: a statement takes the lock, and only the next one reads what the
-- others hold. An older snapshot would not show what was granted while we waited for the lock, so transactions that
-- keep their snapshot are refused.
CREATE FUNCTION :"schema".grant_slots_v1(
    p_lease bigint, p_keys text[], p_wants integer[], p_uses integer[], p_now timestamptz DEFAULT NULL
) RETURNS TABLE (key text, slots integer, share integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v     record;
BEGIN
    IF current_setting('transaction_isolation') NOT LIKE 'read %' THEN
        RAISE EXCEPTION 'Slots are granted in a transaction that is read committed, not %.',
            current_setting('transaction_isolation') USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM lock_grants_v1(p_keys);
    v_now := coalesce(p_now, clock_timestamp());
    IF NOT EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now) THEN
        RAISE EXCEPTION 'Lease % has expired or was given up; ask with a new one.', p_lease
            USING ERRCODE = 'PS001';
    END IF;
    -- Grants of expired leases are deleted before their slots are granted again: otherwise a late heartbeat, which was
    -- under way when its lease expired, could renew the lease together with its grants.
    DELETE FROM "grant" AS g
     WHERE (g.key, g.lease) IN (
           SELECT o.key, o.lease FROM "grant" AS o
            WHERE o.key = ANY (p_keys) AND o.lease <> p_lease
              AND NOT EXISTS (SELECT FROM lease AS l WHERE l.id = o.lease AND l.expires_at > v_now)
              FOR UPDATE OF o SKIP LOCKED);
    FOR v IN
        WITH asked AS MATERIALIZED (
            SELECT a.key, a.want, a.uses, l.slots AS most
              FROM (SELECT g.key COLLATE "C" AS key, greatest(0, max(g.want)) AS want, greatest(0, max(g.uses)) AS uses
                      FROM unnest(p_keys, p_wants, p_uses) AS g (key, want, uses) GROUP BY 1) AS a
             CROSS JOIN LATERAL get_limit_v1(a.key) AS l
        ), held AS MATERIALIZED (
            SELECT g.key, g.lease, g.slots, g.wanted
              FROM "grant" AS g
             WHERE g.key = ANY (p_keys) AND g.lease <> p_lease
               AND EXISTS (SELECT FROM lease AS l WHERE l.id = g.lease AND l.expires_at > v_now)
        ), demand AS (
            SELECT d.key, d.lease, d.slots, d.wanted, a.most,
                   sum(d.wanted) OVER less - d.wanted AS smaller,
                   count(*) OVER (PARTITION BY d.key) - count(*) OVER less + 1 AS larger
              FROM (SELECT h.key, h.lease, h.slots, h.wanted FROM held AS h
                    UNION ALL SELECT a.key, p_lease, NULL, a.want FROM asked AS a) AS d
              JOIN asked AS a ON a.key = d.key
             WHERE d.wanted > 0
            WINDOW less AS (PARTITION BY d.key ORDER BY d.wanted, d.lease)
        ), scarce AS (
            -- Leases that want more than an equal part of what is left by those that want less.
            SELECT d.key, d.lease, count(*) OVER alike AS among, d.most - min(d.smaller) OVER alike AS remaining,
                   row_number() OVER (PARTITION BY d.key ORDER BY d.lease) + abs(hashtext(d.key)::bigint)
                       + div(extract(epoch FROM v_now), 10) * ((d.most - min(d.smaller) OVER alike) % count(*) OVER alike)
                       AS turn
              FROM demand AS d WHERE d.wanted * d.larger > d.most - d.smaller
            WINDOW alike AS (PARTITION BY d.key)
        ), part AS (
            SELECT d.key, d.lease, d.slots, coalesce(
                       div(s.remaining, s.among) + (s.turn % s.among < s.remaining % s.among)::integer, d.wanted)::integer AS part,
                   s.key IS NOT NULL AS is_short
              FROM demand AS d LEFT JOIN scarce AS s ON s.key = d.key AND s.lease = d.lease
        ), others AS (
            SELECT h.key, sum(h.slots)::integer AS slots, bool_or(h.slots < q.part) AS is_below,
                   bool_or(h.slots > q.part) AS is_above
              FROM held AS h LEFT JOIN part AS q ON q.key = h.key AND q.lease = h.lease
             GROUP BY h.key
        )
        SELECT a.key, a.most, a.want, mine.slots AS old_slots, mine.wanted AS old_want,
               coalesce(p.part, 0) AS part, CASE WHEN p.is_short THEN p.part ELSE a.most END AS share,
               greatest(a.uses, least(coalesce(p.part, 0), a.most - coalesce(o.slots, 0))) AS slots,
               coalesce(o.slots, 0) AS others, coalesce(o.is_below, false) AS is_below,
               coalesce(o.is_above, false) AS is_above
          FROM asked AS a
          LEFT JOIN part AS p ON p.key = a.key AND p.lease = p_lease
          LEFT JOIN "grant" AS mine ON mine.key = ANY (p_keys) AND mine.key = a.key AND mine.lease = p_lease
          LEFT JOIN others AS o ON o.key = a.key
         ORDER BY a.key
    LOOP
        IF v.most IS NULL OR v.slots + v.want = 0 THEN
            DELETE FROM "grant" AS g WHERE g.key = v.key AND g.lease = p_lease;
        ELSIF (v.slots, v.want) IS DISTINCT FROM (v.old_slots, v.old_want) THEN
            INSERT INTO "grant" AS g (key, lease, slots, wanted) VALUES (v.key, p_lease, v.slots, v.want)
            ON CONFLICT ON CONSTRAINT grant_pkey DO UPDATE SET slots = excluded.slots, wanted = excluded.wanted;
        END IF;
        -- A lease that has to wait notifies the others, because one may hold slots that it does not need.
        -- It does so only if its grant or its demand changed: otherwise two waiting leases would wake each other for ever.
        IF (v.slots, v.want) IS DISTINCT FROM (coalesce(v.old_slots, 0), coalesce(v.old_want, 0))
           AND (v.is_below AND v.others + v.slots < v.most OR v.is_above AND v.slots < v.part
                OR v.slots < v.want AND v.others > 0) THEN
            PERFORM pg_notify(current_schema() || '.grants', v.key);
        ELSIF v.slots = 0 AND v.want > 0 AND v.others > 0 AND cardinality(p_keys) <= 64 THEN
            -- Another lease may hold the slots by now. Only holders react to this message, so it wakes no waiting lease.
            PERFORM pg_notify(current_schema() || '.waits', v.key);
        END IF;
        key := v.key;
        slots := CASE WHEN v.most IS NOT NULL THEN v.slots END;
        share := v.share;
        RETURN NEXT;
    END LOOP;
END
$$;
