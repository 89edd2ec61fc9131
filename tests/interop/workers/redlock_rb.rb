# A worker with redlock-rb. Arguments: the port of the counter, the resource, the ports of the locks.
# Its lines and answers are those of tests/interop/foreign.rs.
require 'redis-client'
require 'redlock'

counter_port, resource, *ports = ARGV
COUNTER = RedisClient.config(host: '127.0.0.1', port: Integer(counter_port)).new_client
LOCKS = Redlock::Client.new(ports.map { |port| "redis://127.0.0.1:#{port}" }, retry_count: 0)

def increment
  seen = Integer(COUNTER.call('GET', 'counter'))
  sleep 0.001
  COUNTER.call('SET', 'counter', seen + 1)
end

def work(resource, times)
  done = 0
  while done < times
    if (lock = LOCKS.lock(resource, 20_000))
      increment
      LOCKS.unlock(lock)
      done += 1
    end
    sleep rand(0.001..0.005)
  end
end

$stdout.sync = true
held = nil
$stdin.each_line do |line|
  verb, argument = line.split
  answer = 'done'
  case verb
  when 'hello' then answer = 'ready'
  when 'try'
    held = LOCKS.lock(resource, Integer(argument))
    answer = held ? 'got' : 'busy'
  when 'release'
    LOCKS.unlock(held)
    answer = 'released'
  when 'work' then work(resource, Integer(argument))
  when 'careless' then Integer(argument).times { increment }
  end
  puts answer
end
