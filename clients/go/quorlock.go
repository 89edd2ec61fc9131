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

// For errors.Is: somebody else holds it; too few nodes answer; the lease is over, and its work must stop.
var ErrBusy, ErrNoQuorum, ErrLost = errors.New("busy"), errors.New("no quorum"), errors.New("lost")

// Lease is held until Release, or until its Context is done. All goroutines may use it.
type Lease struct {
	event                       // Resource, Owner, Token (larger than that of every lease before), Slot, Term.
	Context     context.Context // Done once the lease is over, by a release too.
	end         func(why error) // The first reason counts.
	why         error
	helper      *exec.Cmd
	input       io.WriteCloser
	answers     chan event
	ended       chan error
	turn        sync.Mutex  // One question at a time.
	late, again *time.Timer // When it surely holds no longer; when to ask again.
}

type event struct {
	Event, Reason, Resource, Owner string
	Token, Term                    int64 `json:",string"`
	Slot                           int
	Left                           time.Duration `json:"validity_ms"`
}

// Hold waits until it holds name, or ctx is done, by options of `quorlock hold --help`. QUORLOCK_BIN may be the path of quorlock.
func Hold(ctx context.Context, name string, options ...string) (*Lease, error) {
	program := os.Getenv("QUORLOCK_BIN")
	if program == "" {
		program = "quorlock"
	}
	options = append([]string{"hold", "--json", "--caller", fmt.Sprint(os.Getpid())}, options...)
	options = append(options, "--", name) // Not to the caller's own, which others may use too.
	held, cancel := context.WithCancel(context.Background())
	l := &Lease{Context: held, helper: exec.Command(program, options...), answers: make(chan event, 2), ended: make(chan error, 1)}
	var over sync.Once
	l.end = func(e error) {
		over.Do(func() { l.why = e; l.late.Stop(); l.again.Stop(); l.input.Close(); cancel() })
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
	l.late = time.AfterFunc(1<<62, func() { l.end(fmt.Errorf("%w: no answer in time", ErrLost)); l.helper.Process.Kill() })
	l.again = time.AfterFunc(1<<62, func() { l.Check() })
	go l.listen(json.NewDecoder(output))
	first := make(chan error, 1)
	go func() {
		select {
		case l.event = <-l.answers:
		case <-l.Context.Done():
		}
		_, err := l.Check() // From here on it is known until when.
		first <- err
	}()
	select {
	case err = <-first:
	case <-ctx.Done():
		l.end(ctx.Err())
		err = <-first
	}
	return l, err
}

// Check returns for how long the lease surely holds, or ErrLost once it is over. Call it right before each effect.
func (l *Lease) Check() (time.Duration, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	asked := time.Now()
	go io.WriteString(l.input, "check\n") // A stopped helper must hold up nobody.
	select {
	case answer := <-l.answers:
		// From before it was asked, and a twentieth less, so that who is told late is told in time.
		left := time.Until(asked.Add(answer.Left * time.Millisecond * 19 / 20))
		l.again.Reset(left / 3)
		if l.late.Reset(left) && left > 0 {
			return left, nil
		}
	case <-l.Context.Done():
	}
	<-l.Context.Done()
	return 0, l.why
}

// Release gives the lease back. ErrLost: it was lost before. ErrNoQuorum: too few nodes confirm, and it expires by itself.
func (l *Lease) Release() error {
	l.end(fmt.Errorf("%w: it was given back", ErrLost))
	defer time.AfterFunc(5*time.Second, func() { l.helper.Process.Kill() }).Stop()
	return <-l.ended
}

func (l *Lease) listen(lines *json.Decoder) {
	reason := ""
	for e := (event{}); lines.Decode(&e) == nil; e = (event{}) {
		if e.Event == "granted" || e.Event == "held" {
			select {
			case l.answers <- e:
			case <-l.Context.Done():
			}
		} else if reason = e.Reason; e.Event == "lost" {
			l.end(fmt.Errorf("%w: %s", ErrLost, e.Reason))
		}
	}
	l.helper.Process.Kill() // Where it has said what is no event. At its end that changes nothing.
	err := l.helper.Wait()
	if kind := (map[int]error{69: ErrNoQuorum, 75: ErrBusy, 76: ErrLost, -1: ErrLost})[l.helper.ProcessState.ExitCode()]; kind != nil {
		err = kind
	}
	if err != nil {
		err = fmt.Errorf("%w: %s (quorlock hold: %v)", err, reason, l.helper.ProcessState)
		l.end(err)
	}
	l.end(fmt.Errorf("`%s` has ended without a word: is it quorlock?", l.helper.Path))
	l.ended <- err
	close(l.ended)
}
