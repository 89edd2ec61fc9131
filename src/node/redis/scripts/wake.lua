-- Stands behind a release, where somebody may be in the line. A key that is not deleted yet has a new end, which whoever
-- is next has to see. Of a slot the first in either line is told: which of them came before, the node sees when they ask.
local wake = of_line()
for _, line in ipairs(slot_at and {own_line, slots_line} or {KEYS[2]}) do
  wake(line, string.sub(line, 15)) -- what is told is the name behind `quorlock:line:`
end
return 1
