-- Goes on where release.lua has freed keys, behind line.lua, with what it knows: size, others, answer, line and slots_line. A key
-- that is kept has a new end, which the next one has to see. Of a slot the first in either line is told: which of them came
-- before, the node sees when they ask.
for index = first_line, KIND == 'set' and #KEYS or first_line do
  local line = KIND == 'set' and KEYS[index] or line
  local is_of_others = others and #KEYS == 2 * size and others[index - size]
  if not is_of_others then wake(line, string.sub(line, 15)) end -- what is told is the name behind `quorlock:line:`
end
if slots_line then wake(slots_line, string.sub(slots_line, 15)) end
return answer
