-- Tags: which jobs carry one, and how many do.

local rcall = redis.call

-- Counted only when the job did not carry it, so that counts stay equal to members.
function Tags.index(call, jid, tags)
  if #tags > 0 then
    Features.note(call, 'G')
  end
  for _, tag in ipairs(tags) do
    if rcall('ZADD', Keys.tag(call, tag), call.text, jid) == 1 then
      rcall('ZINCRBY', call.keys.tags, '1', tag)
    end
  end
end

local function unindex(call, jid, tags)
  for _, tag in ipairs(tags) do
    if
      rcall('ZREM', Keys.tag(call, tag), jid) == 1
      and tonumber(rcall('ZINCRBY', call.keys.tags, '-1', tag)) <= 0
    then
      rcall('ZREM', call.keys.tags, tag)
    end
  end
end

-- The tags in the text of a record; nil if it cannot be read.
local function read(text)
  local fine, tags = pcall(Json.stored, text)
  return fine and tags or nil
end

-- A job does not carry the tags in the text of its record any longer. Where that cannot be read it is looked for among all
-- tags.
function Tags.unindex_all(call, jid, text)
  if text and text ~= '{}' and text ~= '' then
    unindex(call, jid, read(text) or rcall('ZRANGE', call.keys.tags, 0, -1))
  end
end

-- The tags of both lists, in order and without repetition.
function Tags.with(tags, more)
  local all, seen = {}, {}
  for _, list in ipairs({ tags, more }) do
    for _, tag in ipairs(list) do
      if not seen[tag] then
        seen[tag] = true
        all[#all + 1] = tag
      end
    end
  end
  return all
end

-- Those of the first list that are not in the second.
function Tags.without(tags, less)
  local gone, left = {}, {}
  for _, tag in ipairs(less) do
    gone[tag] = true
  end
  for _, tag in ipairs(tags) do
    if not gone[tag] then
      left[#left + 1] = tag
    end
  end
  return left
end

local function tags_of(call, jid)
  jid = Arguments.name(call, 'jid', jid)
  local state, text = unpack(rcall('HMGET', Keys.job(call, jid), 'state', 'tags'))
  if not state then
    Errors.no_job(call, jid)
  end
  local tags = read(text or nil)
  if not tags then
    Tags.unindex_all(call, jid, text)
  end
  return tags or {}
end

local function store(call, jid, tags)
  local text = cjson.encode(tags)
  rcall('HSET', Keys.job(call, jid), 'tags', text)
  return text
end

local WORDS = {}

function WORDS.add(call, args, i)
  local jid, more = args[i], Pieces.rest(args, i + 1)
  local tags = tags_of(call, jid)
  Arguments.bounded(call, #more)
  local all = Arguments.few_tags(call, Tags.with(tags, more))
  Tags.index(call, jid, more)
  return store(call, jid, all)
end

function WORDS.remove(call, args, i)
  local jid, less = args[i], Pieces.rest(args, i + 1)
  local tags = tags_of(call, jid)
  Arguments.bounded(call, #less)
  unindex(call, jid, less)
  return store(call, jid, Tags.without(tags, less))
end

function WORDS.get(call, args, i)
  local tag = Arguments.given(call, 'tag', args[i])
  local offset, count = Arguments.offset(call, args[i + 1]), Arguments.count(call, args[i + 2], 25)
  local total = rcall('ZCARD', Keys.tag(call, tag))
  return cjson.encode({
    total = total,
    jobs = rcall('ZRANGE', Keys.tag(call, tag), Arguments.range(offset, count, total)),
  })
end

function WORDS.top(call, args, i)
  local offset, count = Arguments.offset(call, args[i]), Arguments.count(call, args[i + 1], 25)
  count = count < 0 and Arguments.most or count
  return cjson.encode(rcall('ZREVRANGEBYSCORE', call.keys.tags, '+inf', 2, 'LIMIT', offset, count))
end

-- tag add|remove jid tag...   tag get tag [offset count]   tag top [offset count]
function Tags.command(call, args, i)
  local act = WORDS[args[i] or '']
  if not act then
    Errors.argument(call, 'First argument must be add, remove, get or top')
  end
  return act(call, args, i + 1)
end

-- tag.counts offset count -> total, and tags: each with how many jobs carry it, the commonest first
function Tags.counts(call, args, i)
  local offset = Arguments.whole(call, 'offset', args[i], 0)
  local count = math.min(Arguments.whole(call, 'count', args[i + 1], 0), Arguments.most)
  local shown = {}
  local found = count > 0 and rcall('ZREVRANGE', call.keys.tags, offset, offset + count - 1, 'WITHSCORES')
    or {}
  for n = 1, #found, 2 do
    shown[#shown + 1] = { found[n], tonumber(found[n + 1]) }
  end
  return cjson.encode({ total = rcall('ZCARD', call.keys.tags), tags = shown })
end
