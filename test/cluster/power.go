// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// startOrder lists the daemons that a node can have, in the order of their start.
var startOrder = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet"}

// PowerOff pulls a node's plug: all its processes die, and its network namespace, mounts,
// pinned BPF objects and everything in memory go with them. Its disk stays.
func (c *Cluster) PowerOff(ctx context.Context, nodeName string) error {
	topology := c.Topology()
	index := topology.NodeIndex(nodeName)
	if index == 0 {
		return fmt.Errorf("power off %q: the lab has no such node", nodeName)
	}
	_, holder, err := c.space(nodeName)
	if err != nil {
		return err
	}
	daemons := c.state.get().Daemons
	maps.DeleteFunc(daemons, func(_ string, d Daemon) bool { return d.Node != nodeName })
	// The cable is cut first, so that no packet of a dying process arrives.
	if err := c.CutLink(nodeName); err != nil {
		return err
	}
	if err := daemons[nodeName+"/kubelet"].ID.Signal(unix.SIGKILL); err != nil {
		return err
	}
	spaces := []string{underlay.NetNSPath(nodeName), process.SpaceOf(holder).Mount}
	err = c.killEach(ctx, []string{nodeName}, daemons, spaces)
	if err != nil {
		return fmt.Errorf("power off %s: %w", nodeName, err)
	}
	if err := topology.DisconnectNode(index); err != nil {
		return err
	}
	return c.cgroups.Remove(ctx, nodeName)
}

// PowerOn boots a node that PowerOff ended, from its disk as it is. It returns when its daemons
// run, not when they serve.
func (c *Cluster) PowerOn(ctx context.Context, nodeName string) error {
	topology := c.Topology()
	if err := topology.ConnectNode(topology.NodeIndex(nodeName), c.CNI().others()); err != nil {
		return err
	}
	if err := c.cgroups.Create(nodeName); err != nil {
		return err
	}
	if err := c.boot(nodeName); err != nil {
		return err
	}
	for _, program := range startOrder {
		name := nodeName + "/" + program
		if _, ran := c.state.get().Daemons[name]; !ran {
			continue
		}
		if err := c.StartProcess(ctx, name); err != nil {
			return err
		}
		if err := c.waitIfRuntime(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// waitIfRuntime returns once a daemon serves, if it is a containerd. A kubelet without
// one exits, and the lab does not restart it.
func (c *Cluster) waitIfRuntime(ctx context.Context, name string) error {
	nodeName, isRuntime := strings.CutSuffix(name, "/containerd")
	if !isRuntime {
		return nil
	}
	return c.runtimeServes(ctx, nodeName, nil)
}

// RestartProcess kills one of the lab's own daemons, see StopProcess, and
// starts it again at once.
func (c *Cluster) RestartProcess(ctx context.Context, name string) error {
	if err := c.StopProcess(ctx, name); err != nil {
		return err
	}
	if err := c.StartProcess(ctx, name); err != nil {
		return err
	}
	return c.waitIfRuntime(ctx, name)
}
