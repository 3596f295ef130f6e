// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/addons"
	"github.com/alioth-net/alioth/test/cluster/build"
)

// StartKubeProxy runs Kubernetes' own kube-proxy on a node, in one of its modes. It
// returns when the process runs, which StopProcess ends under the name
// "<node>/kube-proxy"; its rules stay until RemoveKubeProxy.
func (c *Cluster) StartKubeProxy(ctx context.Context, nodeName, mode, podRanges string) error {
	program, err := c.program(ctx, build.KubeProxy(), "kube-proxy")
	if err != nil {
		return err
	}
	_, err = c.start(ctx, nodeName, addons.KubeProxy(c.machine(nodeName), program, c.Kubeconfig(), mode, podRanges))
	return err
}

// RemoveKubeProxy ends kube-proxy on a node, if it runs, and removes its rules of every
// mode by kube-proxy's own clean-up.
func (c *Cluster) RemoveKubeProxy(ctx context.Context, nodeName string) error {
	program, err := c.program(ctx, build.KubeProxy(), "kube-proxy")
	if err != nil {
		return err
	}
	if _, ran := c.state.get().Daemons[nodeName+"/kube-proxy"]; ran {
		if err := c.StopProcess(ctx, nodeName+"/kube-proxy"); err != nil {
			return err
		}
	}
	if _, err = c.NodeExec(ctx, nodeName, program, "--cleanup"); err != nil {
		return err
	}
	_, err = c.NodeExec(ctx, nodeName, "sh", "-c", addons.KubeProxyLeaves)
	return err
}

// program returns the file of a program of others, which the first call builds.
func (c *Cluster) program(ctx context.Context, which build.Program, file string) (string, error) {
	b, err := c.builder()
	if err != nil {
		return "", err
	}
	dir, err := b.Ensure(ctx, which)
	return filepath.Join(dir, file), err
}

// builder returns the builder of programs, with the cache of this user.
func (c *Cluster) builder() (*build.Builder, error) {
	cache, err := build.DefaultCache()
	return &build.Builder{Root: c.root, Cache: cache, Progress: c.progress}, err
}

// startFlannel runs flannel on every node, and configures the plugin bridge by the file that it
// writes, as flannel's own plugin does.
func (c *Cluster) startFlannel(ctx context.Context) error {
	c.progress("starting flannel")
	program, err := c.program(ctx, build.Flannel(), "flannel")
	if err != nil {
		return err
	}
	for i, n := range c.Nodes() {
		if err := addons.AssignPodRanges(ctx, c.Client(), n.Name, addons.PodRanges(i+1)); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes() {
		if err := c.startFlannelOn(ctx, n.Name, program); err != nil {
			return fmt.Errorf("start flannel on %s: %w", n.Name, err)
		}
	}
	return nil
}

func (c *Cluster) startFlannelOn(ctx context.Context, nodeName, program string) error {
	machine := c.machine(nodeName)
	spec, err := addons.Flannel(machine, program, c.Kubeconfig())
	if err != nil {
		return err
	}
	child, err := c.start(ctx, nodeName, spec)
	if err != nil {
		return err
	}
	return ready(ctx, "flannel serves "+nodeName, child, func(context.Context) error { return addons.UseFlannel(machine) })
}
