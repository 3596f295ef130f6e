// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/guest/agent"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/waits"
)

// HardwareLab describes the lab with a virtual machine as its second node. It has names, addresses
// and a folder of its own, so that it may be up beside the lab of `make up`.
func HardwareLab(root string) Options {
	return Options{
		Topology: underlay.Topology{Lab: "aliothhw", Nodes: 2, Guests: 1, Octet: 76},
		Dir:      filepath.Join(root, ".hardware"),
	}
}

// prepareGuests fetches and builds the programs and files that virtual machines run.
func (c *Cluster) prepareGuests(ctx context.Context, cache build.Cache, p parts) (*guest.Hypervisor, error) {
	files := []string{filepath.Join(p.kubelet, "kubelet")}
	for _, name := range build.Containerd("").Binaries() {
		files = append(files, filepath.Join(p.containerd, name))
	}
	return guest.Prepare(ctx, cache, c.root, c.path("guests"), files)
}

// isGuest reports whether a node is a virtual machine.
func (c *Cluster) isGuest(nodeName string) bool {
	t := c.Topology()
	return t.IsGuest(t.NodeIndex(nodeName))
}

// bootGuest starts a virtual machine unless it runs. It returns when the emulator runs;
// see guestAnswers.
func (c *Cluster) bootGuest(ctx context.Context, nodeName string, h *guest.Hypervisor) error {
	if known, ok := c.state.get().Daemons[nodeName+"/machine"]; ok && known.ID.Alive() {
		return nil
	}
	machine := c.machine(nodeName)
	if err := os.MkdirAll(machine.Dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", nodeName, err)
	}
	t := c.Topology()
	plan := guest.Plan{
		Topology: t, Index: t.NodeIndex(nodeName), Share: c.dir,
		Private: []string{machine.ContainerdRoot(), "/var/lib/kubelet"},
	}
	args, env, err := h.CommandLine(ctx, plan, c.path("guests", nodeName+".cpio"), machine.LogFile("console"))
	if err != nil {
		return err
	}
	spec := process.Spec{
		Name: nodeName + "/machine", Args: args, Env: append(node.Environment(), env...),
		Log: machine.LogFile("machine"), Cgroups: c.cgroups.DaemonsDirs(nodeName),
	}
	child, err := startIn(process.Space{Net: underlay.NetNSPath(t.Switch())}, spec)
	if err != nil {
		return err
	}
	return c.state.update(func(s *State) { s.setDaemon(Daemon{Node: nodeName, Spec: spec, ID: child.ID}) })
}

// agentOf returns a client of a virtual machine's agent.
func (c *Cluster) agentOf(nodeName string) *agent.Client {
	t := c.Topology()
	address, _ := t.NodeIPs(t.NodeIndex(nodeName))
	return agent.NewClient(address)
}

// startGuestRuntimes starts the containerd of each virtual machine. Importing images takes an
// emulated processor a minute, so a new machine gets the images that the first node has imported.
func (c *Cluster) startGuestRuntimes(ctx context.Context, p parts, extra []string) error {
	state := c.state.get()
	first := state.Topology.Node(1)
	store := c.path("guests", "images.tar")
	for _, n := range c.Nodes() {
		if !n.Guest {
			continue
		}
		if _, used := state.Daemons[first+"/kubelet"]; !used && len(state.Loaded[n.Name]) == 0 {
			if err := c.packImages(ctx, first, store); err != nil {
				return err
			}
			if _, err := c.runOnGuest(ctx, n.Name, []string{"tar", "-x", "-f", store, "-C", c.machine(n.Name).ContainerdRoot()}); err != nil {
				return fmt.Errorf("hand the images to %s: %w", n.Name, err)
			}
			if err := c.state.update(func(s *State) { s.copyLoaded(first, n.Name) }); err != nil {
				return err
			}
		}
		if err := c.startRuntime(ctx, n.Name, p, extra); err != nil {
			return err
		}
	}
	return nil
}

// packImages writes an archive of the folder of a node's containerd. The containerd must have had
// no containers yet, because they would be in the archive. It is stopped meanwhile, so that its
// database is whole.
func (c *Cluster) packImages(ctx context.Context, nodeName, archive string) error {
	runtime := nodeName + "/containerd"
	if err := c.StopProcess(ctx, runtime); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "tar", "-c", "-f", archive, "-C", c.machine(nodeName).ContainerdRoot(), ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pack the images of %s: %w: %s", nodeName, err, out)
	}
	if err := c.StartProcess(ctx, runtime); err != nil {
		return err
	}
	return c.waitIfRuntime(ctx, runtime)
}

// guestAnswers returns once a virtual machine runs commands.
func (c *Cluster) guestAnswers(ctx context.Context, nodeName string) error {
	ctx, stop := context.WithTimeout(ctx, waits.Limit(serveTimeout))
	defer stop()
	d := c.state.get().Daemons[nodeName+"/machine"]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if d.ID.Wait(ctx) == nil {
			cancel(fmt.Errorf("the machine has ended: see %s and %s", d.Spec.Log, c.machine(nodeName).LogFile("console")))
		}
	}()
	return objects.WaitFor(ctx, nodeName+" has started", func(ctx context.Context) error {
		_, err := c.runOnGuest(ctx, nodeName, []string{"true"})
		return err
	})
}

// runOnGuest runs a command on a virtual machine and returns its standard output. The error holds
// its standard error.
func (c *Cluster) runOnGuest(ctx context.Context, nodeName string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	command := agent.Command{Args: args, Env: node.Environment()}
	if err := c.agentOf(nodeName).Run(ctx, command, &stdout, &stderr); err != nil {
		return stdout.String(), fmt.Errorf("run %q on %s: %w: %s", strings.Join(args, " "), nodeName, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// DialNode connects to a UNIX socket of a node.
func (c *Cluster) DialNode(ctx context.Context, nodeName, socket string) (net.Conn, error) {
	if c.isGuest(nodeName) {
		return c.agentOf(nodeName).Dial(ctx, socket)
	}
	seen, err := c.NodePath(nodeName, socket)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", seen)
}
