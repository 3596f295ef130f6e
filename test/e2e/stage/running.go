// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Running is a command of the test tool in a pod that runs until its stop file exists.
type Running struct {
	Pod         *corev1.Pod
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

// begin starts a command that has the flag --stop-file.
func (e *Env) begin(ctx context.Context, pod *corev1.Pod, into any, stop string, command ...string) *Running {
	r := &Running{Pod: pod, stop: stop, begun: stop + ".begun", done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = e.ExecJSON(ctx, pod, into, scene.ToolIn(pod, append(command, "--stop-file", stop)...)...)
	}()
	return r
}

// AwaitBegun waits until the command has had an answer.
func (e *Env) AwaitBegun(ctx context.Context, r *Running) error {
	return scene.Until(ctx, r.Pod.Name+" to get an answer", func(ctx context.Context) (bool, string, error) {
		select {
		case <-r.done:
			return true, "", nil // what went wrong is told at the end
		default:
		}
		_, err := e.Exec(ctx, r.Pod, "test", "-e", r.begun)
		return err == nil, "there is none", nil
	})
}

// End makes the stop file, and waits for the end of the command.
func (e *Env) End(ctx context.Context, r *Running) error {
	if _, err := e.Exec(ctx, r.Pod, "touch", r.stop); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end in %s: %w", r.Pod.Name, context.Cause(ctx))
	}
}

// ExecJSON runs a command in a pod and reads the JSON value that it prints.
func (e *Env) ExecJSON(ctx context.Context, pod *corev1.Pod, into any, command ...string) error {
	out, err := e.Exec(ctx, pod, command...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read %q: %w", out, err)
	}
	return nil
}
