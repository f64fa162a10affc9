"""The scripts that run inside of Redis. Each is one step there: nothing else runs meanwhile.

KEYS[1] is the fence of the sink, a hash:

    job, sink, attempt   who may write
    token                of the attempt that may write, fresh for each take-over
    batch                the batch that is being written; absent: none
    done                 the last batch that was written; absent: none

Every write compares token and batch first. So rows of an attempt that was replaced, and rows of a
batch that is over, change nothing, whichever keys they have and however late they come.
"""

TAKE_OVER = """
local now = redis.call('HMGET', KEYS[1], 'job', 'sink', 'attempt', 'done')
local is_mine = now[1] == ARGV[1] and now[2] == ARGV[2]
if is_mine and tonumber(now[3]) > tonumber(ARGV[3]) then return {'superseded', now[1], now[3]} end
redis.call('HSET', KEYS[1], 'job', ARGV[1], 'sink', ARGV[2], 'attempt', ARGV[3], 'token', ARGV[4])
redis.call('HDEL', KEYS[1], 'batch')
if not is_mine then redis.call('HDEL', KEYS[1], 'done') end
return {'ok', now[1] or '', now[3] or ''}
"""

_CHECK = """
local now = redis.call('HMGET', KEYS[1], 'token', 'batch', 'done', 'job', 'attempt')
if not now[1] then return {'gone', '', ''} end
if now[1] ~= ARGV[1] then return {'superseded', now[4], now[5]} end
"""

CHECK = f"""{_CHECK}
return {{'ok', '', ''}}
"""

GO_BACK = f"""{_CHECK}
if now[3] and tonumber(now[3]) > tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'done', ARGV[2])
  return {{'ok', 'went back', now[3]}}
end
return {{'ok', '', ''}}
"""

BEGIN = f"""{_CHECK}
if now[3] and tonumber(now[3]) >= tonumber(ARGV[2]) then return {{'written', '', now[3]}} end
redis.call('HSET', KEYS[1], 'batch', ARGV[2])
return {{'ok', '', ''}}
"""

END = f"""{_CHECK}
if now[2] ~= ARGV[2] then return {{'overtaken', '', now[2] or ''}} end
redis.call('HSET', KEYS[1], 'done', ARGV[2])
redis.call('HDEL', KEYS[1], 'batch')
return {{'ok', '', ''}}
"""

WRITE = f"""{_CHECK}
if now[2] ~= ARGV[2] then return {{'overtaken', '', now[2] or ''}} end
local expire, at = tonumber(ARGV[3]), 4
for number = 2, #KEYS do
  local key, fields = KEYS[number], tonumber(ARGV[at])
  if fields < 0 then
    redis.call('UNLINK', key)
    at = at + 1
  elseif fields == 0 then
    redis.call('SET', key, ARGV[at + 1])
    at = at + 2
  else
    redis.call('UNLINK', key)
    for first = at + 1, at + 2 * fields, 1000 do
      local last = math.min(first + 999, at + 2 * fields)
      redis.call('HSET', key, unpack(ARGV, first, last))
    end
    at = at + 1 + 2 * fields
  end
  if fields >= 0 and expire > 0 then redis.call('PEXPIRE', key, expire) end
end
return {{'ok', '', ''}}
"""
"""ARGV: token, batch, milliseconds after which keys expire (0: never), then for each key
`-1` (delete), `0` and a text, or the number of fields of a hash and these, each with its value.
"""
