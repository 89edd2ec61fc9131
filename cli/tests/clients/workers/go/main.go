// A program of a user of the client in Go, by orders line by line: see `caller.rs`.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"quorlock"
)

var lease *quorlock.Lease

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Waits for the word of the loss. Returns the milliseconds since the signal, and since the end as it was known before.
func told(signal syscall.Signal, words []string) string {
	asked := time.Now()
	end := asked.Add(must(lease.Check()) * 20 / 19)
	if len(words) > 0 {
		must(0, syscall.Kill(must(strconv.Atoi(words[0])), signal))
	}
	began := time.Now()
	<-lease.Context.Done()
	now := time.Now()
	return fmt.Sprintf("told %d %d", now.Sub(began).Milliseconds(), now.Sub(end).Milliseconds())
}

// Checks in the moment of a release. Each ends, and none says that it is held behind the release.
func race() string {
	var late, released int32
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				was := atomic.LoadInt32(&released)
				if _, err := lease.Check(); err != nil {
					return
				}
				atomic.AddInt32(&late, was)
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	must(0, lease.Release())
	atomic.StoreInt32(&released, 1)
	all.Wait()
	return fmt.Sprintf("raced %d", late)
}

// Descriptors, and children and goroutines beside the first, once what ends is gone.
func settled() (fds, left int) {
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left = runtime.NumGoroutine() - 1
		for _, task := range must(os.ReadDir("/proc/self/task")) {
			of, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
			left += len(strings.Fields(string(of)))
		}
		if left == 0 || time.Now().After(limit) {
			return len(must(os.ReadDir("/proc/self/fd"))), left
		}
	}
}

func cycle(name string, isTried bool) int64 {
	held := must(quorlock.Hold(context.Background(), name))
	must(held.Check())
	if isTried && hold(name, []string{"wait=0s"}) != "busy" {
		panic("it is busy")
	}
	must(0, held.Release())
	return held.Token
}

func cycles(name string, times int) string {
	last := cycle(name, true)
	before, _ := settled()
	for i := 0; i < times; i++ {
		token := cycle(name, i%10 == 0)
		if token <= last {
			panic("tokens rise")
		}
		last = token
	}
	after, left := settled()
	return fmt.Sprintf("cycles %d %d %d", before, after, left)
}

func hold(name string, options []string) string {
	for i := range options {
		options[i] = "--" + options[i]
	}
	held, err := quorlock.Hold(context.Background(), name, options...)
	switch {
	case errors.Is(err, quorlock.ErrBusy):
		return "busy"
	case errors.Is(err, quorlock.ErrNoQuorum):
		return "no_quorum"
	case err != nil:
		return "error " + strings.Split(err.Error(), "\n")[0]
	}
	lease = held
	return fmt.Sprint("granted ", lease.Token)
}

var (
	enough func()
	waits  = make(chan error)
)

// Waits aside.
func begin(name string) string {
	ctx, cancel := context.WithCancel(context.Background())
	enough = cancel
	go func() {
		_, err := quorlock.Hold(ctx, name)
		waits <- err
	}()
	return "begun"
}

func cancel() string {
	enough()
	return ended()
}

func ended() string {
	if err := <-waits; !errors.Is(err, context.Canceled) {
		return fmt.Sprint(err)
	}
	return "cancelled"
}

func unlessLost(well string, err error) string {
	if errors.Is(err, quorlock.ErrLost) {
		return "lost"
	}
	if errors.Is(err, quorlock.ErrNoQuorum) {
		return "no_quorum"
	}
	must(0, err)
	return well
}

func answer(order string, words []string) string {
	switch order {
	case "hold":
		return hold(words[0], words[1:])
	case "check":
		left, err := lease.Check()
		return unlessLost(fmt.Sprint("held ", left.Milliseconds()), err)
	case "is-lost":
		return fmt.Sprint(lease.Context.Err() != nil)
	case "release":
		return unlessLost("released", lease.Release())
	case "told", "stop":
		return told(syscall.SIGSTOP, words)
	case "kill":
		return told(syscall.SIGKILL, words)
	case "fork":
		child := exec.Command("sleep", "600")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		must(0, child.Start())
		return fmt.Sprint("forked ", child.Process.Pid)
	case "begin":
		return begin(words[0])
	case "cancel":
		return cancel()
	case "ended":
		return ended()
	case "race":
		return race()
	case "cycles":
		return cycles(words[0], must(strconv.Atoi(words[1])))
	}
	panic(order)
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		fmt.Println(answer(words[0], words[1:]))
	}
}
