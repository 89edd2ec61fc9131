// Package quorlock holds leases of quorlock, by a process `quorlock hold` for each. Needs Unix, and that program on the PATH.
package quorlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// For errors.Is: somebody else holds it; too few nodes answer; the lease is over, and its work must stop. Behind any other error
// of Hold but that of its context the options, the nodes or the settings are wrong.
var ErrBusy, ErrNoQuorum, ErrLost = errors.New("busy"), errors.New("no quorum"), errors.New("lost")

// Grant is what is held. The token is larger than that of every lease before; of every one of its slot, where it has one; readers
// share theirs.
type Grant struct {
	Resource, Owner string
	Also            []string
	Token, Term     int64 `json:",string"`
	Slot            int
}

// Lease is held until Release, or until its Context is done. All goroutines may use it.
type Lease struct {
	Grant
	Context     context.Context  // Done once it is over, by a release too: Check says why. Not derived from that of Hold.
	end         func(error) bool // The first reason counts: whether it is this one.
	why         error
	helper      *exec.Cmd
	input       io.WriteCloser
	answers     chan event
	ended       chan error
	release     sync.Once
	released    error
	turn        sync.Mutex // One question at a time.
	asked       int
	late, again *time.Timer // When it surely holds no longer; when to ask again.
}

type event struct {
	Event, What, Reason, Asked string
	Grant
	Left time.Duration `json:"validity_ms"`
}

// Hold waits until it holds name, or ctx is done, by options of `quorlock hold --help`, as in "--wait=5s". QUORLOCK_BIN may be the
// path of quorlock. What becomes of ctx behind that changes nothing.
func Hold(ctx context.Context, name string, options ...string) (*Lease, error) {
	cancelled := ctx.Done() // Before anything is started.
	program := os.Getenv("QUORLOCK_BIN")
	if program == "" {
		program = "quorlock"
	}
	options = append([]string{"hold", "--json", "--caller", fmt.Sprint(os.Getpid())}, options...)
	options = append(options, "--", name) // Not to the caller's own, which others may use too.
	held, cancel := context.WithCancel(context.Background())
	l := &Lease{Context: held, helper: exec.Command(program, options...), answers: make(chan event, 2), ended: make(chan error, 1)}
	var over sync.Once
	l.end = func(e error) (isFirst bool) {
		over.Do(func() { isFirst, l.why = true, e })
		if isFirst {
			l.late.Stop()
			l.again.Stop()
			l.input.Close()
			cancel()
		}
		return
	}
	l.helper.Stderr = os.Stderr
	output, err := l.helper.StdoutPipe()
	if err == nil {
		l.input, err = l.helper.StdinPipe()
	}
	if err == nil {
		err = l.helper.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("quorlock cannot be started: %w", err)
	}
	l.late = time.AfterFunc(1<<62, func() {
		if l.end(fmt.Errorf("%w: this process or quorlock stood still until the lease was over", ErrLost)) {
			l.helper.Process.Kill()
		}
	})
	l.again = time.AfterFunc(1<<62, func() { l.Check() })
	go l.listen(json.NewDecoder(output))
	first := make(chan error, 1)
	go func() {
		select {
		case e := <-l.answers:
			l.Grant = e.Grant
			l.late.Reset(e.Left * time.Millisecond) // Unless it answers by then.
		case <-l.Context.Done():
		}
		_, err := l.Check() // From here on it is known until when.
		first <- err
	}()
	select {
	case err = <-first:
	case <-cancelled:
		l.end(ctx.Err())
		err = <-first
	}
	if err == nil && held.Err() != nil {
		err = l.why // In the moment of the answer.
	}
	if err != nil {
		time.AfterFunc(5*time.Second, func() { l.helper.Process.Kill() }) // Where it is stopped.
		return nil, err
	}
	return l, nil
}

// Check returns for how long the lease surely holds, or ErrLost once it is over. Call it right before each effect.
func (l *Lease) Check() (time.Duration, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.asked++
	asked, number := time.Now(), fmt.Sprint(l.asked)
	go io.WriteString(l.input, "check "+number+"\n") // A stopped helper must hold up nobody.
	for l.Context.Err() == nil {
		select {
		case answer := <-l.answers:
			// From before it was asked, and a twentieth less, so that who is told late is told in time.
			left := time.Until(asked.Add(answer.Left * time.Millisecond * 19 / 20))
			if answer.Asked != number {
				continue
			}
			l.again.Reset(left / 3)
			isHeld := l.late.Reset(left) // Which ends it at once where nothing is left.
			if isHeld && left > 0 {
				return left, nil
			} else if !isHeld {
				l.late.Stop() // It is being given back.
				l.again.Stop()
			}
			<-l.Context.Done()
		case <-l.Context.Done():
		}
	}
	return 0, l.why
}

// Release gives the lease back. ErrLost: it was lost before. ErrNoQuorum: too few nodes confirm, and it expires by itself. A second
// one returns the same.
func (l *Lease) Release() error {
	l.release.Do(func() {
		wasLost := l.Context.Err() != nil
		l.end(fmt.Errorf("%w: it was given back", ErrLost))
		select {
		case l.released = <-l.ended:
			if wasLost {
				l.released = l.why
			}
		case <-time.After(5 * time.Second):
			l.released = fmt.Errorf("%w: quorlock does not answer; the lease expires by itself", ErrNoQuorum)
			l.helper.Process.Kill()
		}
	})
	return l.released
}

func (l *Lease) listen(lines *json.Decoder) {
	last, wasGranted := event{}, false
	for e := (event{}); lines.Decode(&e) == nil; e = (event{}) {
		if last = e; e.Event == "granted" && !wasGranted || e.Event == "held" && wasGranted {
			wasGranted = true
			select {
			case l.answers <- e:
			case <-l.Context.Done():
			}
		} else if e.Event == "lost" {
			l.end(fmt.Errorf("%w: %s", ErrLost, e.Reason))
		}
	}
	l.helper.Process.Kill() // Where it has said what is no event. At its end that changes nothing.
	l.helper.Wait()
	err := fmt.Errorf("`%s` has ended (%v) and not said why: is it quorlock?", l.helper.Path, l.helper.ProcessState)
	kinds := map[string]error{"failedbusy": ErrBusy, "failedbroken": ErrNoQuorum, "not_released": ErrNoQuorum, "lost": ErrLost}
	if kind := kinds[last.Event+last.What]; kind != nil {
		err = fmt.Errorf("%w: %s", kind, last.Reason)
	} else if last.Event == "released" {
		err = nil
	} else if last.Event == "failed" {
		err = errors.New(last.Reason)
	} else if wasGranted {
		err = fmt.Errorf("%w: %v", ErrLost, err)
	}
	l.end(err)
	l.ended <- err
}
