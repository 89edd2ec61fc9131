-- Stands behind a release, where somebody may be in the line. A key that is not deleted yet has a new end, which whoever
-- is next has to see.
local wake = of_line()
wake(KEYS[2], string.sub(KEYS[2], 15)) -- what is told is the name behind `quorlock:line:`
return 1
