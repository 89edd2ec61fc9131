-- Goes on where release.lua has freed keys, behind line.lua. A key that is kept has a new end, which who is next has to see. Of a
-- slot the first in either line is told: which of them came before, the node sees when they ask.
for index, line in ipairs(lines) do
  local is_kept = #lines == size and size > 1
  for _, key in ipairs(freed) do is_kept = is_kept and key ~= KEYS[index] end
  if not is_kept then wake(line, string.sub(line, 15)) end -- what is told is the name behind `quorlock:line:`
end
return answer
