// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster/addons"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/waits"
)

// startRuntime starts a node's containerd and loads the images it lacks.
func (c *Cluster) startRuntime(ctx context.Context, nodeName string, p parts, extra []string) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(serveTimeout))
	defer cancel()
	runtime := node.Runtime{Bin: p.containerd, Minor: c.Versions().Containerd, Sandbox: images.Pause}
	if runtime.NeedsLoopback() && !c.isGuest(nodeName) {
		if err := addons.InstallPlugin(c.machine(nodeName), "loopback"); err != nil {
			return err
		}
	}
	spec, err := c.machine(nodeName).Containerd(runtime)
	if err != nil {
		return err
	}
	child, err := c.start(ctx, nodeName, spec)
	if err != nil {
		return err
	}
	if err := c.runtimeServes(ctx, nodeName, child); err != nil {
		return err
	}
	return c.loadImages(ctx, nodeName, p.containerd, p.archives, extra)
}

// runtimeServes returns once a node's containerd answers as a container runtime; child may
// be nil. It accepts connections before that, and a kubelet that asks too early ends.
func (c *Cluster) runtimeServes(ctx context.Context, nodeName string, child *process.Child) error {
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return c.DialNode(ctx, nodeName, node.Socket)
	})
	conn, err := grpc.NewClient("passthrough:///containerd", dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return ready(ctx, "containerd serves on "+nodeName, child, func(ctx context.Context) error {
		// An empty request asks for any version, and an empty answer takes every one.
		return conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &emptypb.Empty{}, &emptypb.Empty{})
	})
}

// NodePath returns a path through which the host sees a file of a node. The node must not be a
// virtual machine.
func (c *Cluster) NodePath(nodeName, path string) (string, error) {
	_, holder, err := c.space(nodeName)
	if err != nil {
		return "", err
	}
	return filepath.Join(fmt.Sprintf("/proc/%d/root", holder.PID), path), nil
}

// ReadNodeFile reads a file as a node sees it.
func (c *Cluster) ReadNodeFile(ctx context.Context, nodeName, path string) ([]byte, error) {
	if c.isGuest(nodeName) {
		content, err := c.runOnGuest(ctx, nodeName, []string{"cat", path})
		return []byte(content), err
	}
	seen, err := c.NodePath(nodeName, path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(seen)
}

// loadImages loads the images that a node lacks, with the ctr of the folder bin. extra are files.
func (c *Cluster) loadImages(ctx context.Context, nodeName, bin string, archives []images.Archive, extra []string) error {
	archives = slices.Clone(archives)
	for _, path := range extra {
		archive, err := images.Describe(path)
		if err != nil {
			return err
		}
		archives = append(archives, archive)
	}
	ctr := filepath.Join(bin, "ctr")
	for _, a := range archives {
		if c.state.get().Loaded[nodeName][a.Ref] == a.Digest {
			continue
		}
		_, err := c.NodeExec(ctx, nodeName, ctr, "--address", node.Socket, "--namespace", "k8s.io", "images", "import", "--local", a.Path)
		if err != nil {
			return fmt.Errorf("load the image archive %s: %w", a.Path, err)
		}
		err = c.state.update(func(s *State) { s.setLoaded(nodeName, a.Ref, a.Digest) })
		if err != nil {
			return err
		}
	}
	return nil
}

// registered reports whether a node's object exists.
func (c *Cluster) registered(ctx context.Context, nodeName string) error {
	_, err := c.Client().CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	return err
}

// WaitNodesReady returns when every node of the lab is Ready.
func (c *Cluster) WaitNodesReady(ctx context.Context) error {
	return objects.WaitFor(ctx, "all nodes are Ready", func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			object, err := c.Client().CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := objects.NodeReady(object); err != nil {
				return err
			}
		}
		return nil
	})
}
