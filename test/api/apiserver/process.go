// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// errEnded is wrapped by errors of programs that ended by themselves.
var errEnded = errors.New("the program ended")

// logTail is how many bytes of a program's log an error shows.
const logTail = 4096

// garbage has the programs collect garbage seldom: a start of both takes a quarter less of
// the processor and 100 MB more. Only tests use it: a bench measures what a cluster's API
// server takes.
const garbage = "GOGC=400"

// process is a running child with its output in a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been waited for
}

// launch starts a program whose output goes to name.log in dir. The child dies
// with this process, however this process ends, and not with ctx: the clean-up
// of a test may still need it.
func launch(ctx context.Context, dir, name, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", name, err)
	}
	defer out.Close()
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	if testing.Testing() {
		p.cmd.Env = append(os.Environ(), garbage)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that forked: keep it until the child
		// is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its log tells the cause of its end
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// ended returns an error with the end of the log if the child is gone.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("run %s: %w; its log ends:\n%s", p.name, errEnded, p.tail())
	default:
		return nil
	}
}

// stop kills the child and waits until it is gone. Its data is removed with it, so nothing has to
// be flushed.
func (p *process) stop() {
	_ = p.cmd.Process.Kill() // an error means that it is gone already
	<-p.done
}

func (p *process) tail() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-logTail):])
}
