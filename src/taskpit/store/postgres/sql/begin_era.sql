UPDATE {s}.meta m SET era = m.era + 1, system = c.system_identifier::text
FROM pg_control_system() c WHERE m.system <> c.system_identifier::text RETURNING m.era
