-- Stands before the scripts that change the record of a node, `members`: which list it belongs to. It is `generation names fleet`;
-- of a node that serves clients with both lists of a change alone `generation before>after fleet`.

-- The records of the nodes that serve clients with these members: the same; and if they have both lists, those of nodes that serve
-- clients with either alone as well.
local function records_of(members)
  local generation, first, second, fleet = string.match(members, '^(%d+) ([^> ]+)>(%S+) (.*)$')
  if not second then return members, nil, nil end
  local after = string.format('%.0f', generation + 1) .. ' ' .. second .. ' ' .. fleet
  return members, generation .. ' ' .. first .. ' ' .. fleet, after
end

-- What of a record stands in the identity of a node, so that who has read another one neither extends nor restores: nothing in the
-- first generation.
local function tag_of(record)
  local generation, names = string.match(record or '', '^(%d+) (%S+)')
  local both = names and string.find(names, '>', 1, true)
  if not generation or generation == '1' and not both then return '' end
  return '/' .. generation .. (both and '>' or '')
end
