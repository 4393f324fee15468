-- Tags: which jobs carry one, and how many do.

-- Counted only when the job did not carry it, so that counts stay equal to members.
function Tags.index(jid, tags)
  for _, tag in ipairs(tags) do
    if call('ZADD', key.tag(tag), scope.now, jid) == 1 then
      call('ZINCRBY', key.tags(), 1, tag)
    end
  end
end

function Tags.unindex(jid, tags)
  for _, tag in ipairs(tags) do
    if call('ZREM', key.tag(tag), jid) == 1 then
      if tonumber(call('ZINCRBY', key.tags(), -1, tag)) <= 0 then
        call('ZREM', key.tags(), tag)
      end
    end
  end
end

-- The same with the text of a record. Where that cannot be read, the job is looked for among all tags.
function Tags.unindex_all(jid, text)
  if Record.is_bad('tags', text) then
    Tags.unindex(jid, call('ZRANGE', key.tags(), 0, -1))
  elseif text then
    Tags.unindex(jid, Record.read('tags', text, {}))
  end
end

-- The stored text of a list; an empty one is {} as cjson writes it.
function Tags.text(tags)
  return cjson.encode(tags)
end

-- The tags after adding or removing some, in order of application.
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

function Tags.rest(args, i)
  local tags = {}
  for n = i, #args do
    tags[#tags + 1] = args[n]
  end
  return tags
end

local function load(jid)
  jid = Arguments.name('tag', 'jid', jid)
  local its_jid, tags = Hash.values(key.job(jid), 'jid', 'tags')
  if not its_jid then
    Errors.no_job('tag', jid)
  end
  if Record.is_bad('tags', tags) then
    Tags.unindex_all(jid, tags)
  end
  return Record.read('tags', tags, {})
end

local function store(jid, tags)
  local text = Tags.text(tags)
  call('HSET', key.job(jid), 'tags', text)
  return text
end

local function page(args, i)
  local offset, count = Arguments.offset('tag', args[i]), Arguments.count('tag', args[i + 1], 25)
  return offset, count
end

local commands = {
  add = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local more = Tags.rest(args, i + 1)
    Arguments.bounded('tag', #more)
    local all = Arguments.few_tags('tag', Tags.with(tags, more))
    Tags.index(jid, more)
    return store(jid, all)
  end,
  remove = function(args, i)
    local jid = args[i]
    local tags = load(jid)
    local less = Tags.rest(args, i + 1)
    Arguments.bounded('tag', #less)
    Tags.unindex(jid, less)
    return store(jid, Tags.without(tags, less))
  end,
  get = function(args, i)
    local tag = Arguments.given('tag', 'tag', args[i])
    local offset, count = page(args, i + 1)
    local total = call('ZCARD', key.tag(tag))
    return cjson.encode({
      total = total,
      jobs = call('ZRANGE', key.tag(tag), Arguments.range(offset, count, total)),
    })
  end,
  top = function(args, i)
    local offset, count = page(args, i)
    count = count < 0 and Arguments.most or count
    return cjson.encode(call('ZREVRANGEBYSCORE', key.tags(), '+inf', 2, 'LIMIT', offset, count))
  end,
}

-- tag.counts offset count -> total, and tags: each with how many jobs carry it, the commonest first
function Tags.counts(args, i)
  local offset = Arguments.whole('tag.counts', 'offset', args[i], 0)
  local count = math.min(Arguments.whole('tag.counts', 'count', args[i + 1], 0), Arguments.most)
  local shown = {}
  local found = count > 0 and call('ZREVRANGE', key.tags(), offset, offset + count - 1, 'WITHSCORES') or {}
  for n = 1, #found, 2 do
    shown[#shown + 1] = { found[n], tonumber(found[n + 1]) }
  end
  return cjson.encode({ total = call('ZCARD', key.tags()), tags = shown })
end

-- tag add|remove jid tag...   tag get tag [offset count]   tag top [offset count]
function Tags.command(args, i)
  local command = commands[args[i]]
  if not command then
    Errors.argument('tag', 'First argument must be add, remove, get or top')
  end
  return command(args, i + 1)
end
