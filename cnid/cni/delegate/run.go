// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxOutput and maxMessages limit, in bytes, a plugin's output on its standard output and on
	// its standard error.
	maxOutput   = 1 << 20
	maxMessages = 16 << 10
	// drain is the time limit for the output of processes that outlive their plugin.
	drain = time.Second
)

// program is one run of a plugin.
type program struct {
	kind, command, path string
	stdin               []byte
	env                 []string
}

// environment returns the variables of CNI, section "Parameters", and PATH. The daemon's
// own are not inherited.
func (d *Delegates) environment(command string, a Attachment) []string {
	var args []string
	for _, arg := range a.Args {
		args = append(args, arg[0]+"="+arg[1])
	}
	return []string{
		"CNI_COMMAND=" + command,
		"CNI_CONTAINERID=" + a.ContainerID,
		"CNI_NETNS=" + a.NetnsPath,
		"CNI_IFNAME=" + a.IfName,
		"CNI_ARGS=" + strings.Join(args, ";"),
		"CNI_PATH=" + strings.Join(d.cfg.Plugins, ":"),
		"PATH=" + d.cfg.EnvPath,
	}
}

// run runs a plugin, and returns its output. When ctx ends, it kills the plugin and its process
// group. The caller has a slot.
func (d *Delegates) run(ctx context.Context, p program) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("CNI plugin %s did not run: %w", p.kind, err)
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stdout := &bounded{limit: maxOutput, exceeded: func() { stop(errTooMuch) }}
	stderr := &bounded{limit: maxMessages}
	err := d.start(within, p, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf(
			"CNI plugin %s: %s did not end in time and was killed: %w%s",
			p.kind,
			p.command,
			ctx.Err(),
			printed(stderr),
		)
	case errors.Is(context.Cause(within), errTooMuch):
		return nil, &PluginError{Plugin: p.kind, Command: p.command, Msg: errTooMuch.Error()}
	case err != nil:
		return nil, pluginError(p, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

var errTooMuch = fmt.Errorf("it printed more than %d bytes and was killed", maxOutput)

func (d *Delegates) start(ctx context.Context, p program, stdout, stderr *bounded) error {
	// The kernel kills the plugin when this thread ends, thus with the daemon. Otherwise
	// an ADD could go on while the next daemon undoes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	argv := append(slices.Clone(d.cfg.Enter), p.path)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = p.env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.stdin), stdout, stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	kill := func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = kill, drain
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// A process of the plugin holds its output. Other runtimes would wait for it.
		err = fmt.Errorf("it left processes that hold its output: %w", err)
	}
	if err != nil && cmd.Process != nil {
		// A failed plugin must not go on in the background while it is undone.
		_ = kill() // none may be left
	}
	return err
}

// bounded keeps the first bytes of an output. The buffer is not embedded: io.Copy would use
// its ReadFrom, which has no limit.
type bounded struct {
	text  bytes.Buffer
	limit int
	// exceeded is called when there are more; nil to ignore them.
	exceeded func()
}

// Write implements io.Writer. It always takes all bytes, so that the plugin does not block.
func (b *bounded) Write(text []byte) (int, error) {
	room := b.limit - b.text.Len()
	if len(text) > room && b.exceeded != nil {
		b.exceeded()
	}
	b.text.Write(text[:min(len(text), room)])
	return len(text), nil
}

// Bytes returns the kept bytes.
func (b *bounded) Bytes() []byte { return b.text.Bytes() }
