-- The lowest and the highest value of each setting that a role may change.
SELECT name, CASE vartype WHEN 'bool' THEN 'off' WHEN 'enum' THEN enumvals[1] ELSE min_val END,
       CASE vartype WHEN 'bool' THEN 'on' WHEN 'enum' THEN enumvals[cardinality(enumvals)] ELSE max_val END
FROM pg_settings WHERE context = 'user' AND vartype <> 'string' AND name !~ '^transaction_' AND name NOT IN (
    'default_transaction_read_only', 'synchronous_commit'  -- these express the operator's intention, and are reported
) ORDER BY name
