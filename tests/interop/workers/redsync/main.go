// A worker with redsync. Arguments: the port of the counter, the resource, the ports of the locks.
// Its lines and answers are those of tests/interop/foreign.rs.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redis "github.com/redis/go-redis/v9"
)

var (
	counter  *redis.Client
	locks    *redsync.Redsync
	resource string
)

func connect(port string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
}

func attempt(ttl time.Duration) *redsync.Mutex {
	mutex := locks.NewMutex(resource, redsync.WithTries(1), redsync.WithExpiry(ttl))
	if mutex.Lock() != nil {
		return nil
	}
	return mutex
}

func increment() {
	seen, err := counter.Get(context.Background(), "counter").Int()
	if err != nil {
		panic(err)
	}
	time.Sleep(time.Millisecond)
	if err := counter.Set(context.Background(), "counter", seen+1, 0).Err(); err != nil {
		panic(err)
	}
}

func work(times int) {
	for done := 0; done < times; {
		if mutex := attempt(20 * time.Second); mutex != nil {
			increment()
			_, _ = mutex.Unlock()
			done++
		}
		time.Sleep(time.Millisecond + time.Duration(rand.Intn(4000))*time.Microsecond)
	}
}

func main() {
	counter = connect(os.Args[1])
	resource = os.Args[2]
	var pools []syncredis.Pool
	for _, port := range os.Args[3:] {
		pools = append(pools, goredis.NewPool(connect(port)))
	}
	locks = redsync.New(pools...)
	var held *redsync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		number := 0
		if len(words) > 1 {
			number, _ = strconv.Atoi(words[1])
		}
		answer := "done"
		switch words[0] {
		case "hello":
			answer = "ready"
		case "try":
			held = attempt(time.Duration(number) * time.Millisecond)
			answer = "got"
			if held == nil {
				answer = "busy"
			}
		case "release":
			answer = "gone"
			if ok, err := held.Unlock(); ok && err == nil {
				answer = "released"
			}
		case "work":
			work(number)
		case "careless":
			for i := 0; i < number; i++ {
				increment()
			}
		}
		fmt.Println(answer)
	}
}
