// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Running is a command of the test tool that runs until its stop file exists: in a pod, or on
// a host of the underlay.
type Running struct {
	// Pod is nil on a host.
	Pod *corev1.Pod
	// name is where it runs, exec runs commands there.
	name        string
	exec        func(ctx context.Context, command ...string) (string, error)
	stop, begun string
	done        chan struct{}
	err         error
}

// Begin starts a command that has the flags --stop-file and --begun-file. The JSON value
// that it prints goes into a variable.
func (e *Env) Begin(ctx context.Context, pod *corev1.Pod, into any, command ...string) *Running {
	stop := "/tmp/" + Unique("stop")
	return e.begin(ctx, pod, into, stop, append(command, "--begun-file", stop+".begun")...)
}

// BeginOnHost is Begin on a host of the underlay.
func (e *Env) BeginOnHost(ctx context.Context, host *cluster.Host, into any, command ...string) *Running {
	stop := filepath.Join(filepath.Dir(e.Tool), Unique("stop"))
	r := &Running{name: "the host", exec: host.Exec, stop: stop}
	return r.start(ctx, into, append(append([]string{e.Tool}, command...), "--begun-file", stop+".begun"))
}

// begin starts a command that has the flag --stop-file.
func (e *Env) begin(ctx context.Context, pod *corev1.Pod, into any, stop string, command ...string) *Running {
	r := &Running{
		Pod:  pod,
		name: pod.Name,
		stop: stop,
		exec: func(ctx context.Context, command ...string) (string, error) {
			return e.Exec(ctx, pod, command...)
		},
	}
	return r.start(ctx, into, scene.ToolIn(pod, command...))
}

func (r *Running) start(ctx context.Context, into any, command []string) *Running {
	r.begun, r.done = r.stop+".begun", make(chan struct{})
	go func() {
		defer close(r.done)
		out, err := r.exec(ctx, append(command, "--stop-file", r.stop)...)
		if err == nil {
			err = readJSON(out, into)
		}
		r.err = err
	}()
	return r
}

// AwaitBegun waits until the command has had an answer.
func (e *Env) AwaitBegun(ctx context.Context, r *Running) error {
	return scene.Until(ctx, r.name+" to get an answer", func(ctx context.Context) (bool, string, error) {
		select {
		case <-r.done:
			return true, "", nil // faults are reported at the end
		default:
		}
		_, err := r.exec(ctx, "test", "-e", r.begun)
		return err == nil, "there is none", nil
	})
}

// End makes the stop file, and waits for the end of the command.
func (e *Env) End(ctx context.Context, r *Running) error {
	if _, err := r.exec(ctx, "touch", r.stop); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end in %s: %w", r.name, context.Cause(ctx))
	}
}

// ExecJSON runs a command in a pod and reads the JSON value that it prints.
func (e *Env) ExecJSON(ctx context.Context, pod *corev1.Pod, into any, command ...string) error {
	out, err := e.Exec(ctx, pod, command...)
	if err != nil {
		return err
	}
	return readJSON(out, into)
}

func readJSON(out string, into any) error {
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read %q: %w", out, err)
	}
	return nil
}
