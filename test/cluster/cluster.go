// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes of several nodes on one machine and
// gives tests a handle on it.
//
// Every node is a network, mount and host name namespace with its own
// containerd and kubelet; the control plane runs on the first. Everything is
// plain processes that outlive the caller and are described by a state file in
// the lab's folder, so that another process can continue, use or remove it:
//
//	lab, err := cluster.Open(root)               // a lab that is up
//	out, err := lab.ExecInPod(ctx, "ns", "pod", "", "ping", "-c1", "10.0.0.2")
package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/control"
	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// CNI is the network that connects the pods of a lab.
type CNI string

// The values of CNI.
const (
	// CNIAlioth installs Alioth by its chart.
	CNIAlioth CNI = "alioth"
	// CNIBridge configures the reference plugins bridge and host-local with a
	// range per node and routes between the nodes.
	CNIBridge CNI = "bridge"
	// CNIFlannel runs flannel on the nodes. The plugin bridge uses its ranges and its VXLAN.
	CNIFlannel CNI = "flannel"
	// CNINone leaves nodes without a network, hence not Ready.
	CNINone CNI = "none"
)

// others reports whether the network is neither Alioth nor none: nodes route packets from the
// start, and nobody serves ClusterIPs.
func (n CNI) others() bool { return n == CNIBridge || n == CNIFlannel }

// ErrNotUp is returned where a lab is needed and none is up.
var ErrNotUp = errors.New("no lab is up here: run: make up")

// Cluster is a lab. It is safe for concurrent use.
type Cluster struct {
	// Clients are nil until the control plane is there.
	*objects.Clients

	root     string
	dir      string
	state    *stateFile
	cgroups  host.Cgroups
	progress func(string)
}

// DefaultDir returns the lab's folder in the project's root folder.
func DefaultDir(root string) string { return filepath.Join(root, ".cluster") }

// Open returns the lab that is up in the work tree root. The error is ErrNotUp without a lab.
func Open(root string) (*Cluster, error) { return OpenIn(root, DefaultDir(root)) }

// OpenIn returns the lab that is up in a folder, see Options.Dir.
func OpenIn(root, dir string) (*Cluster, error) {
	c, found, err := attach(root, dir, nil)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNotUp
	}
	if c.Clients, err = objects.Connect(c.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotUp, err)
	}
	return c, nil
}

// attach loads the lab in dir, whatever its condition.
func attach(root, dir string, progress func(string)) (c *Cluster, found bool, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return nil, false, fmt.Errorf("find the project's root folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, false, fmt.Errorf("find the lab's folder: %w", err)
	}
	state, found, err := loadState(filepath.Join(dir, "state.json"))
	if err != nil {
		return nil, false, err
	}
	mounts, err := host.Mounts()
	if err != nil {
		return nil, false, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	c = &Cluster{root: root, dir: dir, state: state, cgroups: host.FindCgroups(mounts), progress: progress}
	return c, found, nil
}

// lock keeps other processes from bringing the lab up or down meanwhile.
func (c *Cluster) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the lab's folder: %w", err)
	}
	f, err := os.OpenFile(c.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lab's lock: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		c.progress("waiting for another process that brings this lab up or down")
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for the lab's lock: %w", err)
		}
	}
	return func() { f.Close() }, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Aliothctl returns the path of the program that people use, configured for this lab.
func (c *Cluster) Aliothctl() string { return c.path("bin", "aliothctl") }

// ScratchDir makes a folder that every node sees at the same path, for programs and files
// of a test. It goes with the lab, if nobody removes it before.
func (c *Cluster) ScratchDir(name string) (string, error) {
	parent := c.path("scratch")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make a folder for tests: %w", err)
	}
	dir, err := os.MkdirTemp(parent, name+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder for tests: %w", err)
	}
	return dir, nil
}

// CNI returns the network of the lab's pods.
func (c *Cluster) CNI() CNI { return c.state.get().CNI }

// Topology returns the names and addresses of the lab.
func (c *Cluster) Topology() underlay.Topology { return c.state.get().Topology }

// Node is one node of a lab.
type Node struct {
	// Name is the name of the Node object and of the network namespace.
	Name string
	// IPv4 and IPv6 are its addresses in the underlay, on its eth0.
	IPv4, IPv6 netip.Addr
	// Guest: it is a virtual machine.
	Guest bool
}

// Nodes returns the lab's nodes in order; the first runs the control plane.
func (c *Cluster) Nodes() []Node {
	t := c.Topology()
	nodes := make([]Node, 0, t.Nodes)
	for i, name := range t.NodeNames() {
		v4, v6 := t.NodeIPs(i + 1)
		nodes = append(nodes, Node{Name: name, IPv4: v4, IPv6: v6, Guest: t.IsGuest(i + 1)})
	}
	return nodes
}

// NodeNetNS returns the file of a node's network namespace.
func (c *Cluster) NodeNetNS(nodeName string) string { return underlay.NetNSPath(nodeName) }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) machine(name string) node.Machine {
	groups := c.cgroups
	if c.isGuest(name) {
		groups = guest.Cgroups()
	}
	return node.Machine{
		Name: name, Dir: c.path("nodes", name),
		Daemons: groups.DaemonsDirs(name), Logs: c.path("logs"),
	}
}

// plane describes the control plane; bin is the folder with its binaries.
func (c *Cluster) plane(bin string) control.Plane {
	first := c.Nodes()[0]
	return control.Plane{
		Dir: c.path("control"), Bin: bin, Address: first.IPv4,
		ServiceRanges: serviceRanges(), Machine: c.machine(first.Name),
	}
}

func serviceRanges() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/112")}
}

// clusterDNS returns the address of the Service kube-dns in both families.
func clusterDNS() (v4, v6 netip.Addr) {
	return netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd96::a")
}

// space returns the namespaces of a node, ErrNotUp when it is not running. A virtual
// machine has none on this host.
func (c *Cluster) space(nodeName string) (process.Space, process.ID, error) {
	if c.isGuest(nodeName) {
		return process.Space{}, process.ID{}, fmt.Errorf("enter the node %q: it is a virtual machine, which runs commands by NodeExec only", nodeName)
	}
	holder, ok := c.state.get().Daemons[nodeName+"/holder"]
	if !ok || !holder.ID.Alive() {
		return process.Space{}, process.ID{}, fmt.Errorf("enter the node %q: %w", nodeName, ErrNotUp)
	}
	return process.SpaceOf(holder.ID), holder.ID, nil
}
