// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// start runs a daemon on a node unless it runs already. child is nil then, and on a
// virtual machine.
func (c *Cluster) start(ctx context.Context, nodeName string, spec process.Spec) (child *process.Child, err error) {
	if c.isGuest(nodeName) {
		if err := c.agentOf(nodeName).Start(ctx, spec); err != nil {
			return nil, fmt.Errorf("start %s: %w", spec.Name, err)
		}
		return nil, nil
	}
	if known, ok := c.state.get().Daemons[spec.Name]; ok && known.ID.Alive() {
		return nil, nil
	}
	space, _, err := c.space(nodeName)
	if err != nil {
		return nil, err
	}
	if child, err = startIn(space, spec); err != nil {
		return nil, err
	}
	return child, c.state.update(func(s *State) {
		s.setDaemon(Daemon{Node: nodeName, Spec: spec, ID: child.ID})
	})
}

// startIn starts a daemon in namespaces.
func startIn(space process.Space, spec process.Spec) (child *process.Child, err error) {
	err = process.OnThread(func() error {
		if err := space.Enter(); err != nil {
			return fmt.Errorf("start %s: %w", spec.Name, err)
		}
		child, err = process.Start(spec)
		return err
	})
	return child, err
}

// StopProcess kills one of the lab's own daemons, for example
// "alioth-node1/kube-apiserver" or "alioth-node2/kubelet", and waits for its
// end. It stays away until StartProcess.
func (c *Cluster) StopProcess(ctx context.Context, name string) error {
	if nodeName, _, _ := strings.Cut(name, "/"); c.isGuest(nodeName) {
		return c.agentOf(nodeName).Stop(ctx, name)
	}
	d, ok := c.state.get().Daemons[name]
	if !ok {
		return fmt.Errorf("stop %q: the lab has no such daemon", name)
	}
	if err := d.ID.Signal(unix.SIGKILL); err != nil {
		return err
	}
	return d.ID.Wait(ctx)
}

// StartProcess starts a daemon again that StopProcess ended. It returns when
// the process runs, not when it serves.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	if nodeName, _, _ := strings.Cut(name, "/"); c.isGuest(nodeName) {
		return c.agentOf(nodeName).StartAgain(ctx, name)
	}
	d, ok := c.state.get().Daemons[name]
	if !ok {
		return fmt.Errorf("start %q: the lab has no such daemon", name)
	}
	_, err := c.start(ctx, d.Node, d.Spec)
	return err
}

// boot makes a node's namespaces unless they exist.
func (c *Cluster) boot(nodeName string) error {
	if _, _, err := c.space(nodeName); err == nil {
		return nil
	}
	machine := c.machine(nodeName)
	child, err := machine.Boot()
	if err != nil {
		return fmt.Errorf("boot %s: %w", nodeName, err)
	}
	return c.state.update(func(s *State) {
		s.setDaemon(Daemon{
			Node: nodeName, ID: child.ID,
			Spec: process.Spec{Name: nodeName + "/holder", Log: machine.LogFile("holder"), Cgroups: machine.Daemons},
		})
	})
}

// ready polls until check succeeds. It fails at once when the daemon behind it has ended;
// child may be nil when the daemon was started by another process.
func ready(ctx context.Context, what string, child *process.Child, check func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if child != nil {
		go func() {
			select {
			case <-child.Exited():
				cancel(child.ExitError())
			case <-ctx.Done():
			}
		}()
	}
	return objects.WaitFor(ctx, what, check)
}

// Daemons yields the name and the process ID of every daemon of the lab that
// runs, as StopProcess takes it.
func (c *Cluster) Daemons() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for name, d := range c.state.get().Daemons {
			if d.ID.Alive() && !yield(name, d.ID.PID) {
				return
			}
		}
	}
}
