// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// running is a command of the test tool in a pod that runs until its stop file exists.
type running struct {
	pod         *corev1.Pod
	stop, begun string
	done        chan struct{}
	err         error
}

// run starts a command that has the flags --stop-file and --begun-file. The JSON value
// that it prints goes into a variable.
func (e *env) run(ctx context.Context, pod *corev1.Pod, into any, command ...string) *running {
	stop := "/tmp/" + unique("stop")
	r := &running{pod: pod, stop: stop, begun: stop + ".begun", done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = e.execJSON(ctx, pod, into, scene.ToolIn(pod, append(command, "--stop-file", r.stop, "--begun-file", r.begun)...)...)
	}()
	return r
}

// awaitBegun waits until the command has had an answer.
func (e *env) awaitBegun(ctx context.Context, r *running) error {
	return scene.Until(ctx, r.pod.Name+" to get an answer", func(ctx context.Context) (bool, string, error) {
		select {
		case <-r.done:
			return true, "", nil // what went wrong is told at the end
		default:
		}
		_, err := e.Exec(ctx, r.pod, "test", "-e", r.begun)
		return err == nil, "there is none", nil
	})
}

// end makes the stop file, and waits for the end of the command.
func (e *env) end(ctx context.Context, r *running) error {
	if _, err := e.Exec(ctx, r.pod, "touch", r.stop); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end in %s: %w", r.pod.Name, context.Cause(ctx))
	}
}
